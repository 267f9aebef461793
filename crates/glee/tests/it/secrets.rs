//! Secrets: only those that are declared go in, and none comes out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Output, Stdio};

use data_encoding::{BASE64, BASE64URL_NOPAD, HEXLOWER, HEXUPPER};
use glee_core::redact::Redactor;
use glee_core::secret::{Secret, SecretValues};
use glee_core::url_template::encode;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{GLEE, Scene, json as output_json, on_a_terminal, stderr, stdout};

/// Unlike anything else on this machine.
const CANARY: &str = "canary-Zq7/x+9 \"Vp\" 3kW";

fn tool(kind: &str, rest: &str) -> String {
    format!(
        "name: tool\ndescription: A tool\nkind: {kind}\nversion: 1
inputs: {{schema: {{type: object, properties: {{note: {{type: string, description: n}}}}}}}}
outputs: {{format: text}}
{rest}\n"
    )
}

fn command(script: &str, permissions: &str) -> Scene {
    let scene = Scene::new();
    let manifest = tool(
        "command",
        &format!(
            "exec: {{command: {{entrypoint: .glee/tools/tool/run.sh}}}}\npermissions: {permissions}\napproval: {{required: false}}"
        ),
    );
    scene.write(".glee/tools/tool/tool.yml", &manifest);
    scene.write(".glee/tools/tool/run.sh", &format!("#!/bin/sh\n{script}\n"));
    scene.write(".glee/config.yml", "# all as it is\n");
    scene
}

fn http(url: &str, hosts: &str) -> Scene {
    let scene = Scene::new();
    let manifest = tool(
        "http",
        &format!(
            "exec: {{http: {{method: GET, url: '{url}', timeout_ms: 500}}}}\npermissions: {{network: {{hosts: [{hosts}]}}, secrets: {{KEY: {{type: string}}}}}}\napproval: {{required: false}}"
        ),
    );
    scene.write(".glee/tools/tool/tool.yml", &manifest);
    scene
}

fn env(value: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("KEY".to_owned(), value.to_owned())])
}

const ONE: &str = "{network: false, secrets: {KEY: {type: string}}}";

/// The secret in every form in which it is to be recognised.
fn forms(secret: &str) -> Vec<String> {
    let json = json!(secret).to_string();
    let mut forms = vec![
        secret.to_owned(),
        encode(secret),
        encode(secret).to_ascii_lowercase(),
        json[1..json.len() - 1].to_owned(),
        HEXLOWER.encode(secret.as_bytes()),
        HEXUPPER.encode(secret.as_bytes()),
    ];
    forms.retain(|it| it.len() >= 8);
    forms
}

/// Nothing that was printed, and no file of the project, may hold it.
#[track_caller]
fn is_nowhere(scene: &Scene, secret: &str, outputs: &[Output]) {
    let said: String = outputs.iter().map(|it| stdout(it) + &stderr(it)).collect();
    let mut files = vec![
        scene.root.join(".glee/audit"),
        scene.root.with_file_name("state"),
    ];
    let mut texts = vec![("what was printed".to_owned(), said)];
    while let Some(path) = files.pop() {
        match fs::read_dir(&path) {
            Ok(entries) => files.extend(entries.map(|it| it.unwrap().path())),
            Err(_) if !path.exists() => {}
            Err(_) => {
                let bytes = fs::read(&path).unwrap();
                let text = String::from_utf8_lossy(&bytes).into_owned();
                texts.push((path.display().to_string(), text));
            }
        }
    }
    for (place, text) in texts {
        for form in forms(secret) {
            assert!(!text.contains(&form), "{form} stands in {place}: {text}");
        }
    }
}

/// Answers every request alike.
fn upstream(answer: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            if answer.is_empty() {
                // Says nothing until nobody waits any more.
                let _ = stream.read(&mut request);
            }
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    port
}

#[test]
fn se_01_what_an_upstream_echoes_is_redacted_everywhere() {
    let secret = "canary-in-the-upstream";
    for answer in [
        "HTTP/1.1 200 OK\r\nconnection: close\r\nx-key: canary-in-the-upstream\r\n\r\nit is canary-in-the-upstream",
        "HTTP/1.1 500 canary-in-the-upstream\r\nconnection: close\r\n\r\n<p>canary-in-the-upstream</p>",
        "HTTP/1.1 302 Found\r\nconnection: close\r\nlocation: http://canary-in-the-upstream/\r\n\r\n",
    ] {
        let port = upstream(answer);
        let scene = http(
            &format!("http://127.0.0.1:{port}/?key=${{KEY}}"),
            &format!("'127.0.0.1:{port}'"),
        );
        let outputs: Vec<Output> = [&["run", "tool", "--json"][..], &["run", "tool"]]
            .iter()
            .map(|it| scene.glee_with(it, &env(secret), ""))
            .collect();
        is_nowhere(&scene, secret, &outputs);
        if answer.contains("200 OK") {
            assert!(stdout(&outputs[1]).contains("[REDACTED:KEY]"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]
    #[test]
    fn se_02_every_form_of_every_secret_is_redacted(
        secret in "[ -~]{8,40}|[ -~äöü€😀]{8,20}",
        before in "[a-z]{0,5}",
        after in "[a-z]{0,5}",
    ) {
        prop_assume!(!secret.trim().is_empty());
        let values = SecretValues::from([("KEY".to_owned(), Secret::new(secret.clone()))]);
        let redactor = Redactor::new(&values);
        for form in forms(&secret) {
            let text = redactor.text(format!("{before} {form} {after}"));
            // Letters in lower case are another secret; only digits of an encoding may be.
            if form != encode(&secret).to_ascii_lowercase() {
                prop_assert!(text.contains("[REDACTED:KEY]"), "{} in {}", form, text);
            }
        }
        let lower: String = encode(&secret)
            .split('%')
            .enumerate()
            .map(|(at, part)| match at {
                0 => part.to_owned(),
                _ => format!("%{}{}", part[..2].to_ascii_lowercase(), &part[2..]),
            })
            .collect();
        prop_assert!(redactor.text(lower.clone()).contains("[REDACTED:KEY]"), "{}", lower);
        // Whatever stands around it, so in each of the three alignments.
        let around = format!("{before}{secret}{after}");
        for text in [BASE64.encode(around.as_bytes()), BASE64URL_NOPAD.encode(around.as_bytes())] {
            let redacted = redactor.text(text.clone());
            prop_assert!(redacted.contains("[REDACTED:KEY]"), "{} → {}", text, redacted);
        }
        // As a whole value and as a key, too.
        let value = redactor.value(json!({secret.clone(): [secret.clone()]}));
        prop_assert!(!value.to_string().contains(&json!(secret).to_string()));
    }
}

#[test]
fn se_03_no_transport_error_tells_the_url() {
    let secret = "canary-in-the-query";
    let deaf = upstream("");
    let plain = upstream("this is not TLS, whatever you expected of it\r\n");
    for (url, host) in [
        (
            "http://127.0.0.1:1/?key=${KEY}".to_owned(),
            "'127.0.0.1:1'".to_owned(),
        ),
        (
            "http://nowhere.invalid/?key=${KEY}".to_owned(),
            "nowhere.invalid".to_owned(),
        ),
        (
            format!("http://127.0.0.1:{deaf}/${{KEY}}?key=${{KEY}}"),
            format!("'127.0.0.1:{deaf}'"),
        ),
        (
            format!("https://127.0.0.1:{plain}/?key=${{KEY}}"),
            format!("'127.0.0.1:{plain}'"),
        ),
    ] {
        let scene = http(&url, &host);
        let output = scene.glee_with(&["run", "tool", "--json"], &env(secret), "");
        let failed = output_json(&output);
        let code = failed["error"]["code"].as_str().unwrap().to_owned();
        assert!(
            ["HTTP_ERROR", "TIMEOUT"].contains(&code.as_str()),
            "{failed}"
        );
        let text = scene.glee_with(&["run", "tool"], &env(secret), "");
        is_nowhere(&scene, secret, &[output, text]);
    }
}

#[test]
fn se_04_nothing_of_glee_can_be_read_from_inside() {
    let scene = command(
        "cat /proc/self/environ /proc/1/environ /proc/$PPID/environ /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' '\\n'
head -c 1 /proc/1/mem /proc/$PPID/mem 2>/dev/null
ulimit -Sc; ulimit -Hc",
        ONE,
    );
    let mut env = env("declared-and-redacted");
    env.insert("UNDECLARED".into(), "canary-of-glee".into());
    let output = scene.glee_with(&["run", "tool"], &env, "");
    let said = stdout(&output);
    assert!(
        said.contains("KEY=[REDACTED:KEY]"),
        "{said}{}",
        stderr(&output)
    );
    assert!(
        !said.contains("UNDECLARED") && !said.contains("canary-of-glee"),
        "{said}"
    );
    assert!(said.ends_with("0\n0\n"), "core dumps: {said}");
}

#[test]
fn se_05_the_environment_is_exactly_this() {
    let scene = Scene::new();
    let manifest = tool(
        "command",
        &format!(
            "exec: {{command: {{entrypoint: env, args: ['-0'], env: {{MINE: mine}}}}}}\npermissions: {ONE}\napproval: {{required: false}}"
        ),
    );
    scene.write(".glee/tools/tool/tool.yml", &manifest);
    let mut env = env("declared-and-redacted");
    for name in [
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "GITHUB_TOKEN",
        "SSH_AUTH_SOCK",
        "LD_LIBRARY_PATH",
        "LD_AUDIT",
        "PYTHONPATH",
        "PYTHONSTARTUP",
        "BASH_ENV",
        "ENV",
        "HTTPS_PROXY",
        "http_proxy",
        "HOME",
        "USER",
        "DBUS_SESSION_BUS_ADDRESS",
    ] {
        env.insert(name.to_owned(), format!("/canary/{name}"));
    }
    let output = scene.glee_with(&["run", "tool", "--json"], &env, "");
    let value = output_json(&output)["value"].as_str().unwrap().to_owned();
    assert!(!value.contains("canary"), "{value}");
    let names: BTreeSet<&str> = value
        .split('\0')
        .filter_map(|it| it.split_once('='))
        .map(|it| it.0)
        .collect();
    let golden = [
        "GLEE_NOTES_FD",
        "HOME",
        "KEY",
        "LANG",
        "MINE",
        "PATH",
        "TMPDIR",
    ];
    assert_eq!(names, BTreeSet::from(golden), "{value}");
}

#[test]
fn se_06_a_secret_that_is_none_is_named_and_nothing_runs() {
    for value in [None, Some(""), Some("   "), Some("\n"), Some("\t \n")] {
        let scene = command(
            "touch ran",
            "{fs: {write: ['.']}, secrets: {KEY: {type: string}}}",
        );
        let env = value.map(env).unwrap_or_default();
        let output = scene.glee_with(&["run", "tool"], &env, "");
        let said = stderr(&output);
        assert!(
            said.contains("KEY is not set") && said.contains("SECRET_NOT_FOUND"),
            "{said}"
        );
        assert_eq!(output.status.code(), Some(3));
        assert!(!scene.root.join("ran").exists());
    }
    // With a line break it could be a second header.
    let port = upstream("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nreached");
    let scene = Scene::new();
    let manifest = tool(
        "http",
        &format!(
            "exec: {{http: {{method: GET, url: 'http://127.0.0.1:{port}/', headers: {{X-Key: '${{KEY}}'}}}}}}\npermissions: {{network: {{hosts: ['127.0.0.1:{port}']}}, secrets: {{KEY: {{type: string}}}}}}\napproval: {{required: false}}"
        ),
    );
    scene.write(".glee/tools/tool/tool.yml", &manifest);
    let secret = "canary-one\r\nX-Other: canary-two";
    let output = scene.glee_with(&["run", "tool"], &env(secret), "");
    assert!(!output.status.success() && !stdout(&output).contains("reached"));
    let said = stderr(&output);
    assert!(!said.contains("canary"), "{said}");
}

#[test]
fn se_07_a_short_secret_is_warned_of_and_left_alone() {
    let scene = command("echo \"a pin is $KEY, and 12345 a number\"", ONE);
    let output = scene.glee_with(&["run", "tool", "--json"], &env("1234"), "");
    let outcome = output_json(&output);
    assert_eq!(outcome["value"], "a pin is 1234, and 12345 a number\n");
    let warning = "KEY has fewer than 8 bytes, so it is not taken out of results and logs";
    assert_eq!(outcome["warnings"], json!([warning]));
    let lint = output_json(&scene.glee_with(&["lint", "--json"], &env("1234"), ""));
    assert_eq!(lint["problems"][0]["rule"], "short-secret");
    assert_eq!(lint["problems"][0]["severity"], "warning");
    let doctor = output_json(&scene.glee_with(&["doctor", "--json"], &env("1234"), ""));
    assert_eq!(doctor["secrets"]["problem"], warning);
    for output in [lint, doctor] {
        assert!(!output.to_string().contains("1234"), "{output}");
    }
    // One that is long enough is warned of by nobody.
    let fine = scene.glee_with(&["run", "tool", "--json"], &env("12345678"), "");
    assert!(output_json(&fine).get("warnings").is_none());
    let lint = output_json(&scene.glee_with(&["lint", "--json"], &env("12345678"), ""));
    assert_eq!(lint["warnings"], 0);
}

#[test]
fn se_08_nothing_that_is_printed_or_kept_holds_a_secret() {
    let values = SecretValues::from([("KEY".to_owned(), Secret::new(CANARY))]);
    assert_eq!(format!("{values:?}"), r#"{"KEY": <secret>}"#);
    let scene = command("echo \"$KEY\"; echo \"$KEY\" >&2; exit 3", ONE);
    let mut env = env(CANARY);
    env.insert("RUST_LOG".into(), "trace".into());
    env.insert("RUST_BACKTRACE".into(), "full".into());
    let commands: &[&[&str]] = &[
        &["--help"],
        &["run", "tool"],
        &["run", "tool", "--json"],
        &["run", "tool", "-p", "note=3", "--dry-run"],
        &["run", "tool", "-p", "nte=3"],
        &["show", "tool"],
        &["show", "tool", "--json"],
        &["list", "--json"],
        &["lint"],
        &["doctor"],
        &["test"],
        &["rules", "check", "tool"],
        &["sandbox", "explain", "tool"],
        &["audit", "tail"],
        &["audit", "export"],
        &["audit", "verify"],
        &["why"],
        &["why", "--json"],
    ];
    let outputs: Vec<Output> = commands
        .iter()
        .map(|it| scene.glee_with(it, &env, ""))
        .collect();
    is_nowhere(&scene, CANARY, &outputs);
    assert!(
        stderr(&outputs[1]).contains("[REDACTED:KEY]"),
        "{outputs:?}"
    );
}

#[test]
fn se_08_no_secret_is_among_the_words_of_a_process() {
    let scene = command(
        "echo ready > ready; exec sleep 600.25",
        "{fs: {write: ['.']}, secrets: {KEY: {type: string}}}",
    );
    let gate = scene.root.join("ready");
    let mut child = Command::new(GLEE)
        .args(["run", "tool"])
        .current_dir(&scene.root)
        .env("KEY", "canary-of-the-words")
        .env("XDG_STATE_HOME", scene.root.with_file_name("state"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !gate.exists() && child.try_wait().unwrap().is_none() {
        std::thread::yield_now();
    }
    let mut looked = 0;
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(words) = fs::read(entry.path().join("cmdline")) else {
            continue;
        };
        looked += 1;
        let words = String::from_utf8_lossy(&words).into_owned();
        assert!(!words.contains("canary-of-the-words"), "{words}");
    }
    assert!(gate.exists() && looked > 1);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn se_09_a_person_is_shown_names_and_no_values() {
    let scene = Scene::new();
    let manifest = tool(
        "http",
        "exec: {http: {method: POST, url: 'https://api.example.com/?k=${KEY}', headers: {X-Key: '${KEY}'}, body: {key: '${KEY}', note: '${note}'}}}\npermissions: {network: {hosts: [api.example.com]}, secrets: {KEY: {type: string}}}\napproval: {required: true, reason: it sends}",
    );
    scene.write(".glee/tools/tool/tool.yml", &manifest);
    let command = format!("KEY=canary-of-the-prompt {GLEE} run tool -p note=hello");
    let (_, said) = on_a_terminal(&scene, &command, &[("[y/s/a/e/N] ", "n\n")]);
    assert!(
        said.contains("KEY") && said.contains("note = hello"),
        "{said}"
    );
    assert!(!said.contains("canary"), "{said}");
    // And is told where to look, where a person can read it.
    assert!(said.contains("glee why "), "{said}");
}

#[test]
fn se_10_a_credential_in_a_manifest_is_warned_of() {
    let token = format!("ghp_{}", "Q7pX2mV9kT4wZ8cB1nR6sD3fG5hJ0lYaEuIo");
    let lint = |manifest: &str| {
        let scene = Scene::new();
        scene.write(".glee/tools/tool/tool.yml", manifest);
        let report = output_json(&scene.glee(&["lint", "--json"]));
        let problems = report["problems"].as_array().unwrap().clone();
        assert!(!report.to_string().contains(&token), "{report}");
        problems
            .iter()
            .filter(|it| it["rule"] == "secret-in-manifest")
            .map(|it| it["message"].clone())
            .collect::<Vec<Value>>()
    };
    let exec = |value: &str| {
        tool(
            "command",
            &format!(
                "exec: {{command: {{entrypoint: echo, args: ['{value}']}}}}\npermissions: {{network: false}}\napproval: {{required: false}}"
            ),
        )
    };
    assert_eq!(
        lint(&exec(&token)),
        [json!("this looks like a GitHub token")]
    );
    let example = format!("\nexamples: [{{description: e, params: {{note: '{token}'}}}}]");
    assert_eq!(lint(&(exec("x") + &example)).len(), 1);
    for harmless in ["${note}", "ghp_x", "a word", "sk-learn"] {
        assert_eq!(lint(&exec(harmless)), [] as [Value; 0], "{harmless}");
    }
}
