//! What is sent: templates filled so that no argument changes the request's shape.

use glee_core::outcome::FailureKind::InvalidInput;
use serde_json::{Value, json};

use super::tool::{KEY, Tool};
use crate::upstream::{Seen, Upstream};

async fn sent(upstream: &Upstream, tool: Tool, args: Value) -> Seen {
    tool.run(args).await.unwrap();
    upstream.requests().pop().unwrap()
}

/// M2, TI-10: query values of every type.
#[tokio::test]
async fn query() {
    let upstream = Upstream::start();
    let tool = Tool::get(&format!("{}/echo?fixed=1&u=${{a}}", upstream.origin()))
        .query("q", json!("${a}"))
        .query("text", json!("<${b}>"))
        .query("list", json!(["x", "${b}", 2]))
        .query("flag", json!(true));
    for (args, expected) in [
        (json!({}), "fixed=1&list=x&list=2&flag=true"),
        (json!({"a": null}), "fixed=1&list=x&list=2&flag=true"),
        (
            json!({"a": [1, "z", null], "b": "ü"}),
            "fixed=1&u=%5B1%2C%22z%22%2Cnull%5D&q=1&q=z&text=%3C%C3%BC%3E&list=x&list=%C3%BC&list=2&flag=true",
        ),
        (
            json!({"a": {"k": 1}}),
            "fixed=1&u=%7B%22k%22%3A1%7D&q=%7B%22k%22%3A1%7D&list=x&list=2&flag=true",
        ),
    ] {
        assert_eq!(sent(&upstream, tool.clone(), args).await.query, expected);
    }
}

/// TI-05: a value stays one value, whatever it holds.
#[tokio::test]
async fn query_values_round_trip() {
    let upstream = Upstream::start();
    let tool = Tool::get(&format!("{}/echo", upstream.origin())).query("q", json!("${a}"));
    for value in [
        "a&admin=1",
        "a=b",
        "+",
        "%",
        "%26",
        "#",
        "🙂",
        "\0",
        "a b",
        "\r\n",
        "${KEY}",
        ";",
    ] {
        let seen = sent(&upstream, tool.clone(), json!({ "a": value })).await;
        assert_eq!(seen.pairs(), [("q".to_owned(), value.to_owned())].into());
    }
}

/// TI-04: an argument is one path segment.
#[tokio::test]
async fn path_segments() {
    let upstream = Upstream::start();
    let tool = Tool::get(&format!("{}/users/${{a}}/posts", upstream.origin()));
    for (value, path) in [
        ("a/b", "/users/a%2Fb/posts"),
        ("../admin", "/users/..%2Fadmin/posts"),
        ("..%2f", "/users/..%252f/posts"),
        ("%2e%2e/", "/users/%252e%252e%2F/posts"),
        ("?x=1", "/users/%3Fx%3D1/posts"),
        ("#f", "/users/%23f/posts"),
        ("\\", "/users/%5C/posts"),
        (";", "/users/%3B/posts"),
        ("//evil.com/", "/users/%2F%2Fevil.com%2F/posts"),
    ] {
        let seen = sent(&upstream, tool.clone(), json!({ "a": value })).await;
        assert_eq!((seen.path.as_str(), seen.query.as_str()), (path, ""));
    }
    let before = upstream.requests().len();
    for value in ["", ".", "..", "a\r\nb", "\0"] {
        assert_eq!(
            tool.kind(json!({ "a": value })).await,
            InvalidInput,
            "{value:?}"
        );
    }
    assert_eq!(tool.kind(json!({})).await, InvalidInput);
    assert_eq!(upstream.requests().len(), before, "nothing was sent");
}

/// TI-01, SE-06: a header's value cannot begin another header.
#[tokio::test]
async fn header_values_with_control_characters_are_refused() {
    let upstream = Upstream::start();
    let tool = Tool::get(&format!("{}/echo", upstream.origin())).header("X-Arg", "<${a}>");
    for value in [
        "x\r\nX-Evil: 1",
        "x\rX",
        "x\nX",
        "\0",
        "\u{1}",
        "\u{7f}",
        "\u{85}",
        "\u{2028}",
        "\u{2029}",
        "\t",
    ] {
        let failure = tool.failure(json!({ "a": value })).await;
        assert_eq!(failure.kind, InvalidInput, "{value:?}");
        assert!(failure.message.contains("`x-arg`"), "{}", failure.message);
    }
    let secret = Tool::get(&format!("{}/echo", upstream.origin())).header("X-Key", "${LINES}");
    let failure = secret.failure(json!({})).await;
    assert_eq!(failure.kind, InvalidInput);
    assert!(!format!("{failure:?}").contains("first"));
    assert_eq!(upstream.requests(), [], "nothing was sent");

    let seen = sent(&upstream, tool.clone(), json!({"a": "%0d%0aX: 1 é"})).await;
    assert_eq!(seen.header("x-arg"), Some("<%0d%0aX: 1 é>"));
    let seen = sent(&upstream, tool, json!({})).await;
    assert_eq!(seen.header("x-arg"), None);
}

/// TI-02: headers that frame the request or name its reader are glee's own.
#[tokio::test]
async fn framing_headers_are_refused() {
    let upstream = Upstream::start();
    for name in [
        "Host",
        "Content-Length",
        "transfer-encoding",
        "Connection",
        "a b",
        "x\r\ny",
    ] {
        let tool = Tool::get(&format!("{}/echo", upstream.origin())).header(name, "1");
        assert_eq!(tool.kind(json!({})).await, InvalidInput, "{name}");
    }
    assert_eq!(upstream.requests(), [], "nothing was sent");
}

#[tokio::test]
async fn user_agent() {
    let upstream = Upstream::start();
    let tool = Tool::get(&format!("{}/echo", upstream.origin()));
    let seen = sent(&upstream, tool.clone(), json!({})).await;
    let ours = concat!("glee/", env!("CARGO_PKG_VERSION"));
    assert_eq!(seen.header("user-agent"), Some(ours));
    let seen = sent(&upstream, tool.header("User-Agent", "own"), json!({})).await;
    assert_eq!(seen.header("user-agent"), Some("own"));
}

/// TI-06, TI-07: values keep their type and their place.
#[tokio::test]
async fn json_bodies() {
    let upstream = Upstream::start();
    let tool = Tool::post(&format!("{}/echo", upstream.origin()))
        .body(json!({"count": "${a}", "text": "n=${b}", "list": ["${b}"], "fixed": 1}));
    let injection = r#"","admin":true,"x":""#;
    for (args, expected) in [
        (
            json!({"a": 5, "b": "x"}),
            json!({"count": 5, "text": "n=x", "list": ["x"], "fixed": 1}),
        ),
        (
            json!({"a": true}),
            json!({"count": true, "list": [], "fixed": 1}),
        ),
        (
            json!({"a": null}),
            json!({"count": null, "list": [], "fixed": 1}),
        ),
        (
            json!({"a": {"k": [1.5]}}),
            json!({"count": {"k": [1.5]}, "list": [], "fixed": 1}),
        ),
        (
            json!({"a": injection, "b": injection}),
            json!({"count": injection, "text": format!("n={injection}"), "list": [injection], "fixed": 1}),
        ),
        (
            json!({"a": "${KEY}"}),
            json!({"count": "${KEY}", "list": [], "fixed": 1}),
        ),
    ] {
        let seen = sent(&upstream, tool.clone(), args).await;
        assert_eq!(serde_json::from_str::<Value>(&seen.body).unwrap(), expected);
        assert_eq!(seen.header("content-type"), Some("application/json"));
    }
}

#[tokio::test]
async fn bodies_by_content_type() {
    let upstream = Upstream::start();
    let form = "application/x-www-form-urlencoded";
    for (content_type, body, args, expected, expected_type) in [
        (
            None,
            json!("hi ${a}"),
            json!({"a": 1}),
            "hi 1",
            "text/plain; charset=utf-8",
        ),
        (
            None,
            json!("${a}"),
            json!({"a": [1]}),
            "[1]",
            "application/json",
        ),
        (None, json!(7), json!({}), "7", "application/json"),
        (
            Some("text/xml"),
            json!("<a/>"),
            json!({}),
            "<a/>",
            "text/xml",
        ),
        (
            Some("application/vnd.x+json; v=1"),
            json!({"a": "${a}"}),
            json!({"a": 1}),
            r#"{"a":1}"#,
            "application/vnd.x+json; v=1",
        ),
        (
            Some("application/json"),
            json!("${a}"),
            json!({"a": "x\"y"}),
            r#""x\"y""#,
            "application/json",
        ),
        (
            Some("application/json"),
            json!(r#"{"by": "hand"}"#),
            json!({}),
            r#"{"by": "hand"}"#,
            "application/json",
        ),
        (
            Some(form),
            json!({"t": "${a}", "l": [1, "x y"], "gone": "${b}"}),
            json!({"a": "1&admin=1"}),
            "t=1%26admin%3D1&l=1&l=x%20y",
            form,
        ),
        (
            Some(form),
            json!("t=${a}&z=1"),
            json!({"a": "1&admin=1"}),
            "t=1%26admin%3D1&z=1",
            form,
        ),
    ] {
        let mut tool = Tool::post(&format!("{}/echo", upstream.origin())).body(body);
        if let Some(it) = content_type {
            tool = tool.header("Content-Type", it);
        }
        let seen = sent(&upstream, tool, args).await;
        assert_eq!(
            (seen.body.as_str(), seen.header("content-type")),
            (expected, Some(expected_type))
        );
    }
}

/// TI-07: text that claims to be JSON is no place for an argument.
#[tokio::test]
async fn json_written_as_text_takes_no_argument() {
    let upstream = Upstream::start();
    let tool = Tool::post(&format!("{}/echo", upstream.origin()))
        .header("Content-Type", "application/json")
        .body(json!(r#"{"text": "${a}"}"#));
    let failure = tool.failure(json!({"a": r#"","admin":true,"x":""#})).await;
    assert_eq!(failure.kind, InvalidInput);
    assert_eq!(upstream.requests(), [], "nothing was sent");
}

#[tokio::test]
async fn an_absent_body_and_a_get_send_none() {
    let upstream = Upstream::start();
    let url = format!("{}/echo", upstream.origin());
    for tool in [
        Tool::post(&url).body(json!("${a}")),
        Tool::get(&url).body(json!({"x": 1})),
    ] {
        let seen = sent(&upstream, tool, json!({})).await;
        assert_eq!(
            (seen.body.as_str(), seen.header("content-type")),
            ("", None)
        );
    }
}

/// TI-16: what one argument may become is bounded.
#[tokio::test]
async fn an_expansion_bomb_is_refused() {
    let upstream = Upstream::start();
    let tool = Tool::post(&format!("{}/echo", upstream.origin())).body(json!(vec!["${a}"; 1000]));
    let kind = tool.kind(json!({"a": "x".repeat(1 << 20)})).await;
    assert_eq!(kind, InvalidInput);
    assert_eq!(upstream.requests(), [], "nothing was sent");
}

#[test]
fn a_preview_sends_nothing_and_shows_masks() {
    let upstream = Upstream::start();
    let tool = Tool::post(&format!("{}/echo", upstream.origin()))
        .header("X-Key", "k ${KEY}")
        .query("q", json!("${a}"))
        .body(json!({"n": "${b}"}));
    let shown = tool.preview(json!({"a": "x y", "b": 1})).unwrap();
    assert_eq!(
        shown,
        json!({
            "method": "POST",
            "url": format!("{}/echo?q=x%20y", upstream.origin()),
            "headers": {
                "x-key": "k <KEY>",
                "content-type": "application/json",
                "user-agent": concat!("glee/", env!("CARGO_PKG_VERSION")),
            },
            "body": {"n": 1},
        })
    );
    assert!(!shown.to_string().contains(KEY));
    assert_eq!(upstream.requests(), []);
}
