//! The escape suite: every file of tests/escapes is one attempt. It is run without confinement, where it must succeed
//! or the attempt shows nothing, and confined, where it must not.
//!
//! A line at its top says what is special about an attempt:
//! - `# void: unprivileged` it cannot succeed without root anyway; `# void: maybe` it depends on the machine.
//! - `# effect: <path>` or `# effect: process` it has succeeded when this is there afterwards, outside.
//! - `# user: leaks: why` and `# landlock: leaks: why` name the known holes of the weaker tiers; `# root: leaks: why` those
//!   of user 0 without control groups.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::Read;
use std::net::{TcpListener, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use glee_sandbox::{Confinement, Exit, Limits, Order, Profile, Sandbox, Tier};

use crate::support::*;

/// Users that nobody is. Without a user namespace a user's processes are counted wherever they come from, so suites that
/// run at the same time must not share one.
const USER: u32 = 61234;
const OTHER_USER: u32 = 61235;

#[test]
fn nothing_escapes_the_full_tier_as_root() {
    if is_root() {
        run_suite(0, Tier::Full).shows_at_least(100);
    }
}

#[test]
fn nothing_escapes_the_full_tier_as_a_user() {
    let uid = if is_root() {
        USER
    } else {
        rustix::process::geteuid().as_raw()
    };
    run_suite(uid, Tier::Full).shows_at_least(80);
}

/// A user has none to begin with; see above.
#[test]
fn without_control_groups_root_has_only_named_holes() {
    if is_root() && std::env::var("GLEE_LONG").is_ok() {
        run_suite(0, Tier::FullWithoutCgroup).shows_at_least(100);
    }
}

#[test]
fn the_landlock_tier_has_only_named_holes() {
    let own = rustix::process::geteuid().as_raw();
    run_suite(if is_root() { OTHER_USER } else { own }, Tier::Landlock);
    if is_root() && std::env::var("GLEE_LONG").is_ok() {
        run_suite(own, Tier::Landlock);
    }
}

struct Summary {
    attempts: usize,
}

impl Summary {
    /// Unless somebody has asked for a part of the suite.
    fn shows_at_least(&self, count: usize) {
        assert!(self.attempts >= count || std::env::var("GLEE_SUITE_ONLY").is_ok());
    }
}

/// Runs the suite in a process of its own, with the uid and the environment it needs.
fn run_suite(uid: u32, tier: Tier) -> Summary {
    let home = tempfile::Builder::new()
        .prefix("glee-escapes")
        .tempdir_in("/var/tmp")
        .unwrap();
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    open(home.path());
    let (suite, launcher_copy, attempts) = (
        home.path().join("suite"),
        home.path().join("launcher"),
        home.path().join("attempts"),
    );
    fs::copy(std::env::current_exe().unwrap(), &suite).unwrap();
    fs::copy(launcher(), &launcher_copy).unwrap();
    fs::create_dir(&attempts).unwrap();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/escapes"))
        .unwrap()
        .flatten()
    {
        fs::copy(entry.path(), attempts.join(entry.file_name())).unwrap();
    }
    let world = home.path().join("world");
    fs::create_dir(&world).unwrap();
    std::os::unix::fs::chown(&world, Some(uid), Some(uid)).unwrap();
    let out = Command::new(&suite)
        .args([
            "--exact",
            "escapes::suite",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env("GLEE_SUITE", home.path())
        .env("GLEE_SUITE_TIER", tier.name())
        .env("GLEE_PARENT_SECRET", secret())
        .current_dir("/")
        .uid(uid)
        .gid(uid)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    println!("uid {uid}, {tier}:\n{text}");
    assert!(
        out.status.success(),
        "uid {uid}, {tier}:\n{text}\n{}",
        String::from_utf8_lossy(&out.stderr)
    );
    let attempts = text
        .lines()
        .find_map(|it| it.strip_prefix("attempts: "))
        .unwrap()
        .parse()
        .unwrap();
    Summary { attempts }
}

fn secret() -> String {
    // Never whole in this file or in an environment that is passed on purpose.
    ["GLEE", "SECRET", "d41c"].join("-")
}

#[test]
#[ignore = "is run by the others with another uid"]
fn suite() {
    let Ok(home) = std::env::var("GLEE_SUITE") else {
        return;
    };
    let tier = std::env::var("GLEE_SUITE_TIER").unwrap();
    let tier = [Tier::Full, Tier::FullWithoutCgroup, Tier::Landlock]
        .into_iter()
        .find(|it| it.name() == tier)
        .unwrap();
    let mut world = World::new(Path::new(&home));
    let sandbox = Sandbox::at_most(Path::new(&home).join("launcher"), tier);
    let held = sandbox.strength(&world.profile);
    println!("tier: {}", held.tier);
    let mut names: Vec<_> = fs::read_dir(Path::new(&home).join("attempts"))
        .unwrap()
        .flatten()
        .map(|it| it.path())
        .collect();
    names.retain(|it| it.extension().is_some_and(|it| it == "py"));
    names.sort();
    let only = std::env::var("GLEE_SUITE_ONLY").ok();
    let (mut wrong, mut void, mut held_back, mut known) = (Vec::new(), Vec::new(), 0, Vec::new());
    for path in names {
        let attempt = Attempt::read(&path);
        if only
            .as_ref()
            .is_some_and(|it| !attempt.name.contains(it.as_str()))
        {
            continue;
        }
        let native = world.natively(&attempt);
        if let Verdict::Failed(why) = &native {
            if attempt.may_be_void() {
                void.push(attempt.name.clone());
            } else {
                wrong.push(format!(
                    "{} does not even succeed without confinement: {why}",
                    attempt.name
                ));
            }
            continue;
        }
        match (
            world.confined(&sandbox, &attempt),
            attempt.known_hole(held.tier),
        ) {
            (Verdict::Failed(_), _) => held_back += 1,
            (Verdict::Succeeded(_), Some(why)) => known.push(format!("{}: {why}", attempt.name)),
            (Verdict::Succeeded(how), None) => {
                wrong.push(format!("{} ESCAPED {how}", attempt.name))
            }
        }
    }
    println!(
        "attempts: {held_back}\nvoid: {}\nknown holes: {}\n{}",
        void.join(" "),
        known.len(),
        known.join("\n")
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

struct Attempt {
    name: String,
    code: String,
    head: HashMap<String, String>,
}

enum Verdict {
    Succeeded(String),
    Failed(String),
}

impl Attempt {
    fn read(path: &Path) -> Attempt {
        let code = fs::read_to_string(path).unwrap();
        let head = code
            .lines()
            .map_while(|it| it.strip_prefix("# ")?.split_once(": "));
        let head = head
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        Attempt {
            name: path.file_stem().unwrap().to_string_lossy().into_owned(),
            code,
            head,
        }
    }

    fn may_be_void(&self) -> bool {
        let void = self.head.get("void").map_or("", String::as_str);
        void.contains("maybe") || (void.contains("unprivileged") && !is_root())
    }

    fn known_hole(&self, tier: Tier) -> Option<&String> {
        let key = match tier {
            Tier::Landlock | Tier::None => "landlock",
            Tier::FullWithoutCgroup => "user",
            Tier::Full => return None,
        };
        let own = (key == "user" && is_root()).then(|| self.head.get("root"));
        let hole = own
            .flatten()
            .or_else(|| self.head.get(key))
            .or_else(|| (key == "landlock").then(|| self.head.get("user")).flatten());
        hole.filter(|it| it.starts_with("leaks"))
    }
}

/// Everything an attempt may aim at, and the processes and sockets that make it real.
struct World {
    base: PathBuf,
    prelude: String,
    env: BTreeMap<String, String>,
    profile: Profile,
    number: u32,
    victim: std::process::Child,
    _open: Vec<Box<dyn std::any::Any>>,
}

impl World {
    fn new(home: &Path) -> World {
        let base = home.join("world");
        for it in ["outside", "read", "write"] {
            fs::create_dir_all(base.join(it)).unwrap();
        }
        let prelude = fs::read_to_string(home.join("attempts/prelude.txt")).unwrap();
        let mut open: Vec<Box<dyn std::any::Any>> = Vec::new();
        let mut env = BTreeMap::new();
        let mut set = |key: &str, value: String| env.insert(key.to_owned(), value);
        let path = |it: &str| base.join(it).to_string_lossy().into_owned();
        set("PATH", "/usr/local/bin:/usr/bin:/bin".into());
        set("READ", path("read"));
        set("WRITE", path("write"));
        set("SECRET_FILE", path("outside/secret"));
        set("OUTSIDE_PROGRAM", path("outside/program"));
        set("OUTSIDE_BINARY", path("outside/binary"));
        set("UNIX_OUTSIDE", path("outside/sock"));
        set("TEST_UID", rustix::process::geteuid().as_raw().to_string());
        set("TEST_PID", std::process::id().to_string());
        set(
            "HOST_NAME",
            rustix::system::uname()
                .nodename()
                .to_string_lossy()
                .into_owned(),
        );
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let beyond = |it: &&str| !["/", "/proc", "/tmp", "/usr", "/dev", "/dev/shm"].contains(it);
        let mount = mounts
            .lines()
            .filter_map(|it| it.split(' ').nth(1))
            .find(beyond);
        set("HOST_MOUNT", mount.unwrap_or("/sys").to_owned());

        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        set("TCP", tcp.local_addr().unwrap().port().to_string());
        open.push(Box::new(tcp));
        if let Ok(tcp) = TcpListener::bind("[::1]:0") {
            set("TCP6", tcp.local_addr().unwrap().port().to_string());
            open.push(Box::new(tcp));
        }
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        set("UDP", udp.local_addr().unwrap().port().to_string());
        open.push(Box::new(udp));
        open.push(Box::new(
            UnixListener::bind(base.join("outside/sock")).unwrap(),
        ));
        open.push(Box::new(
            UnixListener::bind(base.join("write/sock")).unwrap(),
        ));
        open.push(Box::new(
            UnixDatagram::bind(base.join("write/dgram")).unwrap(),
        ));
        let name = format!("glee-escape-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        open.push(Box::new(UnixListener::bind_addr(&address).unwrap()));
        set("ABSTRACT", name.clone());

        set("POSIX_SHM", name.clone());
        fs::write(format!("/dev/shm/{name}"), secret()).unwrap();
        let ids = Command::new("/usr/bin/python3")
            .args(["-I", "-c", IPC, &secret()])
            .output()
            .unwrap();
        let ids = String::from_utf8(ids.stdout).unwrap();
        for (key, value) in ["SHM_ID", "MSG_KEY", "SEM_KEY"]
            .into_iter()
            .zip(ids.split_whitespace())
        {
            set(key, value.to_owned());
        }

        let mut world = World {
            profile: Profile {
                confinement: Confinement::Required,
                network: glee_sandbox::Network::None,
                read: vec![base.join("read")],
                write: vec![base.join("write")],
                protect: vec![],
                hide: vec![],
                limits: Limits {
                    cpu: Some(Duration::from_secs(2)),
                    file_size: Some(32 << 20),
                    scratch_size: 8 << 20,
                    ..Limits::default()
                },
            },
            victim: Command::new("/bin/true").spawn().unwrap(),
            base,
            prelude,
            env,
            number: 0,
            _open: open,
        };
        world.victim.wait().unwrap();
        world.reset();
        world.victim = Command::new("/usr/bin/sleep")
            .arg("100000")
            .current_dir(world.base.join("outside"))
            .env("GLEE_PARENT_SECRET", secret())
            .stdin(File::open(world.base.join("outside/secret")).unwrap())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        world
            .env
            .insert("VICTIM".into(), world.victim.id().to_string());
        // Left open on purpose, as a careless library would.
        let leak = |fd: OwnedFd| {
            rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::empty()).unwrap();
            fd
        };
        let file = leak(
            File::open(world.base.join("outside/secret"))
                .unwrap()
                .into(),
        );
        let dir = leak(File::open(world.base.join("outside")).unwrap().into());
        let (socket, other) = UnixStream::pair().unwrap();
        let socket = leak(socket.into());
        for (key, fd) in [
            ("LEAKED_FILE", &file),
            ("LEAKED_DIR", &dir),
            ("LEAKED_SOCKET", &socket),
        ] {
            world.env.insert(key.into(), fd.as_raw_fd().to_string());
        }
        world._open.push(Box::new((file, dir, socket, other)));
        world
    }

    /// Makes everything as it was before an attempt.
    fn reset(&mut self) {
        for it in ["outside", "read", "write"] {
            for entry in fs::read_dir(self.base.join(it)).unwrap().flatten() {
                if ["sock", "dgram"]
                    .iter()
                    .all(|kept| entry.file_name() != *kept)
                {
                    let _ =
                        fs::remove_file(entry.path()).or_else(|_| fs::remove_dir_all(entry.path()));
                }
            }
        }
        let write = |path: &str, text: &str| fs::write(self.base.join(path), text).unwrap();
        write("outside/secret", &secret());
        write("outside/victim", "victim");
        write("outside/program", "#!/bin/sh\nexit 0\n");
        write("read/file", "read");
        fs::copy("/bin/true", self.base.join("outside/binary")).unwrap();
        for it in ["outside/program", "outside/binary"] {
            fs::set_permissions(self.base.join(it), fs::Permissions::from_mode(0o755)).unwrap();
        }
        std::os::unix::fs::symlink("secret", self.base.join("outside/link")).unwrap();
        std::os::unix::fs::symlink("../outside/secret", self.base.join("read/link-out")).unwrap();
        let _ = rustix::fs::setxattr(
            self.base.join("outside/secret"),
            "user.glee",
            b"x",
            rustix::fs::XattrFlags::empty(),
        );
        self.number += 1;
        self.env.insert(
            "MARK".into(),
            format!("glee-mark-{}-{}", std::process::id(), self.number),
        );
        self.env.insert(
            "SLEEP".into(),
            format!(
                "{}{:05}",
                7,
                std::process::id() % 1000 * 100 + self.number % 100
            ),
        );
    }

    /// What must not change: names, contents and metadata outside and in what may only be read.
    fn state(&self) -> Vec<String> {
        let mut state = Vec::new();
        for directory in ["outside", "read"] {
            let mut entries: Vec<_> = fs::read_dir(self.base.join(directory))
                .unwrap()
                .flatten()
                .map(|it| it.path())
                .collect();
            entries.sort();
            for path in entries {
                let it = fs::symlink_metadata(&path).unwrap();
                let content = if it.is_file() {
                    fs::read(&path).unwrap()
                } else {
                    Vec::new()
                };
                state.push(format!(
                    "{path:?} {} {:o} {} {} {} {content:?}",
                    it.ino(),
                    it.mode(),
                    it.uid(),
                    it.mtime(),
                    it.ctime_nsec(),
                ));
            }
        }
        state
    }

    fn natively(&mut self, attempt: &Attempt) -> Verdict {
        self.reset();
        let mut child = Command::new("/usr/bin/python3")
            .args(["-I", "-S", "-c", &self.prelude, &secret(), &attempt.code])
            .env_clear()
            .envs(&self.env)
            .env("GLEE_PARENT_SECRET", secret())
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let start = Instant::now();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break Some(status),
                // Long, because an attempt that a busy machine did not finish would count as one that cannot succeed.
                None if start.elapsed() > Duration::from_secs(60) => break None,
                None => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        let effect = self.effect(attempt);
        let group = rustix::process::Pid::from_child(&child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = child.wait();
        self.clean(attempt);
        let mut why = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut why)
            .unwrap();
        match (status.is_some_and(|it| it.success()), effect) {
            (true, Some(true) | None) => Verdict::Succeeded(String::new()),
            _ => Verdict::Failed(why),
        }
    }

    fn confined(&mut self, sandbox: &Sandbox, attempt: &Attempt) -> Verdict {
        self.reset();
        let before = self.state();
        let (error_read, error_write) = std::io::pipe().unwrap();
        let null = || {
            OwnedFd::from(
                File::options()
                    .read(true)
                    .write(true)
                    .open("/dev/null")
                    .unwrap(),
            )
        };
        let order = Order {
            program: "/usr/bin/python3".into(),
            checked: None,
            args: ["-I", "-S", "-c", &self.prelude, &secret(), &attempt.code]
                .iter()
                .map(Into::into)
                .collect(),
            env: self
                .env
                .iter()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
            cwd: "/".into(),
            fds: vec![null(), null(), error_write.into()],
        };
        let child = match sandbox.start(&self.profile, order) {
            Ok(child) => child,
            Err(err) => panic!("{}: {err}", attempt.name),
        };
        let errors = std::thread::spawn(move || {
            let mut text = String::new();
            let _ = File::from(OwnedFd::from(error_read)).read_to_string(&mut text);
            text
        });
        let start = Instant::now();
        let mut late = false;
        let end = loop {
            match child.try_wait().unwrap() {
                Some(end) => break end,
                None => std::thread::sleep(Duration::from_millis(2)),
            }
            if !late && start.elapsed() > Duration::from_secs(15) {
                late = true;
                child.kill();
            }
        };
        let effect = self.effect(attempt);
        self.clean(attempt);
        let why = errors.join().unwrap();
        assert!(
            self.victim.try_wait().unwrap().is_none(),
            "{} killed the victim",
            attempt.name
        );
        let after = self.state();
        if after != before {
            return Verdict::Succeeded(format!("and changed\n{before:#?}\nto\n{after:#?}"));
        }
        match (end.exit == Exit::Code(0), effect) {
            (_, Some(true)) => Verdict::Succeeded("and left its effect".into()),
            (true, None) => Verdict::Succeeded(why),
            _ => Verdict::Failed(why),
        }
    }

    /// Whether the effect of an attempt is there, if it is told by one.
    fn effect(&self, attempt: &Attempt) -> Option<bool> {
        match attempt.head.get("effect")?.as_str() {
            "process" => Some(!marked(&format!("sleep {}", self.env["SLEEP"])).is_empty()),
            path => Some(Path::new(&path.replace("{MARK}", &self.env["MARK"])).exists()),
        }
    }

    fn clean(&self, attempt: &Attempt) {
        match attempt.head.get("effect").map(String::as_str) {
            None => {}
            Some("process") => {
                for process in marked(&format!("sleep {}", self.env["SLEEP"])) {
                    let pid = process.file_name().unwrap().to_string_lossy().parse().ok();
                    if let Some(pid) = pid.and_then(rustix::process::Pid::from_raw) {
                        let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                    }
                }
            }
            Some(path) => {
                let _ = fs::remove_file(path.replace("{MARK}", &self.env["MARK"]));
            }
        }
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.victim.kill();
        let _ = self.victim.wait();
        let _ = fs::remove_file(format!("/dev/shm/{}", self.env["POSIX_SHM"]));
        let ids: Vec<_> = ["SHM_ID", "MSG_KEY", "SEM_KEY"]
            .iter()
            .map(|it| self.env[*it].as_str())
            .collect();
        let _ = Command::new("/usr/bin/python3")
            .args(["-I", "-c", IPC_END])
            .args(ids)
            .status();
    }
}

const IPC: &str = "import ctypes, os, sys
c = ctypes.CDLL(None)
c.shmat.restype = ctypes.c_void_p
shm = c.shmget(0, 4096, 0o1600)
ctypes.memmove(c.shmat(shm, None, 0), sys.argv[1].encode(), len(sys.argv[1]))
key = os.getpid() + 0x5000000
c.msgget(key, 0o1600)
c.semget(key, 1, 0o1600)
print(shm, key, key)";

const IPC_END: &str = "import ctypes, sys
c = ctypes.CDLL(None)
shm, msg, sem = map(int, sys.argv[1:])
c.shmctl(shm, 0, None)
c.msgctl(c.msgget(msg, 0), 0, None)
c.semctl(c.semget(sem, 0, 0), 0, 0)
import os
c.syscall(241, b'glee-escape-' + str(os.getuid()).encode())";
