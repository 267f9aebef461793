//! Long lists come in pages: all of it, each once, whatever happens meanwhile.

use serde_json::{Value, json};

use super::{House, absent, tool};

#[test]
fn k1_pages_neither_skip_nor_repeat() {
    let house = House::new();
    let bundle = house.bundle("b");
    for at in 0..23 {
        let mut body = absent();
        body["tags"] = json!([if at % 2 == 0 { "even" } else { "odd" }, "all"]);
        house.expect(
            201,
            &format!("PUT {}", tool(bundle, &format!("t{at:02}"), "1")),
            body,
        );
    }
    for (list, size) in [
        ("/tools?tags=all&", "recommendedPageSize"),
        ("/tools/tools?", "recommendedPageSize"),
        ("/tools/search?q=absent&", "pageSize"),
        ("/tools/tools/search?q=absent&", "pageSize"),
    ] {
        let list = format!("{list}includeDisabled=true&{size}=5");
        let mut seen: Vec<String> = Vec::new();
        let mut token = String::new();
        for round in 0.. {
            let more = if token.is_empty() {
                String::new()
            } else {
                format!("&pageToken={token}")
            };
            let page = house.expect(200, &format!("GET {list}{more}"), Value::Null);
            let tools = page["tools"].as_array().unwrap();
            assert!(tools.len() <= 5);
            seen.extend(
                tools
                    .iter()
                    .map(|it| it["slug"].as_str().unwrap().to_owned()),
            );
            // What comes and goes meanwhile moves nobody else.
            let extra = tool(bundle, "t00-extra", "1");
            match round % 2 {
                0 => house.expect(201, &format!("PUT {extra}"), absent()),
                _ => house.expect(204, &format!("DELETE {extra}"), Value::Null),
            };
            match page["nextPageToken"].as_str() {
                Some(next) => token = next.to_owned(),
                None => {
                    let _ = house.ask(&format!("DELETE {extra}"), Value::Null);
                    break;
                }
            }
        }
        seen.retain(|it| it != "t00-extra");
        let whole = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!((whole, seen.len()), (23, 23), "{list}");
    }
    let odd = house.expect(
        200,
        "GET /tools?tags=odd,all&includeDisabled=true",
        Value::Null,
    );
    assert_eq!(odd["tools"].as_array().unwrap().len(), 11);
    let none = house.expect(
        200,
        "GET /tools?tags=odd&tags=even&includeDisabled=true",
        Value::Null,
    );
    assert_eq!(none, json!({"tools": []}));
}

#[test]
fn au_07_tokens_and_sizes_that_are_none() {
    let house = House::new();
    let bundle = house.bundle("b");
    house.bundle("c");
    for slug in ["a", "b", "c"] {
        house.expect(201, &format!("PUT {}", tool(bundle, slug, "1")), absent());
    }
    let page = house.expect(
        200,
        "GET /tools?includeDisabled=true&recommendedPageSize=1",
        Value::Null,
    );
    let token = page["nextPageToken"].as_str().unwrap().to_owned();
    let flipped = format!(
        "{}{}",
        if token.starts_with('A') { 'B' } else { 'A' },
        &token[1..]
    );
    house.expect(
        200,
        &format!("GET /tools/tools?includeDisabled=true&recommendedPageSize=2&pageToken={token}"),
        Value::Null,
    );
    for line in [
        format!("/tools?includeDisabled=true&pageToken={flipped}"),
        // Another list's.
        format!("/tools?pageToken={token}"),
        format!("/tools?includeDisabled=true&tags=x&pageToken={token}"),
        format!("/tools?includeDisabled=true&bundleIDs={bundle}&pageToken={token}"),
        format!("/tools/bundles?pageToken={token}"),
        format!("/tools/search?q=a&pageToken={token}"),
        "/tools?pageToken=%00".to_owned(),
        "/tools?pageToken=".to_owned(),
        "/tools?recommendedPageSize=0".to_owned(),
        "/tools?recommendedPageSize=-1".to_owned(),
        "/tools?recommendedPageSize=x".to_owned(),
        "/tools/bundles?pageSize=1.5".to_owned(),
        "/tools?includeDisabled=yes".to_owned(),
        "/tools?bundleIDs=x".to_owned(),
        "/tools?unknown=1".to_owned(),
        "/tools?pageToken=a&pageToken=b".to_owned(),
        "/tools/search".to_owned(),
        "/tools/search?q=".to_owned(),
        format!("/tools/search?q={}", "x".repeat(1001)),
    ] {
        let refused = house.expect(400, &format!("GET {line}"), Value::Null);
        assert_eq!(refused["error"]["code"], "INVALID_INPUT", "{line}");
    }
    house.expect(
        200,
        "GET /tools?recommendedPageSize=99999999999999999999999",
        Value::Null,
    );
    let page = house.expect(200, "GET /tools/bundles?pageSize=1", Value::Null);
    let next = page["nextPageToken"].as_str().unwrap();
    let rest = house.expect(
        200,
        &format!("GET /tools/bundles?pageToken={next}"),
        Value::Null,
    );
    assert_ne!(
        rest["bundles"][0]["bundleID"],
        page["bundles"][0]["bundleID"]
    );
}
