//! What is refused before anybody is asked, how numbers come, what words permissions have, where programs are found.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use glee_core::model::ToolSpec;
use glee_core::outcome::FailureKind;
use glee_core::port::Answer;
use glee_core::rule::permit;
use serde_json::json;

use super::{ALL, call, kind, means, nobody, open, scene, value};

/// `5.0` is an integer, for whoever is asked and for whoever runs it.
#[test]
fn whole_numbers_may_be_written_as_fractions() {
    let scene = scene(ALL);
    scene.write("a.txt", "one\ntwo\nthree\n");
    let app = open(&scene, nobody());
    let args = json!({"path": "a.txt", "offset": 0.0, "limit": 4.0});
    assert_eq!(
        value(call(&app, "read_file", args, None))["content"],
        "one\n"
    );
    let args = json!({"query": "t", "maxResults": 1.0});
    assert_eq!(
        value(call(&app, "search_code", args, None))["matches"][0]["line"],
        2
    );
    // What is no number of the program's is no question to a person.
    for wrong in [
        json!({"offset": 1e300}),
        json!({"offset": -1.0}),
        json!({"limit": 1.5}),
    ] {
        let mut args = wrong.clone();
        args["path"] = "a.txt".into();
        let outcome = call(&app, "read_file", args, None);
        assert_eq!(kind(&outcome), FailureKind::InvalidInput, "{wrong}");
    }
}

/// A person is not asked about what cannot be done whatever they say.
#[test]
fn nobody_is_asked_in_vain() {
    let scene = scene(ALL);
    scene.write("package.json", "{}");
    let app = open(&scene, nobody());
    let long = "é".repeat(60_000);
    for (tool, args, expected) in [
        (
            "install_package",
            json!({"packages": ["x;rm"]}),
            FailureKind::InvalidInput,
        ),
        (
            "install_package",
            json!({"packages": ["-e"]}),
            FailureKind::InvalidInput,
        ),
        (
            "delete_file",
            json!({"path": "missing"}),
            FailureKind::FileNotFound,
        ),
        (
            "delete_file",
            json!({"path": ".git/hooks"}),
            FailureKind::PermissionDenied,
        ),
        (
            "web_fetch",
            json!({"url": "http://10.0.0.1/"}),
            FailureKind::HostNotAllowed,
        ),
        (
            "http_request",
            json!({"url": "http://[::1]/"}),
            FailureKind::HostNotAllowed,
        ),
        (
            "web_fetch",
            json!({"url": "file:///etc/hosts"}),
            FailureKind::InvalidInput,
        ),
        (
            "git_commit",
            json!({"message": "x"}),
            FailureKind::ExecutionError,
        ),
        ("shell", json!({"command": long}), FailureKind::InvalidInput),
        ("tool_exec", json!({"cmd": long}), FailureKind::InvalidInput),
        (
            "run_code",
            json!({"language": "bash", "code": long}),
            FailureKind::InvalidInput,
        ),
    ] {
        let outcome = call(&app, tool, args.clone(), None);
        assert_eq!(kind(&outcome), expected, "{tool} {args:.60}");
    }
    for (tool, args) in [
        ("install_package", json!({"packages": ["x"]})),
        ("delete_file", json!({"path": "package.json"})),
        ("web_fetch", json!({"url": "http://example.test/"})),
    ] {
        let outcome = call(&app, tool, args, None);
        assert_eq!(kind(&outcome), FailureKind::ApprovalRequired, "{tool}");
    }
}

#[test]
fn permissions_have_the_words_they_are_known_by() {
    let tools = means().tools().unwrap();
    let words = |name: &str| {
        let found: &ToolSpec = tools.iter().find(|it| it.name == name).unwrap();
        permit::words(found)
    };
    for (tool, expected) in [
        ("tool_http_get", &["net:read"][..]),
        ("tool_file_read", &["fs:read"]),
        ("tool_file_write", &["fs:write"]),
        ("tool_exec", &["proc:exec"]),
        ("tool_docker_list", &["docker"]),
        ("tool_codegen", &["llm"]),
        // Those that nobody has named before say all that they do.
        ("shell", &["fs:read", "fs:write", "proc:exec"]),
    ] {
        assert_eq!(words(tool), expected, "{tool}");
    }
}

/// A program in a directory of its own, with a library beside it.
fn installed(at: &Path) {
    fs::create_dir_all(at.join("bin")).unwrap();
    fs::create_dir_all(at.join("lib")).unwrap();
    fs::write(at.join("lib/words"), "from the toolchain").unwrap();
    let program = at.join("bin/cargo");
    fs::write(
        &program,
        "#!/bin/sh\ncat \"$(dirname \"$0\")/../lib/words\"\n",
    )
    .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn programs_of_directories_that_a_project_names() {
    let elsewhere = tempfile::tempdir_in(std::env::var("HOME").unwrap()).unwrap();
    let toolchain = elsewhere.path().canonicalize().unwrap().join("toolchain");
    installed(&toolchain);
    fs::write(elsewhere.path().join("secret"), "x").unwrap();
    let config =
        |programs: &str| format!("builtins: {{enable: [core, dev], programs: [{programs}]}}\n");
    let named = scene(&config(&toolchain.display().to_string()));
    named.write("Cargo.toml", "[package]\nname = \"x\"\n");
    let app = open(&named, nobody());
    let ran = value(call(&app, "run_tests", json!({}), None));
    assert_eq!(ran["stdout"], "from the toolchain");
    let command = format!(
        "cargo; cat {0}/secret; touch {0}/toolchain/made",
        elsewhere.path().display()
    );
    let ran = value(call(&app, "shell", json!({"command": command}), None));
    assert_eq!(ran["stdout"], "from the toolchain", "{ran}");
    assert!(!toolchain.join("made").exists());
    // Whoever does not name it, does not have it.
    let plain = scene(&config(""));
    let app = open(&plain, nobody());
    let ran = value(call(&app, "shell", json!({"command": command}), None));
    assert_eq!(ran["stdout"], "");
    for wrong in ["bin", "/", "~/"] {
        let scene = scene(&config(wrong));
        assert_eq!(scene.glee(&["lint"]).status.code(), Some(1), "{wrong}");
    }
}

/// The link of an environment can be anybody's, so it opens nothing.
#[test]
fn an_environment_that_leads_elsewhere() {
    let elsewhere = tempfile::tempdir_in(std::env::var("HOME").unwrap()).unwrap();
    let python = elsewhere
        .path()
        .canonicalize()
        .unwrap()
        .join("version/bin/python3");
    fs::create_dir_all(python.parent().unwrap()).unwrap();
    fs::copy("/usr/bin/python3", &python).unwrap();
    let scene = scene(ALL);
    scene.write(
        "tests/test_x.py",
        "import unittest\nclass X(unittest.TestCase):\n    def test_x(self): pass\n",
    );
    scene.write("tests/__init__.py", "");
    fs::create_dir_all(scene.root.join(".venv/bin")).unwrap();
    symlink(&python, scene.root.join(".venv/bin/python")).unwrap();
    let app = open(&scene, Answer::Approved);
    let outcome = call(&app, "run_tests", json!({}), None).result.unwrap();
    assert_eq!(outcome.value["command"][0], "python3");
    assert_eq!(outcome.value["passed"], true, "{:?}", outcome.value);
    assert!(
        outcome.warnings[0].contains("builtins.programs"),
        "{:?}",
        outcome.warnings
    );
    let refused = call(
        &app,
        "install_package",
        json!({"packages": ["x"], "manager": "pip"}),
        None,
    );
    let refused = refused.result.unwrap_err();
    assert!(refused.message.contains("builtins.programs"), "{refused:?}");
}

/// What git keeps of passwords, what people decided, and what was done.
#[test]
fn what_file_tools_do_not_read() {
    let scene = scene(ALL);
    scene.write(
        ".git/config",
        "[remote \"origin\"]\n\turl = https://x:token@example.test/\n",
    );
    scene.write(".glee/audit/tools.log", "x\n");
    scene.write(".glee/approvals/a.json", "{}");
    scene.write("vendor/.git/config", "x");
    let app = open(&scene, nobody());
    for (tool, args, expected) in [
        (
            "read_file",
            json!({"path": ".git/config"}),
            FailureKind::RuleDenied,
        ),
        (
            "read_file",
            json!({"path": "vendor/.git/config"}),
            FailureKind::RuleDenied,
        ),
        (
            "tool_file_read",
            json!({"path": ".git/config"}),
            FailureKind::RuleDenied,
        ),
        (
            "shell",
            json!({"command": "cat .git/config"}),
            FailureKind::RuleDenied,
        ),
        (
            "read_file",
            json!({"path": ".glee/audit/tools.log"}),
            FailureKind::PermissionDenied,
        ),
        (
            "list_directory",
            json!({"path": ".glee/approvals"}),
            FailureKind::PermissionDenied,
        ),
        (
            "tool_json_parse",
            json!({"file": ".glee/approvals/a.json"}),
            FailureKind::PermissionDenied,
        ),
    ] {
        let outcome = call(&app, tool, args.clone(), None);
        assert_eq!(kind(&outcome), expected, "{tool} {args}: {outcome:?}");
    }
    let listed = value(call(
        &app,
        "list_directory",
        json!({"path": ".", "recursive": true, "includeHidden": true}),
        None,
    ));
    let listed = listed.to_string();
    assert!(
        listed.contains(".glee/config.yml") && !listed.contains("a.json"),
        "{listed}"
    );
}
