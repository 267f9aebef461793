//! The command line as a person meets it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::support::{GLEE, Scene, json as output_json, on_a_terminal, stderr, stdout};

const SLEEPER: &str = "name: sleeper\ndescription: Sleeps\nkind: command\nversion: 1\ninputs: {schema: {type: object}}\noutputs: {format: text}\nexec: {command: {entrypoint: .glee/tools/sleeper/run.sh}}\npermissions: {network: false, fs: {write: ['.']}}\napproval: {required: false}\n";
const ASKER: &str = "name: asker\ndescription: Touches a file\nkind: command\nversion: 1\ninputs: {schema: {type: object, properties: {note: {type: string, description: n}}}}\noutputs: {format: text}\nexec: {command: {entrypoint: .glee/tools/asker/run.sh}}\npermissions: {network: false, fs: {write: ['.']}}\napproval: {required: true, reason: It touches a file}\n";
const SECRETIVE: &str = "name: secretive\ndescription: Sends a secret\nkind: http\nversion: 1\ninputs: {schema: {type: object, properties: {q: {type: string, description: q}}}}\noutputs: {format: json}\nexec: {http: {method: POST, url: 'https://api.example.com/x?k=${KEY}', headers: {Authorization: 'Bearer ${KEY}'}, body: {q: '${q}', key: '${KEY}'}}}\npermissions: {network: true, secrets: {KEY: {type: string}}}\napproval: {required: true, reason: It sends}\n";
const TYPES: &str = "name: types\ndescription: Echoes its arguments\nkind: command\nversion: 1\ninputs: {schema: {type: object, properties: {s: {type: string, description: s}, n: {type: integer, description: n}, b: {type: boolean, description: b}, l: {type: array, description: l}, x: {description: any}}}}\noutputs: {format: json}\nexec: {command: {entrypoint: cat, stdin: {s: '${s}', n: '${n}', b: '${b}', l: '${l}', x: '${x}'}}}\npermissions: {network: false}\napproval: {required: false}\n";

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write(".glee/tools/types/tool.yml", TYPES);
    scene
}

#[test]
fn a_new_project_works_at_once() {
    let scene = Scene::new();
    std::fs::remove_dir_all(scene.root.join(".glee")).unwrap();
    assert_eq!(scene.glee(&["list"]).status.code(), Some(2));
    assert!(scene.glee(&["init"]).status.success());
    assert_eq!(
        stdout(&scene.glee(&["run", "hello", "-p", "name=Ada"])),
        "Hello, Ada!\n"
    );
    for (kind, name) in [("command", "one"), ("python", "two"), ("http", "three")] {
        assert!(scene.glee(&["new", kind, name]).status.success());
        let again = scene.glee(&["new", kind, name]);
        assert_eq!(again.status.code(), Some(2), "{}", stderr(&again));
    }
    let lint = scene.glee(&["lint"]);
    assert_eq!(stdout(&lint), "0 errors, 0 warnings in 4 files\n");
    assert_eq!(
        stdout(&scene.glee(&["run", "one", "-p", "text=-rf /"])),
        "-rf /\n"
    );
    assert_eq!(
        output_json(&scene.glee(&["run", "two", "-p", "text=abc"])),
        json!({"text": "abc", "length": 3})
    );
    let dry = output_json(&scene.glee(&["run", "three", "-p", "text=a b", "--dry-run"]));
    assert_eq!(dry["url"], "https://api.example.com/v1/search?q=a%20b");
    let again = scene.glee(&["init"]);
    assert!(stdout(&again).contains("nothing was changed"));
}

#[test]
fn a_project_is_found_upwards_or_named() {
    let scene = scene();
    scene.write("a/b/file", "");
    let inside = Command::new(GLEE)
        .args(["list"])
        .current_dir(scene.root.join("a/b"))
        .output()
        .unwrap();
    assert!(stdout(&inside).starts_with("types"));
    let root = scene.root.to_str().unwrap();
    let outside = Command::new(GLEE)
        .args(["list", "--root", root])
        .current_dir("/")
        .output()
        .unwrap();
    assert!(stdout(&outside).starts_with("types"));
    let wrong = Command::new(GLEE)
        .args(["list", "--root", "/"])
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2));
    assert!(stderr(&wrong).contains("glee init"));
}

#[test]
fn arguments_are_typed_by_the_schema() {
    let scene = scene();
    let args = [
        "run",
        "types",
        "-p",
        "s=5",
        "-p",
        "n=5",
        "-p",
        "b=true",
        "-p",
        "l=[1,\"a\"]",
        "-p",
        "x=word=1",
    ];
    assert_eq!(
        output_json(&scene.glee(&args)),
        json!({"s": "5", "n": 5, "b": true, "l": [1, "a"], "x": "word=1"})
    );
    scene.write("params.json", r#"{"n": 1, "s": "file"}"#);
    let args = ["run", "types", "--params", "@params.json", "-p", "n=2"];
    assert_eq!(
        output_json(&scene.glee(&args)),
        json!({"s": "file", "n": 2})
    );
    let piped = scene.glee_with(
        &["run", "types", "--params", "-"],
        &BTreeMap::new(),
        r#"{"n": 3}"#,
    );
    assert_eq!(output_json(&piped), json!({"n": 3}));
    for bad in [
        vec!["run", "types", "-p", "n"],
        vec!["run", "types", "-p", "n=1", "-p", "n=2"],
        vec!["run", "types", "-p", "n=one"],
        vec!["run", "types", "-p", "n=99999999999999999999"],
        vec!["run", "types", "--params", "@nothing.json"],
        vec!["run", "types", "--timeout", "0"],
        vec!["run"],
        vec!["nothing"],
    ] {
        assert_eq!(scene.glee(&bad).status.code(), Some(2), "{bad:?}");
    }
}

#[test]
fn unknown_tools_are_guessed() {
    let output = scene().glee(&["run", "tpyes"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("did you mean `types`?"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_dry_run_masks_secrets_asks_nobody_and_sends_nothing() {
    let scene = scene();
    scene.write(".glee/tools/secretive/tool.yml", SECRETIVE);
    let env = BTreeMap::from([("KEY".to_owned(), "very-secret-1".to_owned())]);
    let output = scene.glee_with(&["run", "secretive", "-p", "q=x", "--dry-run"], &env, "");
    assert!(output.status.success(), "{}", stderr(&output));
    let shown = output_json(&output);
    assert!(!stdout(&output).contains("very-secret-1"));
    assert_eq!(shown["method"], "POST");
    assert_eq!(shown["headers"]["authorization"], "Bearer <KEY>");
    assert_eq!(shown["body"], json!({"q": "x", "key": "<KEY>"}));
    assert!(!scene.root.join(".glee/audit").exists());
}

#[test]
fn lint_speaks_three_languages() {
    let scene = scene();
    scene.write(
        ".glee/tools/bad/tool.yml",
        &TYPES
            .replace("name: types", "name: bad")
            .replace("${n}", "${m}"),
    );
    let text = scene.glee(&["lint"]);
    assert_eq!(text.status.code(), Some(1));
    let text = stdout(&text);
    assert!(
        text.contains(
            "error[unknown-placeholder]: `${m}` is neither an input nor a declared secret"
        ),
        "{text}"
    );
    assert!(text.contains("--> .glee/tools/bad/tool.yml:7:"), "{text}");
    assert!(text.contains("^^^^"), "{text}");
    let json = output_json(&scene.glee(&["lint", "--format", "json"]));
    assert_eq!((&json["errors"], &json["files"]), (&json!(1), &json!(2)));
    let column = json["problems"][0]["column"].as_u64().unwrap();
    let github = stdout(&scene.glee(&["lint", "--format", "github"]));
    assert!(
        github.starts_with(&format!(
            "::error file=.glee/tools/bad/tool.yml,line=7,col={column},title=unknown-placeholder::"
        )),
        "{github}"
    );
}

#[test]
fn one_bad_manifest_hides_no_other() {
    let scene = Scene::new();
    for n in 0..300 {
        let text = TYPES.replace("name: types", &format!("name: t{n}"));
        scene.write(&format!(".glee/tools/t{n}/tool.yml"), &text);
    }
    scene.write(".glee/tools/bomb/tool.yml", &"[".repeat(100_000));
    scene.write(".glee/tools/huge/tool.yml", &"#".repeat(2 << 20));
    std::fs::create_dir(scene.root.join(".glee/tools/empty")).unwrap();
    let listed = output_json(&scene.glee(&["list", "--json"]));
    assert_eq!(listed.as_array().unwrap().len(), 300);
    let report = output_json(&scene.glee(&["lint", "--json"]));
    let rules: Vec<_> = report["problems"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|it| it["severity"] == "error")
        .map(|it| it["rule"].as_str().unwrap())
        .collect();
    assert_eq!(rules, ["yaml", "no-manifest", "unreadable"]);
}

#[test]
fn a_module_is_found_though_its_directory_cannot_be_read() {
    let scene = Scene::below(std::path::Path::new(env!("CARGO_TARGET_TMPDIR")));
    for (name, module, file) in [("one", "one", "one.py"), ("two", "lib.two", "lib/two.py")] {
        scene.write(file, "def run():\n    return 'ran'\n");
        scene.write(
            &format!(".glee/tools/{name}/tool.yml"),
            &format!("name: {name}\ndescription: A module\nkind: python\nversion: 1\ninputs: {{schema: {{type: object}}}}\noutputs: {{format: text}}\nexec: {{python: {{module: {module}, function: run}}}}\npermissions: {{network: false}}\napproval: {{required: false}}\n"),
        );
        let output = scene.glee(&["run", name]);
        assert_eq!(stdout(&output), "ran\n", "{}", stderr(&output));
    }
}

#[test]
fn a_tool_that_is_not_there_is_told_in_json() {
    let scene = scene();
    for command in [["show", "nope"], ["test", "nope"]] {
        let output = scene.glee(&[&command[..], &["--json"]].concat());
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(output_json(&output)["error"]["code"], "NOT_FOUND");
    }
}

#[test]
fn a_config_that_cannot_be_read_hides_no_manifest() {
    let scene = scene();
    scene.write(".glee/tools/broken/tool.yml", "name: broken\n");
    let config = scene.root.join(".glee/config.yml");
    let _ = std::fs::remove_file(&config);
    std::fs::create_dir(&config).unwrap();
    let output = scene.glee(&["lint", "--json"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let problems = output_json(&output)["problems"].to_string();
    assert!(
        problems.contains("the file is not a regular file"),
        "{problems}"
    );
    assert!(
        problems.contains(".glee/tools/broken/tool.yml"),
        "{problems}"
    );
}

#[test]
fn ctrl_c_stops_the_tool_and_its_children() {
    let scene = scene();
    let sleep = unique_sleep();
    scene.write(".glee/tools/sleeper/tool.yml", SLEEPER);
    scene.write(".glee/tools/sleeper/run.sh", &sleeper(&sleep));
    let mut glee = Command::new(GLEE)
        .args(["run", "sleeper", "--json"])
        .current_dir(&scene.root)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&scene.root.join("gate"));
    let mut ready = String::new();
    std::fs::File::open(scene.root.join("gate"))
        .unwrap()
        .read_to_string(&mut ready)
        .unwrap();
    assert_eq!(ready, "ready\n");
    Command::new("kill")
        .args(["-INT", &glee.id().to_string()])
        .status()
        .unwrap();
    let status = glee.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    let mut text = String::new();
    glee.stdout
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert!(text.contains("\"CANCELLED\""), "{text}");
    let audit = std::fs::read_to_string(scene.project().audit_log()).unwrap();
    assert!(audit.contains("status=error code=CANCELLED"), "{audit}");
    assert_eq!(processes_with(&sleep), 0);
}

#[test]
fn nothing_survives_the_death_of_glee() {
    let scene = scene();
    let sleep = unique_sleep();
    scene.write(".glee/tools/sleeper/tool.yml", SLEEPER);
    scene.write(".glee/tools/sleeper/run.sh", &sleeper(&sleep));
    let mut glee = Command::new(GLEE)
        .args(["run", "sleeper"])
        .current_dir(&scene.root)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(&scene.root.join("gate"));
    std::fs::read_to_string(scene.root.join("gate")).unwrap();
    until(|| processes_with(&sleep) == 2);
    glee.kill().unwrap();
    glee.wait().unwrap();
    until(|| processes_with(&sleep) == 0);
}

#[test]
fn a_person_at_a_terminal_is_asked() {
    // The last one presses Ctrl-C.
    for (typed, code) in [("y\n", 0), ("\n", 3), ("n\n", 3), ("\u{3}", 130)] {
        let ran = code == 0;
        let scene = scene();
        scene.write(".glee/tools/asker/tool.yml", ASKER);
        scene.write(
            ".glee/tools/asker/run.sh",
            "#!/bin/sh\ntouch ran\necho done\n",
        );
        // `script` gives the command a terminal of its own.
        let mut child = Command::new("script")
            .args([
                "-qec",
                &format!("{GLEE} run asker -p 'note=a\u{202e}b'"),
                "/dev/null",
            ])
            .current_dir(&scene.root)
            .env("XDG_STATE_HOME", scene.root.with_file_name("state"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut screen = BufReader::new(child.stdout.take().unwrap());
        let mut seen = Vec::new();
        while !seen.ends_with(b"[y/s/a/e/N] ") {
            let byte = screen.fill_buf().unwrap().first().copied();
            seen.push(byte.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&seen))));
            screen.consume(1);
        }
        let asked = String::from_utf8_lossy(&seen).into_owned();
        assert!(
            asked.contains("It touches a file") && asked.contains("note = a\\u{202e}b"),
            "{asked}"
        );
        // People take their time, and nothing may be drawn over the question meanwhile.
        std::thread::sleep(std::time::Duration::from_millis(500));
        child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(typed.as_bytes())
            .unwrap();
        let status = child.wait().unwrap();
        assert_eq!(scene.root.join("ran").exists(), ran, "{typed:?}");
        assert_eq!(status.code(), Some(code), "{typed:?}");
        let mut rest = String::new();
        screen.read_to_string(&mut rest).unwrap();
        // Up to the echo of the answer: a tool that takes long is told of afterwards.
        let meanwhile = rest.split(['\n', '^']).next().unwrap_or_default();
        assert!(!meanwhile.contains("running asker"), "{rest}");
        let audit = std::fs::read_to_string(scene.root.join(".glee/audit/tools.log")).unwrap();
        assert!(code != 130 || audit.contains("code=CANCELLED"), "{audit}");
    }
}

const FORM: &str = "\
name: form
description: Take an order
kind: command
version: 1
inputs:
  schema:
    type: object
    required: [size, count]
    properties:
      size: {type: string, enum: [small, large], description: How large}
      count: {type: integer, description: How many}
      sauce: {type: string, default: none}
      note: {type: string}
elicit:
  - order: {message: 'What shall it be?', fields: [size, count, sauce, note]}
outputs: {format: text}
exec: {command: {entrypoint: .glee/tools/form/run.sh, args: ['${size}', '${count}', '${sauce}', '${note}']}}
permissions: {network: false, fs: {write: [.]}}
approval: {required: false}
";

fn form_scene() -> Scene {
    let scene = Scene::new();
    scene.write(".glee/tools/form/tool.yml", FORM);
    scene.write(
        ".glee/tools/form/run.sh",
        "#!/bin/sh\ntouch ran\necho \"got: $*\"\n",
    );
    scene
}

#[test]
fn a_person_at_a_terminal_fills_in_what_is_missing() {
    let scene = form_scene();
    let size = "size — How large (one of small, large): ";
    let count = "count — How many: ";
    let sauce = "sauce (default none): ";
    let note = "note (optional): ";
    let talk = [
        (size, "huge\n"),
        (size, "large\n"),
        (count, "\n"),
        (count, "2\n"),
        (sauce, "\n"),
        (note, "\n"),
    ];
    let (code, screen) = on_a_terminal(&scene, &format!("{GLEE} run form"), &talk);
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("got: large 2 none"), "{screen}");
    assert!(screen.contains("\"huge\" is not one of"), "{screen}");
    // What is there already is not asked for, and nobody is asked for nothing.
    let given = format!("{GLEE} run form -p size=small -p count=1 -p sauce=red");
    let (code, screen) = on_a_terminal(&scene, &given, &[(note, "hot\n")]);
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("got: small 1 red hot"), "{screen}");
}

#[test]
fn a_person_may_decline_to_fill_in() {
    let ctrl_d = ("\u{4}", 2, "nobody wanted to answer [INVALID_INPUT]");
    let ctrl_c = ("\u{3}", 130, "before it had its arguments [CANCELLED]");
    for (typed, code, said) in [ctrl_d, ctrl_c] {
        let scene = form_scene();
        let talk = [("(one of small, large): ", typed)];
        let (ended, screen) = on_a_terminal(&scene, &format!("{GLEE} run form"), &talk);
        assert_eq!(ended, Some(code), "{screen}");
        assert!(screen.contains(said), "{screen}");
        assert!(!scene.root.join("ran").exists());
    }
}

#[test]
fn a_pipe_fills_in_nothing() {
    let scene = form_scene();
    let output = scene.glee_with(&["run", "form"], &BTreeMap::new(), "large\n2\n\n\n");
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("`size` is required"));
    assert!(!scene.root.join("ran").exists());
    // Also where there is a terminal, somebody must be at both ends of it.
    for command in [
        format!("echo large | {GLEE} run form"),
        format!("{GLEE} run form 2>said"),
    ] {
        // Whoever would be asked has left: Ctrl-D.
        let (code, screen) = on_a_terminal(&scene, &command, &[("", "\u{4}")]);
        assert_eq!(code, Some(2), "{screen}");
        assert!(!screen.contains("What shall it be?"), "{screen}");
        assert!(!scene.root.join("ran").exists());
    }
}

#[test]
fn how_far_a_tool_is_stands_on_a_terminal_and_nowhere_else() {
    let scene = Scene::new();
    let manifest = FORM
        .replace("name: form", "name: slow")
        .replace("required: [size, count]", "required: []")
        .split("elicit:")
        .next()
        .unwrap()
        .to_owned();
    let rest = "outputs: {format: text}
exec: {command: {entrypoint: .glee/tools/slow/run.sh}}
permissions: {network: false}
approval: {required: false}
";
    scene.write(".glee/tools/slow/tool.yml", &(manifest + rest));
    scene.write(
        ".glee/tools/slow/run.sh",
        r#"#!/bin/sh
echo '{"progress": 1, "total": 2, "message": "half"}' >&"$GLEE_NOTES_FD"
echo '{"log": "all is well"}' >&"$GLEE_NOTES_FD"
sleep 1
echo done
"#,
    );
    let (code, screen) = on_a_terminal(&scene, &format!("{GLEE} run slow"), &[]);
    assert_eq!(code, Some(0), "{screen}");
    assert!(screen.contains("running slow 50% half"), "{screen}");
    assert!(screen.contains("all is well"), "{screen}");
    let output = scene.glee(&["run", "slow"]);
    assert_eq!(stdout(&output), "done\n");
    assert_eq!(stderr(&output), "");
}

#[test]
fn a_pipe_is_not_a_person() {
    let scene = scene();
    scene.write(".glee/tools/asker/tool.yml", ASKER);
    scene.write(".glee/tools/asker/run.sh", "#!/bin/sh\ntouch ran\n");
    let output = scene.glee_with(&["run", "asker"], &BTreeMap::new(), "y\ny\ny\n");
    assert_eq!(output.status.code(), Some(3));
    assert!(!scene.root.join("ran").exists());
}

#[test]
fn a_closed_pipe_is_no_crash() {
    let scene = Scene::new();
    for n in 0..2000 {
        scene.write(
            &format!(".glee/tools/t{n}/tool.yml"),
            &TYPES.replace("name: types", &format!("name: t{n}")),
        );
    }
    let script = format!("{GLEE} list | head -n 1; exit 0");
    let output = Command::new("sh")
        .args(["-c", &script])
        .current_dir(&scene.root)
        .output()
        .unwrap();
    assert_eq!(stderr(&output), "");
}

#[test]
fn every_command_explains_itself() {
    let scene = scene();
    let help = stdout(&scene.glee(&["--help"]));
    assert!(help.contains("Exit codes:"));
    for command in [
        "init",
        "new",
        "lint",
        "list",
        "show",
        "run",
        "test",
        "schema",
        "doctor",
        "completions",
    ] {
        assert!(help.contains(&format!("  {command}")), "{command}");
        let own = scene.glee(&[command, "--help"]);
        assert!(
            own.status.success() && stdout(&own).contains("Usage:"),
            "{command}"
        );
    }
    for shell in ["bash", "zsh", "fish"] {
        assert!(stdout(&scene.glee(&["completions", shell])).contains("glee"));
    }
    let doctor = output_json(&scene.glee(&["doctor", "--json"]));
    for (what, expected) in [
        ("kernel", "Linux "),
        ("python", "Python 3."),
        ("landlock", "ABI "),
        ("cgroup", "version "),
        ("sandbox", "layer"),
    ] {
        let (found, problem) = (&doctor[what]["found"], &doctor[what]["problem"]);
        // What is missing here says why instead.
        let told = found.as_str().is_some_and(|it| it.contains(expected));
        assert!(told || problem.is_string(), "{what}: {found}");
    }
    assert_eq!(
        output_json(&scene.glee(&["schema", "config"]))["title"],
        "glee config"
    );
    assert!(stdout(&scene.glee(&["show", "types"])).contains("n: integer, optional"));
    assert_eq!(
        output_json(&scene.glee(&["show", "types", "--json"]))["kind"],
        "command"
    );
}

#[test]
fn failing_examples_fail_the_test_command() {
    let scene = scene();
    let examples = "examples:\n  - {description: right, params: {n: 1}, expected_output: {n: 1}}\n  - {description: wrong, params: {n: 1}, expected_output: {n: 2}}\n  - {description: open, params: {n: 1, s: x}, expected_output: '{\"n\": 1, ...}'}\n";
    scene.write(".glee/tools/types/tool.yml", &format!("{TYPES}{examples}"));
    let output = scene.glee(&["test"]);
    assert_eq!(output.status.code(), Some(1));
    let text = stdout(&output);
    assert!(
        text.contains("ok       types: right")
            && text.contains("FAILED   types: wrong")
            && text.contains("ok       types: open"),
        "{text}"
    );
    assert!(
        text.contains("at /n: expected 2, got 1") && text.contains("2 passed, 1 failed"),
        "{text}"
    );
}

/// Says when it is ready, then sleeps, with a child that tries to get away.
fn sleeper(sleep: &str) -> String {
    format!("#!/bin/sh\nsetsid sleep {sleep} &\nmkfifo gate\necho ready > gate\nsleep {sleep}\n")
}

/// A number of seconds that no other process sleeps for.
fn unique_sleep() -> String {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    format!("600.{}{count}", std::process::id())
}

/// Processes that hold this word on their command line.
fn processes_with(word: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let commands = entries.filter_map(|it| std::fs::read(it.path().join("cmdline")).ok());
    commands
        .filter(|it| it.split(|b| *b == 0).any(|it| it == word.as_bytes()))
        .count()
}

fn wait_for(path: &std::path::Path) {
    until(|| path.exists());
}

/// Waits for a condition, with a limit only so that a broken test ends.
fn until(condition: impl Fn() -> bool) {
    let limit = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !condition() {
        assert!(std::time::Instant::now() < limit, "it never came to be");
        std::thread::yield_now();
    }
}

/// Below /tmp the way to a grant lies in the scratch of the tool, which is no project.
#[test]
fn a_probe_tells_the_project_from_its_stand_in() {
    let granted = "network: false, fs: {read: [.glee/tools/types], write: [out]}";
    for parent in ["/tmp", "/var/tmp"] {
        let scene = Scene::below(parent.as_ref());
        let manifest = TYPES.replace("network: false", granted);
        scene.write(".glee/tools/types/tool.yml", &manifest);
        scene.write("out/file", "");
        let probe = || scene.glee(&["sandbox", "probe", "--tool", "types"]);
        let held = probe();
        assert!(held.status.success(), "{}", stdout(&held));
        assert!(stdout(&held).ends_with("\n0 of 18 attempts got through\n"));
        scene.write(".glee/config.yml", "sandbox: off\n");
        let open = stdout(&probe());
        for attempt in ["write to the project", "add a tool", "change the config"] {
            let through = format!("{attempt:32} GOT THROUGH\n");
            assert!(open.contains(&through), "{open}");
        }
        assert!(!stdout(&scene.glee(&["list"])).contains("probe"));
    }
}
