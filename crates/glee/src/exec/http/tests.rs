//! What needs names and certificates of the test's own making.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use glee_core::host::HostPattern;
use glee_core::outcome::FailureKind::{HostNotAllowed, HttpError};
use glee_core::permission::Network;
use glee_core::port::Later;
use reqwest::header::HeaderMap;
use reqwest::{Method, Response};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use super::dial::{Clients, Lookup};
use super::guard::Guard;
use super::lost::Failed;
use super::oauth::Tokens;
use super::request::Request;
use super::{HttpExec, HttpPolicy};

/// Answers every name with the addresses it was given, and counts how often it was asked.
#[derive(Default)]
struct FakeLookup {
    addresses: HashMap<&'static str, Vec<IpAddr>>,
    asked: Mutex<Vec<String>>,
}

impl Lookup for FakeLookup {
    fn addresses(&self, name: String) -> Later<'static, io::Result<Vec<IpAddr>>> {
        let found = self.addresses.get(name.as_str()).cloned();
        self.asked.lock().unwrap().push(name);
        Box::pin(async move { found.ok_or_else(|| io::Error::other("no such name")) })
    }
}

fn lookup(names: &[(&'static str, &[&str])]) -> Arc<FakeLookup> {
    let parse = |it: &[&str]| it.iter().map(|ip| ip.parse().unwrap()).collect();
    Arc::new(FakeLookup {
        addresses: names.iter().map(|(name, it)| (*name, parse(it))).collect(),
        ..FakeLookup::default()
    })
}

fn exec(clients: Clients) -> HttpExec {
    HttpExec {
        policy: HttpPolicy::default(),
        clients,
        tokens: Tokens::default(),
    }
}

fn hosts(entries: &[&str]) -> Network {
    let entries: Vec<HostPattern> = entries.iter().map(|it| it.parse().unwrap()).collect();
    Network::Hosts(entries)
}

async fn get(exec: &HttpExec, network: &Network, url: &str) -> Result<Response, Failed> {
    let guard = Guard {
        network,
        allowed: None,
    };
    let request = Request {
        method: Method::GET,
        url: url.parse().unwrap(),
        headers: HeaderMap::new(),
        body: None,
    };
    exec.send(&guard, &request).await
}

/// Counts connections and answers every request on them.
async fn server() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            tokio::spawn(answer(socket));
        }
    });
    (port, count)
}

async fn answer(mut socket: impl AsyncRead + AsyncWrite + Unpin) {
    let mut buffer = [0; 4096];
    while socket.read(&mut buffer).await.is_ok_and(|it| it > 0) {
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
        if socket.write_all(answer).await.is_err() {
            return;
        }
    }
}

/// SS-04, SS-06: names that lead to private addresses, alone or among others.
#[tokio::test]
async fn a_listed_name_does_not_open_a_private_address() {
    let (port, connections) = server().await;
    let lookup = lookup(&[
        ("app.test", &["127.0.0.1"]),
        ("both.test", &["10.0.0.1", "127.0.0.1", "::1"]),
        ("mapped.test", &["::ffff:127.0.0.1"]),
    ]);
    let exec = exec(Clients::new(lookup));
    for host in ["app.test", "both.test", "mapped.test"] {
        for network in [
            hosts(&[host]),
            hosts(&[host, "192.168.0.0/16"]),
            hosts(&[host, "127.0.0.1:1"]),
            Network::Public,
        ] {
            let url = format!("http://{host}:{port}/");
            let failed = get(&exec, &network, &url).await.unwrap_err();
            assert_eq!(failed.failure.kind, HostNotAllowed, "{host}");
            assert!(failed.failure.details.contains_key("address"));
        }
    }
    assert_eq!(connections.load(Ordering::SeqCst), 0, "nobody was dialled");
}

/// SS-05: one answer per connection, and that answer is the one that was judged.
#[tokio::test]
async fn a_name_is_asked_for_once_per_connection() {
    let (port, connections) = server().await;
    let lookup = lookup(&[("app.test", &["127.0.0.1"])]);
    let exec = exec(Clients::new(lookup.clone()));
    let network = hosts(&["app.test", "127.0.0.1"]);
    let url = format!("http://app.test:{port}/");
    for _ in 0..3 {
        let response = get(&exec, &network, &url).await.ok().unwrap();
        assert_eq!(response.text().await.unwrap(), "ok");
    }
    let dialled = connections.load(Ordering::SeqCst);
    assert_eq!(lookup.asked.lock().unwrap().len(), dialled);
}

/// A connection dialled for a tool that names the address is of no use to one that does not.
#[tokio::test]
async fn pools_do_not_mix_permissions() {
    let (port, connections) = server().await;
    let exec = exec(Clients::new(lookup(&[("app.test", &["127.0.0.1"])])));
    let url = format!("http://app.test:{port}/");
    let named = hosts(&["app.test", "127.0.0.1"]);
    let response = get(&exec, &named, &url).await.ok().unwrap();
    // Read to its end, so that the connection is idle and could be lent.
    response.text().await.unwrap();
    for network in [
        hosts(&["app.test"]),
        hosts(&["app.test", "127.0.0.2"]),
        hosts(&["app.test", &format!("127.0.0.1:{}", port ^ 1)]),
        Network::Public,
    ] {
        let failed = get(&exec, &network, &url).await.unwrap_err();
        assert_eq!(failed.failure.kind, HostNotAllowed);
    }
    assert_eq!(connections.load(Ordering::SeqCst), 1);
}

/// SS-16: a host that cannot prove its name gets nothing.
#[tokio::test]
async fn certificates() {
    let certificates: [(&[u8], bool); 4] = [
        (include_bytes!("testdata/good.der"), true),
        (include_bytes!("testdata/wrong_name.der"), false),
        (include_bytes!("testdata/expired.der"), false),
        (include_bytes!("testdata/unknown_root.der"), false),
    ];
    for (certificate, trusted) in certificates {
        let port = tls_server(certificate).await;
        let clients = Clients::new(lookup(&[("good.test", &["127.0.0.1"])]));
        clients.trust(test_root());
        let exec = exec(clients);
        let network = hosts(&["good.test", "127.0.0.1"]);
        let url = format!("https://good.test:{port}/");
        match get(&exec, &network, &url).await {
            Ok(response) => {
                assert!(trusted);
                assert_eq!(response.text().await.unwrap(), "ok");
            }
            Err(failed) => {
                assert!(!trusted, "{}", failed.failure.message);
                assert_eq!(failed.failure.kind, HttpError);
                assert_eq!(failed.failure.details["reason"], "tls");
                assert!(!failed.unconnected, "trying again would not help");
            }
        }
    }
}

/// The system's own roots do not know ours.
#[tokio::test]
async fn an_unknown_root_is_not_trusted() {
    let port = tls_server(include_bytes!("testdata/good.der")).await;
    let exec = exec(Clients::new(lookup(&[("good.test", &["127.0.0.1"])])));
    let network = hosts(&["good.test", "127.0.0.1"]);
    let url = format!("https://good.test:{port}/");
    let failed = get(&exec, &network, &url).await.unwrap_err();
    assert_eq!(failed.failure.details["reason"], "tls");
}

fn test_root() -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_slice(include_bytes!("testdata/root.der"));
    roots.add(root).unwrap();
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth()
}

async fn tls_server(certificate: &'static [u8]) -> u16 {
    let key = include_bytes!("testdata/server.key.der").as_slice();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![CertificateDer::from_slice(certificate)],
            PrivateKeyDer::try_from(key).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(socket).await {
                tokio::spawn(answer(stream));
            }
        }
    });
    port
}
