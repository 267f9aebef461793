//! Starts a program the way glee does and gathers what came of it.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use glee_sandbox::{
    Child, Confinement, End, Exit, Limits, Network, Order, Profile, Sandbox, StartError,
};

pub(crate) fn launcher() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_glee-sandbox-launcher"))
}

pub(crate) fn sandbox() -> Sandbox {
    Sandbox::new(launcher())
}

pub(crate) fn profile(confinement: Confinement) -> Profile {
    Profile {
        confinement,
        network: Network::None,
        read: vec![],
        write: vec![],
        protect: vec![],
        hide: vec![],
        limits: Limits::default(),
    }
}

pub(crate) struct Ran {
    pub(crate) end: End,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
}

impl Ran {
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        let text = String::from_utf8_lossy(&self.stdout).into_owned();
        assert_eq!(
            self.end.exit,
            Exit::Code(0),
            "stdout {text:?} stderr {:?}",
            String::from_utf8_lossy(&self.stderr)
        );
        text
    }
}

/// An order with its output going to pipes, and the ends to read.
pub(crate) fn order(program: &str, args: &[&str]) -> (Order, File, File) {
    let (out_read, out_write) = std::io::pipe().unwrap();
    let (err_read, err_write) = std::io::pipe().unwrap();
    let order = Order {
        program: program.into(),
        checked: None,
        args: args.iter().map(OsString::from).collect(),
        env: vec![("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into())],
        cwd: "/".into(),
        fds: vec![
            File::open("/dev/null").unwrap().into(),
            out_write.into(),
            err_write.into(),
        ],
    };
    (
        order,
        File::from(OwnedFd::from(out_read)),
        File::from(OwnedFd::from(err_read)),
    )
}

pub(crate) fn run(
    sandbox: &Sandbox,
    profile: &Profile,
    program: &str,
    args: &[&str],
) -> Result<Ran, StartError> {
    let (order, out, err) = order(program, args);
    let child = sandbox.start(profile, order)?;
    let (stdout, stderr) = (collect(out), collect(err));
    let end = child.wait()?;
    Ok(Ran {
        end,
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    })
}

pub(crate) fn sh(sandbox: &Sandbox, profile: &Profile, script: &str) -> Ran {
    run(sandbox, profile, "/bin/sh", &["-c", script]).unwrap()
}

pub(crate) fn collect(mut from: File) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        from.read_to_end(&mut all).unwrap();
        all
    })
}

#[track_caller]
pub(crate) fn wait_within(child: &Child, limit: Duration) -> End {
    let start = Instant::now();
    loop {
        if let Some(end) = child.try_wait().unwrap() {
            return end;
        }
        assert!(start.elapsed() < limit, "still running after {limit:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Processes of the machine whose command line contains the mark.
pub(crate) fn marked(mark: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(mark)
            && entry.path() != Path::new(&format!("/proc/{}", std::process::id()))
        {
            found.push(entry.path());
        }
    }
    found
}

/// Processes that see a directory as a mount of their own: launchers that were granted it, and all they started.
pub(crate) fn inside(directory: &Path) -> usize {
    let directory = directory.to_str().unwrap();
    let mounts = |it: PathBuf| std::fs::read_to_string(it.join("mountinfo")).unwrap_or_default();
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|it| mounts(it.path()).contains(directory))
        .count()
}

/// Whether a process has ended, if not yet been waited for.
pub(crate) fn has_ended(process: &Path) -> bool {
    std::fs::read_to_string(process.join("status")).map_or(true, |it| it.contains("State:\tZ"))
}

#[track_caller]
pub(crate) fn gone_within(mark: &str, limit: Duration) {
    let start = Instant::now();
    while !marked(mark).is_empty() {
        assert!(
            start.elapsed() < limit,
            "{mark} still runs: {:?}",
            marked(mark)
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[track_caller]
pub(crate) fn within(limit: Duration, mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < limit, "not done within {limit:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
