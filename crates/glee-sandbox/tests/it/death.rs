//! Nothing survives when somebody in the chain is killed, and the next call works.

use std::fs;
use std::io::Read;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use glee_sandbox::{Confinement, Exit, Sandbox, Tier};

use crate::support::*;

/// The launcher processes that are children of this test.
fn launchers_above(mark: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for payload in marked(mark) {
        let status = fs::read_to_string(payload.join("status")).unwrap_or_default();
        let parent = status
            .lines()
            .find_map(|it| it.strip_prefix("PPid:\t"))
            .unwrap_or("0")
            .to_owned();
        found.push(PathBuf::from(format!("/proc/{parent}")));
    }
    found
}

fn pid(process: &std::path::Path) -> rustix::process::Pid {
    let number = process
        .file_name()
        .unwrap()
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    rustix::process::Pid::from_raw(number).unwrap()
}

#[test]
fn the_tree_dies_with_the_warden_and_with_the_launcher() {
    for (number, confinement) in [(1, Confinement::Required), (2, Confinement::Off)] {
        for victim in ["warden", "launcher"] {
            let mark = format!("sleep 43{number}{}", victim.len());
            let sandbox = sandbox();
            let (order, ..) = order("/bin/sh", &["-c", &format!("setsid {mark} & exec {mark}")]);
            let child = sandbox.start(&profile(confinement), order).unwrap();
            within(Duration::from_secs(10), || marked(&mark).len() == 2);
            let warden = launchers_above(&mark).into_iter().next().unwrap();
            let status = fs::read_to_string(warden.join("status")).unwrap();
            let parent = status
                .lines()
                .find_map(|it| it.strip_prefix("PPid:\t"))
                .unwrap()
                .to_owned();
            let victim = if victim == "warden" {
                warden
            } else {
                PathBuf::from(format!("/proc/{parent}"))
            };
            rustix::process::kill_process(pid(&victim), rustix::process::Signal::KILL).unwrap();
            gone_within(&mark, Duration::from_secs(2));
            assert!(
                child.wait().is_err(),
                "an end that nobody saw is not invented"
            );
            drop(child);
            assert_eq!(
                sh(&sandbox, &profile(confinement), "echo again").ok(),
                "again\n"
            );
        }
    }
}

#[test]
fn a_launcher_that_died_while_it_waited_is_replaced() {
    let sandbox = sandbox();
    let mut unusual = profile(Confinement::Required);
    unusual.limits.open_files = Some(987);
    assert_eq!(sh(&sandbox, &unusual, "ulimit -n").ok(), "987\n");
    let own = format!("PPid:\t{}\n", std::process::id());
    let mut killed = Vec::new();
    for launcher in marked("glee-sandbox-launcher __launcher") {
        let ours = fs::read_to_string(launcher.join("status")).is_ok_and(|it| it.contains(&own));
        let limits = |it: PathBuf| fs::read_to_string(it.join("limits")).unwrap_or_default();
        let children = fs::read_to_string(
            launcher
                .join("task")
                .join(launcher.file_name().unwrap())
                .join("children"),
        );
        let warden = children.unwrap_or_default().trim().to_owned();
        let warden = PathBuf::from("/proc").join(warden);
        if ours && limits(warden.clone()).contains(" 987 ") {
            rustix::process::kill_process(pid(&launcher), rustix::process::Signal::KILL).unwrap();
            killed.extend([launcher, warden]);
        }
    }
    assert!(!killed.is_empty());
    within(Duration::from_secs(2), || {
        killed.iter().all(|it| has_ended(it))
    });
    assert_eq!(sh(&sandbox, &unusual, "ulimit -n").ok(), "987\n");
}

#[test]
fn the_tree_dies_when_glee_is_killed() {
    if let Ok(mark) = std::env::var("GLEE_TEST_VICTIM") {
        // This is the process that plays glee below.
        let tier = if mark.ends_with('5') {
            Tier::Landlock
        } else {
            Tier::Full
        };
        let sandbox = Sandbox::at_most(launcher(), tier);
        let (order, ..) = order("/bin/sh", &["-c", &format!("setsid {mark} & exec {mark}")]);
        let child = sandbox
            .start(&profile(Confinement::Required), order)
            .unwrap();
        println!("started");
        child.wait().unwrap();
        return;
    }
    for mark in ["sleep 4344", "sleep 4345"] {
        let mut glee = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "death::the_tree_dies_when_glee_is_killed",
                "--nocapture",
            ])
            .env("GLEE_TEST_VICTIM", mark)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut seen = String::new();
        let mut out = glee.stdout.take().unwrap();
        while !seen.contains("started") {
            let mut byte = [0];
            out.read_exact(&mut byte).unwrap();
            seen.push(byte[0] as char);
        }
        within(Duration::from_secs(10), || marked(mark).len() == 2);
        glee.kill().unwrap();
        glee.wait().unwrap();
        gone_within(mark, Duration::from_secs(2));
    }
}

#[test]
fn a_replaced_grant_is_seen_by_the_next_call() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "one\n").unwrap();
    let mut granted = profile(Confinement::Required);
    granted.read.push(file.clone());
    let sandbox = sandbox();
    let script = format!("cat {}", file.display());
    assert_eq!(sh(&sandbox, &granted, &script).ok(), "one\n");
    fs::write(dir.path().join("new"), "two\n").unwrap();
    fs::rename(dir.path().join("new"), &file).unwrap();
    assert_eq!(sh(&sandbox, &granted, &script).ok(), "two\n");
    // A link put in place of a grant is not followed.
    fs::remove_file(&file).unwrap();
    fs::write(dir.path().join("secret"), "secret\n").unwrap();
    std::os::unix::fs::symlink(dir.path().join("secret"), &file).unwrap();
    assert_ne!(sh(&sandbox, &granted, &script).end.exit, Exit::Code(0));
    // Nor does it make the confinement weaker.
    assert!(sandbox.strength(&granted).tier >= Tier::FullWithoutCgroup);
}

#[test]
fn readiness_tells_the_end_and_stays() {
    let (wait, go) = std::io::pipe().unwrap();
    let (mut order, ..) = order("/bin/cat", &[]);
    order.fds[0] = wait.into();
    let child = sandbox()
        .start(&profile(Confinement::Required), order)
        .unwrap();
    let ready = |timeout_ms: i64| {
        let wait = rustix::event::Timespec {
            tv_sec: timeout_ms / 1000,
            tv_nsec: timeout_ms % 1000 * 1_000_000,
        };
        let fd = child.as_fd();
        let mut fds = [rustix::event::PollFd::from_borrowed_fd(
            fd,
            rustix::event::PollFlags::IN,
        )];
        rustix::event::poll(&mut fds, Some(&wait)).unwrap() > 0
    };
    assert!(!ready(0));
    drop(go);
    assert!(ready(5000));
    assert_eq!(child.try_wait().unwrap().unwrap().exit, Exit::Code(0));
    assert!(ready(0));
    assert!(child.try_wait().unwrap().is_some());
}

#[test]
fn nothing_leaks_over_many_calls() {
    let long = std::env::var("GLEE_LONG").is_ok();
    let rounds = if long { 10_000 } else { 100 };
    let groups_before = groups();
    let sandbox = sandbox();
    let dir = tempfile::tempdir().unwrap();
    let mut granted = profile(Confinement::Required);
    granted.write.push(dir.path().to_path_buf());
    granted.protect.push(dir.path().join("protected"));
    let script = "echo x > /tmp/x; sleep 1000 & exit 0";
    sh(&sandbox, &granted, script);
    sh(&sandbox, &granted, "true");
    let count = || {
        let own = fs::read_dir("/proc/self/fd").unwrap().count();
        let mounts = fs::read_to_string("/proc/self/mountinfo")
            .unwrap()
            .lines()
            .count();
        (own, mounts)
    };
    // Other tests of this binary run beside this one, so only the long run, which is run alone, counts exactly.
    let before = count();
    for round in 0..rounds {
        sh(
            &sandbox,
            &granted,
            if round % 10 == 0 { script } else { "true" },
        )
        .ok();
    }
    if long {
        let after = count();
        assert!(
            after.0 <= before.0 + 2 && after.1 == before.1,
            "{before:?} became {after:?}"
        );
    }
    drop(sandbox);
    // A child belongs to the thread that has started it.
    let children = || {
        let tasks = fs::read_dir("/proc/self/task").unwrap().flatten();
        let lists =
            tasks.map(|it| fs::read_to_string(it.path().join("children")).unwrap_or_default());
        lists.map(|it| it.split_whitespace().count()).sum::<usize>()
    };
    if long {
        within(Duration::from_secs(5), || children() == 0);
        within(Duration::from_secs(5), || {
            groups().iter().all(|it| groups_before.contains(it))
        });
    }
    within(Duration::from_secs(5), || {
        !dir.path().join("protected").exists()
    });
}

/// All control groups of launchers.
fn groups() -> Vec<PathBuf> {
    ["/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids"]
        .iter()
        .flat_map(|it| groups_in(it.as_ref()))
        .collect()
}

fn groups_in(dir: &std::path::Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if !entry.file_type().is_ok_and(|it| it.is_dir()) {
            continue;
        }
        if entry.file_name().to_string_lossy().starts_with("glee-") {
            found.push(entry.path());
        }
        found.extend(groups_in(&entry.path()));
    }
    found
}

#[test]
fn launchers_of_many_profiles_do_not_pile_up() {
    let sandbox = sandbox();
    let dir = tempfile::tempdir().unwrap();
    let own = format!("PPid:\t{}", std::process::id());
    let launchers = || {
        let all = marked("glee-sandbox-launcher __launcher").into_iter();
        all.filter(|it| fs::read_to_string(it.join("status")).is_ok_and(|it| it.contains(&own)))
            .count()
    };
    for number in 0..150 {
        let path = dir.path().join(number.to_string());
        fs::create_dir(&path).unwrap();
        let mut granted = profile(Confinement::Required);
        granted.write.push(path);
        assert_eq!(sh(&sandbox, &granted, "echo x").ok(), "x\n");
    }
    // Others run beside this test, and each of them keeps a few.
    within(Duration::from_secs(10), || launchers() < 190);
}
