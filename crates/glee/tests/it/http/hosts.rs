//! Who may be reached. Each refusal is also seen from the other side: the server got nothing.

use glee::exec::http::{HttpExec, HttpPolicy};
use glee_core::outcome::FailureKind::{HostNotAllowed, HttpError, InvalidInput};
use glee_core::permission::Network;
use serde_json::json;

use super::tool::{Tool, exec};
use crate::upstream::Upstream;

#[tokio::test]
async fn only_listed_hosts_are_asked() {
    let upstream = Upstream::start();
    let port = upstream.port();
    let url = format!("http://127.0.0.1:{port}/echo");
    let refused: Vec<Network> = vec![
        Network::None,
        Network::Public,
        Network::Hosts(vec![]),
        hosts(&["example.com"]),
        hosts(&["127.0.0.2"]),
        hosts(&[&format!("127.0.0.1:{}", port ^ 1)]),
        hosts(&["::1"]),
    ];
    for network in refused {
        let tool = Tool::get(&url).network(network);
        let failure = tool.failure(json!({})).await;
        assert_eq!(failure.kind, HostNotAllowed);
        assert!(failure.hint.is_some());
    }
    assert_eq!(upstream.requests(), [], "nothing was sent");

    let exact = format!("127.0.0.1:{port}");
    for entry in ["127.0.0.1", "127.0.0.0/8", "localhost", &exact] {
        Tool::get(&url)
            .hosts(&[entry])
            .run(json!({}))
            .await
            .unwrap();
    }
}

/// SS-01: every way to write this machine's address, with `network: true`.
#[tokio::test]
async fn no_spelling_of_loopback_is_public() {
    let upstream = Upstream::start();
    let spellings = [
        "127.0.0.1",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0x7f.0x0.0x0.0x1",
        "0177.0.0.1",
        "0177.0.0.01",
        "017700000001",
        "127.0.0.1.",
        "127.000.000.001",
        "127.255.255.254",
        "0",
        "0.0.0.0",
        "0x0",
        "localhost",
        "LOCALHOST",
        "ⓛocalhost",
        "127。0。0。1",
        "①②⑦.⓪.⓪.①",
        "127%2e0%2e0%2e1",
        "%31%32%37.0.0.1",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "[fe80::1]",
        "[fc00::1]",
    ];
    for host in spellings {
        let url = format!("http://{host}:{}/", upstream.port());
        for tool in [
            Tool::get(&url).network(Network::Public),
            Tool::get("${url}").network(Network::Public),
        ] {
            let failure = tool.failure(json!({ "url": url })).await;
            assert_eq!(failure.kind, HostNotAllowed, "{host}: {}", failure.message);
        }
    }
    // Not one URL: refused before any host is looked at.
    for host in [
        "127.0.0.1\t",
        "user@127.0.0.1",
        "127.0.0.1\0",
        "[::1%25lo]",
        "127.0.0.1#@x.test",
        "localhost.",
    ] {
        let url = format!("http://{host}:{}/", upstream.port());
        let tool = Tool::get("${url}").network(Network::Public);
        let kind = tool.kind(json!({ "url": url })).await;
        // Some systems do not know `localhost.`, and that is as good.
        assert!(
            matches!(kind, InvalidInput | HostNotAllowed | HttpError),
            "{host}: {kind:?}"
        );
    }
    assert_eq!(upstream.requests(), [], "nothing was sent");
}

/// SS-02: metadata addresses need an entry of their own.
#[tokio::test]
async fn metadata_addresses_are_refused() {
    for host in [
        "169.254.169.254",
        "100.100.100.200",
        "168.63.129.16",
        "[fd00:ec2::254]",
        "192.0.0.192",
    ] {
        let tool = Tool::get(&format!("http://{host}/latest/meta-data/"));
        for network in [
            Network::Public,
            hosts(&[
                "169.254.0.0/16",
                "100.0.0.0/8",
                "168.0.0.0/8",
                "fd00::/8",
                "192.0.0.0/8",
            ]),
        ] {
            let kind = tool.clone().network(network).kind(json!({})).await;
            assert_eq!(kind, HostNotAllowed, "{host}");
        }
    }
}

/// SS-04: a name on the list does not open a private address.
#[tokio::test]
async fn a_name_does_not_name_its_address() {
    let upstream = Upstream::start();
    // Everything below `localhost` is this machine, but only `localhost` itself says so.
    let url = format!("http://localhost:{}/echo", upstream.port());
    let failure = Tool::get(&url)
        .network(Network::Public)
        .failure(json!({}))
        .await;
    assert_eq!(failure.kind, HostNotAllowed);
    assert!(
        failure
            .hint
            .unwrap()
            .contains(&format!(":{}", upstream.port()))
    );
    assert_eq!(upstream.requests(), [], "nothing was sent");
}

/// A connection dialled for a tool that names the address is not lent to one that does not.
#[tokio::test]
async fn pooled_connections_stay_with_their_permission() {
    let upstream = Upstream::start();
    let exec = exec();
    let url = format!("http://localhost:{}/echo", upstream.port());
    let allowed = Tool::get(&url).hosts(&["localhost"]);
    let public = Tool::get(&url).network(Network::Public);
    let other_port =
        Tool::get(&url).hosts(&["127.0.0.1:1", &format!("*.test:{}", upstream.port())]);
    for _ in 0..3 {
        allowed.run_in(&exec, json!({})).await.unwrap();
        for tool in [&public, &other_port] {
            let failure = tool.run_in(&exec, json!({})).await.unwrap_err();
            assert_eq!(failure.kind, HostNotAllowed);
        }
    }
    assert_eq!(upstream.requests().len(), 3);
}

/// The configuration narrows what tools may, and widens nothing.
#[tokio::test]
async fn the_configuration_holds_every_tool() {
    let upstream = Upstream::start();
    let url = format!("{}/echo", upstream.origin());
    let held = |entries: &[&str]| {
        HttpExec::new(HttpPolicy {
            allowed_hosts: Some(entries.iter().map(|it| it.parse().unwrap()).collect()),
        })
    };
    for (exec, tool) in [
        (held(&[]), Tool::get(&url)),
        (held(&["example.com"]), Tool::get(&url)),
        (
            held(&["127.0.0.1"]),
            Tool::get(&url).network(Network::Public),
        ),
        (
            held(&["127.0.0.1"]),
            Tool::get(&url).hosts(&["example.com"]),
        ),
    ] {
        let failure = tool.run_in(&exec, json!({})).await.unwrap_err();
        assert_eq!(failure.kind, HostNotAllowed);
    }
    assert_eq!(upstream.requests(), [], "nothing was sent");
    let exec = held(&["127.0.0.0/8"]);
    Tool::get(&url).run_in(&exec, json!({})).await.unwrap();
}

/// TI-03, SS-09, SS-10, SS-12: an argument that fills the host must pass the list, after folding.
#[tokio::test]
async fn filled_hosts_are_judged_after_parsing() {
    let upstream = Upstream::start();
    let port = upstream.port();
    let tool = Tool::get("http://${host}/echo").hosts(&["good.test", "*.example.com"]);
    for host in [
        format!("127.0.0.1:{port}"),
        format!("good.test@127.0.0.1:{port}"),
        format!("127.0.0.1:{port}\\@good.test"),
        format!("127.0.0.1:{port}/x?good.test"),
        format!("127.0.0.1:{port}#good.test"),
        format!("good.test\0.127.0.0.1:{port}"),
        "evilgood.test".into(),
        "good.test.evil.test".into(),
        "sub.good.test".into(),
        "example.com".into(),
        "evilexample.com".into(),
        "good.te st".into(),
    ] {
        let kind = tool.kind(json!({ "host": host })).await;
        assert!(
            matches!(kind, InvalidInput | HostNotAllowed),
            "{host}: {kind:?}"
        );
    }
    assert_eq!(upstream.requests(), [], "nothing was sent");
    let folded = Tool::get("http://${host}/echo").hosts(&["localhost"]);
    for host in ["LocalHost", "ｌocalhost"] {
        let host = format!("{host}:{port}");
        folded.run(json!({ "host": host })).await.unwrap();
    }
}

/// SS-13: a proxy in the environment is not asked. The variables are set for this whole test binary
/// by a child of it, since a process cannot change its own environment safely.
#[test]
fn proxies_from_the_environment_are_ignored() {
    const INNER: &str = "GLEE_TEST_PROXY_TARGET";
    if let Ok(origin) = std::env::var(INNER) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let tool = Tool::get(&format!("{origin}/direct"));
        runtime.block_on(tool.run(json!({}))).unwrap();
        return;
    }
    let (target, proxy) = (Upstream::start(), Upstream::start());
    let mut inner = std::process::Command::new(std::env::current_exe().unwrap());
    inner.args([
        "--exact",
        "http::hosts::proxies_from_the_environment_are_ignored",
    ]);
    inner.env(INNER, target.origin());
    for name in [
        "HTTP_PROXY",
        "http_proxy",
        "ALL_PROXY",
        "all_proxy",
        "HTTPS_PROXY",
    ] {
        inner.env(name, proxy.origin());
    }
    inner.env_remove("NO_PROXY").env_remove("no_proxy");
    assert!(inner.output().unwrap().status.success());
    assert_eq!(target.requests().len(), 1);
    assert_eq!(proxy.requests(), [], "the proxy was not asked");
}

/// A name that does not exist is no policy matter.
#[tokio::test]
async fn an_unknown_name_is_a_network_failure() {
    let tool = Tool::get("http://no-such-host.invalid/").network(Network::Public);
    let failure = tool.failure(json!({})).await;
    assert_eq!(failure.kind, HttpError);
    assert_eq!(failure.details["reason"], "dns");
}

fn hosts(entries: &[&str]) -> Network {
    Network::Hosts(entries.iter().map(|it| it.parse().unwrap()).collect())
}
