//! What the foundation costs: starting, loading, running one command, memory. `cargo bench` prints a
//! table; each figure stands beside what it is measured against, from the same run.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on should stop where it stands"
)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use glee::app::{App, Call, Wiring};
use glee::dialect::manifest;
use glee::exec::Stay;
use glee::observe::audit::{Audit, Fsync, Settings};
use glee::project::Project;
use glee::store::manifests;
use glee_core::admit::{self, Gate, Invocation};
use glee_core::event::{Event, What};
use glee_core::model::{Origin, ToolSpec};
use glee_core::outcome::Failure;
use glee_core::policy::{Asking, ManifestApproval, Rules};
use glee_core::port::{
    Answer, Anywhere, Approvals, Approver, Caller, Cancel, Consent, Kept, Later, Matter, Observer,
    Question, Recalled, Reviews, Secrets, Using, Waits,
};
use glee_core::rule;
use glee_core::secret::Secret;
use uuid::Uuid;

const GLEE: &str = env!("CARGO_BIN_EXE_glee");

const MANIFEST: &str = "\
name: <name>
description: Prints a word
kind: command
version: 1
inputs:
  schema:
    type: object
    additionalProperties: false
    properties:
      word: {type: string, description: The word to print, default: x}
      count: {type: integer, description: How often, default: 1, minimum: 1, maximum: 10}
      mode: {type: string, description: How, enum: [plain, loud]}
outputs:
  format: text
  schema: {type: string}
exec:
  command:
    entrypoint: /bin/echo
    args: ['${word}']
permissions:
  network: false
  fs: {read: [], write: []}
  secrets: {}
approval: {required: false}
";

const PYTHON: &str = "\
name: py
description: Adds one
kind: python
version: 1
inputs: {schema: {type: object, properties: {n: {type: integer, description: A number}}}}
outputs: {format: json}
exec: {python: {module: main, function: run, args: ['${n}'], cwd: .glee/tools/py}}
permissions: {network: false}
approval: {required: false}
";

const SHELL: &str = "\
name: shell
description: Runs a command line
kind: command
version: 1
inputs: {schema: {type: object, properties: {command: {type: string, description: What to run}}}}
outputs: {format: text}
exec: {command: {entrypoint: sh, args: ['-c', '${command}'], allow_dash: true}}
permissions: {network: false}
approval: {required: false}
";

const FLOOD: &str = "\
name: flood
description: Prints ten gigabytes
kind: command
version: 1
inputs: {schema: {type: object}}
outputs: {format: text}
exec: {command: {entrypoint: head, args: [-c, 10G, /dev/zero], timeout_ms: 600000}}
permissions: {network: false}
approval: {required: false}
";

fn main() {
    let project = tempfile::tempdir().unwrap();
    let root = project.path();
    tool(root, "one", MANIFEST);
    let thousand = tempfile::tempdir().unwrap();
    for n in 0..1000 {
        tool(thousand.path(), &format!("tool_{n}"), MANIFEST);
    }

    println!("{:34} {:>12}   compared with", "what", "measured");
    let version = median(50, || run(root, GLEE, &["--version"]));
    let echo = median(50, || run(root, "/bin/echo", &["x"]));
    row(
        "glee --version",
        &ms(version),
        &format!("/bin/echo {}, target 10 ms", ms(echo)),
    );
    // Turn about, so that both see the same machine.
    let mut bare = Vec::new();
    let mut through = Vec::new();
    for _ in 0..50 {
        bare.push(run(root, "/bin/echo", &["x"]));
        through.push(run(root, GLEE, &["run", "one"]));
    }
    let (bare, through) = (middle(bare), middle(through));
    let more = through.saturating_sub(bare);
    row(
        "glee run of /bin/echo",
        &ms(through),
        &format!(
            "/bin/echo {}, {} more, target 15 ms more",
            ms(bare),
            ms(more)
        ),
    );

    let load = median(10, || {
        let began = Instant::now();
        assert_eq!(
            manifests::load(&thousand.path().join(".glee/tools"))
                .unwrap()
                .len(),
            1000
        );
        began.elapsed()
    });
    row("loading 1 000 manifests", &ms(load), "target 300 ms");
    let list = median(10, || run(thousand.path(), GLEE, &["list"]));
    row("glee list of 1 000 tools", &ms(list), "");

    row(
        "one recorded event",
        &format!("{:.1} µs", recorded(root).as_secs_f64() * 1e6),
        "in the journal and the log, before the call goes on",
    );

    row(
        "judging a call nothing objects to",
        &format!("{:.1} µs", judged(root).as_secs_f64() * 1e6),
        "a command line with a pipe",
    );

    gate(root);
    python(root);
    row(
        "memory of glee list, 1 000 tools",
        &mib(peak(thousand.path(), &["list"])),
        "target 40 MiB",
    );
    let small = peak(root, &["run", "one"]);
    tool(root, "flood", FLOOD);
    let flood = peak(root, &["run", "flood"]);
    row(
        "memory of a run printing 10 GB",
        &mib(flood),
        &format!("a run printing 2 bytes {}, target 32 MiB more", mib(small)),
    );
}

/// What one event costs whoever waits for it.
fn recorded(root: &Path) -> Duration {
    let audit = Audit::new(Settings {
        root: root.to_owned(),
        directory: root.join("audit"),
        state: Some(root.join("state")),
        rotate_bytes: 64 << 20,
        fsync: Fsync::Soon,
    });
    let event = Event {
        id: Uuid::now_v7(),
        at: SystemTime::now(),
        tool: "one".into(),
        document: Some([7; 32]),
        actor: "user".into(),
        args: serde_json::Map::from_iter([("word".to_owned(), "x".into())]).into(),
        held: None,
        trail: Vec::new(),
        what: What::Started,
    };
    let many = 2000;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        audit.hear(&event).await.unwrap();
        let began = Instant::now();
        for _ in 0..many {
            audit.hear(&event).await.unwrap();
        }
        began.elapsed() / many
    })
}

/// What the rules cost a call that none of them objects to.
fn judged(root: &Path) -> Duration {
    tool(root, "shell", SHELL);
    let wiring = Wiring {
        launcher: GLEE.into(),
        ..Wiring::with(Nobody)
    };
    let app = App::open(Project::at(root).unwrap().unwrap(), wiring).unwrap();
    let line = "cargo test --workspace 2>&1 | tail -50";
    let judge = || {
        app.judge(Call {
            tool: "shell".into(),
            args: serde_json::Map::from_iter([("command".to_owned(), line.into())]),
            caller: Caller {
                name: "user".into(),
            },
            timeout: None,
            cancel: Cancel::never(),
            party: Arc::new(Waits),
            approval: None,
        })
    };
    assert!(judge().unwrap().is_empty());
    let many = 1000;
    let began = Instant::now();
    for _ in 0..many {
        judge().unwrap();
    }
    began.elapsed() / many
}

/// What comes before the run of a call that nobody has to approve: nothing is asked, and nothing of it
/// touches the disk.
fn gate(root: &Path) {
    let path = root.join(".glee/tools/one/tool.yml");
    let text = std::fs::read_to_string(&path).unwrap();
    let spec = Arc::new(manifest::read(&text, "one", &path).model.unwrap());
    let mut rules = rule::defaults();
    let gate = |rules| Gate {
        root: root.to_owned(),
        rules: Rules::new(rules),
        files: Arc::new(Anywhere),
        principles: None,
        approver: Arc::new(Nobody),
        approvals: Arc::new(Nobody),
        secrets: Arc::new(Nobody),
        reviews: Arc::new(Nobody),
    };
    let call = Invocation {
        id: Uuid::now_v7(),
        tool: "one".into(),
        args: serde_json::Map::new(),
        caller: Caller {
            name: "user".into(),
        },
        timeout: None,
        cancel: Cancel::never(),
        party: Arc::new(Waits),
        approval: None,
    };
    const TIMES: u32 = 1000;
    let each = |gate: &Gate| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        median(50, || {
            let began = Instant::now();
            for _ in 0..TIMES {
                let mut trail = Vec::new();
                let admitted = admit::admit(gate, spec.clone(), &call, &mut trail);
                assert!(runtime.block_on(admitted).is_ok());
            }
            began.elapsed() / TIMES
        })
    };
    let without = each(&gate(rule::defaults()));
    rules.push(Box::new(ManifestApproval {
        of: Asking::AllTools,
    }));
    let with = each(&gate(rules));
    row(
        "gate of a call nobody must approve",
        &us(with),
        &format!(
            "without looking whether somebody must {}, target 20 µs more",
            us(without)
        ),
    );
}

/// A small Python function by an interpreter that stays, beside one of its own.
fn python(root: &Path) {
    let directory = root.join(".glee/tools/py");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("tool.yml"), PYTHON).unwrap();
    std::fs::write(
        directory.join("main.py"),
        "import json, re\n\ndef run(n):\n    return n + 1\n",
    )
    .unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let open = |stay| {
        let wiring = Wiring {
            launcher: GLEE.into(),
            stay,
            ..Wiring::with(Nobody)
        };
        App::open(Project::at(root).unwrap().unwrap(), wiring).unwrap()
    };
    let call = |app: &App| {
        let began = Instant::now();
        let outcome = runtime.block_on(app.call(Call {
            tool: "py".into(),
            args: serde_json::Map::from_iter([("n".to_owned(), 1.into())]),
            caller: Caller {
                name: "user".into(),
            },
            timeout: None,
            cancel: Cancel::never(),
            party: std::sync::Arc::new(Waits),
            approval: None,
        }));
        assert_eq!(outcome.result.unwrap().value, 2);
        began.elapsed()
    };
    let (warm, cold) = (open(Stay::ForMany), open(Stay::ForOneCall));
    call(&warm);
    let cold = median(20, || call(&cold));
    for (what, gap) in [
        ("python function, 20 ms apart", Duration::from_millis(20)),
        ("python function, back to back", Duration::ZERO),
    ] {
        let stayed = median(100, || {
            std::thread::sleep(gap);
            call(&warm)
        });
        let ratio = cold.as_secs_f64() / stayed.as_secs_f64();
        row(
            what,
            &ms(stayed),
            &format!(
                "an interpreter of its own {}, {ratio:.1} times as long; target 3 ms and 10 times",
                ms(cold)
            ),
        );
    }
}

struct Nobody;

impl Approver for Nobody {
    fn ask<'a>(&'a self, _: &'a Question<'a>) -> Later<'a, Answer> {
        Box::pin(async {
            Answer::Nobody {
                hint: String::new(),
            }
        })
    }
}

impl Approvals for Nobody {
    fn standing(&self, _: &Matter<'_>) -> Option<Consent> {
        unreachable!("nobody has to be asked")
    }

    fn denied(&self, _: &Matter<'_>) -> Result<Option<(Uuid, String)>, Failure> {
        unreachable!("no tool here asks")
    }

    fn open(&self, _: &Matter<'_>, _: &str) -> Result<Kept, Failure> {
        unreachable!("nobody has to be asked")
    }

    fn answer(&self, _: Uuid, _: &Matter<'_>, _: &Answer, _: &str) -> Result<(), Failure> {
        unreachable!("nobody has to be asked")
    }

    fn recall(&self, _: Uuid, _: &Matter<'_>) -> Result<Recalled, Failure> {
        unreachable!("nobody has to be asked")
    }

    fn start(&self, _: &Consent, _: &Matter<'_>, _: Uuid) -> Result<Box<dyn Using>, Failure> {
        unreachable!("nobody has to be asked")
    }
}

impl Reviews for Nobody {
    fn origin(&self, spec: &ToolSpec) -> Origin {
        spec.origin.clone()
    }
}

impl Secrets for Nobody {
    fn get(&self, _: &str) -> Option<Secret> {
        None
    }
}

fn tool(root: &Path, name: &str, manifest: &str) {
    let directory = root.join(".glee/tools").join(name);
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("tool.yml"), manifest.replace("<name>", name)).unwrap();
}

fn run(root: &Path, program: &str, args: &[&str]) -> Duration {
    let began = Instant::now();
    let status = Command::new(program)
        .args(args)
        .current_dir(root)
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{program} {args:?}");
    began.elapsed()
}

/// The largest resident size, in KiB, of glee or of anything it started and waited for.
fn peak(root: &Path, args: &[&str]) -> u64 {
    const ASK: &str = "import resource, subprocess, sys\nsubprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)\nprint(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)";
    let output = Command::new("python3")
        .args(["-c", ASK, GLEE])
        .args(args)
        .current_dir(root)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout)
        .unwrap()
        .trim()
        .parse()
        .unwrap()
}

fn median(times: usize, measure: impl Fn() -> Duration) -> Duration {
    middle((0..times).map(|_| measure()).collect())
}

fn middle(mut all: Vec<Duration>) -> Duration {
    all.sort();
    all[all.len() / 2]
}

fn row(what: &str, measured: &str, against: &str) {
    println!("{what:34} {measured:>12}   {against}");
}

fn us(duration: Duration) -> String {
    format!("{:.2} µs", duration.as_secs_f64() * 1_000_000.0)
}

fn ms(duration: Duration) -> String {
    format!("{:.2} ms", duration.as_secs_f64() * 1000.0)
}

fn mib(kib: u64) -> String {
    format!("{:.1} MiB", kib as f64 / 1024.0)
}
