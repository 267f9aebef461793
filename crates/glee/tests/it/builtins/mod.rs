//! The tools that come with glee, where a case folder cannot tell: what happens between a question and
//! the deed, other programs, and the table itself.

mod edges;
mod git;
mod real;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use glee::app::{App, Call, Wiring, cage_without_project};
use glee::approve::absent::Absent;
use glee::approve::ledger::Decision;
use glee::builtin::{Means, Settings, TABLE};
use glee::exec::http::{HttpExec, HttpPolicy};
use glee::store::record::Said;
use glee_core::outcome::{FailureKind, Outcome};
use glee_core::port::{Answer, Approver, Caller, Cancel, Later, Question, Waits};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::support::{Scene, json as output_json, stdout, wiring};
use crate::upstream::Upstream;

/// All of them, as a project has them that sets nothing.
pub(crate) fn means() -> Means {
    let settings = Settings {
        enable: ["core", "system", "dev"].map(str::to_owned).into(),
        ..Settings::default()
    };
    let http = Arc::new(HttpExec::new(HttpPolicy::default()));
    Means::new(Path::new("/"), settings, &[], &cage_without_project(), http)
}

const ALL: &str = "builtins: {enable: [core, system, dev]}\n";

fn scene(config: &str) -> Scene {
    let scene = Scene::new();
    scene.write(".glee/config.yml", config);
    scene
}

fn open(scene: &Scene, answer: Answer) -> App {
    App::open(scene.project(), wiring(BTreeMap::new(), answer)).unwrap()
}

fn nobody() -> Answer {
    Answer::Nobody {
        hint: String::new(),
    }
}

/// One for all calls: what a project opens at the first, such as a way out for its programs, serves the others too.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());

fn call(app: &App, tool: &str, args: Value, approval: Option<Uuid>) -> Outcome {
    RUNTIME.block_on(app.call(Call {
        tool: tool.into(),
        args: serde_json::from_value(args).unwrap(),
        caller: Caller {
            name: "agent".into(),
        },
        timeout: None,
        cancel: Cancel::never(),
        party: Arc::new(Waits),
        approval,
    }))
}

fn value(outcome: Outcome) -> Value {
    outcome.result.unwrap().value
}

fn kind(outcome: &Outcome) -> FailureKind {
    outcome.result.as_ref().unwrap_err().kind
}

#[test]
fn the_table_tells_the_truth() {
    let tools = means().tools().unwrap();
    assert_eq!(tools.len(), TABLE.len());
    for (tool, row) in tools.iter().zip(TABLE) {
        assert_eq!(tool.name, row.name);
        // What is compiled at first use must compile.
        tool.inputs.compile().unwrap();
        tool.outputs.schema.as_ref().unwrap().compile().unwrap();
        assert_eq!(tool.inputs.source()["type"], "object", "{}", tool.name);
        assert_eq!(
            tool.inputs.source()["additionalProperties"],
            false,
            "{}",
            tool.name
        );
    }
}

#[test]
fn a_project_has_what_it_enables_and_nothing_else() {
    let listed = |config: &str| {
        let listed = output_json(&scene(config).glee(&["list", "--json"]));
        let names = listed.as_array().unwrap().iter();
        names
            .map(|it| it["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(listed("{}\n"), [""; 0]);
    let dev = "builtins: {enable: [dev, read_file], disable: [install_package]}\n";
    assert_eq!(
        listed(dev),
        [
            "format_code",
            "git_commit",
            "git_diff",
            "git_log",
            "git_status",
            "read_file",
            "run_tests",
            "search_code"
        ]
    );
    let scene = scene("builtins: {enable: [cor]}\n");
    let linted = scene.glee(&["lint"]);
    assert_eq!(linted.status.code(), Some(1));
    assert!(stdout(&linted).contains("cor"), "{}", stdout(&linted));
}

#[test]
fn what_is_enabled_meanwhile_is_there_at_once() {
    let scene = scene("{}\n");
    let app = open(&scene, nobody());
    assert!(app.tools().find("read_file").is_err());
    scene.write(".glee/config.yml", "builtins: {enable: [core]}\n");
    app.reload().unwrap();
    assert!(app.tools().find("read_file").is_ok());
    // A config that cannot be read takes nothing away, and adds nothing.
    scene.write(
        ".glee/config.yml",
        "builtins: {enable: [core, system], x: 1}\n",
    );
    assert!(app.reload().is_err());
    assert!(app.tools().find("read_file").is_ok() && app.tools().find("tool_ls").is_err());
    scene.write(".glee/config.yml", "{}\n");
    app.reload().unwrap();
    assert!(app.tools().find("read_file").is_err());
}

/// Does something before it answers.
struct Meanwhile<F>(F);

impl<F: Fn() + Send + Sync> Approver for Meanwhile<F> {
    fn ask<'a>(&'a self, _: &'a Question<'a>) -> Later<'a, Answer> {
        (self.0)();
        Box::pin(async { Answer::Approved })
    }
}

fn meanwhile(scene: &Scene, deed: impl Fn() + Send + Sync + 'static) -> App {
    let wiring = Wiring {
        approver: Arc::new(Meanwhile(deed)),
        ..wiring(BTreeMap::new(), nobody())
    };
    App::open(scene.project(), wiring).unwrap()
}

/// Everything asks here, so a person is asked also about a file that is not there.
const HITL: &str = "builtins: {enable: [core, system]}\nautonomy: hitl\n";

/// So does everything that is written, by a rule that comes before the tool's own reason.
const LOOKED_AT: &str = "builtins: {enable: [core]}
rules: [{name: look, tools: [write_file], when: {path_below: .}, decision: ask, reason: somebody looks at it}]
";

#[test]
fn a_yes_to_a_new_file_replaces_none() {
    for (tool, args) in [
        (
            "write_file",
            json!({"path": "new.txt", "content": "by the agent"}),
        ),
        (
            "tool_file_write",
            json!({"path": "new.txt", "content": "by the agent"}),
        ),
        (
            "move_file",
            json!({"from": "from.txt", "to": "new.txt", "overwrite": true}),
        ),
    ] {
        let scene = scene(HITL);
        scene.write("from.txt", "by the agent");
        let file = scene.root.join("new.txt");
        let theirs = file.clone();
        let app = meanwhile(&scene, move || fs::write(&theirs, "by a person").unwrap());
        let outcome = call(&app, tool, args, None);
        assert_eq!(kind(&outcome), FailureKind::Conflict, "{tool}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "by a person", "{tool}");
        assert!(scene.root.join("from.txt").exists());
    }
}

/// A yes that is used later is good for what was told then.
#[test]
fn a_yes_that_waited_replaces_only_what_it_was_told_of() {
    let scene = scene(LOOKED_AT);
    let app = open(&scene, nobody());
    let args = json!({"path": "new.txt", "content": "by the agent"});
    let asked = |args: &Value| {
        let asked = call(&app, "write_file", args.clone(), None)
            .result
            .unwrap_err();
        let id = asked.details["approval_id"].as_str().unwrap();
        (id.parse::<Uuid>().unwrap(), asked.message)
    };
    let (id, _) = asked(&args);
    app.decide(id, Decision::approve(Said::Once), "user")
        .unwrap();
    let file = scene.write("new.txt", "by a person");
    let outcome = call(&app, "write_file", args.clone(), Some(id));
    assert_eq!(kind(&outcome), FailureKind::Conflict);
    assert_eq!(fs::read_to_string(&file).unwrap(), "by a person");
    // Asked anew, the person is told both, and may agree to both.
    let (id, message) = asked(&args);
    assert!(
        message.contains("it replaces `new.txt`") && message.contains("somebody looks"),
        "{message}"
    );
    app.decide(id, Decision::approve(Said::Once), "user")
        .unwrap();
    value(call(&app, "write_file", args, Some(id)));
    assert_eq!(fs::read_to_string(&file).unwrap(), "by the agent");
}

#[test]
fn what_glee_keeps_is_not_read_inside_of_a_project_either() {
    let scene = scene(ALL);
    scene.write("home/state/glee/key", "the key");
    scene.write("home/other", "x");
    std::os::unix::fs::symlink("home/state/glee", scene.root.join("link")).unwrap();
    let wiring = Wiring {
        state: Some("home/state/glee".into()),
        ..wiring(BTreeMap::new(), Answer::Approved)
    };
    let app = App::open(scene.project(), wiring).unwrap();
    for (tool, args) in [
        ("read_file", json!({"path": "home/state/glee/key"})),
        ("read_file", json!({"path": "link/key"})),
        ("list_directory", json!({"path": "home/state/glee"})),
        ("move_file", json!({"from": "home", "to": "elsewhere"})),
        (
            "delete_file",
            json!({"path": "home/state", "recursive": true}),
        ),
        ("tool_json_parse", json!({"file": "link/key"})),
    ] {
        let outcome = call(&app, tool, args.clone(), None);
        assert_eq!(
            kind(&outcome),
            FailureKind::PermissionDenied,
            "{tool} {args}"
        );
    }
    let listed = call(
        &app,
        "list_directory",
        json!({"path": ".", "recursive": true}),
        None,
    );
    let listed = value(listed).to_string();
    assert!(
        listed.contains("home/other") && !listed.contains("key"),
        "{listed}"
    );
    let found = value(call(&app, "search_code", json!({"query": "the key"}), None));
    assert_eq!(found["matches"], json!([]));
    assert_eq!(
        fs::read_to_string(scene.root.join("home/state/glee/key")).unwrap(),
        "the key"
    );
}

#[test]
fn permissions_that_are_not_allowed() {
    let scene = scene(ALL);
    let env = |list: &str| BTreeMap::from([("ALLOWED_TOOL_PERMS".to_owned(), list.to_owned())]);
    for (list, tool, params, allowed) in [
        ("fs:read", "shell", r#"{"command": "touch made"}"#, false),
        (
            "fs:read,fs:write",
            "shell",
            r#"{"command": "touch made"}"#,
            false,
        ),
        (
            "fs:read,fs:write",
            "run_code",
            r#"{"language": "bash", "code": "touch made"}"#,
            false,
        ),
        (
            "fs:read",
            "write_file",
            r#"{"path": "made", "content": ""}"#,
            false,
        ),
        (
            "fs:read",
            "tool_docker_list",
            r#"{"type": "images"}"#,
            false,
        ),
        ("net:read", "tool_codegen", r#"{"spec": "x"}"#, false),
        ("fs:read", "tool_ls", r#"{"path": "."}"#, true),
        (
            "fs:read,fs:write,proc:exec",
            "shell",
            r#"{"command": "true"}"#,
            true,
        ),
    ] {
        let output = scene.glee_with(
            &["run", tool, "--json", "--params", "-"],
            &env(list),
            params,
        );
        let ok = output_json(&output)["ok"] == true;
        assert_eq!(ok, allowed, "{list} {tool}: {}", stdout(&output));
        assert!(!scene.root.join("made").exists());
    }
}

#[test]
fn a_command_that_looks_like_an_option() {
    let scene = scene(ALL);
    let app = open(&scene, nobody());
    for (tool, args) in [
        ("shell", json!({"command": "--version"})),
        ("tool_exec", json!({"cmd": "--version"})),
        ("run_code", json!({"language": "bash", "code": "--version"})),
    ] {
        let told = value(call(&app, tool, args, None));
        assert_eq!(told["stdout"], "", "{tool}");
    }
}

/// npm asks the registry that is listed, and nobody else.
#[test]
fn packages_come_from_the_registries_only() {
    let listed = Upstream::start();
    let other = Upstream::start();
    let port = |it: &Upstream| it.origin().rsplit(':').next().unwrap().to_owned();
    let config = format!(
        "builtins: {{enable: [dev], registries: [\"127.0.0.1:{}\"]}}\n",
        port(&listed)
    );
    let scene = scene(&config);
    scene.write("package.json", "{\"name\": \"x\", \"version\": \"1.0.0\"}");
    let app = open(&scene, Answer::Approved);
    for upstream in [&listed, &other] {
        let settings = format!("registry={}/\nfetch-retries=0\n", upstream.origin());
        scene.write(".npmrc", &settings);
        let outcome = call(
            &app,
            "install_package",
            json!({"packages": ["left-pad"]}),
            None,
        );
        assert_eq!(kind(&outcome), FailureKind::ExecutionError);
    }
    assert!(!listed.requests().is_empty());
    assert!(other.requests().is_empty());
}

#[test]
fn containers_of_an_engine() {
    let scene = scene("{}\n");
    let socket: PathBuf = scene.root.join("engine.sock");
    let config = format!(
        "builtins: {{enable: [system], docker: \"{}\"}}\n",
        socket.display()
    );
    scene.write(".glee/config.yml", &config);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let listener = runtime.block_on(async { tokio::net::UnixListener::bind(&socket).unwrap() });
    let answer = |value: Value| axum::routing::get(move || async move { axum::Json(value) });
    let router = axum::Router::new()
        .route(
            "/containers/json",
            answer(json!([{"Id": "1", "Names": ["/web"]}, {"Id": "2", "Names": []}])),
        )
        .route(
            "/images/json",
            answer(json!([{"Id": "sha256:1", "RepoTags": ["alpine:3", "alpine:latest"]}])),
        );
    runtime.spawn(async move { axum::serve(listener, router).await });
    let app = open(&scene, nobody());
    let listed = |kind: &str| value(call(&app, "tool_docker_list", json!({"type": kind}), None));
    assert_eq!(listed("containers"), json!({"items": ["web", "2"]}));
    assert_eq!(
        listed("images"),
        json!({"items": ["alpine:3", "alpine:latest"]})
    );
}

/// Every name once and in order, however many answers it takes.
#[test]
fn a_large_directory_is_listed_in_parts() {
    let scene = scene(ALL);
    let names = |directory: &'static str, count: usize| {
        (0..count).map(move |it| format!("{directory}{:05}", it * 7919 % 100_003))
    };
    fs::create_dir_all(scene.root.join("many/m")).unwrap();
    let (outer, inner) = (names("", 2_100), names("m/", 1_500));
    let mut expected: Vec<String> = outer.chain(inner).collect();
    for name in &expected {
        fs::write(scene.root.join("many").join(name), "").unwrap();
    }
    expected.push("m".to_owned());
    expected.sort_by(|one, other| Path::new(one).cmp(Path::new(other)));
    let app = open(&scene, nobody());
    for recursive in [true, false] {
        let (mut listed, mut cursor) = (Vec::new(), None);
        loop {
            let mut args = json!({"path": "many", "recursive": recursive});
            if let Some(cursor) = cursor {
                args["cursor"] = cursor;
            }
            let told = value(call(&app, "list_directory", args, None));
            let entries = told["entries"].as_array().unwrap();
            assert!(entries.len() <= 1000 && !entries.is_empty());
            listed.extend(
                entries
                    .iter()
                    .map(|it| it["name"].as_str().unwrap().to_owned()),
            );
            cursor = told.get("cursor").cloned();
            if cursor.is_none() {
                break;
            }
        }
        expected.retain(|it| recursive || !it.contains('/'));
        assert_eq!(listed, expected);
    }
}

/// So that the program knows nobody who could be asked.
#[test]
fn absent_people_agree_to_nothing() {
    let scene = scene(ALL);
    scene.write("a.txt", "one");
    fs::create_dir(scene.root.join(".git")).unwrap();
    let app = App::open(
        scene.project(),
        Wiring {
            state: Some("../state".into()),
            launcher: crate::support::GLEE.into(),
            ..Wiring::with(Absent)
        },
    )
    .unwrap();
    for (tool, args) in [
        ("delete_file", json!({"path": "a.txt"})),
        ("write_file", json!({"path": "a.txt", "content": "x"})),
        ("git_commit", json!({"message": "x"})),
        (
            "install_package",
            json!({"packages": ["x"], "manager": "npm"}),
        ),
        ("web_fetch", json!({"url": "https://example.test/"})),
        ("http_request", json!({"url": "https://example.test/"})),
    ] {
        let outcome = call(&app, tool, args, None);
        assert_eq!(kind(&outcome), FailureKind::ApprovalRequired, "{tool}");
    }
    assert_eq!(fs::read_to_string(scene.root.join("a.txt")).unwrap(), "one");
}
