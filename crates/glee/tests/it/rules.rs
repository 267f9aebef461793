//! What stands between a call and its tool, where that is more than one case: the environment and the
//! service that is asked for its opinion.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::{Scene, stderr, stdout};

const TOOL: &str = "name: touch\ndescription: Leaves a file\nkind: command\nversion: 1
inputs: {schema: {type: object, additionalProperties: false}}
outputs: {format: text}
exec: {command: {entrypoint: touch, args: [ran]}}
permissions: {fs: {read: ['.'], write: ['.']}}
approval: {required: false}\n";

fn scene() -> Scene {
    let scene = Scene::new();
    scene.write(".glee/tools/touch/tool.yml", TOOL);
    scene
}

/// Answers one request with these bytes, and gives what it was asked.
fn service(answer: &'static str) -> (String, mpsc::Receiver<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/check", listener.local_addr().unwrap());
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .unwrap();
        let (mut request, mut piece) = (Vec::new(), [0; 4096]);
        loop {
            let count = stream.read(&mut piece).unwrap_or(0);
            request.extend_from_slice(&piece[..count]);
            let text = String::from_utf8_lossy(&request).into_owned();
            if let Some((_, body)) = text.split_once("\r\n\r\n")
                && let Ok(asked) = serde_json::from_str(body)
            {
                tell.send(asked).unwrap();
                break;
            }
            if count == 0 {
                return;
            }
        }
        if answer.is_empty() {
            // Says nothing until nobody waits any more.
            stream.set_read_timeout(None).unwrap();
            let _ = stream.read(&mut piece);
        }
        let _ = stream.write_all(answer.as_bytes());
    });
    (url, told)
}

#[test]
fn the_principles_have_a_say() {
    let ok = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n";
    let cases = [
        (r#"{"allowed": true, "reason": "fine"}"#, None),
        (
            r#"{"allowed": false, "reason": "not on a Friday"}"#,
            Some("not on a Friday"),
        ),
        (
            r#"{"allowed": "yes"}"#,
            Some("its answer is not {allowed, reason}"),
        ),
        ("true", Some("its answer is not {allowed, reason}")),
        ("{}", Some("its answer is not {allowed, reason}")),
        ("[true]", Some("its answer is not {allowed, reason}")),
        (
            r#"{"allowed": false, "reason": "no\u001b[31m\u202e, never"}"#,
            Some("allow it: no[31m, never [RULE_DENIED]"),
        ),
    ];
    let mut answers: Vec<(String, Option<&str>)> = cases
        .iter()
        .map(|(body, why)| (format!("{ok}{body}"), *why))
        .collect();
    answers.push((
        "HTTP/1.1 500 No\r\nconnection: close\r\n\r\n".into(),
        Some("status 500"),
    ));
    answers.push((String::new(), Some("no answer within 700 ms")));
    for (answer, refusal) in answers {
        let scene = scene();
        let (url, told) = service(Box::leak(answer.clone().into_boxed_str()));
        scene.write(
            ".glee/config.yml",
            &format!("principles: {{url: '{url}', timeout_ms: 700}}\n"),
        );
        let began = Instant::now();
        let output = scene.glee(&["run", "touch"]);
        assert!(began.elapsed() < Duration::from_secs(5), "{answer}");
        let asked = told.recv_timeout(Duration::from_secs(1)).unwrap();
        let project = scene.root.file_name().unwrap().to_str().unwrap();
        let expected = json!({
            "action": "invoke",
            "tool_id": "touch",
            "permissions": ["fs:read", "fs:write", "proc:exec"],
            "safety_level": "medium",
            "agent_id": "user",
            "project_id": project,
        });
        assert_eq!(asked, expected);
        let ran = scene.root.join("ran").exists();
        let log = std::fs::read_to_string(scene.root.join(".glee/audit/tools.log")).unwrap();
        match refusal {
            None => assert!(ran, "{}", stderr(&output)),
            Some(why) => {
                assert!(!ran, "{answer}");
                assert!(
                    stderr(&output).contains(why),
                    "{answer}: {}",
                    stderr(&output)
                );
                assert_eq!(output.status.code(), Some(3));
                assert!(log.contains("RULE_DENIED"), "{log}");
            }
        }
    }
}

#[test]
fn the_principles_are_not_asked_about_what_a_rule_denies() {
    let scene = scene();
    let (url, told) = service("");
    let rule = "rules: [{name: never, tools: [touch], decision: deny}]";
    scene.write(
        ".glee/config.yml",
        &format!("{rule}\nprinciples: {{url: '{url}'}}\n"),
    );
    assert_eq!(scene.glee(&["run", "touch"]).status.code(), Some(3));
    assert!(told.try_recv().is_err());
}

#[test]
fn without_an_opinion_a_person_may_be_asked() {
    let scene = scene();
    scene.write(
        ".glee/config.yml",
        "principles: {url: 'http://127.0.0.1:9/', on_error: ask}\n",
    );
    let output = scene.glee(&["run", "touch"]);
    assert!(
        stderr(&output).contains("APPROVAL_REQUIRED"),
        "{}",
        stderr(&output)
    );
    assert!(!scene.root.join("ran").exists());
}

#[test]
fn the_environment_says_which_permissions_there_are() {
    for (list, missing) in [
        (Some("fs:read,fs:write,proc:exec"), None),
        (None, None),
        (Some("fs:read, proc:exec"), Some("fs:write")),
        (Some(""), Some("fs:read, fs:write, proc:exec")),
    ] {
        let scene = scene();
        let env: BTreeMap<String, String> = list
            .map(|it| ("ALLOWED_TOOL_PERMS".to_owned(), it.to_owned()))
            .into_iter()
            .collect();
        let output = scene.glee_with(&["run", "touch"], &env, "");
        assert_eq!(
            scene.root.join("ran").exists(),
            missing.is_none(),
            "{list:?}: {}",
            stderr(&output)
        );
        if let Some(missing) = missing {
            let expected = format!("not among ALLOWED_TOOL_PERMS: {missing} [RULE_DENIED]");
            assert!(stderr(&output).contains(&expected), "{}", stderr(&output));
        }
    }
}

#[test]
fn rules_are_listed_and_tried_in_json() {
    let scene = scene();
    let listed: Value =
        serde_json::from_str(&stdout(&scene.glee(&["rules", "list", "--json"]))).unwrap();
    let names: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|it| it["name"].as_str())
        .collect();
    assert!(
        names.contains(&"deletion") && names.contains(&"sensitive-files"),
        "{names:?}"
    );
    scene.write(
        ".glee/config.yml",
        "rules: [{name: never, tools: ['t*'], decision: deny, reason: because}]\n",
    );
    let output = scene.glee(&["rules", "check", "touch", "--json"]);
    let found: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(found["decision"], "deny");
    assert_eq!(found["rules"][0]["name"], "never");
    assert_eq!(found["rules"][0]["reason"], "because");
    assert!(!scene.root.join("ran").exists());
}
