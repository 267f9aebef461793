//! What a bundle is held to, whatever else is wrong on disk, and what nobody can take from it.

use std::fs;
use std::os::unix::fs::symlink;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uuid::Uuid;

use super::{House, absent, tool};
use crate::mcp::server::eventually;

fn at(bundle: Uuid) -> String {
    format!("/tools/bundles/{bundle}")
}

/// What is switched off is off, also when nothing can be read anew.
#[test]
fn a_switch_holds_when_nothing_else_can_be_read() {
    let house = House::new();
    let (off, gone) = (house.bundle("off"), house.bundle("gone"));
    for bundle in [off, gone] {
        house.expect(201, &format!("PUT {}", tool(bundle, "a", "1")), absent());
    }
    fs::write(house.scene.root.join(".glee/reviews"), "no directory").unwrap();
    let patched = house.expect(
        200,
        &format!("PATCH {}", at(off)),
        json!({"isEnabled": false}),
    );
    assert_eq!(patched["isEnabled"], false);
    house.expect(204, &format!("DELETE {}", at(gone)), Value::Null);
    for (bundle, word) in [(off, "disabled"), (gone, "deleted")] {
        let shown = house.ask(&format!("GET {}", tool(bundle, "a", "1")), Value::Null);
        assert!(shown.body.contains(word), "{word}: {shown:?}");
    }
    let made = Uuid::now_v7();
    let body = house.expect(201, &format!("PUT {}", at(made)), json!({"slug": "new"}));
    assert_eq!(body["slug"], "new");
    assert!(
        house.served.said().contains("reviews"),
        "{}",
        house.served.said()
    );
}

/// Small on the way, and too large to be read once it is kept.
#[test]
fn a_tool_that_could_not_be_read_again_is_refused() {
    let house = House::new();
    let bundle = house.bundle("b");
    let mut large = absent();
    large["argSchema"] = json!({"type": "object", "examples": vec![1; 150_000]});
    house.expect(400, &format!("PUT {}", tool(bundle, "a", "1")), large);
    assert_eq!(house.files(bundle), ["bundle.json"]);
}

/// Names begin with slugs, and rules hold by names.
#[test]
fn no_slug_is_taken_over() {
    let house = House::new();
    let old = house.bundle("shop");
    let made = house.expect(201, &format!("PUT {}", tool(old, "a", "1")), absent());
    assert_eq!(made["name"], "shop.a.1");
    let smaller: Uuid = "00000000-0000-7000-8000-000000000001".parse().unwrap();
    let refused = house.expect(
        409,
        &format!("PUT {}", at(smaller)),
        json!({"slug": "shop"}),
    );
    assert_eq!(refused["error"]["code"], "CONFLICT");
    assert!(!house.directory(smaller).exists());
    // Neither by a change, nor while it can be had back.
    let other = house.bundle("other");
    house.expect(409, &format!("PUT {}", at(other)), json!({"slug": "shop"}));
    house.expect(409, &format!("PUT {}", at(old)), json!({"slug": "store"}));
    house.expect(204, &format!("DELETE {}", at(other)), Value::Null);
    let third = house.bundle("free");
    house.expect(409, &format!("PUT {}", at(third)), json!({"slug": "other"}));
    house.expect(200, &format!("PUT {}", at(other)), json!({"slug": "other"}));
    for slug in ["project", "program", "core"] {
        house.expect(
            409,
            &format!("PUT {}", at(Uuid::now_v7())),
            json!({"slug": slug}),
        );
    }
    // One that somebody put on disk with a smaller id is the newer one all the same.
    let text = fs::read_to_string(house.directory(third).join("bundle.json")).unwrap();
    let text = text
        .replace(&third.to_string(), &smaller.to_string())
        .replace("\"free\"", "\"shop\"");
    fs::create_dir(house.directory(smaller)).unwrap();
    fs::write(house.directory(smaller).join("bundle.json"), text).unwrap();
    eventually("it is seen", || {
        house
            .expect(200, "GET /tools/bundles", Value::Null)
            .to_string()
            .contains(&smaller.to_string())
    });
    let made = house.expect(201, &format!("PUT {}", tool(smaller, "a", "1")), absent());
    assert!(
        made["name"].as_str().unwrap().starts_with("shop~"),
        "{made}"
    );
    let kept = house.expect(200, &format!("GET {}", tool(old, "a", "1")), Value::Null);
    assert_eq!(kept["name"], "shop.a.1");
}

#[test]
fn nothing_is_written_through_a_link() {
    let house = House::new();
    house.bundle("b");
    let outside = tempfile::tempdir().unwrap();
    let id = Uuid::now_v7();
    symlink(outside.path(), house.directory(id)).unwrap();
    house.expect(409, &format!("PUT {}", at(id)), json!({"slug": "out"}));
    let text = fs::read_to_string(house.directory(house.bundle("c")).join("bundle.json")).unwrap();
    let said: Value = serde_json::from_str(&text).unwrap();
    let text = text.replace(said["bundleID"].as_str().unwrap(), &id.to_string());
    fs::write(outside.path().join("bundle.json"), &text).unwrap();
    house.expect(409, &format!("PUT {}", tool(id, "a", "1")), absent());
    house.expect(409, &format!("DELETE {}", at(id)), Value::Null);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(
        fs::read_to_string(outside.path().join("bundle.json")).unwrap(),
        text
    );
}

/// Those who wait for another process do not wait for each other as well.
#[test]
fn waits_do_not_add_up() {
    let house = House::new();
    let bundle = house.bundle("b");
    let lock = fs::File::open(house.scene.root.join(".glee/bundles/.lock")).unwrap();
    lock.lock().unwrap();
    let began = Instant::now();
    thread::scope(|scope| {
        for slug in ["a", "b", "c", "d"] {
            let house = &house;
            scope.spawn(move || {
                house.expect(503, &format!("PUT {}", tool(bundle, slug, "1")), absent())
            });
        }
    });
    assert!(
        began.elapsed() < Duration::from_secs(9),
        "{:?}",
        began.elapsed()
    );
}

#[test]
fn what_was_got_can_be_put_back() {
    let house = House::new();
    let bundle = house.bundle("b");
    let path = tool(bundle, "a", "1");
    house.expect(201, &format!("PUT {path}"), absent());
    let got = house.expect(200, &format!("GET {path}"), Value::Null);
    house.expect(204, &format!("DELETE {path}"), Value::Null);
    house.expect(201, &format!("PUT {path}"), got);
    let list = house.expect(200, "GET /tools/bundles", Value::Null);
    let all = list["bundles"].as_array().unwrap();
    let got = all.iter().find(|it| it["slug"] == "b").unwrap().clone();
    house.expect(200, &format!("PUT {}", at(bundle)), got.clone());
    house.expect(400, &format!("PUT {}", at(Uuid::now_v7())), got);
    house.expect(
        400,
        &format!("PUT {}", at(bundle)),
        json!({"slug": "b", "nmae": 1}),
    );
}

#[test]
fn documents_of_others_and_of_later_are_read() {
    let house = House::new();
    let bundle = house.bundle("b");
    for (slug, said, status) in [
        ("own", r#""schemaVersion": "1", "isBuiltIn": false"#, 200),
        ("later", r#""schemaVersion": "1.1", "new": 1"#, 409),
    ] {
        let path = tool(bundle, slug, "1");
        house.expect(201, &format!("PUT {path}"), absent());
        let file = house.directory(bundle).join(format!("{slug}@1.json"));
        let text = fs::read_to_string(&file).unwrap();
        fs::write(&file, text.replace(r#""schemaVersion": "1""#, said)).unwrap();
        house.expect(
            status,
            &format!("PATCH {path}"),
            json!({"isEnabled": false}),
        );
        let version = if status == 200 { "1" } else { "1.1" };
        eventually("it is read, whoever wrote it", || {
            // It may also be read while it is being written.
            let told = house.ask(&format!("GET {path}"), Value::Null);
            told.status == 200 && super::said(&told)["schemaVersion"] == version
        });
    }
}

/// A body is JSON with holes for values, or it is text.
#[test]
fn bodies_that_are_neither_json_nor_text() {
    let house = House::new();
    let bundle = house.bundle("b");
    for body in [r#"{"${k}": 1}"#, r#"{${k}: 1}"#, r#"{"a": "${k}""#, "[${k}"] {
        let put = json!({"type": "http",
            "argSchema": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}},
            "impl": {"method": "POST", "urlTemplate": "https://example.com/", "bodyTemplate": body}});
        let refused = house.expect(400, &format!("PUT {}", tool(bundle, "a", "1")), put);
        assert!(
            refused.to_string().contains("bodyTemplate"),
            "{body}: {refused}"
        );
    }
}

/// Times that nobody's clock shows, in files that somebody edited.
#[test]
fn pages_of_a_search_go_on_before_1970_and_after_2554() {
    let house = House::new();
    let bundle = house.bundle("b");
    let slugs = ["one", "two", "three"];
    for (slug, year) in slugs.iter().zip(["1960", "2600", "2700"]) {
        house.expect(201, &format!("PUT {}", tool(bundle, slug, "1")), absent());
        let file = house.directory(bundle).join(format!("{slug}@1.json"));
        let mut kept: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        kept["modifiedAt"] = format!("{year}-01-01T00:00:00Z").into();
        fs::write(&file, kept.to_string()).unwrap();
    }
    eventually("the edits are seen", || {
        let all = house
            .expect(200, "GET /tools?includeDisabled=true", Value::Null)
            .to_string();
        ["1960-", "2600-", "2700-"]
            .iter()
            .all(|it| all.contains(it))
    });
    let mut found = Vec::new();
    let mut more = String::new();
    for _ in slugs {
        let line = format!("GET /tools/search?q=absent&includeDisabled=true&pageSize=1{more}");
        let page = house.expect(200, &line, Value::Null);
        found.extend(
            page["tools"]
                .as_array()
                .unwrap()
                .iter()
                .map(|it| it["slug"].as_str().unwrap().to_owned()),
        );
        more = format!(
            "&pageToken={}",
            page["nextPageToken"].as_str().unwrap_or_default()
        );
    }
    found.sort();
    assert_eq!(found, ["one", "three", "two"]);
}
