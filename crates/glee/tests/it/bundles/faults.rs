//! A disk that fails, and a process that dies, at each call by which something gets onto the disk: what was
//! answered holds, what was not is whole or not there, and the next one who starts finds nothing to clean up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use glee_core::bundle::Key;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{House, absent, open, tool, user, zip};
use crate::mcp::server::{Served, in_project};
use crate::support::{GLEE, Scene, long, stderr};

const CALLS: &[&str] = &[
    "fsync,fdatasync",
    "?rename,?renameat,?renameat2,?link,?linkat",
    "?unlink,?unlinkat,?rmdir",
    "?mkdir,?mkdirat",
    "?open,openat",
    "write,pwrite64",
];
const FAULTS: &[&str] = &[
    "error=EIO",
    "error=ENOSPC",
    "error=EINTR",
    "error=EIO:signal=KILL",
];

const ONE: Uuid = Uuid::from_u128(0x018faf50_b7b6_7a01_9a05_a22a6e0af101);
const TWO: Uuid = Uuid::from_u128(0x018faf50_b7b6_7a01_9a05_a22a6e0af102);

pub(super) fn strace(log: &Path, calls: &str) -> Command {
    let mut command = Command::new("strace");
    command
        .args(["-f", "-e", "signal=none", "-e"])
        .arg(format!("trace={calls}"))
        .arg("-o")
        .arg(log);
    command
}

/// glee with a fault at its n-th call of these, or with none; and how many of them were made.
fn struck(
    scene: &Scene,
    calls: &str,
    fault: Option<(&str, usize)>,
    args: &[&str],
) -> (Output, usize, bool) {
    let log = scene.root.with_file_name("strace.log");
    let mut command = strace(&log, calls);
    if let Some((fault, nth)) = fault {
        command.args(["-e", &format!("inject={calls}:{fault}:when={nth}")]);
    }
    let output = command
        .arg(GLEE)
        .args(args)
        .current_dir(&scene.root)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("XDG_STATE_HOME", scene.root.with_file_name("state"))
        .stdin(Stdio::null())
        .output()
        .expect("strace is needed, in a package of that name");
    let log = fs::read_to_string(log).unwrap_or_default();
    // Each thread counts for itself, and each call by its own name.
    let mut made: BTreeMap<&str, usize> = BTreeMap::new();
    for (call, _) in log.lines().filter_map(|it| it.split_once('(')) {
        *made.entry(call).or_default() += 1;
    }
    let made = made.into_values().max().unwrap_or(0);
    let fired = log.contains("(INJECTED)") || log.contains("killed by SIGKILL");
    (output, made, fired)
}

/// Somebody starts after a fault and changes something: nothing is left lying about.
fn starts_clean(scene: &Scene, at: &str) {
    let app = open(scene, Default::default());
    let strays: Vec<_> = app.tools().strays().map(|it| format!("{it:?}")).collect();
    assert!(strays.is_empty(), "{at}: {strays:?}");
    let put = serde_json::from_value(json!({"slug": "after"})).unwrap();
    app.put_bundle(Uuid::now_v7(), put, &user())
        .unwrap_or_else(|err| panic!("{at}: {err:?}"));
    let mut open = vec![scene.root.join(".glee/bundles")];
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            assert!(
                !name.starts_with('.') || name == ".lock",
                "{at}: {name} was left"
            );
            if path.is_dir() {
                open.push(path);
            } else if name != ".lock" {
                let text = fs::read_to_string(&path).unwrap();
                assert!(
                    serde_json::from_str::<Value>(&text).is_ok(),
                    "{at}: {name}: {text}"
                );
            }
        }
    }
}

/// Every call is struck in every way, or a few of them, the last ones first: there the change is made.
fn sweep(args: &[&str], set: impl Fn(&Scene), is_done: impl Fn(&Scene, &str) -> bool) {
    let mut outcomes = BTreeSet::new();
    let mut count = 0;
    for calls in CALLS {
        let scene = Scene::new();
        set(&scene);
        let (output, made, _) = struck(&scene, calls, None, args);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(is_done(&scene, "undisturbed"));
        for (which, fault) in FAULTS.iter().enumerate() {
            let few: Vec<usize> = made
                .checked_sub(which)
                .into_iter()
                .filter(|it| *it > 0)
                .collect();
            let all: Vec<usize> = (1..=made + 1).collect();
            for nth in if long(0, 1) == 1 { all } else { few } {
                let at = format!("{calls} {fault} {nth}");
                let scene = Scene::new();
                set(&scene);
                let (output, _, fired) = struck(&scene, calls, Some((fault, nth)), args);
                if !fired {
                    break;
                }
                count += 1;
                assert_ne!(output.status.code(), Some(101), "{at}: {}", stderr(&output));
                let done = is_done(&scene, &at);
                if output.status.success() {
                    assert!(done, "{at}: it was said to be done");
                } else if !fault.contains("KILL") && output.status.code() != Some(127) {
                    assert!(!output.stderr.is_empty(), "{at}: nothing was said");
                }
                outcomes.insert((output.status.success(), done));
                starts_clean(&scene, &at);
            }
        }
    }
    assert!(count >= 10, "only {count} faults");
    assert!(outcomes.contains(&(false, false)), "{outcomes:?}");
    eprintln!("{count} faults: {outcomes:?}");
}

/// `DU-03`, `IM-04`: both bundles are there, or neither is.
#[test]
fn du_03_faults_while_importing() {
    sweep(
        &["bundle", "import", "both.zip"],
        |scene| {
            let archive = zip::good(&[(ONE, "one"), (TWO, "two")]);
            fs::write(scene.root.join("both.zip"), archive).unwrap();
        },
        |scene, at| {
            let app = open(scene, Default::default());
            let there: Vec<usize> = [ONE, TWO]
                .iter()
                .map(|id| {
                    app.tools()
                        .members()
                        .filter(|it| it.key.bundle == *id)
                        .count()
                })
                .collect();
            assert!(there == [0, 0] || there == [2, 2], "{at}: {there:?}");
            assert!(app.tools().members().all(|it| !it.enabled), "{at}");
            there == [2, 2]
        },
    );
}

/// `DU-03`: a switch is as it was, or as it should be.
#[test]
fn du_03_faults_while_switching() {
    let file = format!(".glee/bundles/{ONE}/a@1.json");
    sweep(
        &["bundle", "enable", "one.a.1"],
        |scene| {
            fs::write(scene.root.join("one.zip"), zip::good(&[(ONE, "one")])).unwrap();
            let output = scene.glee(&["bundle", "import", "one.zip"]);
            assert!(output.status.success(), "{}", stderr(&output));
        },
        |scene, at| {
            let text = fs::read_to_string(scene.root.join(&file)).unwrap();
            let kept: Value =
                serde_json::from_str(&text).unwrap_or_else(|_| panic!("{at}: {text}"));
            assert_eq!(kept["slug"], "a", "{at}");
            kept["isEnabled"] == true
        },
    );
}

/// A server of which the n-th call of these that touches one of these files fails.
fn struck_server(
    scene: &Scene,
    log: &Path,
    calls: &str,
    fault: &str,
    nth: usize,
    files: &[PathBuf],
) -> Served {
    let mut command = strace(log, calls);
    // So that it is the server that is started, and strace that follows.
    command
        .arg("-D")
        .args(["-e", &format!("inject={calls}:{fault}:when={nth}")]);
    for file in files {
        command.arg("-P").arg(file);
    }
    command.args([GLEE, "serve", "--listen", "127.0.0.1:0"]);
    Served::begin(in_project(&mut command, scene))
}

/// What a server answers, if it lives to.
fn ask(served: &Served, token: &str, line: &str, body: &Value) -> Option<(u16, Value)> {
    let mut stream = served.rest_stream(line, token, &[], body);
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    let status = std::str::from_utf8(bytes.get(9..12)?)
        .unwrap()
        .parse()
        .unwrap();
    let end = bytes.windows(4).position(|it| it == b"\r\n\r\n")?;
    Some((
        status,
        serde_json::from_slice(&bytes[end + 4..]).unwrap_or(Value::Null),
    ))
}

/// `DU-03`: the same for everything that a client can change over REST. An answer that it is done holds; any
/// other answer says what is wrong, and what was to be changed is whole.
#[test]
fn du_03_faults_under_a_server() {
    let House {
        scene,
        served,
        owner,
    } = House::with(Scene::new(), "");
    drop(served);
    let app = open(&scene, Default::default());
    let log = scene.root.with_file_name("strace.log");
    let read = |path: &Path| -> Option<Value> {
        let text = fs::read_to_string(path).ok()?;
        Some(serde_json::from_str(&text).unwrap_or_else(|_| panic!("{}: {text}", path.display())))
    };
    // What is asked, of a tool and a bundle that are there; and whether it has happened.
    type Done = fn(Option<&Value>, Option<&Value>) -> bool;
    let off = || json!({"isEnabled": false});
    let operations: [(&str, Value, Done); 6] = [
        ("PUT new-bundle", Value::Null, |bundle, _| bundle.is_some()),
        ("PUT new-tool", absent(), |_, tool| tool.is_some()),
        ("PATCH tool", off(), |_, tool| {
            tool.unwrap()["isEnabled"] == false
        }),
        ("DELETE tool", Value::Null, |_, tool| tool.is_none()),
        ("PATCH bundle", off(), |bundle, _| {
            bundle.unwrap()["isEnabled"] == false
        }),
        ("DELETE bundle", Value::Null, |bundle, _| {
            bundle.unwrap()["softDeletedAt"].is_string()
        }),
    ];
    let (mut turn, mut count, mut outcomes) = (0, 0, BTreeSet::new());
    for (what, body, is_done) in &operations {
        // Whatever is written goes to a file whose name nobody knows before, and a server opens at its start
        // what it opens for a change.
        for calls in &CALLS[..4] {
            for fault in FAULTS {
                turn += 1;
                if long(0, 1) == 0 && turn % 5 != 0 {
                    continue;
                }
                for nth in 1..=long(1, 40) {
                    let id = Uuid::now_v7();
                    let slug = format!("s{}", id.simple());
                    let key = Key {
                        bundle: id,
                        slug: "t".to_owned(),
                        version: "1".to_owned(),
                    };
                    let put = json!({"slug": slug});
                    if *what != "PUT new-bundle" {
                        app.put_bundle(id, serde_json::from_value(put.clone()).unwrap(), &user())
                            .unwrap();
                    }
                    if what.ends_with(" tool") {
                        app.put_tool(&key, serde_json::from_value(absent()).unwrap(), &user())
                            .unwrap();
                    }
                    let home = scene.root.join(format!(".glee/bundles/{id}"));
                    let files = [
                        home.clone(),
                        home.join("bundle.json"),
                        home.join("t@1.json"),
                    ];
                    let (method, place) = what.split_once(' ').unwrap();
                    let line = match place.ends_with("tool") {
                        true => format!("{method} {}", tool(id, "t", "1")),
                        false => format!("{method} /tools/bundles/{id}"),
                    };
                    let body = match *what {
                        "PUT new-bundle" => &put,
                        _ => body,
                    };
                    let at = format!("{what} {calls} {fault} {nth}");
                    let served = struck_server(&scene, &log, calls, fault, nth, &files);
                    let answer = ask(&served, &owner, &line, body);
                    let said = served.said();
                    drop(served);
                    let (bundle, kept) = (read(&files[1]), read(&files[2]));
                    let done = is_done(bundle.as_ref(), kept.as_ref());
                    match &answer {
                        Some((200..300, _)) => assert!(done, "{at}: {answer:?}"),
                        Some((status, told)) => {
                            let code = told["error"]["code"].as_str().unwrap_or_default();
                            let known = ["INTERNAL", "STORAGE_FULL", "CONFLICT", "NOT_FOUND"];
                            assert!(*status >= 404 && known.contains(&code), "{at}: {answer:?}");
                            assert!(code != "STORAGE_FULL" || !done, "{at}: {answer:?}");
                        }
                        None => assert!(fault.contains("KILL"), "{at}: no answer; {said}"),
                    }
                    let log = fs::read_to_string(&log).unwrap_or_default();
                    // Nobody may have been there to write down a death.
                    if !log.contains("(INJECTED)") && answer.is_some() {
                        break;
                    }
                    count += 1;
                    outcomes.insert((answer.map(|it| it.0), done));
                }
            }
        }
    }
    eprintln!("{count} faults: {outcomes:?}");
    assert!(count >= long(5, 60), "only {count} faults");
    starts_clean(&scene, "at the end");
}
