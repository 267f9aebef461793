//! Many processes at once, and processes that die while they write.

use std::collections::BTreeMap;
use std::fs;
use std::thread;
use std::time::Duration;

use glee::app::App;
use glee_core::port::Answer;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{House, absent, said, tool};
use crate::mcp::server::Served;
use crate::support::{Scene, long, wiring};

/// A number that looks random and is the same in every run.
pub(super) fn scattered(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// `ST-01`, L13: whoever is first wins, and everybody else is told so; whoever is killed leaves nothing half.
#[test]
fn l13_exactly_one_winner_per_key() {
    let (processes, puts, keys) = (long(4, 16), long(30, 500), long(12, 200));
    let scene = Scene::new();
    let house = House::with(scene, "");
    let bundle = house.bundle("b");
    let won: Vec<Vec<String>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..processes)
            .map(|process| {
                let house = &house;
                scope.spawn(move || {
                    let mut won = Vec::new();
                    let mut served = Served::guarded(&house.scene);
                    for put in 0..puts {
                        let random = scattered((process * 100_003 + put) as u64);
                        let slug = format!("k{}", random as usize % keys);
                        let mut body = absent();
                        body["description"] = format!("{process}-{put}").into();
                        let line = format!("PUT {}", tool(bundle, &slug, "1"));
                        // Now and then it is killed while it writes.
                        if random >> 32 & 15 == 0 {
                            let stream = served.rest_stream(&line, &house.owner, &[], &body);
                            thread::sleep(Duration::from_micros(random >> 40 & 0x3fff));
                            drop(served);
                            drop(stream);
                            served = Served::guarded(&house.scene);
                            continue;
                        }
                        let reply = served.rest(&line, &house.owner, &[], &body);
                        match reply.status {
                            201 => won.push(format!("{slug} {process}-{put}")),
                            409 => assert_eq!(said(&reply)["error"]["code"], "CONFLICT"),
                            // Others were in front of it for too long.
                            503 => assert_eq!(said(&reply)["error"]["code"], "LOCK_TIMEOUT"),
                            _ => panic!("{reply:?}"),
                        }
                    }
                    won
                })
            })
            .collect();
        workers.into_iter().map(|it| it.join().unwrap()).collect()
    });
    // Every winner that was told so is on disk, as it was sent.
    let mut winners = BTreeMap::new();
    for line in won.into_iter().flatten() {
        let (slug, who) = line.split_once(' ').unwrap();
        let before = winners.insert(slug.to_owned(), who.to_owned());
        assert_eq!(before, None, "two have won {slug}");
    }
    let home = house.directory(bundle);
    for (slug, who) in &winners {
        let text = fs::read_to_string(home.join(format!("{slug}@1.json"))).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(document["description"], **who, "{slug}");
    }
    // And every file is whole.
    drop(house.served);
    let again = Served::guarded(&house.scene);
    let line = format!("PUT {}", tool(bundle, "last", "1"));
    assert_eq!(again.rest(&line, &house.owner, &[], &absent()).status, 201);
    for name in fs::read_dir(&home)
        .unwrap()
        .map(|it| it.unwrap().file_name())
    {
        let text = fs::read_to_string(home.join(&name)).unwrap();
        assert!(
            serde_json::from_str::<Value>(&text).is_ok(),
            "{name:?}: {text}"
        );
        assert!(
            !name.to_string_lossy().starts_with('.'),
            "{name:?} was left"
        );
    }
    assert!(!again.said().contains("is not used"), "{}", again.said());
}

const IMPORT: &str = "POST /tools/bundles/import";
const ZIP: &str = "application/zip";

/// Two bundles in an archive, called like nobody else.
fn two(ids: [Uuid; 2]) -> Vec<u8> {
    let slugs = ids.map(|it| format!("i{}", it.simple()));
    super::zip::good(&[(ids[0], &slugs[0]), (ids[1], &slugs[1])])
}

fn nobody() -> Answer {
    Answer::Nobody {
        hint: String::new(),
    }
}

/// `DU-01`, L3: what was acknowledged is there after a kill, at whatever moment it came.
#[test]
fn du_01_nothing_acknowledged_is_lost() {
    let cycles = long(8, 1000);
    let house = House::with(Scene::new(), "");
    let bundle = house.bundle("b");
    let House {
        scene,
        served,
        owner,
    } = house;
    drop(served);
    let mut expected: BTreeMap<String, bool> = BTreeMap::new();
    let mut imported: Vec<Uuid> = Vec::new();
    let home = scene.root.join(format!(".glee/bundles/{bundle}"));
    for cycle in 0..cycles {
        let served = Served::guarded(&scene);
        for step in 0..6_u64 {
            let random = scattered(cycle as u64 * 31 + step);
            let slug = format!("t{}", random % 7);
            let at = tool(bundle, &slug, "1");
            let (line, body) = match expected.get(&slug) {
                None => (format!("PUT {at}"), absent()),
                Some(enabled) if random >> 16 & 1 == 0 => {
                    (format!("PATCH {at}"), json!({"isEnabled": !enabled}))
                }
                Some(_) => (format!("DELETE {at}"), Value::Null),
            };
            let reply = served.rest(&line, &owner, &[], &body);
            assert!(reply.status < 300, "{line}: {reply:?}");
            match (
                line.split_once(' ').unwrap().0,
                expected.get(&slug).copied(),
            ) {
                ("PUT", _) => expected.insert(slug, true),
                ("PATCH", Some(enabled)) => expected.insert(slug, !enabled),
                _ => expected.remove(&slug),
            };
        }
        if cycle % 5 == 0 {
            let ids = [Uuid::now_v7(), Uuid::now_v7()];
            let reply = served.rest_bytes_of(IMPORT, &owner, ZIP, &two(ids));
            assert_eq!(reply.status, 200, "cycle {cycle}: {reply:?}");
            imported.extend(ids);
        }
        // One more, whose answer nobody waits for; either it is done or it is not.
        let unsure = format!("u{cycle}");
        let both = [Uuid::now_v7(), Uuid::now_v7()];
        let line = format!("PUT {}", tool(bundle, &unsure, "1"));
        let stream = match cycle % 2 {
            0 => served.rest_stream(&line, &owner, &[], &absent()),
            _ => served.send_bytes(IMPORT, &owner, ZIP, &two(both)),
        };
        thread::sleep(Duration::from_micros(scattered(cycle as u64) & 0x7fff));
        drop(served);
        drop(stream);
        for (slug, enabled) in &expected {
            let text = fs::read_to_string(home.join(format!("{slug}@1.json"))).unwrap();
            let document: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(document["isEnabled"], *enabled, "cycle {cycle}: {slug}");
        }
        let there: Vec<String> = fs::read_dir(&home)
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .filter(|it| it.starts_with('t'))
            .collect();
        assert_eq!(there.len(), expected.len(), "cycle {cycle}: {there:?}");
        // Whoever looks next sees all of an import, or nothing.
        let tools = App::open(scene.project(), wiring(Default::default(), nobody())).unwrap();
        let tools = tools.tools();
        let of = |id: &Uuid| tools.members().filter(|it| it.key.bundle == *id).count();
        let there = both.map(|id| of(&id));
        assert!(
            there == [0, 0] || there == [2, 2],
            "cycle {cycle}: {there:?}"
        );
        assert!(imported.iter().all(|it| of(it) == 2), "cycle {cycle}");
        if let Ok(text) = fs::read_to_string(home.join(format!("{unsure}@1.json"))) {
            assert!(
                serde_json::from_str::<Value>(&text).is_ok(),
                "cycle {cycle}: {text}"
            );
        }
    }
    // Whoever changes something next takes away what the dead have left.
    let served = Served::guarded(&scene);
    let line = format!("PUT {}", tool(bundle, "last", "1"));
    assert_eq!(served.rest(&line, &owner, &[], &absent()).status, 201);
    for directory in [&home, home.parent().unwrap()] {
        for entry in fs::read_dir(directory).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            assert!(!name.starts_with('.') || name == ".lock", "{name} was left");
        }
    }
    let verified = crate::mcp::server::glee(&scene, &["audit", "verify"]);
    assert!(!verified.is_empty());
}
