//! C6, SS-17: sent again when that is safe and may help, and never otherwise.

use std::time::{Duration, Instant};

use glee_core::model::Method;
use glee_core::outcome::FailureKind::HttpError;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};

use super::tool::{Tool, json_of};
use crate::upstream::Upstream;

#[tokio::test]
async fn passing_troubles_are_tried_again() {
    let upstream = Upstream::start();
    for method in [Method::Get, Method::Put, Method::Delete] {
        for code in [429, 502, 503, 504] {
            let url = format!(
                "{}/flaky?fail=2&code={code}&as={}",
                upstream.origin(),
                method.as_str()
            );
            let raw = Tool::new(method, &url)
                .retries(2)
                .run(json!({}))
                .await
                .unwrap();
            assert_eq!(json_of(raw), json!({"attempts": 3}));
        }
    }
    let url = format!("{}/flaky?fail=9&code=503", upstream.origin());
    let before = upstream.requests().len();
    let failure = Tool::get(&url).retries(2).failure(json!({})).await;
    assert_eq!((failure.kind, failure.retryable), (HttpError, true));
    assert_eq!(failure.details["status"], 503);
    assert_eq!(upstream.requests().len() - before, 3);
}

#[tokio::test]
async fn other_answers_are_final() {
    let upstream = Upstream::start();
    for code in [400, 404, 409, 500, 501] {
        let url = format!("{}/flaky?fail=9&code={code}", upstream.origin());
        let before = upstream.requests().len();
        let failure = Tool::get(&url).retries(3).failure(json!({})).await;
        assert_eq!(failure.details["status"], code);
        assert_eq!(failure.retryable, code >= 500);
        assert_eq!(upstream.requests().len() - before, 1, "{code}");
    }
    let url = format!("{}/flaky?fail=9&code=503", upstream.origin());
    let before = upstream.requests().len();
    Tool::get(&url)
        .retries(3)
        .success_codes(&[503])
        .run(json!({}))
        .await
        .unwrap();
    assert_eq!(upstream.requests().len() - before, 1, "success is success");
}

#[tokio::test]
async fn posts_go_out_once_unless_the_author_vouches() {
    let upstream = Upstream::start();
    for method in [Method::Post, Method::Patch] {
        let url = format!(
            "{}/flaky?fail=1&code=503&as={}",
            upstream.origin(),
            method.as_str()
        );
        let before = upstream.requests().len();
        Tool::new(method, &url).retries(5).failure(json!({})).await;
        assert_eq!(upstream.requests().len() - before, 1);
        Tool::new(method, &format!("{url}&vouched=1"))
            .retries(5)
            .idempotent()
            .run(json!({}))
            .await
            .unwrap();
    }
}

/// A connection that breaks after the request went out: whether it was acted upon is unknown.
#[tokio::test]
async fn a_request_that_was_sent_is_not_sent_again() {
    for tool in [Tool::post("${url}").idempotent(), Tool::get("${url}")] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let mut count = 0;
            while let Ok((mut socket, _)) = listener.accept().await {
                count += 1;
                if count == 2 {
                    // The probe below: the client is done.
                    return count;
                }
                let mut buffer = [0; 1024];
                assert!(socket.read(&mut buffer).await.unwrap() > 0);
            }
            count
        });
        let failure = tool.retries(5).failure(json!({ "url": url })).await;
        assert_eq!(failure.kind, HttpError);
        assert_eq!(failure.details["reason"], "connection");
        let address = url
            .trim_start_matches("http://")
            .trim_end_matches('/')
            .to_owned();
        tokio::net::TcpStream::connect(address)
            .await
            .unwrap()
            .shutdown()
            .await
            .unwrap();
        assert_eq!(server.await.unwrap(), 2, "one request and the probe");
    }
}

#[tokio::test]
async fn connect_errors_are_tried_again() {
    // Bound and not listening: the port is ours, and nobody answers on it yet.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let failure = Tool::get(&format!("http://{address}/"))
        .failure(json!({}))
        .await;
    assert_eq!(failure.kind, HttpError);
    assert_eq!(failure.details["reason"], "connect");
    assert!(failure.retryable);
    let mut tool = Tool::get(&format!("http://{address}/")).retries(40);
    tool.http.retry.pause = Duration::from_millis(2);
    let call = tokio::spawn(async move { tool.run(json!({})).await });
    let listener = socket.listen(8).unwrap();
    let (mut socket, _) = listener.accept().await.unwrap();
    let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    socket.write_all(answer).await.unwrap();
    assert_eq!(json_of(call.await.unwrap().unwrap()), json!({}));
}

#[tokio::test]
async fn retry_after_is_obeyed_within_the_deadline() {
    let upstream = Upstream::start();
    let url = format!("{}/flaky?fail=1&code=429&after=1", upstream.origin());
    let began = Instant::now();
    Tool::get(&url).retries(1).run(json!({})).await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(1));

    for after in [
        "3600",
        "18446744073709551615",
        "Fri,%2031%20Dec%209998%2023:59:59%20GMT",
    ] {
        let url = format!("{}/flaky?fail=1&code=429&after={after}", upstream.origin());
        let before = upstream.requests().len();
        let failure = Tool::get(&url).retries(3).failure(json!({})).await;
        assert_eq!(failure.details["status"], 429);
        assert_eq!(
            upstream.requests().len() - before,
            1,
            "no pause beyond the deadline"
        );
    }
    assert!(began.elapsed() < Duration::from_secs(20));
}
