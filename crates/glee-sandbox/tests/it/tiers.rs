//! What holds on weaker machines, shown by attempting less on this one.

use std::fs;
use std::time::Duration;

use glee_sandbox::{Confinement, Exit, Layer, Limit, Sandbox, StartError, Tier};

use crate::support::*;

fn at_most(tier: Tier) -> Sandbox {
    Sandbox::at_most(launcher(), tier)
}

#[test]
fn each_tier_says_what_it_is() {
    let required = profile(Confinement::Required);
    assert_eq!(
        at_most(Tier::FullWithoutCgroup).strength(&required).tier,
        Tier::FullWithoutCgroup
    );
    let landlock = at_most(Tier::Landlock).strength(&required);
    assert_eq!(landlock.tier, Tier::Landlock);
    let missing: Vec<Layer> = landlock.missing().map(|it| it.0).collect();
    assert_eq!(missing[..2], [Layer::ProcessTree, Layer::Root]);
    assert!(
        missing[2..].iter().all(|it| *it == Layer::Cgroup),
        "{missing:?}"
    );
}

#[test]
fn landlock_alone_still_holds_files() {
    let dir = tempfile::tempdir().unwrap();
    let (write, none) = (dir.path().join("write"), dir.path().join("none"));
    for it in [&write, &none] {
        fs::create_dir(it).unwrap();
        fs::write(it.join("file"), "content\n").unwrap();
    }
    let mut granted = profile(Confinement::Required);
    granted.write.push(write.clone());
    let sandbox = at_most(Tier::Landlock);
    let sh = |script: &str| sh(&sandbox, &granted, script);
    assert_eq!(
        sh(&format!("echo x > {}/new; cat {0}/file", write.display())).ok(),
        "content\n"
    );
    for attempt in [
        format!("cat {}/file", none.display()),
        format!("echo x > {}/file", none.display()),
        "cat /etc/passwd".to_owned(),
        "echo x > /tmp/glee-test-landlock".to_owned(),
        format!("chmod 777 {}/file", none.display()),
    ] {
        assert_ne!(sh(&attempt).end.exit, Exit::Code(0), "{attempt}");
    }
    assert_eq!(fs::read_to_string(none.join("file")).unwrap(), "content\n");
}

#[test]
fn landlock_alone_refuses_to_protect_inside_a_grant() {
    let dir = tempfile::tempdir().unwrap();
    let mut granted = profile(Confinement::Required);
    granted.write.push(dir.path().to_path_buf());
    granted.protect.push(dir.path().join(".mcp.json"));
    let refused = run(&at_most(Tier::Landlock), &granted, "/bin/true", &[]);
    assert!(
        matches!(refused, Err(StartError::Unavailable { ref layer, .. }) if layer == "protect")
    );
}

#[test]
fn landlock_alone_ends_the_whole_tree() {
    let sandbox = at_most(Tier::Landlock);
    let script = "setsid sh -c 'sleep 4201 & sleep 4201' & (sleep 4201 &) ; sleep 4201 & kill -STOP $!; echo done";
    assert_eq!(
        sh(&sandbox, &profile(Confinement::Required), script).ok(),
        "done\n"
    );
    assert_eq!(marked("sleep 4201").len(), 0);
    let (order, ..) = order("/bin/sh", &["-c", "setsid sleep 4202 & sleep 4202"]);
    let child = sandbox
        .start(&profile(Confinement::Required), order)
        .unwrap();
    child.kill();
    assert_eq!(
        wait_within(&child, Duration::from_secs(2)).exit,
        Exit::Signal(9)
    );
    assert_eq!(marked("sleep 4202").len(), 0);
}

#[test]
fn without_a_cgroup_the_warden_watches_the_tree() {
    let sandbox = at_most(Tier::FullWithoutCgroup);
    let mut confined = profile(Confinement::Required);
    confined.limits.memory = Some(100 << 20);
    confined.limits.cpu = Some(Duration::from_secs(1));
    let sh = |script: &str| sh(&sandbox, &confined, script).end;
    // Each process stays below the limit; together they do not.
    let hog = "import sys,time; x=bytearray(40<<20); time.sleep(20)";
    let hogs = format!("for i in 1 2 3 4; do python3 -I -c '{hog}' & done; wait");
    let end = sh(&hogs);
    assert_eq!(
        (end.exit, end.limit),
        (Exit::Signal(9), Some(Limit::Memory))
    );
    assert_eq!(
        sh("(while :; do :; done) & (while :; do :; done) & (while :; do :; done) & wait").limit,
        Some(Limit::Cpu)
    );
}

#[test]
fn a_machine_without_user_namespaces_is_found_out() {
    if std::env::var("GLEE_TEST_NO_USERNS").is_ok() {
        let sandbox = sandbox();
        let required = profile(Confinement::Required);
        let strength = sandbox.strength(&required);
        assert_eq!(strength.tier, Tier::Landlock, "{strength:?}");
        let why = strength.missing().find(|it| it.0 == Layer::Root).unwrap().1;
        assert!(why.contains("user namespaces"), "{why}");
        assert_eq!(sh(&sandbox, &required, "echo works").ok(), "works\n");
        assert_ne!(
            sh(&sandbox, &required, "cat /etc/passwd").end.exit,
            Exit::Code(0)
        );
        return;
    }
    // A user namespace in which no other can be made, as some systems are set up for everybody.
    let forbid = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    let made = std::process::Command::new("/usr/bin/unshare")
        .args(["--user", "--map-root-user", "/bin/sh", "-c", forbid, "sh"])
        .arg(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "tiers::a_machine_without_user_namespaces_is_found_out",
            "--nocapture",
        ])
        .env("GLEE_TEST_NO_USERNS", "1")
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

#[test]
fn what_is_hidden_is_open_in_no_tier() {
    for beside in [std::env::temp_dir(), "/var/tmp".into()] {
        let dir = tempfile::tempdir_in(beside).unwrap();
        let dir = dir.path().canonicalize().unwrap();
        let hidden = dir.join("state/glee");
        fs::create_dir_all(&hidden).unwrap();
        fs::write(hidden.join("key"), "content\n").unwrap();
        fs::write(dir.join("open"), "").unwrap();
        for tier in [Tier::Full, Tier::Landlock] {
            for confinement in [Confinement::Required, Confinement::BestEffort] {
                let mut read = profile(confinement);
                read.hide.push(hidden.clone());
                let mut write = read.clone();
                read.read = vec![dir.clone(), hidden.clone()];
                write.write = vec![dir.clone(), hidden.clone()];
                for granted in [read, write] {
                    let script = format!(
                        "cd {}; cat state/glee/key; ls state/glee; echo x > state/glee/key; echo x > state/glee/new
                        rm state/glee/key; mv state/glee aside; mv state moved; cat moved/glee/key aside/key; test -e open && echo there",
                        dir.display()
                    );
                    let ran = run(&at_most(tier), &granted, "/bin/sh", &["-c", &script]);
                    match (tier, ran) {
                        (Tier::Landlock, Err(StartError::Unavailable { why, .. })) => {
                            assert!(why.contains("state/glee"), "{why}");
                        }
                        (Tier::Full, Ok(ran)) => assert_eq!(ran.ok(), "there\n"),
                        (tier, Ok(_)) => panic!("{tier:?} started it"),
                        (tier, Err(err)) => panic!("{tier:?}: {err}"),
                    }
                }
            }
        }
        assert_eq!(fs::read_to_string(hidden.join("key")).unwrap(), "content\n");
        assert_eq!(fs::read_dir(&hidden).unwrap().count(), 1);
    }
}
