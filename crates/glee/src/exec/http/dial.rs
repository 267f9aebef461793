//! Connections: who is dialled is decided where names become addresses.
//!
//! A name is resolved once per connection and only vetted addresses are handed on, so there is no
//! second answer that could differ from the one that was judged.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use glee_core::outcome::{Failure, FailureKind};
use glee_core::port::Later;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::{Client, redirect};
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls_platform_verifier::BuilderVerifierExt;

use super::guard::{NotPublic, Reach};

/// Ports and host lists are few, but an argument may fill in a port; pools beyond this number are
/// forgotten all at once and grow anew.
const MOST_POOLS: usize = 64;

/// Turns a name into addresses.
pub(super) trait Lookup: Send + Sync {
    fn addresses(&self, name: String) -> Later<'static, io::Result<Vec<IpAddr>>>;
}

pub(super) struct SystemLookup;

impl Lookup for SystemLookup {
    fn addresses(&self, name: String) -> Later<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|it| it.ip()).collect())
        })
    }
}

/// One pool of connections for each reach. See [`Reach`] for why they must not mix.
pub(super) struct Clients {
    lookup: Arc<dyn Lookup>,
    built: Mutex<Built>,
}

#[derive(Default)]
struct Built {
    tls: Option<ClientConfig>,
    pools: HashMap<Reach, Client>,
}

impl Clients {
    pub(super) fn new(lookup: Arc<dyn Lookup>) -> Clients {
        Clients {
            lookup,
            built: Mutex::default(),
        }
    }

    pub(super) fn get(&self, reach: &Reach) -> Result<Client, Failure> {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = built.pools.get(reach) {
            return Ok(client.clone());
        }
        let tls = match &built.tls {
            Some(tls) => tls.clone(),
            None => built.tls.insert(tls().map_err(unbuilt)?).clone(),
        };
        let client = self.client(reach, tls).map_err(unbuilt)?;
        if built.pools.len() >= MOST_POOLS {
            built.pools.clear();
        }
        built.pools.insert(reach.clone(), client.clone());
        Ok(client)
    }

    /// Stands in for the system's roots.
    #[cfg(test)]
    pub(super) fn trust(&self, tls: ClientConfig) {
        self.built.lock().unwrap().tls = Some(tls);
    }

    fn client(&self, reach: &Reach, tls: ClientConfig) -> reqwest::Result<Client> {
        Client::builder()
            .tls_backend_preconfigured(tls)
            .dns_resolver(Vetted {
                lookup: self.lookup.clone(),
                reach: reach.clone(),
            })
            // Whoever sets a variable in the environment must not come between glee and the host.
            .no_proxy()
            // Hops and repetitions are glee's own: each is judged, and a POST goes out once.
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .tcp_nodelay(true)
            .build()
    }
}

/// For what the project itself asks of a service it names; tools never get one of these.
pub(crate) fn own_client() -> Result<Client, Failure> {
    Client::builder()
        .tls_backend_preconfigured(tls().map_err(unbuilt)?)
        .no_proxy()
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .build()
        .map_err(unbuilt)
}

/// For the engine of containers behind a socket of this machine; no name leads anywhere else.
pub(crate) fn engine_client(socket: &Path) -> Result<Client, Failure> {
    Client::builder()
        .tls_backend_preconfigured(tls().map_err(unbuilt)?)
        .unix_socket(socket)
        .no_proxy()
        .redirect(redirect::Policy::none())
        .retry(reqwest::retry::never())
        .build()
        .map_err(unbuilt)
}

/// The system's roots, checked with ring. The provider is given here and not installed for the whole
/// process, which may have plans of its own.
fn tls() -> Result<ClientConfig, rustls::Error> {
    let mut tls = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_platform_verifier()?
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(tls)
}

fn unbuilt(err: impl std::error::Error) -> Failure {
    Failure::new(
        FailureKind::Internal,
        format!("the HTTP client cannot be set up: {err}"),
    )
    .hint("check that this machine has root certificates (package ca-certificates)")
}

/// Hands on the addresses within reach, and none of the others.
struct Vetted {
    lookup: Arc<dyn Lookup>,
    reach: Reach,
}

impl Resolve for Vetted {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        let found = self.lookup.addresses(host.clone());
        let reach = self.reach.clone();
        Box::pin(async move {
            let (near, far): (Vec<IpAddr>, Vec<IpAddr>) =
                found.await?.into_iter().partition(|it| reach.permits(*it));
            if near.is_empty()
                && let Some(address) = far.first().copied()
            {
                return Err(NotPublic { host, address }.into());
            }
            // Port 0 stands for the URL's own.
            let addresses: Addrs = Box::new(near.into_iter().map(|ip| SocketAddr::new(ip, 0)));
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Answers(Vec<IpAddr>);

    impl Lookup for Answers {
        fn addresses(&self, _: String) -> Later<'static, io::Result<Vec<IpAddr>>> {
            let found = self.0.clone();
            Box::pin(async move { Ok(found) })
        }
    }

    async fn vetted(answers: &[&str]) -> Result<Vec<String>, String> {
        let answers = answers.iter().map(|it| it.parse().unwrap()).collect();
        let resolver = Vetted {
            lookup: Arc::new(Answers(answers)),
            reach: Reach::Public,
        };
        match resolver.resolve("x.test".parse().unwrap()).await {
            Ok(found) => Ok(found.map(|it| it.ip().to_string()).collect()),
            Err(err) => Err(err.to_string()),
        }
    }

    #[tokio::test]
    async fn private_addresses_are_taken_out_of_an_answer() {
        let mixed = [
            "127.0.0.1",
            "8.8.8.8",
            "fe80::1",
            "2606:4700::1111",
            "10.0.0.1",
        ];
        assert_eq!(
            vetted(&mixed).await,
            Ok(vec!["8.8.8.8".into(), "2606:4700::1111".into()])
        );
        let private = "`x.test` is at 10.0.0.1, which is not a public address";
        assert_eq!(vetted(&["10.0.0.1", "::1"]).await, Err(private.into()));
        assert_eq!(vetted(&[]).await, Ok(vec![]));
    }
}
