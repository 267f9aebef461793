//! What tests share: a throw-away project, the binary, JSON files that may leave parts open.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use glee::app::{App, Wiring};
use glee::approve::absent::Absent;
use glee::project::Project;
use glee::store::reviews::{Decision, Record, now};
use glee_core::port::{Answer, Approver, Later, Question, Secrets};
use glee_core::secret::Secret;
use serde_json::Value;
use tempfile::TempDir;

pub(crate) const GLEE: &str = env!("CARGO_BIN_EXE_glee");

/// A project in a directory of its own, gone when dropped.
pub(crate) struct Scene {
    pub(crate) root: PathBuf,
    _directory: TempDir,
}

impl Scene {
    pub(crate) fn new() -> Scene {
        Scene::below(&std::env::temp_dir())
    }

    /// For what differs below /tmp, where the sandbox puts the scratch directory of a call.
    pub(crate) fn below(parent: &Path) -> Scene {
        let directory = tempfile::Builder::new()
            .prefix("glee-test-")
            .tempdir_in(parent)
            .unwrap();
        // The project is not all there is: a home lies beside it, where its tools cannot look.
        let root = directory.path().canonicalize().unwrap().join("project");
        fs::create_dir_all(root.join(".glee/tools")).unwrap();
        Scene {
            root,
            _directory: directory,
        }
    }

    pub(crate) fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        if text.starts_with("#!") {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        path
    }

    pub(crate) fn project(&self) -> Project {
        Project::at(&self.root).unwrap().unwrap()
    }

    /// Runs the binary in the project, with nothing of the test's own environment but the PATH,
    /// and a place beside the project for what tools must not reach.
    pub(crate) fn glee(&self, args: &[&str]) -> Output {
        self.glee_with(args, &BTreeMap::new(), "")
    }

    pub(crate) fn glee_with(
        &self,
        args: &[&str],
        env: &BTreeMap<String, String>,
        stdin: &str,
    ) -> Output {
        let mut child = Command::new(GLEE)
            .args(args)
            .current_dir(&self.root)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("XDG_STATE_HOME", self.root.with_file_name("state"))
            .envs(env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that does not read its input may be gone already.
        let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
        child.wait_with_output().unwrap()
    }
}

/// A command on a terminal of its own: it is told the answers, each when the screen ends with the
/// question. Gives back all that stood there.
pub(crate) fn on_a_terminal(
    scene: &Scene,
    command: &str,
    talk: &[(&str, &str)],
) -> (Option<i32>, String) {
    let (code, screen, asked) = talk_on_a_terminal(scene, command, talk);
    assert_eq!(asked, talk.len(), "{screen}");
    (code, screen)
}

/// The same, for a command that may not ask; how many questions there were is told as well.
pub(crate) fn talk_on_a_terminal(
    scene: &Scene,
    command: &str,
    talk: &[(&str, &str)],
) -> (Option<i32>, String, usize) {
    let mut child = Command::new("script")
        .args(["-qec", command, "/dev/null"])
        .current_dir(&scene.root)
        .env("XDG_STATE_HOME", scene.root.with_file_name("state"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut screen = BufReader::new(child.stdout.take().unwrap());
    let mut seen = Vec::new();
    let mut asked = 0;
    'talk: for (question, answer) in talk {
        while !seen.ends_with(question.as_bytes()) {
            let Some(byte) = screen.fill_buf().unwrap().first().copied() else {
                break 'talk;
            };
            seen.push(byte);
            screen.consume(1);
        }
        asked += 1;
        let stdin = child.stdin.as_mut().unwrap();
        stdin.write_all(answer.as_bytes()).unwrap();
    }
    // The terminal stays open until the command has ended by itself.
    let stdin = child.stdin.take();
    let code = child.wait().unwrap().code();
    drop(stdin);
    screen.read_to_end(&mut seen).unwrap();
    (code, String::from_utf8_lossy(&seen).into_owned(), asked)
}

/// Whether the long run was asked for.
pub(crate) fn is_long() -> bool {
    std::env::var_os("GLEE_LONG").is_some()
}

/// A count for every day, and one for the long run.
pub(crate) fn long<T>(usual: T, long: T) -> T {
    match is_long() {
        true => long,
        false => usual,
    }
}

/// As if a person had approved what is there, whatever it is: the record alone says so.
pub(crate) fn approve(scene: &Scene, tool: &str) {
    let nobody = Answer::Nobody {
        hint: String::new(),
    };
    let app = App::open(scene.project(), wiring(BTreeMap::new(), nobody)).unwrap();
    let spec = app.tools().find(tool).unwrap();
    let records = app.review_records();
    let _alone = records.alone().unwrap();
    let record = Record {
        creator: "claude".into(),
        client: None,
        created_at: now(),
        trials: None,
        decision: Some(Decision {
            approved: true,
            by: "user".into(),
            at: now(),
            reason: String::new(),
            digest: app.seen(&spec).unwrap().digest,
            manifest: fs::read_to_string(&spec.source).unwrap(),
            files: BTreeMap::new(),
        }),
    };
    records.put(tool, &record).unwrap();
}

/// What differs between a test and the command line: secrets from a map, a scripted person, and the
/// real binary as the launcher.
pub(crate) fn wiring(secrets: BTreeMap<String, String>, answer: Answer) -> Wiring {
    Wiring {
        natives: Vec::new(),
        approver: std::sync::Arc::new(Person(answer)),
        secrets: std::sync::Arc::new(Known(secrets)),
        launcher: GLEE.into(),
        stay: glee::exec::Stay::ForMany,
        allowed_permissions: None,
        state: Some("../state".into()),
        ..Wiring::with(Absent)
    }
}

struct Person(Answer);

impl Approver for Person {
    fn ask<'a>(&'a self, _: &'a Question<'a>) -> Later<'a, Answer> {
        let answer = self.0.clone();
        Box::pin(async move { answer })
    }
}

struct Known(BTreeMap<String, String>);

impl Secrets for Known {
    fn get(&self, name: &str) -> Option<Secret> {
        self.0.get(name).map(|it| Secret::new(it.clone()))
    }
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|err| panic!("{err}: {}{}", stdout(output), stderr(output)))
}

/// Whether files that are generated or expected should be written anew: `UPDATE=1 cargo test`.
pub(crate) fn updating() -> bool {
    std::env::var_os("UPDATE").is_some()
}

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .canonicalize()
        .unwrap()
}
