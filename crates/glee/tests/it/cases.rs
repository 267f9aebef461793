//! Cases as data: each folder below `tests/cases/<area>/` is a tool, a call and what must come of it,
//! run through the library, the command line, REST and MCP alike: there directly and by `glee_tool`, which
//! must not differ.
//!
//! `tool.yml` is the manifest; `call.json` the call; `outcome.json` the outcome, with `"..."` for what
//! does not matter; `lint.json` the problems `glee lint` must find. Other files go into the tool's
//! directory, those in `root/` into the project's root (`dot-git` as `.git`, which git itself does not
//! store). `{{origin}}`, `{{port}}` and `{{root}}` are
//! filled in. A `saved.yml` is saved over the manifest while the project is open. `UPDATE=1` writes the expectations anew, to be read before they are committed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use glee::app::{App, Call};
use glee::dialect::native;
use glee_core::example::Expected;
use glee_core::port::{Answer, Caller, Cancel, Waits};
use glee_core::url_template::encode;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::mcp::server::Served;
use crate::support::{Scene, approve, json as output_json, stderr, updating, wiring};
use crate::upstream::{Seen, Upstream};

/// Every area has a test of its own, so that a failure says where.
macro_rules! areas {
    ($($area:ident),* $(,)?) => {
        const AREAS: &[&str] = &[$(stringify!($area)),*];
        $(#[test] fn $area() { run_area(stringify!($area)); })*
    };
}

areas![
    approval, builtins, call, command, content, elicit, errors, http, json, lint, manifest,
    prompts, python, resources, rules, sandbox, schema, secrets, shape, template
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    /// The ids of the requirements that the case is about.
    spec: Vec<String>,
    /// The tool to call, when it is not the one of the manifest.
    #[serde(default)]
    tool: Option<String>,
    /// Without arguments nothing is called: the case is about `glee lint`.
    #[serde(default)]
    args: Option<Map<String, Value>>,
    /// The arguments as text, for what cannot be written as JSON.
    #[serde(default)]
    args_text: Option<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// What the person says who is asked; only the library can be told.
    #[serde(default)]
    person: Option<Said>,
    /// Whether a person has approved the tool, which an agent made.
    #[serde(default)]
    reviewed: bool,
    #[serde(default)]
    timeout_ms: Option<u64>,
    /// Whether it is about a bound that the tool sets.
    #[serde(default)]
    limit: bool,
    /// The exit code of `glee run`.
    exit: i32,
    /// Files, from the root, that must not be there afterwards: the forbidden thing did not happen.
    #[serde(default)]
    absent: Vec<PathBuf>,
    /// Files, from the root, that must be there afterwards.
    #[serde(default)]
    present: Vec<PathBuf>,
    /// What files, from the root, must hold afterwards.
    #[serde(default)]
    holds: BTreeMap<PathBuf, String>,
    /// Requests the upstream must have seen, in order; `"..."` for what does not matter.
    #[serde(default)]
    requests: Option<Value>,
    /// Text that the audit log must hold.
    #[serde(default)]
    audit: Vec<String>,
    /// Text that may stand nowhere: not in the outcome, not in the audit log.
    #[serde(default)]
    nowhere: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum Said {
    Yes,
    No(String),
    Amend(Map<String, Value>),
}

fn folders() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases")
}

fn below(directory: &Path) -> Vec<PathBuf> {
    let mut found: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|it| it.unwrap().path())
        .filter(|it| it.is_dir())
        .collect();
    found.sort();
    found
}

fn run_area(area: &str) {
    let cases = below(&folders().join(area));
    assert!(!cases.is_empty(), "the area {area} has no cases");
    let failures = Mutex::new(Vec::new());
    let next = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(case) =
                    cases.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
                {
                    let name = case.file_name().unwrap().to_string_lossy().into_owned();
                    let result = std::panic::catch_unwind(|| run_case(case));
                    match result {
                        Ok(Ok(())) => {}
                        Ok(Err(why)) => failures
                            .lock()
                            .unwrap()
                            .push(format!("{area}/{name}: {why}")),
                        Err(_) => failures
                            .lock()
                            .unwrap()
                            .push(format!("{area}/{name}: panicked, see above")),
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{} of {} cases fail\n\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n\n")
    );
}

fn run_case(case: &Path) -> Result<(), String> {
    let given: Given = serde_json::from_str(
        &fs::read_to_string(case.join("call.json")).map_err(|err| err.to_string())?,
    )
    .map_err(|err| format!("call.json: {err}"))?;
    if given.args.is_none() && given.args_text.is_none() {
        return check_lint(case);
    }
    let outcome = through_the_library(case, &given).map_err(|err| format!("library: {err}"))?;
    if let Some(outcome) = outcome
        && mcp_can_tell(case, &given)
    {
        through_mcp(case, &given, &outcome).map_err(|err| format!("mcp: {err}"))?;
    }
    if rest_can_tell(case, &given) {
        through_rest(case, &given).map_err(|err| format!("rest: {err}"))?;
    }
    if given.person.is_none() && !case.join("saved.yml").exists() {
        through_the_command_line(case, &given).map_err(|err| format!("command line: {err}"))?;
    }
    Ok(())
}

/// The outcome, unless the case is about something that no library can be told.
fn through_the_library(case: &Path, given: &Given) -> Result<Option<Value>, String> {
    let stage = Stage::for_call(case, given);
    let answer = match &given.person {
        None => Answer::Nobody {
            hint: "run it from a terminal, where a person can be asked".into(),
        },
        Some(Said::Yes) => Answer::Approved,
        Some(Said::No(reason)) => Answer::Denied {
            reason: reason.clone(),
        },
        Some(Said::Amend(args)) => Answer::Amended(args.clone()),
    };
    // Arguments that are not JSON never reach the library.
    if given.args_text.is_some() {
        return Ok(None);
    }
    let app = App::open(stage.scene.project(), wiring(given.env.clone(), answer))
        .map_err(|err| err.to_string())?;
    if let Ok(saved) = fs::read_to_string(stage.scene.root.join(".glee/tools/tool/saved.yml")) {
        stage.scene.write(".glee/tools/tool/tool.yml", &saved);
        app.reload().map_err(|err| err.to_string())?;
    }
    let call = Call {
        tool: given.tool.clone().unwrap_or(stage.tool.clone()),
        args: stage.args(given),
        caller: Caller {
            name: "user".into(),
        },
        timeout: given.timeout_ms.map(std::time::Duration::from_millis),
        cancel: Cancel::never(),
        party: std::sync::Arc::new(Waits),
        approval: None,
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let outcome = runtime.block_on(app.call(call));
    let outcome = native::render(&outcome);
    stage.check(case, given, outcome.clone(), Update::Allowed)?;
    Ok(Some(stage.unfill(outcome)))
}

/// Nobody is there to answer, and nobody sets a deadline.
fn rest_can_tell(case: &Path, given: &Given) -> bool {
    given.args.is_some()
        && given.person.is_none()
        && given.timeout_ms.is_none()
        && !case.join("saved.yml").exists()
}

/// The outcome itself, by `POST /run/NAME`.
fn through_rest(case: &Path, given: &Given) -> Result<(), String> {
    let stage = Stage::for_call(case, given);
    let tool = given.tool.clone().unwrap_or(stage.tool.clone());
    let served = Served::open_with(&stage.scene, &given.env);
    let args = Value::Object(stage.args(given));
    let reply = served.rest(&format!("POST /run/{}", encode(&tool)), "none", &[], &args);
    let outcome: Value =
        serde_json::from_str(&reply.body).map_err(|err| format!("{err}: {reply:?}"))?;
    if (reply.status == 200) != (outcome["ok"] == true) {
        return Err(format!("{reply:?}"));
    }
    stage.check(case, given, outcome, Update::Forbidden)
}

/// Clients set no deadline of their own, and a form cannot amend arguments.
fn mcp_can_tell(case: &Path, given: &Given) -> bool {
    given.timeout_ms.is_none()
        && !case.join("saved.yml").exists()
        && !matches!(given.person, Some(Said::Amend(_)))
}

/// Directly and by `glee_tool`: the same answer, the same traces, and what the library answers.
fn through_mcp(case: &Path, given: &Given, outcome: &Value) -> Result<(), String> {
    let mut answers = Vec::new();
    for by_name in [false, true] {
        let stage = Stage::for_call(case, given);
        let tool = given.tool.clone().unwrap_or(stage.tool.clone());
        let args = stage.args(given);
        let params = match by_name {
            false => json!({"name": tool, "arguments": args}),
            true => json!({"name": "glee_tool", "arguments": {"name": tool, "params": args}}),
        };
        let answer = call_over_mcp(&stage.scene, given, params)?;
        stage.check_traces(given, &answer)?;
        let mut answer = stage.unfill(answer);
        answer.as_object_mut().unwrap().shift_remove("_meta");
        says(&answer, outcome)?;
        answers.push(answer);
    }
    match still(&answers[0]) == still(&answers[1]) {
        true => Ok(()),
        false => Err(format!("directly: {}\nby name: {}", answers[0], answers[1])),
    }
}

/// What differs from run to run, such as times, process ids and handles, are numbers; a time has a fraction or none.
fn still(value: &Value) -> String {
    let text = value.to_string();
    let is_digit = |at: Option<usize>| {
        at.is_some_and(|it| text.as_bytes().get(it).is_some_and(u8::is_ascii_digit))
    };
    let is_point = |at: usize| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1));
    text.char_indices()
        .filter(|(at, c)| !(c.is_ascii_hexdigit() || *c == '.' && is_point(*at)))
        .map(|(_, c)| c)
        .collect()
}

/// Whether a tool result says what an outcome says.
fn says(answer: &Value, outcome: &Value) -> Result<(), String> {
    let differs = || Err(format!("{outcome}\nis told as {answer}"));
    let text = answer["content"][0]["text"].as_str().unwrap_or_default();
    let structured = &answer["structuredContent"];
    if !structured.is_null() && !structured.is_object() {
        return Err(format!("structured content is no object: {answer}"));
    }
    if outcome["ok"] == false {
        let code = outcome["error"]["code"].as_str().unwrap();
        return match answer["isError"] == true && text.starts_with(&format!("{code}: ")) {
            true => Ok(()),
            false => differs(),
        };
    }
    let value = &outcome["value"];
    let is_told = structured == value
        || structured["result"] == *value
        || *value == text
        || value["content"] == answer["content"]
        || text.contains(&value.to_string())
        // A time that is told may be another one in the next run.
        || (structured.is_object() && still(structured) == still(value))
        // What is too large is given in part; where the tool says what it gives, that stands in the text.
        || structured["handle"].is_string()
        || serde_json::from_str(text).is_ok_and(|it: Value| it["handle"].is_string());
    let warned = outcome["warnings"].as_array().into_iter().flatten();
    let whole = answer.to_string();
    let is_warned = warned
        .map(|it| it.to_string())
        .all(|it| whole.contains(&it) || text.contains(it.trim_matches('"')));
    match is_told && is_warned {
        true => Ok(()),
        false => differs(),
    }
}

/// One call by a client of its own, whose person answers what the case says.
fn call_over_mcp(scene: &Scene, given: &Given, params: Value) -> Result<Value, String> {
    let mut child = std::process::Command::new(crate::support::GLEE)
        .arg("mcp")
        .current_dir(&scene.root)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("XDG_STATE_HOME", scene.root.with_file_name("state"))
        .envs(&given.env)
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut send = |message: Value| writeln!(stdin, "{message}").unwrap();
    let capabilities = match given.person {
        Some(_) => json!({"elicitation": {}}),
        None => json!({}),
    };
    send(
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"}
        }}),
    );
    send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    send(json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": params}));
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut answer = Err("the server said nothing more".to_owned());
    for line in lines.map_while(Result::ok) {
        let Ok(message) = serde_json::from_str::<Value>(&line) else {
            answer = Err(format!("not JSON: {line}"));
            break;
        };
        if message["method"] == "elicitation/create" {
            let content = match &given.person {
                Some(Said::No(reason)) => json!({"approve": false, "reason": reason}),
                _ => json!({"approve": true}),
            };
            let result = json!({"action": "accept", "content": content});
            send(json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
        } else if message["id"] == 2 {
            answer = match message.get("result") {
                Some(result) => Ok(result.clone()),
                None => Err(format!("a protocol error: {message}")),
            };
            break;
        }
    }
    child.kill().unwrap();
    child.wait().unwrap();
    answer
}

fn through_the_command_line(case: &Path, given: &Given) -> Result<(), String> {
    let stage = Stage::for_call(case, given);
    let tool = given.tool.clone().unwrap_or(stage.tool.clone());
    let timeout = given.timeout_ms.map(|it| (it as f64 / 1000.0).to_string());
    let mut args = vec!["run", &tool, "--json", "--params", "-"];
    if let Some(timeout) = &timeout {
        args.extend(["--timeout", timeout]);
    }
    let stdin = given
        .args_text
        .clone()
        .unwrap_or_else(|| Value::Object(stage.args(given)).to_string());
    let output = stage.scene.glee_with(&args, &given.env, &stdin);
    if output.status.code() != Some(given.exit) {
        return Err(format!(
            "exit code {:?}, expected {}\n{}{}",
            output.status.code(),
            given.exit,
            crate::support::stdout(&output),
            stderr(&output)
        ));
    }
    if given.args_text.is_some() {
        let expected = fs::read_to_string(case.join("outcome.json")).unwrap();
        let expected: Value = serde_json::from_str(&expected).unwrap();
        let said = stderr(&output);
        return match said.contains(expected["stderr"].as_str().unwrap()) {
            true => stage.check_traces(given, &Value::Null),
            false => Err(format!("stderr was {said}")),
        };
    }
    stage.check(case, given, output_json(&output), Update::Forbidden)
}

fn check_lint(case: &Path) -> Result<(), String> {
    let stage = Stage::set(case);
    let output = stage.scene.glee(&["lint", "--json"]);
    let found = output_json(&output);
    let problems: Vec<Value> = found["problems"].as_array().unwrap().iter().map(|it| {
        json!({"rule": it["rule"], "severity": it["severity"], "at": format!("{}:{}", it["line"], it["column"]), "message": it["message"], "fix": it["fix"]})
    }).collect();
    let path = case.join("lint.json");
    if updating() {
        fs::write(
            &path,
            serde_json::to_string_pretty(&problems).unwrap() + "\n",
        )
        .unwrap();
        return Ok(());
    }
    let errors = problems.iter().any(|it| it["severity"] == "error");
    if output.status.code() != Some(i32::from(errors)) {
        return Err(format!("lint exited with {:?}", output.status.code()));
    }
    compare(&fs::read_to_string(path).unwrap(), &Value::Array(problems))
        .map_err(|err| format!("lint.json: {err}"))
}

enum Update {
    Allowed,
    Forbidden,
}

/// A project made from a case folder, with an upstream of its own.
struct Stage {
    scene: Scene,
    upstream: Upstream,
    tool: String,
}

impl Stage {
    fn for_call(case: &Path, given: &Given) -> Stage {
        let stage = Stage::set(case);
        if given.reviewed {
            approve(&stage.scene, &stage.tool);
        }
        stage
    }

    fn set(case: &Path) -> Stage {
        let scene = Scene::new();
        let upstream = Upstream::start();
        let manifest = fs::read(case.join("tool.yml")).unwrap_or_default();
        let tool = String::from_utf8_lossy(&manifest)
            .lines()
            .find_map(|it| {
                it.strip_prefix("name: ")
                    .map(|it| it.trim().trim_matches(['"', '\'']).to_owned())
            })
            .unwrap_or_else(|| "tool".to_owned());
        let directory = fs::read_to_string(case.join("directory"))
            .map_or(tool.clone(), |it| it.trim().to_owned());
        let stage = Stage {
            scene,
            upstream,
            tool,
        };
        stage.copy(
            case,
            case,
            Path::new(".glee/tools").join(&directory).as_path(),
        );
        // Links, a line each: `name -> target`, from the root.
        for line in fs::read_to_string(case.join("links"))
            .unwrap_or_default()
            .lines()
        {
            let (name, target) = line.split_once(" -> ").unwrap();
            std::os::unix::fs::symlink(target, stage.scene.root.join(name)).unwrap();
        }
        stage
    }

    fn copy(&self, case: &Path, from: &Path, to: &Path) {
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let is_ours = from == case
                && [
                    "call.json",
                    "outcome.json",
                    "lint.json",
                    "directory",
                    "links",
                ]
                .contains(&name.as_str());
            if is_ours {
                continue;
            }
            if path.is_dir() {
                let inside = match name.as_str() {
                    "root" if from == case => PathBuf::new(),
                    "dot-git" => to.join(".git"),
                    _ => to.join(&name),
                };
                self.copy(case, &path, &inside);
                continue;
            }
            let target = to.join(&name);
            match String::from_utf8(fs::read(&path).unwrap()) {
                Ok(text) => {
                    let text = self.fill(&text);
                    self.scene.write(&target.to_string_lossy(), &text);
                }
                Err(err) => {
                    let target = self.scene.root.join(target);
                    fs::create_dir_all(target.parent().unwrap()).unwrap();
                    fs::write(target, err.into_bytes()).unwrap();
                }
            }
        }
    }

    fn fill(&self, text: &str) -> String {
        let origin = self.upstream.origin();
        let port = origin.rsplit(':').next().unwrap();
        text.replace("{{origin}}", &origin)
            .replace("{{port}}", port)
            .replace("{{root}}", &self.scene.root.display().to_string())
    }

    fn args(&self, given: &Given) -> Map<String, Value> {
        let args = Value::Object(given.args.clone().unwrap_or_default());
        serde_json::from_str(&self.fill(&args.to_string())).unwrap()
    }

    fn check(
        &self,
        case: &Path,
        given: &Given,
        mut outcome: Value,
        update: Update,
    ) -> Result<(), String> {
        let path = case.join("outcome.json");
        let expected = fs::read_to_string(&path).unwrap_or_default();
        self.check_traces(given, &outcome)?;
        if !expected.contains("\"meta\"") {
            outcome.as_object_mut().unwrap().shift_remove("meta");
        }
        let difference = compare(&expected, &self.unfill(outcome.clone()));
        if difference.is_err() && updating() && matches!(update, Update::Allowed) {
            let text = serde_json::to_string_pretty(&self.unfill(outcome)).unwrap();
            fs::write(&path, text + "\n").unwrap();
            return Ok(());
        }
        difference
    }

    /// Puts the placeholders back, so that an expectation holds on every machine.
    fn unfill(&self, value: Value) -> Value {
        let origin = self.upstream.origin();
        let port = origin.rsplit(':').next().unwrap();
        let text = value.to_string();
        let text = text
            .replace(&origin, "{{origin}}")
            .replace(&format!("127.0.0.1:{port}"), "127.0.0.1:{{port}}")
            .replace(&format!("port {port}"), "port {{port}}")
            .replace(&self.scene.root.display().to_string(), "{{root}}");
        serde_json::from_str(&text).unwrap()
    }

    fn check_traces(&self, given: &Given, outcome: &Value) -> Result<(), String> {
        let present = |path: &PathBuf| self.scene.root.join(path).exists();
        if let Some(path) = given.absent.iter().find(|it| present(it)) {
            return Err(format!("{} is there and must not be", path.display()));
        }
        if let Some(path) = given.present.iter().find(|it| !present(it)) {
            return Err(format!("{} is not there; {outcome}", path.display()));
        }
        for (path, expected) in &given.holds {
            let found = fs::read_to_string(self.scene.root.join(path)).unwrap_or_default();
            if found != *expected {
                return Err(format!("{} holds {found:?}; {outcome}", path.display()));
            }
        }
        if let Some(expected) = &given.requests {
            let seen: Vec<Value> = self
                .upstream
                .requests()
                .into_iter()
                .map(seen_json)
                .collect();
            compare(&expected.to_string(), &self.unfill(Value::Array(seen)))
                .map_err(|err| format!("requests: {err}"))?;
        }
        let audit = fs::read_to_string(self.scene.project().audit_log()).unwrap_or_default();
        if let Some(text) = given.audit.iter().find(|it| !audit.contains(it.as_str())) {
            return Err(format!("the audit log has no `{text}`:\n{audit}"));
        }
        for text in &given.nowhere {
            if outcome.to_string().contains(text.as_str()) || audit.contains(text.as_str()) {
                return Err(format!("`{text}` got out:\n{outcome}\n{audit}"));
            }
        }
        Ok(())
    }
}

fn seen_json(seen: Seen) -> Value {
    json!({"method": seen.method, "path": seen.path, "query": seen.query, "headers": seen.headers, "body": seen.body})
}

fn compare(expected: &str, actual: &Value) -> Result<(), String> {
    if expected.trim().is_empty() {
        return Err(format!("no expectation; got {actual:#}"));
    }
    let expected = Expected::parse(expected).map_err(|err| err.to_string())?;
    match expected.difference(actual) {
        None => Ok(()),
        Some(difference) => Err(format!("{difference}\nwhole: {actual:#}")),
    }
}

#[test]
fn there_are_enough_cases_and_every_requirement_has_one() {
    let mut count = 0;
    let mut named = BTreeSet::new();
    for area in below(&folders()) {
        let name = area.file_name().unwrap().to_string_lossy().into_owned();
        assert!(
            AREAS.contains(&name.as_str()),
            "no test runs the area {name}"
        );
        for case in below(&area) {
            count += 1;
            let given: Given =
                serde_json::from_str(&fs::read_to_string(case.join("call.json")).unwrap()).unwrap();
            assert!(
                !given.spec.is_empty(),
                "{} names no requirement",
                case.display()
            );
            named.extend(given.spec);
        }
    }
    assert!(count >= 120, "{count} cases");
    let wanted = [
        "F1", "F2", "F3", "F4", "F5", "F6", "C1", "C2", "C3", "C4", "C5", "C6", "E1", "E2", "E3",
        "M2", "M3", "M4",
    ];
    let missing: Vec<_> = wanted.iter().filter(|it| !named.contains(**it)).collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
}

/// Every built-in tool, and the kinds of cases it has: that it works, its limits, and each way in which it refuses or
/// fails. What no folder can tell, such as files by the million and real registries, is tested in `builtins`.
const OF_BUILTINS: &[(&str, &str)] = &[
    (
        "list_directory",
        "OK LIMIT INVALID_INPUT INVALID_PATH FILE_NOT_FOUND",
    ),
    (
        "read_file",
        "OK LIMIT INVALID_INPUT INVALID_PATH FILE_NOT_FOUND RULE_DENIED DISABLED",
    ),
    (
        "write_file",
        "OK LIMIT INVALID_INPUT INVALID_PATH FILE_NOT_FOUND PERMISSION_DENIED CONFLICT APPROVAL_REQUIRED APPROVAL_DENIED",
    ),
    (
        "delete_file",
        "OK INVALID_PATH FILE_NOT_FOUND PERMISSION_DENIED APPROVAL_REQUIRED APPROVAL_DENIED",
    ),
    (
        "move_file",
        "OK LIMIT INVALID_PATH FILE_NOT_FOUND PERMISSION_DENIED CONFLICT APPROVAL_REQUIRED",
    ),
    (
        "run_code",
        "OK LIMIT INVALID_INPUT TIMEOUT EXECUTION_ERROR RULE_DENIED",
    ),
    (
        "web_fetch",
        "OK LIMIT INVALID_INPUT TIMEOUT HTTP_ERROR HOST_NOT_ALLOWED APPROVAL_REQUIRED",
    ),
    (
        "web_search",
        "OK LIMIT INVALID_INPUT HTTP_ERROR SECRET_NOT_FOUND DISABLED",
    ),
    (
        "list_files",
        "OK LIMIT INVALID_INPUT INVALID_PATH FILE_NOT_FOUND",
    ),
    (
        "shell",
        "OK LIMIT INVALID_INPUT INVALID_PATH FILE_NOT_FOUND TIMEOUT APPROVAL_REQUIRED RULE_DENIED",
    ),
    (
        "fetch",
        "OK LIMIT INVALID_INPUT HTTP_ERROR HOST_NOT_ALLOWED",
    ),
    (
        "http_request",
        "OK LIMIT INVALID_INPUT TIMEOUT HTTP_ERROR HOST_NOT_ALLOWED APPROVAL_REQUIRED",
    ),
    (
        "tool_http_get",
        "OK LIMIT INVALID_INPUT HTTP_ERROR HOST_NOT_ALLOWED",
    ),
    (
        "tool_html_scraper",
        "OK INVALID_INPUT HTTP_ERROR HOST_NOT_ALLOWED",
    ),
    (
        "tool_json_parse",
        "OK LIMIT INVALID_INPUT INVALID_PATH FILE_NOT_FOUND",
    ),
    ("tool_text_search", "OK LIMIT INVALID_INPUT"),
    ("tool_exec", "OK LIMIT TIMEOUT RULE_DENIED"),
    (
        "tool_file_read",
        "OK INVALID_INPUT INVALID_PATH FILE_NOT_FOUND",
    ),
    (
        "tool_file_write",
        "OK INVALID_PATH FILE_NOT_FOUND PERMISSION_DENIED APPROVAL_REQUIRED",
    ),
    ("tool_ls", "OK LIMIT INVALID_PATH FILE_NOT_FOUND"),
    ("tool_docker_list", "INVALID_INPUT DISABLED"),
    ("tool_codegen", "OK HTTP_ERROR SECRET_NOT_FOUND DISABLED"),
    ("git_status", "OK EXECUTION_ERROR"),
    ("git_diff", "OK INVALID_PATH EXECUTION_ERROR"),
    (
        "git_log",
        "OK LIMIT INVALID_INPUT INVALID_PATH EXECUTION_ERROR",
    ),
    (
        "git_commit",
        "OK LIMIT INVALID_INPUT INVALID_PATH EXECUTION_ERROR APPROVAL_REQUIRED APPROVAL_DENIED",
    ),
    (
        "search_code",
        "OK LIMIT INVALID_INPUT INVALID_PATH FILE_NOT_FOUND",
    ),
    (
        "run_tests",
        "OK LIMIT INVALID_INPUT TIMEOUT EXECUTION_ERROR",
    ),
    (
        "format_code",
        "OK INVALID_INPUT INVALID_PATH FILE_NOT_FOUND PERMISSION_DENIED EXECUTION_ERROR",
    ),
    (
        "install_package",
        "LIMIT INVALID_INPUT APPROVAL_REQUIRED APPROVAL_DENIED",
    ),
];

#[test]
fn every_builtin_has_its_cases() {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for case in below(&folders().join("builtins")) {
        let read = |name: &str| fs::read_to_string(case.join(name)).unwrap();
        let given: Given = serde_json::from_str(&read("call.json")).unwrap();
        let outcome: Value = serde_json::from_str(&read("outcome.json")).unwrap();
        let kinds = found.entry(given.tool.unwrap_or_default()).or_default();
        kinds.insert(outcome["error"]["code"].as_str().unwrap_or("OK").to_owned());
        kinds.extend(given.limit.then(|| "LIMIT".to_owned()));
    }
    let told: Vec<&str> = OF_BUILTINS.iter().map(|it| it.0).collect();
    let all: Vec<&str> = glee::builtin::TABLE.iter().map(|it| it.name).collect();
    assert_eq!(told, all, "a built-in tool has no line");
    for (tool, kinds) in OF_BUILTINS {
        let found = found.remove(*tool).unwrap_or_default();
        let missing: Vec<&str> = kinds.split(' ').filter(|it| !found.contains(*it)).collect();
        assert!(missing.is_empty(), "`{tool}` has no case of {missing:?}");
    }
}
