//! Disks that are full, and disks that lose power.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use uuid::Uuid;

use super::{House, absent, crash::scattered, tool, zip};
use crate::mcp::server::{Served, in_project};
use crate::support::{GLEE, Scene, is_long, long, stderr, stdout};

/// `glee serve` in a project whose `.glee` is a file system of its own, which is gone with it.
fn on_a_small_disk(scene: &Scene, options: &str) -> (House, PathBuf) {
    let script = "mount -t tmpfs -o \"$1\" tmpfs .glee && mkdir .glee/tools && exec \"$2\" serve --listen 127.0.0.1:0";
    let mut command = Command::new("unshare");
    command.args(["-Urm", "sh", "-c", script, "sh", options, GLEE]);
    let mut served = Served::begin(in_project(&mut command, scene));
    served.token = Some(
        fs::read_to_string(served.token_file())
            .unwrap()
            .trim()
            .to_owned(),
    );
    // As the server sees it.
    let inside = PathBuf::from(format!(
        "/proc/{}/root{}",
        served.child.id(),
        scene.root.display()
    ));
    let owner = served.token.clone().unwrap();
    let scene = Scene::new();
    (
        House {
            scene,
            served,
            owner,
        },
        inside.join(".glee"),
    )
}

/// `DU-04`, L6: writes say that the disk is full, reads go on, and when there is room again so do writes.
fn full_and_free_again(options: &str, fill: impl Fn(&Path), free: impl Fn(&Path)) {
    let place = Scene::new();
    let (house, glee) = on_a_small_disk(&place, options);
    let bundle = house.bundle("b");
    let at = tool(bundle, "a", "1");
    house.expect(201, &format!("PUT {at}"), absent());
    let kept = fs::read(glee.join(format!("bundles/{bundle}/a@1.json"))).unwrap();
    for turn in 0..long(2, 20) {
        fill(&glee);
        let archive = zip::good(&[(Uuid::now_v7(), "one"), (Uuid::now_v7(), "two")]);
        let import = house.served.rest_bytes_of(
            "POST /tools/bundles/import",
            &house.owner,
            "application/zip",
            &archive,
        );
        let slug = format!("x{turn}");
        for reply in [
            import,
            house.ask(&format!("PUT {}", tool(bundle, &slug, "1")), absent()),
            house.ask(&format!("PATCH {at}"), json!({"isEnabled": false})),
            house.ask(
                &format!("PUT /tools/bundles/{}", Uuid::now_v7()),
                json!({"slug": "c"}),
            ),
        ] {
            assert_eq!(reply.status, 507, "turn {turn}: {reply:?}");
            assert_eq!(super::said(&reply)["error"]["code"], "STORAGE_FULL");
        }
        house.expect(200, &format!("GET {at}"), Value::Null);
        house.expect(
            200,
            "GET /tools/search?q=absent&includeDisabled=true",
            Value::Null,
        );
        assert_eq!(
            fs::read(glee.join(format!("bundles/{bundle}/a@1.json"))).unwrap(),
            kept
        );
        free(&glee);
        house.expect(201, &format!("PUT {}", tool(bundle, &slug, "1")), absent());
        house.expect(
            204,
            &format!("DELETE {}", tool(bundle, &slug, "1")),
            Value::Null,
        );
        let left: Vec<_> = fs::read_dir(glee.join("bundles"))
            .unwrap()
            .map(|it| it.unwrap().file_name().into_string().unwrap())
            .filter(|it| *it != ".lock" && *it != bundle.to_string())
            .collect();
        assert!(left.is_empty(), "turn {turn}: {left:?}");
    }
}

#[test]
fn du_04_a_disk_that_is_full() {
    full_and_free_again(
        "size=1m",
        |glee| {
            let mut file = File::create(glee.join("fill")).unwrap();
            // To the last byte.
            for size in [4096, 512, 64, 1] {
                while file.write_all(&vec![0; size]).is_ok() {}
            }
        },
        |glee| fs::remove_file(glee.join("fill")).unwrap(),
    );
}

#[test]
fn du_04_a_disk_without_inodes() {
    full_and_free_again(
        "size=4m,nr_inodes=64",
        |glee| {
            fs::create_dir_all(glee.join("fill")).unwrap();
            for at in 0.. {
                if File::create(glee.join(format!("fill/{at}"))).is_err() {
                    break;
                }
            }
        },
        |glee| fs::remove_dir_all(glee.join("fill")).unwrap(),
    );
}

/// A file system in a file, which can be cut off from one moment to the next.
struct Ext4 {
    image: PathBuf,
    at: PathBuf,
}

impl Ext4 {
    /// `Err` where this machine cannot have one.
    fn new(below: &Path) -> Result<Ext4, String> {
        let (image, at) = (below.join("disk"), below.join("mounted"));
        File::create(&image).unwrap().set_len(64 << 20).unwrap();
        fs::create_dir(&at).unwrap();
        run("mkfs.ext4", &["-q", "-F", image.to_str().unwrap()])?;
        let it = Ext4 { image, at };
        it.mount()?;
        Ok(it)
    }

    fn mount(&self) -> Result<(), String> {
        run(
            "mount",
            &[
                "-o",
                "loop",
                self.image.to_str().unwrap(),
                self.at.to_str().unwrap(),
            ],
        )
    }

    /// The power is gone: what is not on the disk now never gets there, and neither does the journal.
    fn cut_off(&self) {
        const SHUTDOWN: &str = "import fcntl, os, struct, sys\nfd = os.open(sys.argv[1], os.O_RDONLY)\nfcntl.ioctl(fd, 0x8004587d, struct.pack('I', 2))";
        run("python3", &["-c", SHUTDOWN, self.at.to_str().unwrap()]).unwrap();
    }

    fn unmount(&self) -> Result<(), String> {
        run("umount", &[self.at.to_str().unwrap()])
    }
}

impl Drop for Ext4 {
    fn drop(&mut self) {
        let _ = run("umount", &["-l", self.at.to_str().unwrap()]);
    }
}

fn run(program: &str, args: &[&str]) -> Result<(), String> {
    let output = Command::new(program).args(args).output();
    let output = output.map_err(|err| format!("{program}: {err}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{program}: {}", stderr(&output))),
    }
}

const IMPORT: &str = "POST /tools/bundles/import";
const ZIP: &str = "application/zip";
const APART: &str = "GLEE_TEST_APART";
const CANNOT: &str =
    "power loss cannot be tried here; it needs root, a loop device, e2fsprogs and python3";

/// `DU-02`, L4: what was acknowledged is there after the power was gone, whole, and nothing else is torn.
#[test]
fn du_02_power_loss() {
    // Among mounts of its own: a file system that somebody else holds a copy of cannot be taken away.
    if std::env::var_os(APART).is_none() {
        let output = Command::new("unshare")
            .args(["-m", "--propagation", "private"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "bundles::disk::du_02_power_loss", "--nocapture"])
            .env(APART, "1")
            .output()
            .unwrap();
        let said = format!("{}{}", stdout(&output), stderr(&output));
        eprintln!("{said}");
        assert!(
            output.status.success() || said.starts_with("unshare"),
            "{said}"
        );
        assert!(output.status.success() || !is_long(), "{CANNOT}: {said}");
        return;
    }
    let below = tempfile::tempdir().unwrap();
    let disk = match Ext4::new(below.path()) {
        Ok(disk) => disk,
        Err(why) if is_long() => panic!("{CANNOT}: {why}"),
        Err(why) => {
            eprintln!("{CANNOT}: {why}");
            return;
        }
    };
    let scene = Scene::below(&disk.at);
    let root = scene.root.clone();
    let mut owner = String::new();
    let bundle = Uuid::now_v7();
    // By slug, whether it is enabled.
    let mut expected: BTreeMap<String, bool> = BTreeMap::new();
    let mut imported: Vec<Uuid> = Vec::new();
    for cycle in 0..long(3, 100) as u64 {
        let served = Served::guarded(&scene);
        if cycle == 0 {
            owner = served.token.clone().unwrap();
            let reply = served.rest(
                &format!("PUT /tools/bundles/{bundle}"),
                &owner,
                &[],
                &json!({"slug": "b"}),
            );
            assert_eq!(reply.status, 201, "{reply:?}");
        }
        let unsure = [Uuid::now_v7(), Uuid::now_v7()];
        let two = |ids: [Uuid; 2]| {
            let slugs = ids.map(|it| format!("i{}", it.simple()));
            zip::good(&[(ids[0], &slugs[0]), (ids[1], &slugs[1])])
        };
        for step in 0..5 + scattered(cycle) % 6 {
            let random = scattered(cycle * 31 + step);
            let slug = format!("t{}", random % 7);
            let at = tool(bundle, &slug, "1");
            let (line, body) = match expected.get(&slug).copied() {
                None => (format!("PUT {at}"), absent()),
                Some(enabled) if random >> 16 & 1 == 0 => {
                    (format!("PATCH {at}"), json!({"isEnabled": !enabled}))
                }
                Some(_) => (format!("DELETE {at}"), Value::Null),
            };
            let reply = served.rest(&line, &owner, &[], &body);
            assert!(reply.status < 300, "cycle {cycle}: {reply:?}");
            match body["isEnabled"].as_bool() {
                Some(enabled) => expected.insert(slug, enabled),
                None if body.is_null() => expected.remove(&slug),
                None => expected.insert(slug, true),
            };
        }
        // The power goes right after an answer, or while something is under way: whatever is written later would
        // take what was written before along to the disk.
        let stream = match cycle % 3 {
            0 => {
                let slug = format!("t9{cycle}");
                let line = format!("PUT {}", tool(bundle, &slug, "1"));
                assert_eq!(served.rest(&line, &owner, &[], &absent()).status, 201);
                expected.insert(slug, true);
                None
            }
            1 => {
                let ids = [Uuid::now_v7(), Uuid::now_v7()];
                let reply = served.rest_bytes_of(IMPORT, &owner, ZIP, &two(ids));
                assert_eq!(reply.status, 200, "cycle {cycle}: {reply:?}");
                imported.extend(ids);
                None
            }
            _ => {
                let stream = served.send_bytes(IMPORT, &owner, ZIP, &two(unsure));
                let moment = scattered(cycle + 7) & 0x7fff;
                std::thread::sleep(std::time::Duration::from_micros(moment));
                Some(stream)
            }
        };
        disk.cut_off();
        drop(stream);
        drop(served);
        disk.unmount().unwrap();
        disk.mount().unwrap();
        let home = root.join(format!(".glee/bundles/{bundle}"));
        for (slug, enabled) in &expected {
            let text = fs::read_to_string(home.join(format!("{slug}@1.json")))
                .unwrap_or_else(|err| panic!("cycle {cycle}: {slug}: {err}"));
            let kept: Value = serde_json::from_str(&text)
                .unwrap_or_else(|_| panic!("cycle {cycle}: {slug}: {text}"));
            assert_eq!(kept["isEnabled"], *enabled, "cycle {cycle}: {slug}");
        }
        let there = fs::read_dir(&home).unwrap().filter(|it| {
            it.as_ref()
                .unwrap()
                .file_name()
                .to_string_lossy()
                .starts_with('t')
        });
        assert_eq!(there.count(), expected.len(), "cycle {cycle}");
        for id in &imported {
            for name in ["bundle.json", "a@1.json", "b@1.json"] {
                let path = root.join(format!(".glee/bundles/{id}/{name}"));
                let text = fs::read_to_string(&path).unwrap_or_default();
                let kept = serde_json::from_str::<Value>(&text);
                assert!(kept.is_ok(), "cycle {cycle}: {id}/{name}: {text}");
            }
        }
        // Both or neither, once somebody has started.
        let served = Served::guarded(&scene);
        let reply = served.rest(
            &format!("PUT /tools/bundles/{}", Uuid::now_v7()),
            &owner,
            &[],
            &json!({"slug": format!("after{cycle}")}),
        );
        assert_eq!(reply.status, 201, "cycle {cycle}: {reply:?}");
        let counts = unsure.map(|id| {
            fs::read_dir(root.join(format!(".glee/bundles/{id}"))).map_or(0, |it| it.count())
        });
        assert!(
            counts == [0, 0] || counts == [3, 3],
            "cycle {cycle}: {counts:?}"
        );
        assert!(
            !served.said().contains("is not used"),
            "cycle {cycle}: {}",
            served.said()
        );
        for name in fs::read_dir(root.join(".glee/bundles"))
            .unwrap()
            .map(|it| it.unwrap().file_name())
        {
            let name = name.to_string_lossy().into_owned();
            assert!(
                !name.starts_with('.') || name == ".lock",
                "cycle {cycle}: {name} was left"
            );
        }
        drop(served);
    }
    drop(scene);
    disk.unmount().unwrap();
}
