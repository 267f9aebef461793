//! Redirects: off unless asked for, judged at every hop, and without secrets abroad.

use glee_core::model::{Auth, KeyPlace, Method};
use glee_core::outcome::FailureKind::{HostNotAllowed, HttpError};
use glee_core::url_template::encode;
use serde_json::json;

use super::tool::{KEY, Tool, template};
use crate::upstream::Upstream;

fn redirect(from: &Upstream, to: &str, code: u16) -> String {
    format!("{}/redirect?code={code}&to={}", from.origin(), encode(to))
}

#[tokio::test]
async fn not_followed_unless_asked() {
    let (upstream, other) = (Upstream::start(), Upstream::start());
    let url = redirect(&upstream, &format!("{}/echo?token=x", other.origin()), 302);
    let failure = Tool::get(&url).failure(json!({})).await;
    assert_eq!(failure.kind, HttpError);
    assert_eq!(failure.details["status"], 302);
    assert_eq!(failure.details["location_host"], "127.0.0.1");
    assert!(failure.hint.unwrap().contains("redirects: follow"));
    assert_eq!(other.requests(), [], "nothing was sent");
    // An author may want to see the redirect itself.
    Tool::get(&url)
        .success_codes(&[302])
        .run(json!({}))
        .await
        .unwrap();
    Tool::get(&url)
        .success_codes(&[302])
        .follow()
        .run(json!({}))
        .await
        .unwrap();
    assert_eq!(other.requests(), [], "nothing was sent");
}

/// SS-07: every hop passes the same policy.
#[tokio::test]
async fn forbidden_targets() {
    let (upstream, other) = (Upstream::start(), Upstream::start());
    let only = format!("127.0.0.1:{}", upstream.port());
    let at_other = |rest: &str| format!("http://{}:{}/echo", rest, other.port());
    for (to, kind) in [
        (at_other("127.0.0.1"), HostNotAllowed),
        (at_other("localhost"), HostNotAllowed),
        (at_other("[::1]"), HostNotAllowed),
        (at_other("0x7f.1"), HostNotAllowed),
        (format!("//127.0.0.1:{}/echo", other.port()), HostNotAllowed),
        ("http://169.254.169.254/".into(), HostNotAllowed),
        ("file:///etc/passwd".into(), HttpError),
        ("gopher://127.0.0.1/".into(), HttpError),
        ("data:text/plain,x".into(), HttpError),
        (at_other("user:pw@127.0.0.1"), HttpError),
        ("http://[".into(), HttpError),
    ] {
        for code in [301, 302, 303, 307, 308] {
            let tool = Tool::get(&redirect(&upstream, &to, code))
                .hosts(&[&only])
                .follow();
            let failure = tool.failure(json!({})).await;
            assert_eq!(failure.kind, kind, "{code} {to}: {}", failure.message);
        }
    }
    assert_eq!(other.requests(), [], "nothing was sent");
}

#[tokio::test]
async fn at_most_five_hops() {
    let upstream = Upstream::start();
    let mut url = format!("{}/echo", upstream.origin());
    for _ in 0..5 {
        url = redirect(&upstream, &url, 302);
    }
    Tool::get(&url).follow().run(json!({})).await.unwrap();
    let before = upstream.requests().len();
    let failure = Tool::get(&redirect(&upstream, &url, 302))
        .follow()
        .failure(json!({}))
        .await;
    assert_eq!(failure.kind, HttpError);
    assert_eq!(failure.details["reason"], "redirect");
    assert_eq!(upstream.requests().len() - before, 6);
}

#[tokio::test]
async fn methods_and_bodies() {
    for (method, code, then, body) in [
        (Method::Post, 301, "GET", ""),
        (Method::Post, 302, "GET", ""),
        (Method::Post, 303, "GET", ""),
        (Method::Put, 303, "GET", ""),
        (Method::Put, 302, "PUT", "{\"a\":1}"),
        (Method::Post, 307, "POST", "{\"a\":1}"),
        (Method::Post, 308, "POST", "{\"a\":1}"),
        (Method::Head, 303, "HEAD", ""),
    ] {
        let upstream = Upstream::start();
        let url = redirect(&upstream, "/echo?x=1#f", code);
        let tool = Tool::new(method, &url).body(json!({"a": 1})).follow();
        tool.run(json!({})).await.unwrap();
        let last = upstream.requests().pop().unwrap();
        assert_eq!(
            (last.method.as_str(), last.body.as_str()),
            (then, body),
            "{code}"
        );
        assert_eq!(last.query, "x=1");
        assert_eq!(last.header("content-type").is_some(), !body.is_empty());
        assert_eq!(last.header("referer"), None);
    }
}

/// SS-08: what carries a secret does not go to another origin, and a detour does not bring it back.
#[tokio::test]
async fn secrets_stay_at_home() {
    let (home, abroad) = (Upstream::start(), Upstream::start());
    let back = format!("{}/echo", home.origin());
    let away = format!("{}/redirect?code=302&to={}", abroad.origin(), encode(&back));
    for auth in [
        Auth::Bearer {
            token: template("${KEY}"),
        },
        Auth::Basic {
            username: template("me"),
            password: template("${KEY}"),
        },
        Auth::ApiKey {
            place: KeyPlace::Header,
            name: "X-Api".into(),
            value: template("${KEY}"),
        },
        Auth::ApiKey {
            place: KeyPlace::Query,
            name: "api".into(),
            value: template("${KEY}"),
        },
        Auth::Hmac {
            secret: template("${KEY}"),
            header: "X-Api".into(),
            timestamp_header: "X-Time".into(),
        },
    ] {
        let before = (home.requests().len(), abroad.requests().len());
        Tool::get(&redirect(&home, &away, 302))
            .header("X-Subscription-Token", "t ${KEY}")
            .header("X-Open", "open")
            .auth(auth)
            .follow()
            .run(json!({}))
            .await
            .unwrap();
        let (at_home, at_abroad) = (home.requests(), abroad.requests());
        let first = &at_home[before.0];
        assert!(first.header("x-subscription-token").is_some());
        for seen in [&at_abroad[before.1], &at_home[before.0 + 1]] {
            for name in [
                "x-subscription-token",
                "authorization",
                "x-api",
                "x-time",
                "cookie",
                "referer",
            ] {
                assert_eq!(seen.header(name), None, "{name}");
            }
            assert!(!seen.query.contains("api="), "{}", seen.query);
            assert_eq!(seen.header("x-open"), Some("open"));
        }
    }
    assert!(!format!("{:?}", abroad.requests()).contains(KEY));
}

#[tokio::test]
async fn credentials_go_along_at_home() {
    let home = Upstream::start();
    Tool::get(&redirect(&home, "/echo", 302))
        .header("X-Key", "${KEY}")
        .auth(Auth::Bearer {
            token: template("${KEY}"),
        })
        .follow()
        .run(json!({}))
        .await
        .unwrap();
    let last = home.requests().pop().unwrap();
    assert_eq!(last.header("x-key"), Some(KEY));
    assert!(last.header("authorization").is_some());
}

#[tokio::test]
async fn a_body_with_a_secret_does_not_leave() {
    let (home, abroad) = (Upstream::start(), Upstream::start());
    let url = redirect(&home, &abroad.origin(), 307);
    let tool = Tool::post(&url).body(json!({"key": "${KEY}"})).follow();
    let failure = tool.failure(json!({})).await;
    assert_eq!(failure.kind, HttpError);
    assert_eq!(abroad.requests(), [], "nothing was sent");
}
