//! One index, and the same answer on every surface.

use serde_json::{Value, json};

use super::{House, tool};
use crate::support::{Scene, json as read};
use crate::upstream::Upstream;

#[test]
fn k4_every_surface_finds_the_same() {
    let upstream = Upstream::start();
    let config = format!(
        "bundles: {{allowed_hosts: ['127.0.0.1:{}']}}\n",
        upstream.port()
    );
    let house = House::with(Scene::new(), &config);
    let bundle = house.bundle("post");
    let how = json!({"urlTemplate": format!("{}/echo", upstream.origin())});
    for (slug, title, description) in [
        ("mail", "Mail", "of mail"),
        ("mailer", "M", "x"),
        ("post", "Post", "sends mail"),
        ("weather", "Weather report", "of a city"),
    ] {
        let body =
            json!({"type": "http", "impl": how, "displayName": title, "description": description});
        house.expect(201, &format!("PUT {}", tool(bundle, slug, "1")), body);
    }
    house.expect(
        200,
        &format!("PATCH {}", tool(bundle, "post", "1")),
        json!({"isEnabled": false}),
    );
    let over_rest = |query: &str| -> Vec<String> {
        let page = house.expect(200, &format!("GET /tools/search?q={query}"), Value::Null);
        let tools = page["tools"].as_array().unwrap();
        tools
            .iter()
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect()
    };
    for (query, expected) in [
        ("mail", vec!["post.mail.1", "post.mailer.1"]),
        ("wether", vec!["post.weather.1"]),
        ("WEATHER%20rep", vec!["post.weather.1"]),
        ("nothing", vec![]),
    ] {
        assert_eq!(over_rest(query), expected, "{query}");
        // A command reads all files anew, so its index is a cold one.
        let words = query.replace("%20", " ");
        let found = read(&house.scene.glee(&["search", &words, "--json"]));
        let found: Vec<&str> = found
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["name"].as_str().unwrap())
            .collect();
        assert_eq!(found, expected, "{query}");
        let args =
            json!({"name": "glee_tools_search", "arguments": {"query": words, "max_tokens": 50}});
        let reply = house.served.call(1, "tools/call", args);
        for name in &expected {
            let shown = name.replace('.', "_");
            assert!(
                reply.body.contains(&shown) || expected[0] != *name,
                "{query}: {reply:?}"
            );
        }
    }
    assert_eq!(
        over_rest("mail&includeDisabled=true"),
        ["post.mail.1", "post.mailer.1", "post.post.1"]
    );
}
