//! SE-01 to SE-03: a secret that was sent does not come back.

use glee_core::model::{Auth, KeyPlace, Method};
use glee_core::outcome::Outcome;
use glee_core::permission::Network;
use serde_json::json;
use tokio::net::TcpSocket;

use super::tool::{KEY, Tool, template};
use crate::upstream::Upstream;

fn assert_clean(outcome: &Outcome) {
    let text = format!("{outcome:?}");
    for part in [
        "s3cret/key",
        "s3cret%2Fkey",
        "s3cret%2fkey",
        "czNjcmV0L2tle",
    ] {
        assert!(!text.contains(part), "{part} in {text}");
    }
}

/// SE-01, SE-02: echoed in a body, in headers, in the page of an error, in several encodings.
#[tokio::test]
async fn echoes_are_redacted() {
    let upstream = Upstream::start();
    let basic = Auth::Basic {
        username: template("me"),
        password: template("${KEY}"),
    };
    for (method, codes) in [
        (Method::Post, &[][..]),
        (Method::Post, &[418]),
        (Method::Head, &[]),
    ] {
        let tool = Tool::new(method, &format!("{}/echo?k=${{KEY}}", upstream.origin()))
            .header("X-Key", "${KEY}")
            .query("q", json!("${KEY}"))
            .body(json!({"key": "${KEY}"}))
            .auth(basic.clone())
            .success_codes(codes);
        let outcome = tool.invoke(json!({})).await;
        assert_clean(&outcome);
        assert_eq!(outcome.result.is_ok(), codes.is_empty());
    }
    let seen = upstream.requests().pop().unwrap();
    assert_eq!(seen.header("x-key"), Some(KEY), "it was sent");
}

/// Half a secret at the end of a cut error page goes too.
#[tokio::test]
async fn a_cut_through_a_secret() {
    let upstream = Upstream::start();
    // The echo begins with the method and path; the padding moves the key over the cut, byte by byte.
    for padding in 1900..2048 {
        let path = "p".repeat(padding);
        let tool =
            Tool::post(&format!("{}/{path}?k=${{KEY}}", upstream.origin())).success_codes(&[418]);
        let outcome = tool.invoke(json!({})).await;
        let failure = outcome.result.unwrap_err();
        let body = failure.details["body"].as_str().unwrap();
        assert!(!body.contains("s3cret%2"), "{padding}: {}", &body[1900..]);
    }
}

/// SE-03: errors on the way hold no URL.
#[tokio::test]
async fn network_failures_hold_no_query() {
    // Bound and not listening: a port that refuses.
    let closed = TcpSocket::new_v4().unwrap();
    closed.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = closed.local_addr().unwrap();
    let key = Auth::ApiKey {
        place: KeyPlace::Query,
        name: "key".into(),
        value: template("${KEY}"),
    };
    let upstream = Upstream::start();
    for (origin, network) in [
        (format!("http://{address}"), None),
        (format!("https://127.0.0.1:{}", upstream.port()), None),
        (
            "http://no-such-host.invalid".to_owned(),
            Some(Network::Public),
        ),
        ("http://localhost:1".to_owned(), Some(Network::Public)),
        (format!("{}/cut", upstream.origin()), None),
    ] {
        // An argument is not redacted; only leaving the URL out keeps it out.
        let mut tool = Tool::get(&format!("{origin}?visible=${{a}}")).auth(key.clone());
        if let Some(network) = network {
            tool = tool.network(network);
        }
        let failure = tool.failure(json!({"a": "canary-7311"})).await;
        let text = format!("{failure:?}");
        assert!(
            !text.contains("canary-7311") && !text.contains("s3cret"),
            "{text}"
        );
    }
}

/// A secret that does not fit into the path is not quoted.
#[tokio::test]
async fn a_path_that_cannot_be_filled() {
    let upstream = Upstream::start();
    let tool = Tool::get(&format!("{}/bot${{LINES}}/send", upstream.origin()));
    let failure = tool.failure(json!({})).await;
    assert!(!format!("{failure:?}").contains("first"), "{failure:?}");
    assert_eq!(upstream.requests(), []);
}
