//! The API against its own document: schemathesis makes requests of it, good and bad, and holds the answers to
//! it. No server error, and nothing that the document does not tell of.

use std::process::Command;

use serde_json::json;

use super::{House, tool};
use crate::mcp::clients::installed;
use crate::support::{Scene, long, stdout};
use crate::upstream::Upstream;

/// It knows no archives, and sends any bytes as one. And not all that is good can be told by a schema: a token is
/// one that the server gave, a slug is written in composed letters, a number is not rounded when it is read.
const HOOKS: &str = "\
import unicodedata
import schemathesis
from schemathesis.transport.serialization import Binary


@schemathesis.serializer('application/zip')
def archive(_, value):
    return value.data if isinstance(value, Binary) else str(value).encode()


def untold(value):
    if isinstance(value, dict):
        return {untold(key): untold(it) for key, it in value.items()}
    if isinstance(value, list):
        return [untold(it) for it in value]
    if isinstance(value, str):
        return unicodedata.normalize('NFC', value)
    if isinstance(value, int) and abs(value) >= 2**53:
        return 2**53 - 1
    return value


@schemathesis.hook
def before_call(_, case, kwargs):
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    (case.query or {}).pop('pageToken', None)
    body = untold(case.body)
    if body != case.body:
        case.body = body
";

/// What can be told of none of what these take: how a tool may run (its own schema, the hosts of the config), an
/// archive, and a message in the words of any provider.
const OFF: &str = "\
[[operations]]
include-operation-id = ['putTool', 'importBundles', 'callTools']

[operations.checks]
positive_data_acceptance.enabled = false
";

#[test]
fn the_api_is_what_its_document_says() {
    let upstream = Upstream::start();
    let config = format!(
        "bundles: {{allowed_hosts: ['127.0.0.1:{}']}}\n",
        upstream.port()
    );
    let house = House::with(Scene::new(), &config);
    let bundle = house.bundle("b");
    let body = json!({"type": "http", "argSchema": {"type": "object"}, "impl": {"urlTemplate": format!("{}/echo", upstream.origin())}});
    house.expect(201, &format!("PUT {}", tool(bundle, "t", "1")), body);
    // Once wherever it likes, and once where something is.
    let here = format!(
        "[parameters]\n\"path.bundleID\" = \"{bundle}\"\n\"path.toolSlug\" = \"t\"\n\"path.version\" = \"1\"\n{OFF}"
    );
    let hooks = house.scene.write("hooks.py", HOOKS);
    for (name, config) in [("anywhere.toml", OFF), ("here.toml", here.as_str())] {
        let config = house.scene.write(name, config);
        let examples = long(4, 100).to_string();
        let output = Command::new(installed("api/bin/schemathesis"))
            .args(["--config-file", config.to_str().unwrap(), "run"])
            .arg(format!("http://{}/openapi.json", house.served.address))
            .args([
                "--header",
                &format!("Authorization: Bearer {}", house.owner),
            ])
            // Events never end.
            .args(["--exclude-path", "/approvals/events"])
            .args(["--workers", "1", "--seed", "1", "--max-examples", &examples])
            .args(["--request-timeout", "60", "--no-color"])
            .env("SCHEMATHESIS_HOOKS", &hooks)
            .current_dir(house.scene.root.parent().unwrap())
            .output()
            .unwrap();
        let told = stdout(&output);
        assert!(output.status.success(), "{told}");
        assert!(
            told.contains("Coverage") && told.contains("Fuzzing"),
            "{told}"
        );
    }
}
