//! Every verb and path of the API.

use serde_json::{Value, json};
use uuid::Uuid;

use super::{House, absent, said, tool};
use crate::mcp::server::{eventually, scene};

#[test]
fn the_life_of_a_bundle() {
    let house = House::new();
    let id = Uuid::now_v7();
    let at = format!("/tools/bundles/{id}");
    let body = json!({"slug": "weather", "displayName": "Weather", "description": "All of it", "isEnabled": true});
    let made = house.expect(201, &format!("PUT {at}"), body.clone());
    assert_eq!(made["bundleID"], id.to_string());
    assert_eq!(
        (&made["slug"], &made["isBuiltIn"]),
        (&json!("weather"), &json!(false))
    );
    assert_eq!(made["createdAt"], made["modifiedAt"]);

    let same = house.expect(200, &format!("PUT {at}"), body);
    assert_eq!(same, made);
    let other = house.expect(
        200,
        &format!("PUT {at}"),
        json!({"slug": "weather", "displayName": "W"}),
    );
    assert_eq!(other["createdAt"], made["createdAt"]);
    assert!(other["modifiedAt"].as_str() >= made["modifiedAt"].as_str());

    // A switch is no change of what it is.
    let off = house.expect(200, &format!("PATCH {at}"), json!({"isEnabled": false}));
    assert_eq!(
        (&off["isEnabled"], &off["modifiedAt"]),
        (&json!(false), &other["modifiedAt"])
    );
    let listed = |query: &str| {
        let list = house.expect(
            200,
            &format!("GET /tools/bundles?bundleIDs={id}{query}"),
            Value::Null,
        );
        list["bundles"].as_array().unwrap().clone()
    };
    assert!(listed("").is_empty());
    assert_eq!(listed("&includeDisabled=true"), [off]);
    house.expect(200, &format!("PATCH {at}"), json!({"isEnabled": true}));
    assert_eq!(listed("").len(), 1);

    house.expect(204, &format!("DELETE {at}"), Value::Null);
    assert!(listed("").is_empty());
    let gone = &listed("&includeDisabled=true")[0];
    assert!(gone["softDeletedAt"].is_string(), "{gone}");
    house.expect(409, &format!("PATCH {at}"), json!({"isEnabled": true}));
    let back = house.expect(200, &format!("PUT {at}"), json!({"slug": "weather"}));
    assert_eq!(
        (&back["softDeletedAt"], &back["createdAt"]),
        (&Value::Null, &made["createdAt"])
    );

    for (verb, body) in [
        ("PATCH", json!({"isEnabled": true})),
        ("DELETE", Value::Null),
    ] {
        house.expect(
            404,
            &format!("{verb} /tools/bundles/{}", Uuid::now_v7()),
            body,
        );
    }
}

#[test]
fn the_life_of_a_tool() {
    let house = House::new();
    let bundle = house.bundle("b");
    let at = tool(bundle, "weather", "v2");
    let made = house.expect(201, &format!("PUT {at}"), absent());
    let id: Uuid = made["toolID"].as_str().unwrap().parse().unwrap();
    assert_eq!(id.get_version_num(), 7);
    assert_eq!(made["bundleID"], bundle.to_string());
    assert_eq!(
        (&made["slug"], &made["version"], &made["type"]),
        (&json!("weather"), &json!("v2"), &json!("go"))
    );
    assert_eq!(house.expect(200, &format!("GET {at}"), Value::Null), made);
    // For people, too.
    let path = house.directory(bundle).join("weather@v2.json");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("\n  \"slug\": \"weather\",\n"), "{text}");

    let off = house.expect(200, &format!("PATCH {at}"), json!({"isEnabled": false}));
    assert_eq!(
        (&off["isEnabled"], &off["modifiedAt"]),
        (&json!(false), &made["modifiedAt"])
    );
    house.expect(204, &format!("DELETE {at}"), Value::Null);
    assert!(!path.exists());
    for (verb, body) in [
        ("GET", Value::Null),
        ("DELETE", Value::Null),
        ("PATCH", json!({"isEnabled": true})),
        ("POST", json!({"args": {}})),
    ] {
        let at = if verb == "POST" {
            format!("{at}/invoke")
        } else {
            at.clone()
        };
        house.expect(404, &format!("{verb} {at}"), body);
    }
    house.expect(
        404,
        &format!("PUT {}", tool(Uuid::now_v7(), "a", "1")),
        absent(),
    );
}

/// A document that somebody got and sends back says nothing that is not theirs to say.
#[test]
fn au_08_what_is_not_the_clients_to_say() {
    let house = House::new();
    let bundle = house.bundle("b");
    let made = house.expect(201, &format!("PUT {}", tool(bundle, "a", "1")), absent());
    let mut again = made.clone();
    for key in ["name", "disabledReason"] {
        again.as_object_mut().unwrap().shift_remove(key);
    }
    again["isBuiltIn"] = json!(true);
    again["createdAt"] = json!("1990-01-01T00:00:00Z");
    house.expect(
        400,
        &format!("PUT {}", tool(bundle, "a", "2")),
        again.clone(),
    );
    again["version"] = json!("2");
    let other = house.expect(201, &format!("PUT {}", tool(bundle, "a", "2")), again);
    assert_ne!(other["toolID"], made["toolID"]);
    assert_eq!(other["isBuiltIn"], false);
    assert!(other["createdAt"].as_str().unwrap() > "2020");
    for body in [
        json!({"isEnabled": true, "slug": "x"}),
        json!({"isEnabled": "yes"}),
        json!({}),
        json!({"isEnabled": true, "isBuiltIn": true}),
    ] {
        house.expect(
            400,
            &format!("PATCH {}", tool(bundle, "a", "2")),
            body.clone(),
        );
        house.expect(400, &format!("PATCH /tools/bundles/{bundle}"), body);
    }
}

#[test]
fn a_function_that_is_not_there_is_listed_and_left_alone() {
    let house = House::new();
    let bundle = house.bundle("b");
    let at = tool(bundle, "far", "1");
    let made = house.expect(201, &format!("PUT {at}"), absent());
    assert!(
        made["disabledReason"]
            .as_str()
            .unwrap()
            .contains("example.com/tools.Absent")
    );
    let path = house.directory(bundle).join("far@1.json");
    let before = std::fs::read(&path).unwrap();
    let listed = |query: &str| {
        let list = house.expect(
            200,
            &format!("GET /tools?bundleIDs={bundle}{query}"),
            Value::Null,
        );
        list["tools"].as_array().unwrap().len()
    };
    assert_eq!((listed(""), listed("&includeDisabled=true")), (0, 1));
    let refused = house.expect(409, &format!("POST {at}/invoke"), json!({"args": {}}));
    assert_eq!(
        (&refused["ok"], &refused["error"]["code"]),
        (&json!(false), &json!("DISABLED"))
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn what_the_project_has_is_there_too_and_only_its_switch_can_change() {
    let house = House::with(scene(), "");
    let list = house.expect(200, "GET /tools?recommendedPageSize=256", Value::Null);
    let tools = list["tools"].as_array().unwrap();
    let echo = tools.iter().find(|it| it["slug"] == "echo").unwrap();
    assert_eq!(
        (&echo["isBuiltIn"], &echo["version"]),
        (&json!(true), &json!("1"))
    );
    let bundle: Uuid = echo["bundleID"].as_str().unwrap().parse().unwrap();
    assert_eq!(
        (
            bundle.get_version_num(),
            echo["toolID"]
                .as_str()
                .unwrap()
                .parse::<Uuid>()
                .unwrap()
                .get_version_num()
        ),
        (7, 7)
    );
    let at = tool(bundle, "echo", "1");
    let call = || {
        house.ask(
            &format!("POST {at}/invoke"),
            json!({"args": {"text": "hi"}}),
        )
    };
    assert_eq!(said(&call())["value"], "hi");

    // What is given is nobody's to change.
    for (line, body) in [
        (format!("PUT {at}"), absent()),
        (format!("PUT {}", tool(bundle, "new", "1")), absent()),
        (format!("DELETE {at}"), Value::Null),
        (
            format!("PATCH {at}"),
            json!({"isEnabled": false, "slug": "x"}),
        ),
        (format!("PUT /tools/bundles/{bundle}"), json!({"slug": "x"})),
        (
            format!("PATCH /tools/bundles/{bundle}"),
            json!({"slug": "x"}),
        ),
        (format!("DELETE /tools/bundles/{bundle}"), Value::Null),
    ] {
        let refused = house.expect(403, &line, body);
        assert_eq!(refused["error"]["code"], "PERMISSION_DENIED", "{line}");
    }
    assert_eq!(call().status, 200);

    // Its switch is, on every surface, and it stays.
    house.expect(200, &format!("PATCH {at}"), json!({"isEnabled": false}));
    assert_eq!(
        (call().status, said(&call())["error"]["code"].clone()),
        (409, json!("DISABLED"))
    );
    let over_mcp = house.served.call(1, "tools/list", json!({}));
    assert!(!over_mcp.body.contains("\"echo\""), "{over_mcp:?}");
    let run = house
        .scene
        .glee(&["run", "echo", "-p", "text=hi", "--json"]);
    assert_eq!(crate::support::json(&run)["error"]["code"], "DISABLED");
    house.scene.write(".glee/tools/echo/tool.yml", "broken");
    eventually("the manifest is seen to be broken", || {
        house.served.said().contains("echo/tool.yml")
    });
    assert_eq!(call().status, 409);

    house.expect(
        200,
        &format!("PATCH /tools/bundles/{bundle}"),
        json!({"isEnabled": false}),
    );
    let slow = tool(bundle, "sleep", "1");
    house.expect(409, &format!("POST {slow}/invoke"), json!({"args": {}}));
    house.expect(409, &format!("PATCH {slow}"), json!({"isEnabled": false}));
    house.expect(
        200,
        &format!("PATCH /tools/bundles/{bundle}"),
        json!({"isEnabled": true}),
    );
    house.expect(200, &format!("PATCH {slow}"), json!({"isEnabled": false}));
}

/// Each operation asks for its own scope, and nothing happens without it.
#[test]
fn au_06_scopes_are_asked_for() {
    let house = House::with(scene(), "");
    let bundle = house.bundle("b");
    let at = tool(bundle, "a", "1");
    house.expect(201, &format!("PUT {at}"), absent());
    let cases = [
        (
            "read_registry",
            "GET",
            "/tools".to_owned(),
            Value::Null,
            200,
        ),
        (
            "read_registry",
            "GET",
            "/tools/tools".to_owned(),
            Value::Null,
            200,
        ),
        (
            "read_registry",
            "GET",
            "/tools/search?q=a".to_owned(),
            Value::Null,
            200,
        ),
        (
            "read_registry",
            "GET",
            "/tools/tools/search?q=a".to_owned(),
            Value::Null,
            200,
        ),
        (
            "read_registry",
            "GET",
            "/tools/bundles".to_owned(),
            Value::Null,
            200,
        ),
        ("read_registry", "GET", at.clone(), Value::Null, 200),
        (
            "invoke_tool",
            "POST",
            format!("{at}/invoke"),
            json!({}),
            409,
        ),
        (
            "write_registry",
            "PATCH",
            at.clone(),
            json!({"isEnabled": false}),
            200,
        ),
        (
            "write_registry",
            "PUT",
            tool(bundle, "b", "1"),
            absent(),
            201,
        ),
        (
            "write_registry",
            "PUT",
            format!("/tools/bundles/{bundle}"),
            json!({"slug": "b"}),
            200,
        ),
        (
            "write_registry",
            "PATCH",
            format!("/tools/bundles/{bundle}"),
            json!({"isEnabled": true}),
            200,
        ),
        ("write_registry", "DELETE", at.clone(), Value::Null, 204),
        (
            "write_registry",
            "DELETE",
            format!("/tools/bundles/{bundle}"),
            Value::Null,
            204,
        ),
    ];
    let scopes = ["read_registry", "invoke_tool", "write_registry", "approve"];
    let tokens = scopes.map(|it| house.token(it, &[it]));
    for (needed, verb, path, body, status) in cases {
        let before = house.files(bundle);
        let line = format!("{verb} {path}");
        for (scope, token) in scopes.iter().zip(&tokens).filter(|it| *it.0 != needed) {
            let reply = house.served.rest(&line, token, &[], &body);
            assert_eq!(reply.status, 403, "{line} with {scope}: {reply:?}");
            assert_eq!(said(&reply)["error"]["details"]["scope"], needed);
        }
        assert_eq!(house.files(bundle), before, "{line}");
        let token = &tokens[scopes.iter().position(|it| *it == needed).unwrap()];
        let reply = house.served.rest(&line, token, &[], &body);
        assert_eq!(reply.status, status, "{line}: {reply:?}");
        let reply = house.served.rest(&line, "wrong", &[], &body);
        assert_eq!(reply.status, 401, "{line}: {reply:?}");
    }
}

#[test]
fn changes_are_recorded_with_who_made_them() {
    let house = House::new();
    let bundle = house.bundle("b");
    let editor = house.token("editor", &["write_registry"]);
    let at = tool(bundle, "a", "1");
    let reply = house
        .served
        .rest(&format!("PUT {at}"), &editor, &[], &absent());
    assert_eq!(reply.status, 201, "{reply:?}");
    let log = std::fs::read_to_string(house.scene.root.join(".glee/audit/tools.log")).unwrap();
    let line = log.lines().last().unwrap();
    assert!(
        line.contains("REGISTRY_CHANGED name=a change=\"put tool "),
        "{line}"
    );
    assert!(line.contains("by=editor"), "{line}");
}

/// A client that wants events hears what the tool tells, and then what became of the call.
#[test]
fn a_call_can_be_listened_to() {
    let house = House::with(scene(), "");
    let list = house.expect(200, "GET /tools?recommendedPageSize=256", Value::Null);
    let tools = list["tools"].as_array().unwrap();
    let note = tools.iter().find(|it| it["slug"] == "note").unwrap();
    let bundle = note["bundleID"].as_str().unwrap().parse().unwrap();
    let line = format!("POST {}/invoke", tool(bundle, "note", "1"));
    let accept = [("Accept", "text/event-stream")];
    let reply = house.served.rest(&line, &house.owner, &accept, &json!({}));
    assert_eq!(reply.header("content-type"), Some("text/event-stream"));
    let events: Vec<(&str, Value)> = reply
        .body
        .split("\n\n")
        .filter_map(|it| {
            let name = it.lines().find_map(|it| it.strip_prefix("event: "))?;
            let data = it.lines().find_map(|it| it.strip_prefix("data: "))?;
            Some((name, serde_json::from_str(data).unwrap()))
        })
        .collect();
    assert_eq!(events.len(), 2, "{reply:?}");
    assert_eq!(
        events[0],
        (
            "progress",
            json!({"progress": 1.0, "total": 2.0, "message": "half"})
        )
    );
    assert_eq!((events[1].0, &events[1].1["ok"]), ("result", &json!(true)));
    let reply = house
        .served
        .rest(&line, &house.owner, &accept, &json!({"args": {"x": 1}}));
    assert!(reply.body.contains("INVALID_INPUT"), "{reply:?}");
}

/// Whoever goes takes the call along.
#[test]
fn a_call_ends_with_its_client() {
    let house = House::with(scene(), "");
    let list = house.expect(200, "GET /tools?recommendedPageSize=256", Value::Null);
    let bundle = list["tools"][0]["bundleID"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let line = format!("POST {}/invoke", tool(bundle, "sleep", "1"));
    for accept in ["application/json", "text/event-stream"] {
        let word = crate::mcp::server::unique();
        let body = json!({"args": {"seconds": word}});
        let stream = house
            .served
            .rest_stream(&line, &house.owner, &[("Accept", accept)], &body);
        eventually("it runs", || crate::mcp::server::running(&word));
        drop(stream);
        eventually("it is stopped", || !crate::mcp::server::running(&word));
    }
}

#[test]
fn health_and_the_document_need_no_token() {
    let house = House::new();
    for path in ["/healthz", "/readyz", "/openapi.json", "/docs"] {
        let reply = house
            .served
            .rest(&format!("GET {path}"), "", &[], &Value::Null);
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        let foreign = [("Host", "evil.example")];
        let reply = house
            .served
            .rest(&format!("GET {path}"), "", &foreign, &Value::Null);
        assert_eq!(reply.status, 403, "{path}: {reply:?}");
    }
    let page = house.served.rest("GET /docs", "", &[], &Value::Null);
    assert!(page.body.contains("<h2 id=\"putTool\">") && !page.body.contains("<script"));
    house.scene.write(".glee/config.yml", "nonsense: [");
    house.expect(503, "GET /readyz", Value::Null);
    house.expect(200, "GET /healthz", Value::Null);
}

/// Every call of every process is counted, and a restart forgets none.
#[test]
fn k5_calls_are_counted() {
    let House {
        scene,
        served,
        owner,
    } = House::with(scene(), "");
    let list = served.rest("GET /tools/search?q=echo", &owner, &[], &Value::Null);
    let echo = said(&list)["tools"][0].clone();
    assert_eq!(
        (&echo["slug"], &echo["usage"]),
        (&json!("echo"), &Value::Null)
    );
    let at = tool(
        echo["bundleID"].as_str().unwrap().parse().unwrap(),
        "echo",
        "1",
    );
    for _ in 0..3 {
        let reply = served.rest(
            &format!("POST {at}/invoke"),
            &owner,
            &[],
            &json!({"args": {"text": "x"}}),
        );
        assert_eq!(reply.status, 200, "{reply:?}");
    }
    // What did not run is not counted.
    served.rest(
        &format!("POST {at}/invoke"),
        &owner,
        &[],
        &json!({"args": {"text": 1}}),
    );
    crate::mcp::server::glee(&scene, &["run", "echo", "-p", "text=x"]);
    let counted = |served: &crate::mcp::server::Served| {
        said(&served.rest(&format!("GET {at}"), &owner, &[], &Value::Null))["usage"].clone()
    };
    let usage = counted(&served);
    assert_eq!(
        (&usage["callCount"], &usage["failureCount"]),
        (&json!(4), &json!(0)),
        "{usage}"
    );
    assert!(usage["lastCalledAt"].as_str().unwrap() > "2020", "{usage}");
    drop(served);
    assert_eq!(counted(&crate::mcp::server::Served::guarded(&scene)), usage);
}
