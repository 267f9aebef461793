//! What comes back: bounded, judged by status.

use glee_core::model::Method;
use glee_core::outcome::FailureKind::HttpError;
use glee_core::outcome::Truncated;
use serde_json::json;

use super::tool::{Tool, bytes_of, json_of};
use crate::upstream::Upstream;

#[tokio::test]
async fn statuses() {
    let upstream = Upstream::start();
    for (codes, status, passes) in [
        (&[][..], 200, true),
        (&[], 204, true),
        (&[], 299, true),
        (&[], 304, false),
        (&[], 400, false),
        (&[200], 201, false),
        (&[200, 404], 404, true),
    ] {
        let url = format!("{}/status/{status}", upstream.origin());
        let result = Tool::get(&url).success_codes(codes).run(json!({})).await;
        assert_eq!(result.is_ok(), passes, "{status}");
        if let Err(failure) = result {
            assert_eq!(failure.kind, HttpError);
            assert_eq!(failure.details["status"], status);
            assert!(failure.message.contains(&status.to_string()));
        }
    }
}

/// C4, SS-14: bodies are cut at the limit while they stream.
#[tokio::test]
async fn big_bodies_are_cut() {
    let upstream = Upstream::start();
    let limit = 100_000;
    let huge = 50_u64 << 30;
    for (path, kept, truncated) in [
        ("big?bytes=99999".to_owned(), 99_999, None),
        ("big?bytes=100000".to_owned(), limit, None),
        ("big?bytes=100001".to_owned(), limit, Some(None)),
        (
            "big?bytes=100001&length=1".to_owned(),
            limit,
            Some(Some(100_001)),
        ),
        (
            format!("big?bytes={huge}&length=1"),
            limit,
            Some(Some(huge)),
        ),
        (format!("big?bytes={huge}"), limit, Some(None)),
        ("gzip?bytes=100000".to_owned(), limit, None),
        ("gzip?bytes=200000000".to_owned(), limit, Some(None)),
        ("drip".to_owned(), 10, Some(None)),
    ] {
        let url = format!("{}/{path}", upstream.origin());
        let raw = Tool::get(&url).output_bytes(if path == "drip" { 10 } else { limit });
        let raw = raw.run(json!({})).await.unwrap();
        let expected = truncated.map(|total| Truncated {
            kept: kept as u64,
            total,
        });
        assert_eq!(raw.truncated, expected, "{path}");
        assert_eq!(bytes_of(raw), vec![b'x'; kept], "{path}");
    }
}

#[tokio::test]
async fn the_body_of_a_failure_is_short() {
    let upstream = Upstream::start();
    for path in ["big?bytes=9000000000", "gzip?bytes=200000000"] {
        let url = format!("{}/{path}", upstream.origin());
        let failure = Tool::get(&url)
            .success_codes(&[201])
            .failure(json!({}))
            .await;
        assert_eq!(failure.details["body"], "x".repeat(2048));
    }
}

/// A failure is told by its status; its body is not waited for.
#[tokio::test]
async fn the_body_of_a_failure_may_be_late() {
    let upstream = Upstream::start();
    let tool = Tool::get(&format!("{}/drip", upstream.origin())).success_codes(&[201]);
    let failure = tool.failure(json!({})).await;
    assert_eq!(failure.details["status"], 200);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_a_failure() {
    let upstream = Upstream::start();
    let failure = Tool::get(&format!("{}/cut", upstream.origin()))
        .failure(json!({}))
        .await;
    assert_eq!(failure.kind, HttpError);
    assert_eq!(failure.details["reason"], "body");
}

/// SS-14: a header block has its bounds too.
#[tokio::test]
async fn too_many_headers_are_a_failure() {
    let upstream = Upstream::start();
    let failure = Tool::get(&format!("{}/headers?count=10000", upstream.origin()))
        .failure(json!({}))
        .await;
    assert_eq!(failure.kind, HttpError);
}

#[tokio::test]
async fn head_gives_status_and_headers() {
    let upstream = Upstream::start();
    let tool = Tool::new(Method::Head, &format!("{}/status/200", upstream.origin()));
    let value = json_of(tool.run(json!({})).await.unwrap());
    assert_eq!(value["status"], 200);
    assert_eq!(value["headers"]["content-type"], "application/json");
}

/// SS-14: what is no HTTP is an answer too, not a panic or a hang.
#[tokio::test]
async fn nonsense_on_the_wire() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    for nonsense in [
        "",
        "hello\r\n\r\n",
        "HTTP/0.9 200 OK\r\n\r\n",
        "HTTP/1.1 999999 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nabc",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nabc",
        "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 3\r\n\r\nabc",
        "HTTP/1.1 302 Found\r\nlocation: http://x.test/\r\n evil\r\ncontent-length: 0\r\n\r\n",
    ] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut buffer = [0; 1024];
            let _ = socket.read(&mut buffer).await;
            let _ = socket.write_all(nonsense.as_bytes()).await;
        });
        let failure = Tool::get(&url).follow().failure(json!({})).await;
        assert_eq!(failure.kind, HttpError, "{nonsense:?}");
    }
}
