//! No path leads out, however it is spelt and whatever is renamed meanwhile; both ways of opening.

use std::fs;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use glee_core::outcome::{Failure, FailureKind};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::workspace::{Ground, Opening, Workspace};
use super::{Puts, Stop, list, read, relocate, remove, write};

const SECRET: &str = "secret of somebody else";

struct Scene {
    _home: TempDir,
    root: PathBuf,
    outside: PathBuf,
    opening: Opening,
    stop: Stop,
}

impl Scene {
    fn new(opening: Opening) -> Scene {
        let home = tempfile::tempdir().unwrap();
        let parent = home.path().canonicalize().unwrap();
        let (root, outside) = (parent.join("root"), parent.join("outside"));
        for directory in [
            root.join("dir/deep"),
            outside.clone(),
            parent.join("root-2"),
        ] {
            fs::create_dir_all(directory).unwrap();
        }
        for file in ["outside/secret", "outside/file", "root-2/secret", "secret"] {
            fs::write(parent.join(file), SECRET).unwrap();
        }
        for place in [
            "only-outside",
            "outside/only-outside",
            "root-2/only-outside",
        ] {
            fs::write(parent.join(place), "").unwrap();
        }
        fs::write(root.join("dir/file"), "inside").unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink("up", root.join("chain")).unwrap();
        symlink(&parent, root.join("absolute")).unwrap();
        symlink("../secret", root.join("out")).unwrap();
        symlink("/proc/self/root", root.join("magic")).unwrap();
        symlink("/proc/self/cwd", root.join("cwd")).unwrap();
        symlink("../../outside", root.join("dir/trap")).unwrap();
        Scene {
            _home: home,
            root,
            outside,
            opening,
            stop: Stop::default(),
        }
    }

    fn workspace(&self) -> Workspace {
        let ground = Ground {
            hidden: Arc::new([]),
            home: None,
            opening: self.opening,
        };
        Workspace::open(&self.root, &ground).unwrap()
    }

    fn read(&self, path: &str) -> Result<Value, Failure> {
        let input = serde_json::from_value(json!({"path": path})).unwrap();
        read::read(&self.workspace(), &input).map(|it| json!(it))
    }

    fn list(&self, path: &str) -> Result<Value, Failure> {
        let input = json!({"path": path, "recursive": true, "includeHidden": true});
        let input = serde_json::from_value(input).unwrap();
        list::list(&self.workspace(), &input).map(|it| json!(it))
    }

    fn write(&self, path: &str) -> Result<Value, Failure> {
        let input = json!({"path": path, "content": "by glee", "createDirs": true});
        let input = serde_json::from_value(input).unwrap();
        let stop = &self.stop;
        write::write(&self.workspace(), &input, Puts::AlsoInstead, stop).map(|it| json!(it))
    }

    fn relocate(&self, from: &str, to: &str) -> Result<Value, Failure> {
        let input = json!({"from": from, "to": to, "overwrite": true});
        let input = serde_json::from_value(input).unwrap();
        let stop = &self.stop;
        relocate::relocate(&self.workspace(), &input, Puts::AlsoInstead, stop).map(|it| json!(it))
    }

    fn delete(&self, path: &str) -> Result<Value, Failure> {
        let input = serde_json::from_value(json!({"path": path, "recursive": true})).unwrap();
        remove::delete(&self.workspace(), &input, &self.stop).map(|it| json!(it))
    }

    /// Everything that is not the project's: names, contents, and which files they are.
    fn beyond(&self) -> Vec<(PathBuf, u64, String)> {
        let mut found = Vec::new();
        for place in ["outside", "root-2", "."] {
            for entry in fs::read_dir(self.root.join("..").join(place)).unwrap() {
                let path = entry.unwrap().path();
                let content = fs::read_to_string(&path).unwrap_or_default();
                found.push((path.clone(), fs::metadata(&path).unwrap().ino(), content));
            }
        }
        found.sort();
        found
    }
}

/// Spellings of paths to the secrets beside the project: those that lead there, and those that would if
/// somebody decoded, trimmed or folded them.
fn spellings(root: &Path) -> Vec<String> {
    let root = root.to_str().unwrap();
    let parent = root.strip_suffix("/root").unwrap();
    let starts = [
        "",
        "./",
        "dir/",
        ".//",
        "dir/deep/",
        "dir/./",
        "nothing/",
        "dir/file/",
        "up/root/",
    ];
    let ups = [
        "..",
        "../..",
        "../../..",
        "up",
        "chain",
        "absolute",
        "dir/trap/..",
        "magic/proc/self/cwd",
        "..\\",
        "%2e%2e",
        "%2e.",
        "..%2f..",
        "..;",
        ". .",
        "...",
        "....//..",
        "\u{ff0e}\u{ff0e}",
        "\u{2025}",
        "..\u{200b}",
        "\u{202e}..",
        "..%00",
        "..\0",
        " ..",
        ".. ",
        "\t..",
        "~",
        "$PWD/..",
    ];
    let ends = [
        "secret",
        "outside/secret",
        "./secret",
        "/secret",
        "root-2/secret",
        "secret/.",
    ];
    let mut all: Vec<String> = Vec::new();
    for start in starts {
        for up in ups {
            for end in ends {
                all.push(format!("{start}{up}/{end}"));
            }
        }
    }
    for end in [
        "/secret",
        "//secret",
        "/./secret",
        "/outside/../secret",
        "/root/../secret",
        "/root-2/secret",
    ] {
        for scheme in [
            "",
            "file://",
            "/proc/self/root",
            "/proc/self/cwd/../../../../../../../..",
            "magic",
        ] {
            all.push(format!("{scheme}{parent}{end}"));
        }
    }
    all.extend(
        [
            "out",
            "./out",
            "dir/trap/secret",
            "dir/trap/file",
            "up/outside/file",
        ]
        .map(str::to_owned),
    );
    all
}

#[test]
fn no_spelling_of_a_path_leads_out() {
    for opening in [Opening::Beneath, Opening::ByNames] {
        let scene = Scene::new(opening);
        let before = scene.beyond();
        let spellings = spellings(&scene.root);
        assert!(spellings.len() >= 1000, "{}", spellings.len());
        let mut leads_out = 0;
        for path in &spellings {
            // The control: whoever opens it by its name gets there.
            let plain = fs::read_to_string(scene.root.join(path));
            leads_out += usize::from(plain.is_ok_and(|it| it == SECRET));
            let parent = path.rsplit_once('/').map_or("..", |it| it.0);
            for done in [
                scene.read(path),
                scene.list(parent),
                scene.relocate(path, "stolen"),
                scene.delete(path),
            ] {
                let told = match &done {
                    Ok(told) => told.to_string(),
                    Err(failure) => format!("{failure:?}"),
                };
                assert!(!told.contains(SECRET), "{path:?}: {told}");
                assert!(!told.contains("only-outside"), "{path:?}: {told}");
            }
            let _ = scene.write(path);
            let _ = scene.relocate("dir/file", path);
            assert_eq!(scene.beyond(), before, "{path:?}");
            if !scene.root.join("dir/file").exists() {
                fs::create_dir_all(scene.root.join("dir/deep")).unwrap();
                fs::write(scene.root.join("dir/file"), "inside").unwrap();
            }
            if !scene.root.join("dir/trap").is_symlink() {
                let _ = symlink("../../outside", scene.root.join("dir/trap"));
            }
        }
        assert!(leads_out >= 100, "the control got out {leads_out} times");
    }
}

#[test]
fn what_is_named_plainly_says_why() {
    for opening in [Opening::Beneath, Opening::ByNames] {
        let scene = Scene::new(opening);
        for path in [
            "../secret",
            "up/secret",
            "chain/secret",
            "absolute/secret",
            "out",
            "dir/trap/secret",
            "magic/etc/hostname",
            "/etc/hostname",
        ] {
            for done in [
                scene.read(path),
                scene.delete(&format!("{path}/x")),
                scene.write(&format!("{path}/x")),
            ] {
                assert_eq!(done.unwrap_err().kind, FailureKind::InvalidPath, "{path}");
            }
        }
    }
}

#[test]
fn what_is_no_regular_file_neither_blocks_nor_is_read() {
    for opening in [Opening::Beneath, Opening::ByNames] {
        let scene = Scene::new(opening);
        let fifo = scene.root.join("fifo");
        rustix::fs::mknodat(
            CWD,
            &fifo,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(scene.root.join("socket")).unwrap();
        for path in ["fifo", "socket"] {
            let began = Instant::now();
            for done in [scene.read(path), scene.write(path)] {
                assert_eq!(done.unwrap_err().kind, FailureKind::InvalidPath, "{path}");
            }
            assert!(began.elapsed() < Duration::from_secs(5));
        }
        let listed = scene.list(".").unwrap().to_string();
        assert!(
            listed.contains(r#""name":"fifo","type":"file""#),
            "{listed}"
        );
    }
}

/// A file that has a name elsewhere is replaced by its name here, and never written through.
#[test]
fn another_name_of_the_same_file_stays_as_it_is() {
    let scene = Scene::new(Opening::Beneath);
    fs::hard_link(scene.outside.join("file"), scene.root.join("twin")).unwrap();
    scene.write("twin").unwrap();
    assert_eq!(
        fs::read_to_string(scene.outside.join("file")).unwrap(),
        SECRET
    );
    assert_eq!(
        fs::read_to_string(scene.root.join("twin")).unwrap(),
        "by glee"
    );
}

/// Also one that came between the look and the deed.
#[test]
fn what_may_only_be_new_replaces_nothing() {
    let scene = Scene::new(Opening::Beneath);
    fs::write(scene.root.join("dir/other"), "other").unwrap();
    let (directory, _) = scene.workspace().place(Path::new("dir/x")).unwrap();
    let at = |name: &'static str| (directory.as_fd(), name.as_ref());
    let put = write::rename(at("file"), at("other"), Puts::OnlyNew);
    assert_eq!(put, Err(rustix::io::Errno::EXIST));
    assert_eq!(
        fs::read_to_string(scene.root.join("dir/other")).unwrap(),
        "other"
    );
    assert_eq!(
        write::rename(at("file"), at("other"), Puts::AlsoInstead),
        Ok(())
    );
}

#[test]
fn a_file_that_is_replaced_keeps_its_mode() {
    let scene = Scene::new(Opening::Beneath);
    let file = scene.root.join("dir/file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o751)).unwrap();
    scene.write("dir/file").unwrap();
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o7777, 0o751);
    let left = fs::read_dir(scene.root.join("dir")).unwrap().count();
    assert_eq!(left, 3, "nothing is left beside it");
}

/// Somebody who may rename things in the project exchanges a directory, and a file, with links that lead
/// out, as fast as they can.
struct Racer {
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<u64>>,
}

impl Racer {
    fn start(scene: &Scene) -> Racer {
        let root = scene.root.clone();
        symlink(&scene.outside, root.join("swap-directory")).unwrap();
        symlink(scene.outside.join("file"), root.join("swap-file")).unwrap();
        fs::create_dir(root.join("place")).unwrap();
        fs::write(root.join("place/file"), "inside").unwrap();
        fs::write(root.join("single"), "inside").unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut count = 0;
            while !stopped.load(Ordering::Relaxed) {
                for (one, other) in [("place", "swap-directory"), ("single", "swap-file")] {
                    let (one, other) = (root.join(one), root.join(other));
                    // What was deleted or moved away by the other side comes back.
                    if renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).is_ok() {
                        count += 1;
                    }
                }
            }
            count
        });
        Racer {
            stop,
            thread: Some(thread),
        }
    }

    fn finish(&mut self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map_or(0, |it| it.join().unwrap())
    }
}

impl Drop for Racer {
    fn drop(&mut self) {
        self.finish();
    }
}

fn lasts() -> Duration {
    match std::env::var_os("GLEE_LONG") {
        Some(_) => Duration::from_secs(30),
        None => Duration::from_secs(2),
    }
}

#[test]
fn no_race_leads_out() {
    for opening in [Opening::Beneath, Opening::ByNames] {
        let scene = Scene::new(opening);
        let before = scene.beyond();
        let mut racer = Racer::start(&scene);
        let (mut inside, mut escaped_natively, mut rounds) = (0u64, 0u64, 0u64);
        let began = Instant::now();
        while began.elapsed() < lasts() / 2 {
            rounds += 1;
            for path in ["place/file", "single"] {
                // The control: by its name, it leads out every other time.
                let plain = fs::read_to_string(scene.root.join(path));
                escaped_natively += u64::from(plain.is_ok_and(|it| it == SECRET));
                if let Ok(told) = scene.read(path) {
                    assert_eq!(told["content"], "inside", "it read {told}");
                    inside += 1;
                }
            }
            let listed = scene.list("place").map(|it| it.to_string());
            assert!(!listed.unwrap_or_default().contains("only-outside"));
            let made = format!("place/made-{rounds}");
            let moved = format!("place/moved-{rounds}");
            let _ = scene.write(&made);
            let _ = scene.relocate(&made, &moved);
            let _ = scene.relocate("place/secret", "stolen");
            let _ = scene.delete(&moved);
            let _ = scene.delete(&made);
            let _ = scene.delete("place/secret");
            if rounds % 64 == 0 {
                assert_eq!(scene.beyond(), before, "something outside has changed");
            }
        }
        let exchanged = racer.finish();
        assert_eq!(scene.beyond(), before, "something outside has changed");
        assert!(!scene.root.join("stolen").exists());
        assert!(exchanged > 100 && inside > 0, "{exchanged} {inside}");
        assert!(escaped_natively > 0, "the control never got out");
    }
}

/// What the control of writing is: by its name, a file is made outside.
#[test]
fn a_race_leads_a_plain_write_out() {
    let scene = Scene::new(Opening::Beneath);
    let mut racer = Racer::start(&scene);
    let began = Instant::now();
    let escaped = || fs::read_dir(&scene.outside).unwrap().count() > 3;
    let mut round = 0;
    while !escaped() && began.elapsed() < Duration::from_secs(10) {
        round += 1;
        let _ = fs::write(scene.root.join(format!("place/made-{round}")), "x");
    }
    racer.finish();
    assert!(escaped(), "the control never got out");
}

/// Who was told that it was stopped finds everything as it was.
#[test]
fn what_is_stopped_changes_nothing() {
    let scene = Scene::new(Opening::Beneath);
    scene.write("here").unwrap();
    scene.stop.0.store(true, Ordering::SeqCst);
    for stopped in [
        scene.write("made"),
        scene.write("new/made"),
        scene.write("here"),
        scene.relocate("here", "there"),
        scene.delete("dir"),
    ] {
        assert_eq!(stopped.unwrap_err().kind, FailureKind::Cancelled);
    }
    let there = |path: &str| scene.root.join(path).exists();
    assert!(there("here") && there("dir/deep"));
    assert!(!there("made") && !there("new") && !there("there"));
    let left = fs::read_dir(&scene.root).unwrap();
    let left = left.map(|it| it.unwrap().file_name());
    assert!(
        !left
            .into_iter()
            .any(|it| it.to_string_lossy().starts_with(".new-"))
    );
}

/// Names that look the same to a reader are all listed, each once.
#[test]
fn a_list_goes_on_after_names_that_are_no_text() {
    use std::os::unix::ffi::OsStrExt;
    let scene = Scene::new(Opening::Beneath);
    let many = scene.root.join("many");
    fs::create_dir(&many).unwrap();
    for at in 0..2500u32 {
        let name = [0xff, 0x80 | (at / 50) as u8, 0x80 | (at % 50) as u8];
        fs::write(many.join(std::ffi::OsStr::from_bytes(&name)), "").unwrap();
    }
    let (mut seen, mut cursor) = (0, Value::Null);
    for _ in 0..3 {
        let input = serde_json::from_value(json!({"path": "many", "cursor": cursor})).unwrap();
        let listed = json!(list::list(&scene.workspace(), &input).unwrap());
        seen += listed["entries"].as_array().unwrap().len();
        cursor = listed["cursor"].clone();
    }
    assert_eq!((seen, cursor), (2500, Value::Null));
}
