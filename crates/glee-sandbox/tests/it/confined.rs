//! What holds in the full tier.

use std::fs;
use std::io::Write;
use std::time::Duration;

use glee_sandbox::{Confinement, Exit, Layer, Limit, StartError, Tier};

use crate::support::*;

#[test]
fn the_full_tier_is_reported_layer_by_layer() {
    let strength = sandbox().strength(&profile(Confinement::Required));
    let missing: Vec<_> = strength.missing().collect();
    println!("{strength:?}");
    if is_root() {
        assert_eq!(strength.tier, Tier::Full, "{missing:?}");
    } else {
        assert!(strength.tier >= Tier::FullWithoutCgroup, "{missing:?}");
    }
}

#[test]
fn only_the_system_and_the_grants_are_there() {
    let seen = sh(
        &sandbox(),
        &profile(Confinement::Required),
        "cd / && echo * && echo /etc/* && echo /dev/*",
    )
    .ok();
    println!("{seen}");
    for absent in [
        "home", "root", "work", "passwd", "shadow", "sda", "vda", "kmsg", "sys ",
    ] {
        assert!(!seen.contains(absent), "{absent} is in {seen}");
    }
}

#[test]
fn status_shows_all_layers() {
    let seen = sh(
        &sandbox(),
        &profile(Confinement::Required),
        "cat /proc/self/status /proc/self/mounts; echo $$; ls /proc",
    )
    .ok();
    for line in [
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
        "CapEff:\t0000000000000000",
        "CapPrm:\t0000000000000000",
        "CapBnd:\t0000000000000000",
        "proc /proc proc ro,",
    ] {
        assert!(seen.contains(line), "{line} is not in {seen}");
    }
    assert!(seen.contains("\n2\n"), "the payload is process 2: {seen}");
}

#[test]
fn grants_are_readable_or_writable_and_nothing_more() {
    let dir = tempfile::tempdir().unwrap();
    let (read, write, none) = (
        dir.path().join("read"),
        dir.path().join("write"),
        dir.path().join("none"),
    );
    for it in [&read, &write, &none] {
        fs::create_dir(it).unwrap();
        fs::write(it.join("file"), "content\n").unwrap();
    }
    let mut granted = profile(Confinement::Required);
    granted.read.push(read.clone());
    granted.write.push(write.clone());
    let sandbox = sandbox();
    let sh = |script: &str| {
        sh(
            &sandbox,
            &granted,
            &format!("cd {} || exit 99\n{script}", dir.path().display()),
        )
    };
    assert_eq!(sh("cat read/file write/file").ok(), "content\ncontent\n");
    assert_eq!(sh("echo new > write/new && mv write/new write/moved && mkdir write/d && mv write/moved write/d/").ok(), "");
    assert_eq!(fs::read_to_string(write.join("d/moved")).unwrap(), "new\n");
    for attempt in [
        "cat none/file",
        "ls none",
        "echo x > read/file",
        "touch read/new",
        "rm read/file",
        "chmod 777 read/file",
        "mv read/file write/",
    ] {
        assert_ne!(sh(attempt).end.exit, Exit::Code(0), "{attempt}");
    }
    assert_eq!(fs::read_to_string(read.join("file")).unwrap(), "content\n");
}

#[test]
fn protected_paths_cannot_be_written_created_or_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let project = dir.path().join("p");
    fs::create_dir_all(project.join(".git/hooks")).unwrap();
    fs::create_dir_all(project.join(".glee")).unwrap();
    fs::write(project.join(".glee/config.yml"), "sandbox: required\n").unwrap();
    let mut granted = profile(Confinement::Required);
    granted.write.push(project.clone());
    for it in [
        ".glee/config.yml",
        ".glee/tools",
        ".git/hooks",
        ".git/config",
        ".mcp.json",
        "deep/er/missing",
    ] {
        granted.protect.push(project.join(it));
    }
    let sandbox = sandbox();
    let sh = |script: &str| {
        sh(
            &sandbox,
            &granted,
            &format!("cd {} || exit 99\n{script}", project.display()),
        )
    };
    for attempt in [
        "echo x > .glee/config.yml",
        "rm .glee/config.yml",
        "mv .glee/config.yml x",
        "echo x > y && mv -f y .glee/config.yml",
        "echo x > y && ln -f y .glee/config.yml",
        "ln .glee/config.yml hard",
        "mv .glee .glee2",
        "rm -rf .glee; echo x > .glee/config.yml",
        "mkdir .glee/tools/x",
        "echo x > .glee/tools/x",
        "rmdir .glee/tools",
        "mv .glee/tools .glee/other",
        "echo x > .git/hooks/post-commit",
        "mv .git g && mkdir -p .git/hooks && echo x > .git/hooks/post-commit",
        "ln -s /tmp .git/hooks2 && mv -T .git/hooks2 .git/hooks",
        "echo x > .git/config",
        "rmdir .mcp.json && echo x > .mcp.json",
        "echo x > z && mv -fT z .mcp.json",
        "ln -s x .mcp.json",
        "mkdir -p deep/er",
        "mv deep d2",
    ] {
        let ran = sh(attempt);
        assert_ne!(ran.end.exit, Exit::Code(0), "{attempt}");
    }
    assert_eq!(
        sh("echo fine > .glee/other && echo fine > .git/HEAD && echo fine > file && mv file file2")
            .ok(),
        ""
    );
    assert_eq!(
        fs::read_to_string(project.join(".glee/config.yml")).unwrap(),
        "sandbox: required\n"
    );
    assert_eq!(fs::read_dir(project.join(".git/hooks")).unwrap().count(), 0);
    // The stand-ins for what does not exist go with the launcher.
    drop(sandbox);
    within(Duration::from_secs(3), || {
        !project.join(".mcp.json").exists()
    });
    assert!(!project.join(".glee/tools").exists());
    assert!(!project.join("deep").exists());
}

#[test]
fn a_held_place_is_kept_as_long_as_somebody_relies_on_it() {
    // Not in a scratch directory, where grants are mounted in another way.
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let mut granted = profile(Confinement::Required);
    granted.write.push(dir.path().to_path_buf());
    granted.protect.push(dir.path().join(".git/hooks"));
    granted.protect.push(dir.path().join(".git/config"));
    let script = format!(
        "read go; cd {} && mkdir -p .git/hooks && echo x > .git/config",
        dir.path().display()
    );
    let sandbox = sandbox();
    let start = |script: &str| {
        let (wait, go) = std::io::pipe().unwrap();
        let mut order = order("/bin/sh", &["-c", script]).0;
        order.fds[0] = wait.into();
        (sandbox.start(&granted, order).unwrap(), go)
    };
    let (first, _go) = start("read go");
    let before = inside(dir.path());
    let (second, mut go) = start(&script);
    let second_alone = inside(dir.path()) - before;
    drop(first);
    within(Duration::from_secs(3), || {
        inside(dir.path()) == second_alone
    });
    go.write_all(b"go\n").unwrap();
    assert_ne!(second.wait().unwrap().exit, Exit::Code(0));
    drop(second);
    drop(sandbox);
    within(Duration::from_secs(3), || !dir.path().join(".git").exists());
    // A directory of the user's own stays, however empty.
    fs::create_dir_all(dir.path().join(".git/hooks")).unwrap();
    let sandbox = crate::support::sandbox();
    assert_ne!(sh(&sandbox, &granted, &script).end.exit, Exit::Code(0));
    drop(sandbox);
    within(Duration::from_secs(3), || {
        !dir.path().join(".git/config").exists()
    });
    within(Duration::from_secs(3), || inside(dir.path()) == 0);
    assert!(dir.path().join(".git/hooks").exists());
}

#[test]
fn a_link_on_the_way_to_a_protected_path_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("real/hooks")).unwrap();
    std::os::unix::fs::symlink("real", dir.path().join(".git")).unwrap();
    let mut granted = profile(Confinement::Required);
    granted.write.push(dir.path().to_path_buf());
    granted.protect.push(dir.path().join(".git/hooks"));
    let refused = run(&sandbox(), &granted, "/bin/true", &[]);
    assert!(
        matches!(refused, Err(StartError::Unavailable { ref layer, .. }) if layer == "protect")
    );
}

#[test]
fn a_protected_symbolic_link_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("elsewhere", dir.path().join(".bashrc")).unwrap();
    let mut granted = profile(Confinement::Required);
    granted.write.push(dir.path().to_path_buf());
    granted.protect.push(dir.path().join(".bashrc"));
    let refused = run(&sandbox(), &granted, "/bin/true", &[]);
    assert!(
        matches!(refused, Err(StartError::Unavailable { ref layer, .. }) if layer == "protect")
    );
    granted.confinement = Confinement::BestEffort;
    let sandbox = sandbox();
    assert_eq!(
        run(&sandbox, &granted, "/bin/true", &[]).unwrap().end.exit,
        Exit::Code(0)
    );
    assert!(!sandbox.strength(&granted).enforces(Layer::Protect));
}

#[test]
fn scratch_is_private_and_fresh_for_each_call() {
    let sandbox = sandbox();
    let confined = profile(Confinement::Required);
    for _ in 0..3 {
        assert_eq!(
            sh(
                &sandbox,
                &confined,
                "ls -A /tmp /dev/shm; echo x > /tmp/x; echo x > /dev/shm/x"
            )
            .ok(),
            "/dev/shm:\n\n/tmp:\n"
        );
    }
    for _ in 0..2 {
        sh(
            &sandbox,
            &confined,
            "echo x > /tmp/x && rm /tmp/x && chmod 0 /tmp",
        )
        .ok();
    }
    for mess in [
        "mkdir -p /tmp/a/b && echo x > /tmp/a/b/c && chmod 0 /tmp/a/b /tmp/a && ln -s /usr /tmp/link && mkfifo /tmp/fifo",
        "for i in $(seq 300); do : > /tmp/$i; done",
        "cd /tmp && for i in $(seq 40); do mkdir d && cd d; done",
        "touch /tmp/.hidden '/tmp/with space' /dev/shm/y; chmod 700 /tmp",
        "python3 -I -c 'import os; os.setxattr(\"/tmp\", \"user.x\", b\"x\")' || true",
    ] {
        sh(&sandbox, &confined, mess).ok();
        let seen = sh(
            &sandbox,
            &confined,
            "ls -A /tmp /dev/shm; stat -c %a /tmp /dev/shm; ls -d /usr/bin",
        )
        .ok();
        assert_eq!(seen, "/dev/shm:\n\n/tmp:\n1777\n1777\n/usr/bin\n", "{mess}");
        let marked = sh(
            &sandbox,
            &confined,
            "python3 -I -c 'import os; print(os.listxattr(\"/tmp\"))'",
        )
        .ok();
        assert_eq!(marked, "[]\n", "{mess}");
    }
    if fs::exists("/usr/bin/ipcmk").unwrap() {
        sh(
            &sandbox,
            &confined,
            "ipcmk -M 100 && ipcmk -Q && ipcmk -S 1",
        )
        .ok();
        assert!(
            !sh(&sandbox, &confined, "ipcs").ok().contains("0x"),
            "IPC objects outlive a call"
        );
    }
}

/// However soon one call follows on the other.
#[test]
fn nothing_is_left_in_the_scratch_of_a_call_that_comes_at_once() {
    let sandbox = sandbox();
    let confined = profile(Confinement::Required);
    for _ in 0..100 {
        let look = "ls -A /tmp; : > /tmp/left";
        assert_eq!(sh(&sandbox, &confined, look).ok(), "");
    }
}

#[test]
fn limits_are_named() {
    let sandbox = sandbox();
    let mut confined = profile(Confinement::Required);
    confined.limits.file_size = Some(700_000);
    confined.limits.cpu = Some(Duration::from_secs(1));
    confined.limits.memory = Some(64 << 20);
    confined.limits.processes = Some(10);
    confined.limits.scratch_size = 1 << 20;
    confined.limits.open_files = Some(40);
    let sh = |script: &str| sh(&sandbox, &confined, script).end;
    assert_eq!(sh("true").limit, None);
    assert_eq!(
        sh("head -c 2000000 /dev/zero > /dev/shm/x").limit,
        Some(Limit::FileSize)
    );
    assert_eq!(sh("while :; do :; done").limit, Some(Limit::Cpu));
    assert_eq!(
        sh("head -c 600000 /dev/zero > /tmp/a; head -c 600000 /dev/zero > /tmp/b").limit,
        Some(Limit::Scratch)
    );
    if is_root() {
        assert_eq!(
            sh("head -c 200000000 /dev/zero | tail | wc -c").limit,
            Some(Limit::Memory)
        );
        assert_eq!(
            sh("for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do sleep 5 & done").limit,
            Some(Limit::Processes)
        );
    }
    assert_eq!(sh("true").limit, None);
}
