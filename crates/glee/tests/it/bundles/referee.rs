//! The API against its own document: schemathesis makes requests of it, good and bad, and holds the answers to
//! it. No server error, and nothing that the document does not tell of.

use std::process::Command;

use serde_json::json;

use super::{House, tool};
use crate::mcp::clients::installed;
use crate::support::{Scene, long, stdout};
use crate::upstream::Upstream;

const HOOKS: &str = "\
import schemathesis
from schemathesis.transport.serialization import Binary


@schemathesis.serializer('application/zip')
def archive(_, value):
    return value.data if isinstance(value, Binary) else str(value).encode()
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
    let body =
        json!({"type": "http", "impl": {"urlTemplate": format!("{}/echo", upstream.origin())}});
    house.expect(201, &format!("PUT {}", tool(bundle, "t", "1")), body);
    // Once wherever it likes, and once where something is.
    let here = format!(
        "[parameters]\n\"path.bundleID\" = \"{bundle}\"\n\"path.toolSlug\" = \"t\"\n\"path.version\" = \"1\"\n"
    );
    // It knows no archives, and sends any bytes as one.
    let hooks = house.scene.write("hooks.py", HOOKS);
    for (name, config) in [("anywhere.toml", ""), ("here.toml", here.as_str())] {
        let config = house.scene.write(name, config);
        let examples = long(4, 100).to_string();
        let output = Command::new(installed("api/bin/schemathesis"))
            .args(["--config-file", config.to_str().unwrap(), "run"])
            .arg(format!("http://{}/openapi.json", house.served.address))
            .args([
                "--header",
                &format!("Authorization: Bearer {}", house.owner),
            ])
            // Events never end. And not all that is good can be told by a schema: the letters of a slug in
            // their composed form, the hosts of the config.
            .args(["--exclude-path", "/approvals/events"])
            .args(["--exclude-checks", "positive_data_acceptance"])
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
