//! A call waits for what starts it, no longer than its caller does; and it is held as it was said.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glee::app::{App, Call};
use glee_core::outcome::{FailureKind, Outcome};
use glee_core::port::{Answer, Caller, Cancel, Waits};
use serde_json::json;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

use crate::mcp::server::{eventually, running, unique};
use crate::support::{GLEE, Scene, wiring};

/// A launcher that does not come up is given up after twenty seconds; nobody here may wait for that.
const SOON: Duration = Duration::from_secs(10);

/// A project whose launchers come up unless they are told to hang.
struct Stage {
    scene: Scene,
    app: Arc<App>,
    runtime: Runtime,
}

impl Stage {
    fn set(tools: &[&str]) -> Stage {
        let scene = Scene::new();
        for tool in tools {
            let manifest = format!(
                "
name: {tool}
description: Runs a script
kind: command
version: 1
inputs: {{schema: {{type: object, properties: {{do: {{type: string, description: What}}}}}}}}
outputs: {{format: text}}
exec: {{command: {{entrypoint: /bin/sh, args: [-c, '${{do}}'], timeout_ms: 60000}}}}
permissions: {{network: false}}
approval: {{required: false}}
"
            );
            scene.write(&format!(".glee/tools/{tool}/tool.yml"), &manifest);
        }
        let (hang, hung) = (beside(&scene, "hang"), beside(&scene, "hung"));
        let script = format!(
            "#!/bin/sh\n[ -e '{hang}' ] && echo >> '{hung}' && exec sleep 1000\nexec '{GLEE}' \"$@\"\n"
        );
        let launcher = scene.root.with_file_name("launcher");
        fs::write(&launcher, script).unwrap();
        fs::set_permissions(&launcher, fs::Permissions::from_mode(0o755)).unwrap();
        let mut wiring = wiring(BTreeMap::new(), Answer::Approved);
        wiring.launcher = launcher;
        let app = Arc::new(App::open(scene.project(), wiring).unwrap());
        let runtime = Runtime::new().unwrap();
        Stage {
            scene,
            app,
            runtime,
        }
    }

    fn launchers_hang(&self) {
        fs::write(beside(&self.scene, "hang"), "").unwrap();
    }

    fn launchers_come_up(&self) {
        fs::remove_file(beside(&self.scene, "hang")).unwrap();
    }

    fn one_hangs(&self) {
        let hung = beside(&self.scene, "hung");
        eventually("a launcher hangs", || {
            fs::metadata(&hung).is_ok_and(|it| it.len() > 0)
        });
    }

    fn call(&self, tool: &str, script: &str) -> Outcome {
        let call = call(tool, script, Cancel::never());
        self.runtime.block_on(self.app.call(call))
    }

    /// Gives the only launcher of the tool something to do, until this is dropped.
    fn keep_busy(&self) -> oneshot::Sender<()> {
        let (cancel, cancelled) = cancellable();
        let word = unique();
        self.begin(call("tool", &format!("exec sleep {word}"), cancelled));
        eventually("it runs", || running(&word));
        cancel
    }

    fn begin(&self, call: Call) -> tokio::task::JoinHandle<Outcome> {
        let app = self.app.clone();
        self.runtime.spawn(async move { app.call(call).await })
    }
}

fn beside(scene: &Scene, name: &str) -> String {
    scene.root.with_file_name(name).display().to_string()
}

fn call(tool: &str, script: &str, cancel: Cancel) -> Call {
    Call {
        tool: tool.into(),
        args: json!({"do": script}).as_object().unwrap().clone(),
        caller: Caller {
            name: "user".into(),
        },
        timeout: None,
        cancel,
        party: Arc::new(Waits),
        approval: None,
    }
}

fn cancellable() -> (oneshot::Sender<()>, Cancel) {
    let (cancel, cancelled) = oneshot::channel();
    let cancelled = Cancel::when(async {
        let _ = cancelled.await;
    });
    (cancel, cancelled)
}

fn kind(outcome: Outcome) -> FailureKind {
    outcome.result.unwrap_err().kind
}

#[test]
fn who_cancels_does_not_wait_for_the_first_launcher() {
    let stage = Stage::set(&["tool"]);
    stage.launchers_hang();
    let (cancel, cancelled) = cancellable();
    let called = stage.begin(call("tool", "true", cancelled));
    stage.one_hangs();
    let began = Instant::now();
    cancel.send(()).unwrap();
    let outcome = stage.runtime.block_on(called).unwrap();
    assert_eq!(kind(outcome), FailureKind::Cancelled);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn who_cancels_does_not_wait_for_another_launcher() {
    let stage = Stage::set(&["tool"]);
    assert!(stage.call("tool", "true").result.is_ok());
    let busy = stage.keep_busy();
    stage.launchers_hang();
    let (cancel, cancelled) = cancellable();
    let called = stage.begin(call("tool", "true", cancelled));
    stage.one_hangs();
    let began = Instant::now();
    drop(cancel);
    let outcome = stage.runtime.block_on(called).unwrap();
    assert_eq!(kind(outcome), FailureKind::Cancelled);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    drop(busy);
    stage.launchers_come_up();
    assert!(stage.call("tool", "true").result.is_ok());
}

#[test]
fn a_deadline_does_not_wait_for_a_launcher() {
    let stage = Stage::set(&["tool"]);
    stage.launchers_hang();
    let began = Instant::now();
    let called = Call {
        timeout: Some(Duration::from_millis(100)),
        ..call("tool", "true", Cancel::never())
    };
    let outcome = stage.runtime.block_on(stage.app.call(called));
    assert_eq!(kind(outcome), FailureKind::Timeout);
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

#[test]
fn a_launcher_that_hangs_is_in_the_way_of_nobody_elses_tool() {
    let stage = Stage::set(&["known", "hangs", "new"]);
    assert!(stage.call("known", "true").result.is_ok());
    stage.launchers_hang();
    let (cancel, cancelled) = cancellable();
    let hangs = stage.begin(call("hangs", "true", cancelled));
    stage.one_hangs();
    stage.launchers_come_up();
    let began = Instant::now();
    for tool in ["known", "new"] {
        assert!(stage.call(tool, "true").result.is_ok(), "{tool}");
    }
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    drop(cancel);
    let outcome = stage.runtime.block_on(hangs).unwrap();
    assert_eq!(kind(outcome), FailureKind::Cancelled);
}

/// What holds a call is recorded before it runs, so that it may not be less then.
#[test]
fn a_machine_that_holds_less_than_before_is_found_out() {
    const INSIDE: &str = "GLEE_TEST_FEWER_USERNS";
    if std::env::var_os(INSIDE).is_some() {
        let stage = Stage::set(&["tool"]);
        // In a place of its own a tool sees only itself, its parent, and what it starts.
        let look = "set -- /proc/[0-9]*; [ $# -lt 6 ] && echo alone || echo among others";
        let outcome = stage.call("tool", look);
        let by = outcome.meta.held.unwrap().by;
        assert!(by.starts_with("full"), "{by}");
        assert_eq!(outcome.result.unwrap().value, "alone\n");
        // The only launcher there is has something to do, and another cannot be made as it was.
        let _busy = stage.keep_busy();
        fs::write("/proc/sys/user/max_user_namespaces", "0").unwrap();
        let refused = stage.call("tool", look);
        assert_eq!(kind(refused), FailureKind::SandboxUnavailable);
        let weaker = stage.call("tool", look);
        assert_eq!(weaker.meta.held.unwrap().by, "landlock");
        assert_eq!(weaker.result.unwrap().value, "among others\n");
        return;
    }
    let made = Command::new("unshare")
        .args(["--user", "--map-root-user"])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "starts::a_machine_that_holds_less_than_before_is_found_out",
            "--nocapture",
        ])
        .env(INSIDE, "1")
        .output();
    match made {
        Ok(out) => assert!(
            out.status.success(),
            "{}{}",
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr)
        ),
        Err(err) => println!("void: {err}"),
    }
}
