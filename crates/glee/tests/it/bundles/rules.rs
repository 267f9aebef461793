//! What may not be, and is not.

use std::fs;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{House, absent, tool};

#[test]
fn k2_a_tool_that_is_there_stays_as_it_is() {
    let house = House::new();
    let bundle = house.bundle("b");
    let at = tool(bundle, "a", "1");
    house.expect(201, &format!("PUT {at}"), absent());
    let path = house.directory(bundle).join("a@1.json");
    let before = fs::read(&path).unwrap();
    let mut other = absent();
    other["description"] = json!("another one");
    let refused = house.expect(409, &format!("PUT {at}"), other.clone());
    assert_eq!(refused["error"]["code"], "CONFLICT");
    assert_eq!(fs::read(&path).unwrap(), before);
    // Other versions, and other bundles, are other tools.
    house.expect(
        201,
        &format!("PUT {}", tool(bundle, "a", "1.0")),
        other.clone(),
    );
    house.expect(
        201,
        &format!("PUT {}", tool(bundle, "A", "1")),
        other.clone(),
    );
    house.expect(
        201,
        &format!("PUT {}", tool(house.bundle("c"), "a", "1")),
        other,
    );
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn k2_nothing_changes_in_a_disabled_or_deleted_bundle() {
    let house = House::new();
    let bundle = house.bundle("b");
    let at = tool(bundle, "a", "1");
    house.expect(201, &format!("PUT {at}"), absent());
    let close = [
        ("PATCH", json!({"isEnabled": false})),
        ("DELETE", Value::Null),
    ];
    for (verb, body) in close {
        house.ask(&format!("{verb} /tools/bundles/{bundle}"), body);
        let before = fs::read(house.directory(bundle).join("a@1.json")).unwrap();
        for (line, body) in [
            (format!("PUT {}", tool(bundle, "b", "1")), absent()),
            (format!("PATCH {at}"), json!({"isEnabled": false})),
            (format!("POST {at}/invoke"), json!({})),
        ] {
            let refused = house.expect(409, &line, body);
            assert_eq!(refused["error"]["code"], "DISABLED", "{verb}: {line}");
        }
        assert_eq!(house.files(bundle), ["a@1.json", "bundle.json"], "{verb}");
        let after = fs::read(house.directory(bundle).join("a@1.json")).unwrap();
        assert_eq!(after, before);
    }
    // That is how a deleted bundle gets empty.
    house.expect(204, &format!("DELETE {at}"), Value::Null);
}

/// `AU-05`: none of these gets anywhere near the disk.
#[test]
fn au_05_slugs_versions_and_ids_that_are_none() {
    let house = House::new();
    let bundle = house.bundle("b");
    let long = "x".repeat(65);
    let slugs = [
        "..", ".", "a_b", "a b", "a/b", "../../x", "-rf", "a\0", "%2e%2e", "a.b", "e\u{301}",
        "\u{212b}", "😀", &long,
    ];
    for slug in slugs {
        let refused = house.expect(400, &format!("PUT {}", tool(bundle, slug, "1")), absent());
        assert_eq!(refused["error"]["code"], "INVALID_INPUT", "{slug:?}");
        house.expect(
            400,
            &format!("GET {}", tool(bundle, slug, "1")),
            Value::Null,
        );
        house.expect(
            400,
            &format!("PUT /tools/bundles/{}", Uuid::now_v7()),
            json!({"slug": slug}),
        );
    }
    for version in ["..", ".", "1/2", "1_2", "../x", "a b", "\u{212b}", &long] {
        house.expect(
            400,
            &format!("PUT {}", tool(bundle, "a", version)),
            absent(),
        );
    }
    for id in [
        "x",
        "..%2f..",
        "018faf50b7b67a019a05a22a6e0af101",
        "00000000-0000-0000-0000-000000000000",
        &Uuid::new_v4().to_string(),
        "urn:uuid:018faf50-b7b6-7a01-9a05-a22a6e0af101",
    ] {
        house.expect(
            400,
            &format!("PUT /tools/bundles/{id}"),
            json!({"slug": "a"}),
        );
        house.expect(
            400,
            &format!("PUT /tools/bundles/{id}/tools/a/version/1"),
            absent(),
        );
    }
    assert_eq!(house.files(bundle), ["bundle.json"]);
    // And these are.
    for (slug, version) in [
        ("天气", "1.2.3"),
        ("Ärger", "v-1"),
        (&"ü".repeat(64), &*"天".repeat(64)),
    ] {
        let at = tool(bundle, slug, version);
        let made = house.expect(201, &format!("PUT {at}"), absent());
        assert_eq!(
            (&made["slug"], &made["version"]),
            (&json!(slug), &json!(version))
        );
        assert_eq!(house.expect(200, &format!("GET {at}"), Value::Null), made);
    }
}

#[test]
fn bodies_that_are_none_make_nothing() {
    let house = House::new();
    let bundle = house.bundle("b");
    let at = tool(bundle, "a", "1");
    for (body, pointer) in [
        (json!({}), ""),
        (json!([]), ""),
        (json!({"type": "sql", "impl": {}}), ""),
        (json!({"type": "go"}), ""),
        (json!({"type": "go", "impl": {}}), "/impl"),
        (
            json!({"type": "go", "impl": {"goFunc": "a", "more": 1}}),
            "/impl",
        ),
        (
            json!({"type": "go", "impl": {"goFunc": "a"}, "unknown": 1}),
            "",
        ),
        (
            json!({"type": "go", "impl": {"goFunc": "a"}, "argSchema": {"type": "array"}}),
            "/argSchema",
        ),
        (
            json!({"type": "go", "impl": {"goFunc": "a"}, "argSchema": {"type": "object", "$ref": "http://169.254.169.254/"}}),
            "/argSchema",
        ),
        (
            json!({"type": "go", "impl": {"goFunc": "a"}, "tags": ["a,b"]}),
            "/tags/0",
        ),
        (
            json!({"type": "go", "impl": {"goFunc": "a"}, "displayName": "x".repeat(300)}),
            "/displayName",
        ),
    ] {
        let refused = house.expect(400, &format!("PUT {at}"), body.clone());
        assert_eq!(refused["error"]["code"], "INVALID_INPUT", "{body}");
        let told = refused["error"]["details"]["violations"][0]["pointer"].as_str();
        assert!(
            told.unwrap_or_default().starts_with(pointer),
            "{body}: {refused}"
        );
    }
    for text in [
        "",
        "{",
        "{\"type\":\"go\",\"type\":\"http\",\"impl\":{}}",
        "\u{0}",
    ] {
        let line = format!("PUT {at}");
        let reply = house
            .served
            .rest_bytes(&line, &house.owner, text.as_bytes());
        assert_eq!(reply.status, 400, "{text:?}: {reply:?}");
    }
    // A page of another origin can send this without asking first.
    let plain = [("Content-Type", "text/plain")];
    let reply = house
        .served
        .rest(&format!("PUT {at}"), &house.owner, &plain, &absent());
    assert_eq!(reply.status, 400, "{reply:?}");
    assert_eq!(house.files(bundle), ["bundle.json"]);
}

#[test]
fn there_are_only_so_many_tools() {
    let house = House::with(crate::support::Scene::new(), "bundles: {most_tools: 2}\n");
    let bundle = house.bundle("b");
    for slug in ["a", "b"] {
        house.expect(201, &format!("PUT {}", tool(bundle, slug, "1")), absent());
    }
    house.expect(429, &format!("PUT {}", tool(bundle, "c", "1")), absent());
    assert_eq!(house.files(bundle).len(), 3);
}
