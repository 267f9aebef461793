//! What stands on disk, and what somebody else does to it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::time::{Duration, Instant};

use glee::app::{App, REAP_AFTER};
use glee::dialect::bundle::wire::PutBundle;
use glee_core::port::{Answer, Clock};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;
use uuid::Uuid;

use super::{House, absent, tool, user};
use crate::mcp::server::eventually;
use crate::support::{Scene, wiring};

fn nobody() -> Answer {
    Answer::Nobody {
        hint: String::new(),
    }
}

#[test]
fn k3_what_others_write_is_seen_without_a_restart() {
    let house = House::new();
    let bundle = house.bundle("b");
    let at = tool(bundle, "a", "1");
    house.expect(201, &format!("PUT {at}"), absent());
    // Another process.
    let app = App::open(house.scene.project(), wiring(Default::default(), nobody())).unwrap();
    let other = Uuid::now_v7();
    let put: PutBundle = serde_json::from_value(json!({"slug": "other"})).unwrap();
    app.put_bundle(other, put, &user()).unwrap();
    eventually("the bundle is seen", || {
        let list = house.expect(200, "GET /tools/bundles", Value::Null);
        list.to_string().contains(&other.to_string())
    });
    // An editor.
    let path = house.directory(bundle).join("a@1.json");
    let text = fs::read_to_string(&path)
        .unwrap()
        .replace("Not here", "Somewhere");
    fs::write(&path, text).unwrap();
    eventually("the edit is seen", || {
        house.expect(200, &format!("GET {at}"), Value::Null)["description"] == "Somewhere"
    });
    fs::remove_file(&path).unwrap();
    eventually("the file is seen to be gone", || {
        house.ask(&format!("GET {at}"), Value::Null).status == 404
    });
}

/// `ST-09`: what nothing can be made of is told of, stays as it is, and hides nobody else.
#[test]
fn st_09_strays_are_told_and_left_alone() {
    let house = House::new();
    let bundle = house.bundle("b");
    house.expect(201, &format!("PUT {}", tool(bundle, "good", "1")), absent());
    house.expect(201, &format!("PUT {}", tool(bundle, "torn", "1")), absent());
    let home = house.directory(bundle);
    let whole = fs::read(home.join("torn@1.json")).unwrap();
    let strays: Vec<(&str, Vec<u8>)> = vec![
        ("torn@1.json", whole[..whole.len() / 2].to_vec()),
        ("empty@1.json", Vec::new()),
        ("binary@1.json", vec![0xff, 0, 1]),
        ("foreign.txt", b"hello".to_vec()),
        ("renamed@1.json", whole.clone()),
        (
            "twice@1.json",
            String::from_utf8(whole.clone())
                .unwrap()
                .replacen('{', "{\"slug\": \"x\",", 1)
                .into_bytes(),
        ),
    ];
    for (name, bytes) in &strays {
        fs::write(home.join(name), bytes).unwrap();
    }
    symlink("/etc/passwd", home.join("link@1.json")).unwrap();
    fs::create_dir(home.join("directory@1.json")).unwrap();
    eventually("all strays are told", || {
        let said = house.served.said();
        strays.iter().all(|it| said.contains(it.0))
            && said.contains("link@1.json")
            && said.contains("directory@1.json")
    });
    assert!(!house.served.said().contains("root:"));
    house.expect(
        200,
        &format!("GET {}", tool(bundle, "good", "1")),
        Value::Null,
    );
    // Whoever looks for one is told, and so is whoever looks after the project.
    let told = house.expect(
        409,
        &format!("GET {}", tool(bundle, "torn", "1")),
        Value::Null,
    );
    assert!(told.to_string().contains("cannot be used"), "{told}");
    house.expect(
        404,
        &format!("GET {}", tool(bundle, "none", "1")),
        Value::Null,
    );
    let doctor = house.scene.glee(&["doctor"]);
    let said = crate::support::stdout(&doctor);
    assert!(
        said.contains("torn@1.json") && said.contains("link@1.json"),
        "{said}"
    );
    // Nothing takes their place.
    for slug in [
        "torn",
        "empty",
        "binary",
        "renamed",
        "twice",
        "link",
        "directory",
    ] {
        let refused = house.expect(409, &format!("PUT {}", tool(bundle, slug, "1")), absent());
        assert_eq!(refused["error"]["code"], "CONFLICT", "{slug}");
        let reply = house.ask(&format!("DELETE {}", tool(bundle, slug, "1")), Value::Null);
        assert_eq!(reply.status, 409, "{slug}: {reply:?}");
    }
    for (name, bytes) in &strays {
        assert_eq!(fs::read(home.join(name)).unwrap(), *bytes, "{name}");
    }
    // The bundle's own document too: then nothing in it is used.
    fs::write(home.join("bundle.json"), "{").unwrap();
    eventually("the bundle is not used", || {
        house
            .ask(&format!("GET {}", tool(bundle, "good", "1")), Value::Null)
            .status
            == 409
    });
    house.expect(
        409,
        &format!("PUT /tools/bundles/{bundle}"),
        json!({"slug": "b"}),
    );
    house.expect(409, &format!("PUT {}", tool(bundle, "new", "1")), absent());
    assert_eq!(fs::read(home.join("bundle.json")).unwrap(), b"{");
}

/// Whatever becomes of one byte, the tool is as it was or it is told of; nothing is made up.
#[test]
fn st_09_no_flipped_bit_goes_unnoticed_or_breaks_anything() {
    let scene = Scene::new();
    let app = App::open(scene.project(), wiring(Default::default(), nobody())).unwrap();
    let id = Uuid::now_v7();
    app.put_bundle(
        id,
        serde_json::from_value(json!({"slug": "b"})).unwrap(),
        &user(),
    )
    .unwrap();
    let key = glee_core::bundle::Key {
        bundle: id,
        slug: "a".into(),
        version: "1".into(),
    };
    app.put_tool(&key, serde_json::from_value(absent()).unwrap(), &user())
        .unwrap();
    let path = scene.root.join(format!(".glee/bundles/{id}/a@1.json"));
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        fs::write(&path, &bytes).unwrap();
        app.reload().unwrap();
        let tools = app.tools();
        assert!(
            tools.member(&key).is_some() || tools.strays().count() == 1,
            "{at}"
        );
        assert_eq!(fs::read(&path).unwrap(), bytes, "{at}");
    }
}

/// `DU-05`: what a newer glee has written is shown, and left as it is.
#[test]
fn du_05_newer_documents_are_only_read() {
    let house = House::new();
    let bundle = house.bundle("b");
    let at = tool(bundle, "a", "1");
    house.expect(201, &format!("PUT {at}"), absent());
    let path = house.directory(bundle).join("a@1.json");
    let newer = fs::read_to_string(&path).unwrap().replace(
        "\"schemaVersion\": \"1\"",
        "\"schemaVersion\": \"2\", \"somethingNew\": {}",
    );
    // At once, as glee writes: the server may look at any moment.
    let beside = house.scene.root.join("newer.json");
    fs::write(&beside, &newer).unwrap();
    fs::rename(&beside, &path).unwrap();
    let change = || house.ask(&format!("PATCH {at}"), json!({"isEnabled": false}));
    assert_eq!(change().status, 409, "{:?}", change());
    house.expect(409, &format!("DELETE {at}"), Value::Null);
    house.expect(409, &format!("PUT {at}"), absent());
    eventually("it tells its own version", || {
        house.expect(200, &format!("GET {at}"), Value::Null)["schemaVersion"] == "2"
    });
    assert_eq!(fs::read_to_string(&path).unwrap(), newer);
    let own = house.directory(bundle).join("bundle.json");
    let newer = fs::read_to_string(&own).unwrap().replace(
        "\"schemaVersion\": \"1\"",
        "\"schemaVersion\": \"99\", \"x\": 1",
    );
    fs::write(&own, &newer).unwrap();
    let to_bundle = format!("/tools/bundles/{bundle}");
    house.expect(409, &format!("PUT {to_bundle}"), json!({"slug": "c"}));
    house.expect(
        409,
        &format!("PATCH {to_bundle}"),
        json!({"isEnabled": false}),
    );
    house.expect(409, &format!("DELETE {to_bundle}"), Value::Null);
    house.expect(409, &format!("PUT {}", tool(bundle, "new", "1")), absent());
    assert_eq!(fs::read_to_string(&own).unwrap(), newer);
}

/// `ST-03`: somebody who holds the lock and hangs holds up changes, for a while, and nothing else.
#[test]
fn st_03_a_lock_that_is_held_is_told() {
    let house = House::new();
    let bundle = house.bundle("b");
    let lock = fs::File::open(house.scene.root.join(".glee/bundles/.lock")).unwrap();
    lock.lock().unwrap();
    let began = Instant::now();
    let refused = house.expect(503, &format!("PUT {}", tool(bundle, "a", "1")), absent());
    assert_eq!(
        (&refused["error"]["code"], &refused["error"]["retryable"]),
        (&json!("LOCK_TIMEOUT"), &json!(true))
    );
    assert!(began.elapsed() >= Duration::from_secs(5));
    house.expect(200, "GET /tools", Value::Null);
    drop(lock);
    house.expect(201, &format!("PUT {}", tool(bundle, "a", "1")), absent());
}

#[test]
fn au_13_what_is_kept_is_for_its_owner_only() {
    let house = House::new();
    let bundle = house.bundle("b");
    house.expect(201, &format!("PUT {}", tool(bundle, "a", "1")), absent());
    let home = house.directory(bundle);
    for (path, mode) in [
        (home.parent().unwrap().to_owned(), 0o700),
        (home.clone(), 0o700),
        (home.join("bundle.json"), 0o600),
        (home.join("a@1.json"), 0o600),
    ] {
        let found = path.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(found, mode, "{}", path.display());
    }
}

/// A clock that stands where it is put. It has no other one to be held against.
struct Hands(Mutex<SystemTime>);

impl Clock for Hands {
    fn now(&self) -> SystemTime {
        *self.0.lock().unwrap()
    }
}

#[test]
fn k2_deleted_bundles_are_reaped_when_they_are_empty() {
    let scene = Scene::new();
    let clock = Arc::new(Hands(Mutex::new(SystemTime::now())));
    let app = App::open(
        scene.project(),
        glee::app::Wiring {
            clock: clock.clone(),
            ..wiring(Default::default(), nobody())
        },
    )
    .unwrap();
    let bundle = |slug: &str| {
        let id = Uuid::now_v7();
        app.put_bundle(
            id,
            serde_json::from_value(json!({"slug": slug})).unwrap(),
            &user(),
        )
        .unwrap();
        id
    };
    let (empty, full, foreign, live) = (
        bundle("empty"),
        bundle("full"),
        bundle("foreign"),
        bundle("live"),
    );
    let key = glee_core::bundle::Key {
        bundle: full,
        slug: "a".into(),
        version: "1".into(),
    };
    app.put_tool(&key, serde_json::from_value(absent()).unwrap(), &user())
        .unwrap();
    let home = |id: Uuid| scene.root.join(format!(".glee/bundles/{id}"));
    fs::write(home(foreign).join("notes.txt"), "mine").unwrap();
    for id in [empty, full, foreign] {
        app.delete_bundle(id, &user()).unwrap();
    }
    let at = |later: Duration| *clock.0.lock().unwrap() += later;
    at(REAP_AFTER - Duration::from_secs(2));
    assert_eq!(app.reap(&user()).unwrap(), 0);
    at(Duration::from_secs(4));
    assert_eq!(app.reap(&user()).unwrap(), 1);
    assert!(!home(empty).exists());
    assert!(app.tools().bundle(empty).is_none());
    for id in [full, foreign, live] {
        assert!(home(id).join("bundle.json").exists());
    }
    assert!(home(full).join("a@1.json").exists() && home(foreign).join("notes.txt").exists());
    // Empty by now, and only now.
    app.delete_tool(&key, &user()).unwrap();
    assert_eq!(app.reap(&user()).unwrap(), 1);
    assert!(!home(full).exists());
}

/// `ST-04`: a lock whose file was taken away keeps nobody out, so another one is taken.
#[test]
fn st_04_a_lock_file_that_was_replaced() {
    let house = House::new();
    let bundle = house.bundle("b");
    let lock = house.scene.root.join(".glee/bundles/.lock");
    let held = fs::File::open(&lock).unwrap();
    held.lock().unwrap();
    fs::remove_file(&lock).unwrap();
    house.expect(201, &format!("PUT {}", tool(bundle, "a", "1")), absent());
}

/// What writers have left that died is gone after the next change.
#[test]
fn leftovers_of_the_dead_are_taken_away() {
    let scene = Scene::new();
    let id = Uuid::now_v7();
    let home = scene.root.join(format!(".glee/bundles/{id}"));
    fs::create_dir_all(&home).unwrap();
    fs::write(home.join(".new-abc"), "{").unwrap();
    let switches = scene.write(".glee/bundles/.new-def", "{");
    let empty = scene.root.join(format!(".glee/bundles/{}", Uuid::now_v7()));
    fs::create_dir_all(&empty).unwrap();
    // One import that did not come to its end, and one that did and was not put in its place.
    let (torn, whole) = (Uuid::now_v7(), Uuid::now_v7());
    let file = format!(".glee/bundles/.import-new/{torn}/bundle.json");
    let staged = scene.write(&file, "{");
    let text = json!({"schemaVersion": "1", "bundleID": whole.to_string(), "slug": "whole", "isEnabled": true,
        "createdAt": "2024-05-14T13:44:00Z", "modifiedAt": "2024-05-14T13:44:00Z"});
    let file = format!(".glee/bundles/.import/{whole}/bundle.json");
    let committed = scene.write(&file, &text.to_string());
    let house = House::with(scene, "");
    house.expect(
        201,
        &format!("PUT /tools/bundles/{id}"),
        json!({"slug": "a"}),
    );
    assert_eq!(house.files(id), ["bundle.json"]);
    assert!(!empty.exists() && !switches.exists());
    assert_eq!(house.files(whole), ["bundle.json"]);
    assert!(!house.directory(torn).exists());
    for parent in [staged, committed]
        .iter()
        .flat_map(|it| it.ancestors().skip(1).take(2))
    {
        assert!(!parent.exists(), "{}", parent.display());
    }
    let list = house.expect(200, "GET /tools/bundles", Value::Null);
    assert!(list.to_string().contains("\"whole\""), "{list}");
}

/// A function that the program has runs under the name of a stored tool, held to its own permissions.
#[test]
fn functions_of_the_program() {
    struct Add;

    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Numbers {
        /// One number
        #[schemars(range(max = 100))]
        a: i64,
        /// The other
        b: i64,
    }

    impl glee::native::NativeTool for Add {
        type Input = Numbers;
        type Output = i64;

        fn about(&self) -> glee::native::About {
            glee::native::About::new("add", "Add two numbers")
        }

        async fn run(
            &self,
            it: Numbers,
            _: glee::native::Context<'_>,
        ) -> Result<i64, glee::native::Failure> {
            Ok(it.a + it.b)
        }
    }

    let scene = Scene::new();
    let wiring = glee::app::Wiring {
        natives: vec![glee::native::tool(Add).unwrap()],
        ..wiring(Default::default(), nobody())
    };
    let app = App::open(scene.project(), wiring).unwrap();
    let id = Uuid::now_v7();
    let put: PutBundle = serde_json::from_value(json!({"slug": "sums"})).unwrap();
    app.put_bundle(id, put, &user()).unwrap();
    let key = glee_core::bundle::Key {
        bundle: id,
        slug: "add-one".into(),
        version: "1".into(),
    };
    let body = json!({"type": "go", "impl": {"goFunc": "add"}, "argSchema": {
        "type": "object", "required": ["a"], "additionalProperties": false,
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}},
    }});
    let member = app
        .put_tool(&key, serde_json::from_value(body).unwrap(), &user())
        .unwrap();
    assert!(member.spec.is_ok(), "{:?}", member.spec);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let call = |args: Value| {
        let call = glee::app::Call {
            tool: member.name.clone(),
            args: args.as_object().unwrap().clone(),
            caller: user(),
            timeout: None,
            cancel: glee_core::port::Cancel::never(),
            party: Arc::new(glee_core::port::Waits),
            approval: None,
        };
        runtime.block_on(app.call(call)).result
    };
    assert_eq!(call(json!({"a": 2})).unwrap().value, 3);
    assert!(call(json!({"a": "2"})).is_err());
    // The stored schema allows it; the function's own does not.
    let refused = call(json!({"a": 101})).unwrap_err();
    assert_eq!(refused.kind.code(), "INVALID_INPUT", "{refused:?}");
}
