//! The only way out for a tool that was granted hosts: a proxy of glee's own, on a unix socket.
//!
//! It understands `CONNECT host:port` and plain `http://` requests, resolves names itself, and dials
//! only addresses that the grant permits.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use glee_core::host::HostPattern;
use glee_core::permission::Network;
use glee_sandbox::Moment;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::Semaphore;
use url::Url;

use super::http::{Guard, Refused, is_among};
use super::refusals::Refusals;
use super::temporary::Temporary;

/// A request's head must come within this size and time.
const LONGEST_HEAD: usize = 16 << 10;
const HEAD_PATIENCE: Duration = Duration::from_secs(10);
const DIAL_PATIENCE: Duration = Duration::from_secs(10);
/// A tool that wants more at once waits.
const MOST_CONNECTIONS: usize = 256;

/// One socket for each list of hosts.
pub struct Egress {
    allowed: Option<Vec<HostPattern>>,
    open: Mutex<Open>,
    refusals: Arc<Refusals>,
}

#[derive(Default)]
struct Open {
    directory: Option<Temporary>,
    sockets: HashMap<Vec<HostPattern>, PathBuf>,
}

impl Egress {
    pub fn new(allowed: Option<Vec<HostPattern>>) -> Egress {
        Egress {
            allowed,
            open: Mutex::default(),
            refusals: Arc::default(),
        }
    }

    /// What the tree below a launcher was refused that it has asked for since then, each once.
    pub(super) fn refused(&self, launcher: u32, since: Moment) -> Vec<Refused> {
        self.refusals.take(launcher, since)
    }

    /// Whether the project lets a tool reach this host, if the tool itself may.
    pub(super) fn allows(&self, host: &str, port: u16) -> bool {
        self.allowed
            .as_ref()
            .is_none_or(|it| is_among(it, host, port))
    }

    /// The socket behind which exactly these hosts can be reached. Must be called inside a runtime,
    /// which then serves it.
    pub(super) fn socket(&self, hosts: &[HostPattern]) -> io::Result<PathBuf> {
        let mut hosts = hosts.to_vec();
        hosts.sort();
        hosts.dedup();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(path) = open.sockets.get(&hosts) {
            return Ok(path.clone());
        }
        if open.directory.is_none() {
            open.directory = Some(Temporary::make()?);
        }
        let number = open.sockets.len();
        let Some(directory) = &open.directory else {
            return Err(io::ErrorKind::NotFound.into());
        };
        let path = directory.path().join(number.to_string());
        let listener = UnixListener::bind(&path)?;
        let rules = Rules {
            network: Network::Hosts(hosts.clone()),
            allowed: self.allowed.clone(),
        };
        tokio::spawn(serve(listener, Arc::new(rules), self.refusals.clone()));
        open.sockets.insert(hosts, path.clone());
        Ok(path)
    }
}

/// What may be reached behind one socket.
struct Rules {
    network: Network,
    allowed: Option<Vec<HostPattern>>,
}

async fn serve(listener: UnixListener, rules: Arc<Rules>, refusals: Arc<Refusals>) {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    while let Ok((client, _)) = listener.accept().await {
        let Ok(place) = room.clone().acquire_owned().await else {
            return;
        };
        let (rules, refusals) = (rules.clone(), refusals.clone());
        tokio::spawn(async move {
            let guard = Guard {
                network: &rules.network,
                allowed: rules.allowed.as_deref(),
            };
            // A client that breaks off is no one's failure.
            let _ = carry(client, &guard, &refusals).await;
            drop(place);
        });
    }
}

async fn carry(mut client: UnixStream, guard: &Guard<'_>, refusals: &Refusals) -> io::Result<()> {
    let Ok(start) = tokio::time::timeout(HEAD_PATIENCE, read_start(&mut client)).await else {
        return refuse(&mut client, 408, "no request came").await;
    };
    let (asked, head, rest) = start?;
    let Some(request) = Request::parse(&head) else {
        return refuse(
            &mut client,
            400,
            "this proxy understands CONNECT and http:// requests",
        )
        .await;
    };
    let dialled = tokio::time::timeout(DIAL_PATIENCE, dial(&request.target, guard)).await;
    let dialled = dialled.unwrap_or_else(|_| Err(Refusal::Network(io::ErrorKind::TimedOut.into())));
    let mut server = match dialled {
        Ok(server) => server,
        Err(Refusal::Policy(refused)) => {
            let words = refused.words();
            // Before it is answered: a call that ends because of it is told.
            refusals.note(&client, asked, refused);
            return refuse(&mut client, 403, &words).await;
        }
        Err(Refusal::Network(err)) => return refuse(&mut client, 502, &err.to_string()).await,
    };
    match request.forward {
        None => {
            client
                .write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
                .await?
        }
        Some(head) => server.write_all(head.as_bytes()).await?,
    }
    server.write_all(&rest).await?;
    copy_bidirectional(&mut client, &mut server).await?;
    Ok(())
}

/// What a client asks for: where to, and for plain http what to say there.
struct Request {
    target: Url,
    forward: Option<String>,
}

impl Request {
    fn parse(head: &str) -> Option<Request> {
        let (line, headers) = head.split_once("\r\n")?;
        let mut words = line.split(' ');
        let (method, target, version) = (words.next()?, words.next()?, words.next()?);
        if words.next().is_some() || !version.starts_with("HTTP/1.") {
            return None;
        }
        if method == "CONNECT" {
            // The port is part of the request; the scheme only makes it a URL.
            let (_, port) = target.rsplit_once(':')?;
            port.parse::<u16>().ok()?;
            let target = Url::parse(&format!("http://{target}/")).ok()?;
            return (target.path() == "/" && target.username().is_empty()).then_some(Request {
                target,
                forward: None,
            });
        }
        let target = Url::parse(target)
            .ok()
            .filter(|it| it.scheme() == "http" && it.username().is_empty())?;
        let path = &target[url::Position::BeforePath..url::Position::AfterQuery];
        // One request per connection: the next one might be for another host.
        let headers: String = headers
            .split_inclusive("\r\n")
            .filter(|it| {
                let name = it
                    .split(':')
                    .next()
                    .unwrap_or_default()
                    .trim()
                    .to_ascii_lowercase();
                ![
                    "connection",
                    "proxy-connection",
                    "proxy-authorization",
                    "keep-alive",
                    "host",
                ]
                .contains(&name.as_str())
            })
            .collect();
        let host = &target[url::Position::BeforeHost..url::Position::AfterPort];
        let forward =
            format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}");
        Some(Request {
            forward: Some(forward),
            target,
        })
    }
}

enum Refusal {
    Policy(Refused),
    Network(io::Error),
}

async fn dial(target: &Url, guard: &Guard<'_>) -> Result<TcpStream, Refusal> {
    let reach = guard.judge(target).map_err(Refusal::Policy)?;
    let port = target.port_or_known_default().unwrap_or_default();
    let host = target
        .host_str()
        .unwrap_or_default()
        .trim_matches(['[', ']'])
        .to_owned();
    let addresses: Vec<IpAddr> = match host.parse() {
        Ok(literal) => vec![literal],
        Err(_) => {
            let found = tokio::net::lookup_host((host.clone(), 0))
                .await
                .map_err(Refusal::Network)?;
            let (near, far): (Vec<IpAddr>, Vec<IpAddr>) =
                found.map(|it| it.ip()).partition(|it| reach.permits(*it));
            if let (true, Some(&address)) = (near.is_empty(), far.first()) {
                return Err(Refusal::Policy(Refused::NotPublic {
                    host,
                    address,
                    port,
                }));
            }
            near
        }
    };
    let mut last = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match TcpStream::connect(SocketAddr::new(address, port)).await {
            Ok(stream) => {
                let _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(err) => last = err,
        }
    }
    Err(Refusal::Network(last))
}

/// When whoever connected was there, as the bridge tells it; then the head of the request, and what came after it.
async fn read_start(client: &mut UnixStream) -> io::Result<(Moment, String, Vec<u8>)> {
    let mut moment = [0; Moment::SIZE];
    client.read_exact(&mut moment).await?;
    let (head, rest) = read_head(client).await?;
    Ok((Moment::from_bytes(moment), head, rest))
}

/// Everything up to the empty line, and what came after it.
async fn read_head(client: &mut UnixStream) -> io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 4096];
    loop {
        let count = client.read(&mut chunk).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&chunk[..count]);
        if let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
            let rest = bytes.split_off(end + 4);
            let head = String::from_utf8(bytes)
                .map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
            return Ok((head, rest));
        }
        if bytes.len() > LONGEST_HEAD {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

async fn refuse(client: &mut UnixStream, status: u16, why: &str) -> io::Result<()> {
    let body = format!("glee: {why}\n");
    let head = format!(
        "HTTP/1.1 {status} Refused\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes()).await?;
    client.write_all(body.as_bytes()).await?;
    client.shutdown().await
}
