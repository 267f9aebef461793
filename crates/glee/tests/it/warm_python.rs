//! Interpreters that stay between calls carry nothing from one call to the next.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use glee::app::{App, Call};
use glee_core::outcome::{Failure, FailureKind};
use glee_core::port::{Answer, Caller, Cancel, Waits};
use serde_json::{Value, json};

use crate::mcp::server::{Pipes, eventually, running, unique};
use crate::support::{Scene, long, stdout, wiring};

const MANIFEST: &str = "\
name: tool
description: A function
kind: python
version: 1
inputs: {schema: {type: object, properties: {do: {type: string, description: What to do}}}}
outputs: {format: json}
exec: {python: {module: main, function: run, args: ['${do}'], cwd: .glee/tools/tool, timeout_ms: 2000}}
permissions: {network: false, secrets: {TOKEN: {type: string}}}
approval: {required: false}
";

const MODULE: &str = r#"
import ctypes, fcntl, os, random, resource, signal, struct, subprocess, sys, threading, time

libc = ctypes.CDLL(None, use_errno=True)

IMPORTED = os.urandom(8).hex()
AT_IMPORT = sorted(os.environ)
calls = 0

def run(do):
    global calls
    calls += 1
    if do == "leave a file":
        open("/tmp/left", "w").write("x")
    if do == "leave a hidden file":
        for place in ("/tmp", *below()):
            open(f"{place}/left", "w").close()
            os.utime(place, ns=(0, 0))
    if do == "leave a file below":
        open(f"{below()[-1]}/left", "w").write("x")
    if do == "leave a process":
        subprocess.Popen(["sleep", "600"], start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if do == "hang":
        time.sleep(600)
    if do == "die":
        os._exit(7)
    if do == "leave an object":
        libc.shmget(7, 4096, 0o1600)
    if do == "reach the keeper":
        return reach(os.getppid())
    if do == "reach the next":
        return reach(wait_for(the_next))
    if do == "use all":
        return use_all()
    if do.startswith("use "):
        return use(int(do.split()[1]))
    if do.startswith("leave running "):
        return leave(*do.split()[2:])
    if do.startswith("come back "):
        return come_back(do.split()[2])
    if do.startswith("find "):
        return is_in_memory(do.split()[1])
    return {
        "imported": IMPORTED, "calls": calls, "random": random.random(), "at_import": AT_IMPORT,
        "token": os.environ.get("TOKEN") is not None, "scratch": [sorted(os.listdir(it)) for it in ("/tmp", *below())],
        "objects": open("/proc/sysvipc/shm").read().count("\n") - 1,
        "processes": [it for it in commands() if it not in ("", open("/proc/self/cmdline").read())],
    }

def below():
    # Where the project is under /tmp, there is a directory on the way to it.
    own = os.stat("/tmp").st_dev
    return ["/dev/shm"] + [it.path for it in os.scandir("/tmp") if it.is_dir() and os.stat(it).st_dev == own]

def wait_for(found):
    while not (it := found()):
        time.sleep(0.001)
    return it

def others():
    return [int(it) for it in os.listdir("/proc") if it.isdigit() and int(it) not in (1, os.getpid(), os.getppid())]

def the_next():
    # It was forked later.
    return next((it for it in others() if it > os.getpid()), None)

def commands():
    for it in others():
        try:
            yield open(f"/proc/{it}/cmdline").read()
        # It was gone before it was opened, or before it was read.
        except (FileNotFoundError, ProcessLookupError):
            pass

def leave(how, word):
    sleep, quiet = ["/bin/sleep", word], dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    if how == "a-child":
        subprocess.Popen(sleep, **quiet)
    elif how == "an-orphan":
        subprocess.run(["/bin/sh", "-c", f"/bin/sleep {word} &"], **quiet)
    elif how == "a-child-of-a-thread":
        threading.Thread(target=subprocess.run, args=(sleep,), kwargs=quiet, daemon=True).start()
    else:
        # CLONE_PARENT, and with the signal that a parent waits for or without any.
        flags = {"a-sibling": 0x8000 | signal.SIGCHLD, "a-sibling-nobody-waits-for": 0x8000}[how]
        if libc.syscall(56 if X86 else 220, flags, 0, 0, 0, 0) == 0:
            os.closerange(0, 100)
            os.execv(sleep[0], sleep)
    return wait_for(lambda: any(word in it for it in commands()))

def use(count):
    # So many processes at once, which are gone at the end.
    started = []
    try:
        for _ in range(count):
            started.append(subprocess.Popen(["/bin/sleep", "600"]))
    finally:
        for it in started:
            it.kill()
            it.wait()
    return IMPORTED

def use_all():
    # As many processes as there can be, and as soon as possible.
    started = []
    try:
        while True:
            if (it := os.fork()) == 0:
                signal.pause()
            started.append(it)
    except BlockingIOError:
        pass
    for it in started:
        os.kill(it, signal.SIGKILL)
        os.waitpid(it, 0)
    return IMPORTED

def come_back(word):
    # Ends as a call does, and is woken by a timer.
    event = struct.pack("=QIIQQQQQQ", 0, signal.SIGCONT, 0, 0, 0, 0, 0, 0, 0)
    timer = ctypes.c_int()
    assert libc.timer_create(time.CLOCK_MONOTONIC, event, ctypes.byref(timer)) == 0
    soon = struct.pack("=qqqq", 0, 0, 0, 200_000_000)
    assert libc.timer_settime(ctypes.c_void_p.from_buffer(ctypes.c_uint64(timer.value)), 0, soon, None) == 0
    os.write(4, b'{"ok": true}\n1')
    os.closerange(0, 100)
    os.kill(os.getpid(), signal.SIGSTOP)
    os.execv("/bin/sleep", ["/bin/sleep", word])

def is_in_memory(word):
    # The word is given in hexadecimal digits, so that to ask for it does not put it there.
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb") as memory:
        for line in maps.read().splitlines():
            if " rw-p " in line:
                start, end = (int(it, 16) for it in line.split()[0].split("-"))
                memory.seek(start)
                if word in memory.read(end - start).hex():
                    return True
    return False

def succeeds(attempt):
    try:
        return attempt() not in (-1, None)
    except OSError:
        return False

def signal_by_owner(process):
    read, write = os.pipe()
    fcntl.fcntl(read, 10, signal.SIGKILL)  # F_SETSIG
    fcntl.fcntl(read, fcntl.F_SETOWN, process)
    fcntl.fcntl(read, fcntl.F_SETFL, fcntl.fcntl(read, fcntl.F_GETFL) | fcntl.FASYNC)
    # Nobody tells whether the signal arrives; if it does, there is no next call.
    os.write(write, b"x")

def reach(keeper):
    attempts = {
        "kill": lambda: os.kill(keeper, signal.SIGKILL) or 1,
        "kill a group": lambda: os.killpg(keeper, signal.SIGKILL) or 1,
        "kill all": lambda: os.kill(-1, signal.SIGKILL) or 1,
        "tkill": lambda: libc.syscall(200 if X86 else 130, keeper, 9),
        "tgkill": lambda: libc.tgkill(keeper, keeper, 9),
        "sigqueue": lambda: libc.sigqueue(keeper, 9, None),
        "pidfd": lambda: signal.pidfd_send_signal(os.pidfd_open(keeper), 9) or 1,
        "owner": lambda: signal_by_owner(keeper),
        "ptrace": lambda: libc.ptrace(16, keeper, None, None),
        "write memory": lambda: os.open(f"/proc/{keeper}/mem", os.O_RDWR),
        "read memory": lambda: os.open(f"/proc/{keeper}/mem", os.O_RDONLY),
        "descriptors": lambda: os.open(f"/proc/{keeper}/fd/0", os.O_RDONLY),
        "environment": lambda: len(open(f"/proc/{keeper}/environ").read()),
        "limits": lambda: len(resource.prlimit(keeper, resource.RLIMIT_NOFILE, (9, 9))),
        "processors": lambda: os.sched_setaffinity(keeper, {0}) or 1,
        "priority": lambda: os.setpriority(os.PRIO_PROCESS, keeper, 19) or 1,
    }
    return {"imported": IMPORTED, "succeeded": [name for name, it in attempts.items() if succeeds(it)]}

X86 = os.uname().machine == "x86_64"
"#;

struct Stage {
    scene: Scene,
    app: App,
    runtime: tokio::runtime::Runtime,
}

impl Stage {
    fn set(module: &str) -> Stage {
        Stage::set_with(MANIFEST, module)
    }

    /// With so many processes for a call.
    fn limited(processes: u32) -> Stage {
        let limits = format!("limits: {{processes: {processes}}}\n");
        Stage::set_with(&format!("{MANIFEST}{limits}"), MODULE)
    }

    fn set_with(manifest: &str, module: &str) -> Stage {
        let scene = Scene::new();
        scene.write(".glee/tools/tool/tool.yml", manifest);
        scene.write(".glee/tools/tool/main.py", module);
        let secrets = BTreeMap::from([("TOKEN".to_owned(), "secret-token-1".to_owned())]);
        let app = App::open(scene.project(), wiring(secrets, Answer::Approved)).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        Stage {
            scene,
            app,
            runtime,
        }
    }

    fn call(&self, what: &str) -> Result<Value, Failure> {
        let call = Call {
            tool: "tool".into(),
            args: json!({"do": what}).as_object().unwrap().clone(),
            caller: Caller {
                name: "user".into(),
            },
            timeout: None,
            cancel: Cancel::never(),
            party: std::sync::Arc::new(Waits),
            approval: None,
        };
        self.runtime
            .block_on(self.app.call(call))
            .result
            .map(|it| it.value)
    }
}

#[test]
fn the_module_is_imported_once_and_nothing_leaks() {
    let stage = Stage::set(MODULE);
    let first = stage.call("").unwrap();
    let second = stage.call("").unwrap();
    assert_eq!(
        first["imported"], second["imported"],
        "the interpreter did not stay"
    );
    assert_eq!((&first["calls"], &second["calls"]), (&json!(1), &json!(1)));
    assert_ne!(first["random"], second["random"]);
    assert_eq!(first["token"], true);
    assert!(
        !first["at_import"]
            .as_array()
            .unwrap()
            .contains(&json!("TOKEN")),
        "{first}"
    );
}

#[test]
fn what_a_call_leaves_behind_is_gone_for_the_next() {
    for left in [
        "leave a file",
        "leave a hidden file",
        "leave a file below",
        "leave a process",
        "leave an object",
    ] {
        let stage = Stage::set(MODULE);
        let clean = stage.call("").unwrap();
        // Also when the keeper has come to trust the times of what is there.
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(50) {
            stage.call("").unwrap();
        }
        let first = stage.call(left).unwrap();
        let second = stage.call("").unwrap();
        assert_eq!(clean["imported"], first["imported"]);
        assert_ne!(
            first["imported"], second["imported"],
            "{left}: the interpreter was kept"
        );
        assert_eq!(clean["scratch"], second["scratch"], "{left}");
        assert_eq!(clean["processes"], second["processes"], "{left}");
        assert_eq!(clean["objects"], second["objects"], "{left}");
    }
}

#[test]
fn a_call_does_not_reach_the_process_it_was_forked_from() {
    let stage = Stage::set(MODULE);
    let before = stage.call("").unwrap();
    let tried = stage.call("reach the keeper").unwrap();
    assert_eq!(tried["succeeded"], json!([]));
    let after = stage.call("").unwrap();
    assert_eq!(before["imported"], tried["imported"]);
    assert_eq!(before["imported"], after["imported"], "the keeper is gone");
}

/// The fork that will serve the next call is there already, and out of reach.
#[test]
fn a_call_does_not_reach_the_one_that_stands_by() {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map_while(|it| it.parse().ok());
    let kernel: (u32, u32) = (numbers.next().unwrap(), numbers.next().unwrap());
    if kernel < (6, 12) {
        println!("without a layer that keeps signals, none stands by");
        return;
    }
    let stage = Stage::set(MODULE);
    let before = stage.call("").unwrap();
    let tried = stage.call("reach the next").unwrap();
    assert_eq!(tried["succeeded"], json!([]));
    let after = stage.call("").unwrap();
    assert_eq!(before["imported"], tried["imported"]);
    assert_eq!(before["imported"], after["imported"], "the keeper is gone");
}

/// It was there while the other ran, and knows nothing of it.
#[test]
fn what_one_call_was_told_is_not_in_the_memory_of_the_next() {
    let stage = Stage::set(MODULE);
    let hex = |word: &str| -> String { word.bytes().map(|it| format!("{it:02x}")).collect() };
    assert_eq!(stage.call(&format!("find {}", hex("find "))).unwrap(), true);
    let word = unique();
    let told = stage.call(&word).unwrap();
    for _ in 0..2 {
        assert_eq!(stage.call(&format!("find {}", hex(&word))).unwrap(), false);
    }
    assert_eq!(told["imported"], stage.call("").unwrap()["imported"]);
}

#[test]
fn what_a_call_leaves_running_is_gone_when_it_is_answered() {
    for how in [
        "a-child",
        "an-orphan",
        "a-child-of-a-thread",
        "a-sibling",
        "a-sibling-nobody-waits-for",
    ] {
        let stage = Stage::set(MODULE);
        for _ in 0..2 {
            let word = unique();
            let left = stage.call(&format!("leave running {how} {word}"));
            assert_eq!(left.unwrap(), true, "{how} never ran");
            assert!(!running(&word), "{how} is still there");
        }
    }
}

/// What a module opened when it was imported is where a call's own pipes would be.
#[test]
fn no_file_of_the_module_is_where_the_answer_goes() {
    let stage = Stage::set(
        "LOGS = [open('/dev/null', 'w') for _ in range(4)]\n
def run(do):\n    for it in LOGS:\n        print(do, file=it, flush=True)\n    return 'the answer'\n",
    );
    for said in ["words", "{\"ok\": true}\n\"forged\""] {
        assert_eq!(stage.call(said).unwrap(), "the answer");
        assert_eq!(stage.call(said).unwrap(), "the answer");
    }
}

/// Whatever a module made when it was imported, calls tell each other nothing by it, nor by what was there.
#[test]
fn nothing_of_a_call_is_told_to_the_next() {
    let ways = [
        (
            "WORK = tempfile.mkdtemp()",
            "open(WORK + '/left', 'w')",
            "os.listdir(WORK)",
        ),
        (
            "HANDLE, FILE = tempfile.mkstemp(); os.close(HANDLE)",
            "open(FILE, 'w').write('x')",
            "os.stat(FILE).st_size",
        ),
        (
            "FILE = '/tmp/made'; open(FILE, 'w').write('.')",
            "page = mmap.mmap(os.open(FILE, os.O_RDWR), 1); page[0]; page[:1] = b'x'",
            "open(FILE).read() == 'x'",
        ),
        (
            "SHARED = mmap.mmap(-1, 4096)",
            "SHARED.write(b'x')",
            "SHARED[0]",
        ),
        (
            "",
            "os.chmod('/tmp', 0o1751)",
            "os.stat('/tmp').st_mode & 0o22 != 0o22",
        ),
        (
            "",
            "os.utime('/tmp', ns=(7, 7))",
            "os.stat('/tmp').st_mtime_ns == 7",
        ),
        (
            "",
            "os.setxattr('/dev/shm', 'user.note', b'x')",
            "os.listxattr('/dev/shm')",
        ),
    ];
    for (made, leave, look) in ways {
        let stage = Stage::set(&format!(
            "import mmap, os, tempfile\n{made}\n
def run(do):\n    if do == 'leave':\n        {leave}\n    return bool({look})\n"
        ));
        assert_eq!(stage.call("look").unwrap(), false, "{leave}");
        assert_eq!(stage.call("leave").unwrap(), true, "{leave} leaves nothing");
        assert_eq!(stage.call("look").unwrap(), false, "{leave} is told");
    }
}

/// Nobody looks at what a call does in its scratch directory while it is at it.
#[test]
fn a_call_may_make_and_remove_files() {
    let stage = Stage::set(
        "
import tempfile, time

def run(do):
    until = time.monotonic() + 0.03
    while time.monotonic() < until:
        with tempfile.TemporaryDirectory() as directory:
            open(f'{directory}/file', 'w').close()
    return True
",
    );
    for _ in 0..long(60, 1000) {
        assert_eq!(stage.call("").unwrap(), true);
    }
}

/// Not even when it has seen to it that something wakes it.
#[test]
fn a_call_that_has_ended_does_not_come_back() {
    let stage = Stage::set(MODULE);
    let first = stage.call("").unwrap();
    let word = unique();
    assert_eq!(stage.call(&format!("come back {word}")).unwrap(), 1);
    let next = stage.call("").unwrap();
    assert_eq!(first["imported"], next["imported"]);
    assert_eq!(first["processes"], next["processes"]);
    assert!(!running(&word), "it came back");
}

#[test]
fn nothing_stands_by_when_glee_was_killed() {
    let scene = Scene::new();
    let manifest = MANIFEST.replace(", secrets: {TOKEN: {type: string}}", "");
    let manifest = scene.write(".glee/tools/tool/tool.yml", &manifest);
    scene.write(".glee/tools/tool/main.py", MODULE);
    // The keeper is told the directory of its module, and its forks are called like it.
    let directory = manifest.parent().unwrap().canonicalize().unwrap();
    let directory = directory.to_str().unwrap();
    let mut pipes = Pipes::open(&scene, "2025-06-18");
    for id in 1..3 {
        let call = json!({"name": "tool", "arguments": {"do": ""}});
        let answer = pipes.ask(json!(id), "tools/call", call);
        assert_eq!(answer["result"]["isError"], false, "{answer}");
    }
    assert!(running(directory));
    pipes.child.kill().unwrap();
    eventually("the interpreters are gone", || !running(directory));
}

#[test]
fn a_changed_file_is_imported_anew() {
    let stage = Stage::set(MODULE);
    let first = stage.call("").unwrap();
    stage.scene.write(
        ".glee/tools/tool/main.py",
        &format!("{MODULE}\n# changed\n"),
    );
    assert_ne!(stage.call("").unwrap()["imported"], first["imported"]);
}

#[test]
fn the_end_of_a_call_is_the_end() {
    let stage = Stage::set(MODULE);
    for (what, kind) in [
        ("hang", FailureKind::Timeout),
        ("die", FailureKind::ExecutionError),
    ] {
        stage.call("").unwrap();
        assert_eq!(stage.call(what).unwrap_err().kind, kind, "{what}");
        stage.call("").unwrap();
    }
}

/// What stays between the calls is not counted as theirs.
#[test]
fn a_call_has_all_of_its_processes() {
    for (processes, others) in [(1, 0), (2, 1), (4, 3)] {
        let stage = Stage::limited(processes);
        let first = stage.call(&format!("use {others}")).unwrap();
        let second = stage.call(&format!("use {others}")).unwrap();
        assert_eq!(first, second, "the interpreter did not stay");
    }
}

#[test]
fn a_call_that_has_too_many_processes_is_told_so_and_ends_alone() {
    let stage = Stage::limited(4);
    for _ in 0..2 {
        stage.call("").unwrap();
        let failure = stage.call("use 60").unwrap_err();
        assert_eq!(failure.kind, FailureKind::ExecutionError, "{failure:?}");
        assert_eq!(failure.details["limit"], "processes", "{failure:?}");
    }
    stage.call("").unwrap();
}

/// There may be none left for the fork that will serve the next call.
#[test]
fn a_call_that_uses_up_its_processes_does_not_end_the_interpreter() {
    let stage = Stage::limited(4);
    let first = stage.call("use all").unwrap();
    for _ in 0..long(50, 1000) {
        assert_eq!(stage.call("use all").unwrap(), first);
    }
}

#[test]
fn a_keeper_that_dies_ends_its_call() {
    // A timer is not inherited by a fork, so this one ends the keeper alone.
    let timer = "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.3)\n";
    let stage = Stage::set(&format!("{timer}{MODULE}"));
    let failure = stage.call("hang").unwrap_err();
    assert_eq!(failure.kind, FailureKind::ExecutionError, "{failure:?}");
    stage.call("").unwrap();
}

#[test]
fn a_module_with_threads_is_not_forked() {
    let threads = "import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n";
    let stage = Stage::set(&format!("{threads}{MODULE}"));
    let (first, second) = (stage.call("").unwrap(), stage.call("").unwrap());
    assert_ne!(first["imported"], second["imported"]);
}

/// What a module does to its environment, its calls do not see, as they see nothing of each other's.
#[test]
fn the_environment_of_a_call_is_what_was_said() {
    let stage = Stage::set(
        "import os, subprocess\nos.environ.update({'LEFT': 'x', 'HOME': '/left'})\ndel os.environ['LANG']\n
def run(do):\n    return [dict(os.environ), subprocess.check_output('env', text=True)]\n",
    );
    for _ in 0..2 {
        let told = stage.call("").unwrap();
        let of_children = told[1].as_str().unwrap();
        for (name, value) in [("HOME", "/tmp"), ("LANG", "C.UTF-8")] {
            assert_eq!(told[0][name], value, "{told}");
            assert!(of_children.contains(&format!("{name}={value}\n")));
        }
        assert_eq!(told[0]["LEFT"], Value::Null);
        assert!(!of_children.contains("LEFT") && of_children.contains("TOKEN="));
    }
}

/// As it does in an interpreter of its own.
#[test]
fn a_module_may_write_json_in_its_own_way() {
    for own in [
        "json.dumps = functools.partial(json.dumps, default=str)",
        "class Own(json.JSONEncoder):\n    def default(self, it): return str(it)\njson.JSONEncoder = Own\n\
         json.dumps = functools.partial(json.dumps, cls=Own)",
    ] {
        let stage = Stage::set(&format!(
            "import datetime, functools, json\n{own}\ndef run(do):\n    return datetime.date(2020, 1, 2)\n"
        ));
        for _ in 0..2 {
            assert_eq!(stage.call("").unwrap(), json!("2020-01-02"));
        }
    }
}

#[test]
fn a_module_that_cannot_be_imported_says_why() {
    let stage = Stage::set("import nothing_of_that_name\n");
    let failure = stage.call("").unwrap_err();
    assert_eq!(failure.details["type"], "ModuleNotFoundError");
}

#[test]
fn a_virtual_environment_is_honoured() {
    let stage = Stage::set(
        "import sys, only_here\n\ndef run(do):\n    return [sys.prefix, only_here.VALUE]\n",
    );
    let venv = stage.scene.root.join(".venv");
    let made = std::process::Command::new("python3")
        .args(["-m", "venv", "--without-pip"])
        .arg(&venv)
        .status();
    assert!(made.unwrap().success());
    let library = std::fs::read_dir(venv.join("lib"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    std::fs::write(
        library.join("site-packages/only_here.py"),
        "VALUE = 'from the venv'\n",
    )
    .unwrap();
    let manifest = MANIFEST.replace("cwd: .glee", "venv: .venv, cwd: .glee");
    stage.scene.write(".glee/tools/tool/tool.yml", &manifest);
    stage.app.reload().unwrap();
    let expected = json!([venv.display().to_string(), "from the venv"]);
    // Once by a new interpreter, once by one that stayed.
    assert_eq!(stage.call("").unwrap(), expected);
    assert_eq!(stage.call("").unwrap(), expected);
}

/// A digest passes over what python made of a module; so must whatever runs it.
#[test]
fn ap_03_what_was_compiled_before_is_not_run() {
    let stage = Stage::set("import helper\n\ndef run(do):\n    return helper.WHO\n");
    let own = stage.scene.root.join(".glee/tools/tool");
    let poison = r#"
import importlib.util, os, py_compile
for name, bad in (("main", "def run(do): return 'poison'"), ("helper", "WHO = 'poison'")):
    open("bad.py", "w").write(bad)
    into = importlib.util.cache_from_source(name + ".py")
    py_compile.compile("bad.py", into, doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    os.remove("bad.py")
"#;
    stage
        .scene
        .write(".glee/tools/tool/helper.py", "WHO = 'source'\n");
    let poisoned = std::process::Command::new("python3")
        .args(["-c", poison])
        .current_dir(&own)
        .status();
    assert!(poisoned.unwrap().success());
    // A plain python does run it.
    let plain = std::process::Command::new("python3")
        .args(["-c", "import main; print(main.run(''))"])
        .current_dir(&own)
        .output()
        .unwrap();
    assert_eq!(plain.stdout, b"poison\n");
    // By an interpreter that stays, and by one that does not.
    assert_eq!(stage.call("").unwrap(), "source");
    assert_eq!(stage.call("").unwrap(), "source");
    let token = BTreeMap::from([("TOKEN".to_owned(), "secret-token-1".to_owned())]);
    let output = stage
        .scene
        .glee_with(&["run", "tool", "-p", "do="], &token, "");
    assert!(stdout(&output).contains("source"), "{output:?}");
}
