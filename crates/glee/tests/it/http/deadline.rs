//! One deadline for everything, and an end when the caller is gone.

use std::time::Duration;

use glee_core::outcome::FailureKind::{Cancelled, Timeout};
use glee_core::port::Cancel;
use serde_json::json;
use tokio::sync::oneshot;

use super::tool::{Tool, exec};
use crate::upstream::Upstream;

/// SS-15: the whole call has a deadline, not each read.
#[tokio::test]
async fn slow_and_dripping_servers() {
    let upstream = Upstream::start();
    for path in ["slow", "drip", "flaky?fail=1000000&code=503"] {
        let url = format!("{}/{path}", upstream.origin());
        let mut tool = Tool::get(&url)
            .timeout(Duration::from_millis(150))
            .retries(u32::MAX);
        tool.http.retry.pause = Duration::ZERO;
        let failure = tool.failure(json!({})).await;
        if path.starts_with("flaky") && failure.kind != Timeout {
            // The last pause would not have fitted in.
            assert_eq!(failure.details["status"], 503);
            continue;
        }
        assert_eq!(failure.kind, Timeout, "{path}");
        assert!(failure.message.contains("150 ms"), "{}", failure.message);
    }
}

#[tokio::test]
async fn a_cancelled_call_ends() {
    let upstream = Upstream::start();
    let (gone, when) = oneshot::channel::<()>();
    let cancel = Cancel::when(async move { drop(when.await) });
    let tool = Tool::get(&format!("{}/slow", upstream.origin()));
    let exec = exec();
    let call = tool.run_until(&exec, json!({}), cancel);
    tokio::pin!(call);
    // The server has it, and will never answer.
    while upstream.requests().is_empty() {
        tokio::select! {
            _ = &mut call => panic!("the server never answers"),
            () = tokio::time::sleep(Duration::from_millis(1)) => {}
        }
    }
    gone.send(()).unwrap();
    assert_eq!(call.await.unwrap_err().kind, Cancelled);
}

#[tokio::test]
async fn a_call_cancelled_before_it_began_sends_nothing() {
    let upstream = Upstream::start();
    let tool = Tool::get(&format!("{}/echo", upstream.origin()));
    let cancel = Cancel::when(std::future::ready(()));
    let failure = tool
        .run_until(&exec(), json!({}), cancel)
        .await
        .unwrap_err();
    assert_eq!(failure.kind, Cancelled);
    assert_eq!(upstream.requests(), [], "nothing was sent");
}

/// Dropping the call closes its connection.
#[tokio::test]
async fn a_dropped_call_hangs_up() {
    use tokio::io::AsyncReadExt;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let tool = Tool::get(&format!("http://{}/", listener.local_addr().unwrap()));
    let exec = exec();
    let mut buffer = Vec::new();
    let mut socket = tokio::select! {
        _ = tool.run_in(&exec, json!({})) => panic!("nobody answers"),
        accepted = listener.accept() => accepted.unwrap().0,
    };
    // The end of the stream comes although the executor lives on.
    let read = tokio::time::timeout(Duration::from_secs(20), socket.read_to_end(&mut buffer));
    let _ = read.await.expect("the connection is closed");
    drop(exec);
}
