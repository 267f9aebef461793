//! Each way to prove who asks.

use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use glee_core::model::{Auth, KeyPlace, OAuthGrant};
use glee_core::outcome::FailureKind::{HostNotAllowed, HttpError, InvalidInput};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::tool::{KEY, Tool, exec, json_of, template, url_template};
use crate::upstream::{Seen, Upstream};

async fn seen_with(auth: Auth) -> Seen {
    let upstream = Upstream::start();
    let tool = Tool::post(&format!("{}/echo?x=1", upstream.origin())).body(json!({"a": 1}));
    tool.auth(auth).run(json!({})).await.unwrap();
    upstream.requests().pop().unwrap()
}

#[tokio::test]
async fn headers_and_query() {
    let seen = seen_with(Auth::Bearer {
        token: template("${KEY}"),
    })
    .await;
    assert_eq!(
        seen.header("authorization"),
        Some(&*format!("Bearer {KEY}"))
    );
    let seen = seen_with(Auth::Basic {
        username: template("me"),
        password: template("pass word"),
    })
    .await;
    assert_eq!(seen.header("authorization"), Some("Basic bWU6cGFzcyB3b3Jk"));
    let key = |place, value| Auth::ApiKey {
        place,
        name: "X-Api".into(),
        value: template(value),
    };
    let seen = seen_with(key(KeyPlace::Header, "${KEY}")).await;
    assert_eq!(seen.header("x-api"), Some(KEY));
    let seen = seen_with(key(KeyPlace::Query, "${KEY}")).await;
    assert_eq!(seen.pairs()["X-Api"], KEY);
    assert_eq!(seen.pairs()["x"], "1");
    // M3: an optional secret that is not there behaves as an absent argument.
    let seen = seen_with(Auth::Bearer {
        token: template("${ABSENT}"),
    })
    .await;
    assert_eq!(seen.header("authorization"), None);
    let seen = seen_with(key(KeyPlace::Query, "${ABSENT}")).await;
    assert_eq!(seen.query, "x=1");
}

#[tokio::test]
async fn credentials_that_break_their_line_are_refused() {
    let upstream = Upstream::start();
    for auth in [
        Auth::Bearer {
            token: template("${LINES}"),
        },
        Auth::ApiKey {
            place: KeyPlace::Header,
            name: "X-Api".into(),
            value: template("${LINES}"),
        },
        Auth::Basic {
            username: template("a:b"),
            password: template(""),
        },
    ] {
        let tool = Tool::get(&format!("{}/echo", upstream.origin())).auth(auth);
        assert_eq!(tool.kind(json!({})).await, InvalidInput);
    }
    assert_eq!(upstream.requests(), [], "nothing was sent");
}

#[tokio::test]
async fn hmac_signs_what_is_sent() {
    let seen = seen_with(Auth::Hmac {
        secret: template("${KEY}"),
        header: "X-Signature".into(),
        timestamp_header: "X-Time".into(),
    })
    .await;
    let time = seen.header("x-time").unwrap();
    let body = HEXLOWER.encode(&Sha256::digest(&seen.body));
    let canonical = format!("POST\n{}?{}\n{time}\n{body}", seen.path, seen.query);
    let mut mac = Hmac::<Sha256>::new_from_slice(KEY.as_bytes()).unwrap();
    mac.update(canonical.as_bytes());
    let signature = HEXLOWER.encode(&mac.finalize().into_bytes());
    assert_eq!(seen.header("x-signature"), Some(&*signature));
    assert!(time.parse::<u64>().unwrap() > 1_700_000_000);
}

fn oauth(upstream: &Upstream, grant: OAuthGrant, query: &str) -> Auth {
    Auth::OAuth2 {
        token_url: url_template(&format!("{}/token{query}", upstream.origin())),
        grant,
        client_id: template("me"),
        client_secret: Some(template("${KEY}")),
        scope: Some("read write".into()),
    }
}

fn tokens_asked(upstream: &Upstream) -> usize {
    upstream
        .requests()
        .iter()
        .filter(|it| it.path == "/token")
        .count()
}

#[tokio::test]
async fn oauth_tokens_are_fetched_once() {
    let upstream = Upstream::start();
    let auth = oauth(&upstream, OAuthGrant::ClientCredentials, "?expires_in=3600");
    let tool = Tool::get(&format!("{}/echo", upstream.origin())).auth(auth);
    let exec = Arc::new(exec());
    let calls = (0..8).map(|_| {
        let (tool, exec) = (tool.clone(), exec.clone());
        tokio::spawn(async move { tool.run_in(&exec, json!({})).await })
    });
    for call in calls.collect::<Vec<_>>() {
        let headers = json_of(call.await.unwrap().unwrap());
        // The token is not the runtime's to know, and yet it must not come back.
        assert_eq!(
            headers["headers"]["authorization"],
            "Bearer [REDACTED:access_token]"
        );
    }
    assert_eq!(tokens_asked(&upstream), 1, "one refresh in flight");
    let asked = upstream.requests().remove(0);
    assert_eq!(asked.method, "POST");
    assert_eq!(
        asked.body,
        "grant_type=client_credentials&client_id=me&client_secret=s3cret%2Fkey%2Bwith~odd%2Achars&scope=read%20write"
    );
    let used = upstream.requests().pop().unwrap();
    assert_eq!(used.header("authorization"), Some("Bearer access-token-1"));
}

#[tokio::test]
async fn oauth_tokens_about_to_expire_are_replaced() {
    let upstream = Upstream::start();
    let refresh = OAuthGrant::RefreshToken(template("${KEY}"));
    let auth = oauth(&upstream, refresh, "?expires_in=29");
    let tool = Tool::get(&format!("{}/echo", upstream.origin())).auth(auth);
    let exec = exec();
    for _ in 0..2 {
        tool.run_in(&exec, json!({})).await.unwrap();
    }
    assert_eq!(tokens_asked(&upstream), 2);
    let body = &upstream.requests()[0].body;
    assert!(body.contains("grant_type=refresh_token&") && body.contains("&refresh_token=s3cret"));
}

#[tokio::test]
async fn a_refused_oauth_token_is_replaced_once() {
    let upstream = Upstream::start();
    let auth = oauth(&upstream, OAuthGrant::ClientCredentials, "");
    let guarded = |accept: &str| {
        let url = format!("{}/guarded?accept={accept}", upstream.origin());
        Tool::post(&url).auth(auth.clone())
    };
    let exec = exec();
    guarded("access-token-2")
        .run_in(&exec, json!({}))
        .await
        .unwrap();
    assert_eq!(tokens_asked(&upstream), 2);
    guarded("access-token-2")
        .run_in(&exec, json!({}))
        .await
        .unwrap();
    assert_eq!(tokens_asked(&upstream), 2);

    let failure = guarded("none").run_in(&exec, json!({})).await.unwrap_err();
    assert_eq!(failure.details["status"], 401);
    assert!(
        !format!("{failure:?}").contains("access-token"),
        "{failure:?}"
    );
    assert_eq!(tokens_asked(&upstream), 3, "once, not forever");
}

#[tokio::test]
async fn the_token_endpoint_is_held_to_the_same_hosts() {
    let (upstream, issuer) = (Upstream::start(), Upstream::start());
    let auth = oauth(&issuer, OAuthGrant::ClientCredentials, "");
    let tool = Tool::get(&format!("{}/echo", upstream.origin()))
        .hosts(&[&format!("127.0.0.1:{}", upstream.port())])
        .auth(auth);
    assert_eq!(tool.kind(json!({})).await, HostNotAllowed);
    assert_eq!((issuer.requests(), upstream.requests()), (vec![], vec![]));

    // Nor does it profit from a token that another tool was given.
    let exec = exec();
    let allowed = tool.clone().hosts(&["127.0.0.1"]);
    allowed.run_in(&exec, json!({})).await.unwrap();
    let failure = tool.run_in(&exec, json!({})).await.unwrap_err();
    assert_eq!(failure.kind, HostNotAllowed);
    assert_eq!(upstream.requests().len(), 1);
}

#[tokio::test]
async fn a_token_endpoint_that_gives_none() {
    let upstream = Upstream::start();
    for path in [
        "status/400",
        "echo",
        "big?bytes=100000",
        "redirect?to=/token",
    ] {
        let auth = Auth::OAuth2 {
            token_url: url_template(&format!("{}/{path}", upstream.origin())),
            grant: OAuthGrant::ClientCredentials,
            client_id: template("me"),
            client_secret: None,
            scope: None,
        };
        let tool = Tool::get(&format!("{}/never", upstream.origin()))
            .auth(auth)
            .timeout(Duration::from_secs(20));
        let failure = tool.failure(json!({})).await;
        assert_eq!(failure.kind, HttpError, "{path}");
        assert_eq!(failure.details["reason"], "token", "{path}");
    }
    assert!(
        upstream
            .requests()
            .iter()
            .all(|it| it.path != "/never" && it.path != "/token")
    );
}

#[test]
fn previews_hold_masks() {
    let upstream = Upstream::start();
    let tool = Tool::get("http://x.test/");
    let shown = |auth| tool.clone().auth(auth).preview(json!({})).unwrap();
    let shown_oauth = shown(oauth(&upstream, OAuthGrant::ClientCredentials, ""));
    assert_eq!(
        shown_oauth["headers"]["authorization"],
        "Bearer <access token>"
    );
    let bearer = shown(Auth::Bearer {
        token: template("${KEY}"),
    });
    assert_eq!(bearer["headers"]["authorization"], "Bearer <KEY>");
    let key = Auth::ApiKey {
        place: KeyPlace::Query,
        name: "k".into(),
        value: template("${KEY}"),
    };
    assert_eq!(shown(key)["url"], "http://x.test/?k=%3CKEY%3E");
    assert_eq!(upstream.requests(), []);
}
