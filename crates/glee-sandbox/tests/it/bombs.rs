//! Payloads that try to use up the machine. It stays usable, and the limit is named.

use std::process::Command;
use std::time::{Duration, Instant};

use glee_sandbox::{Confinement, End, Limit, Profile};

use crate::support::*;

/// Runs a bomb for at most a few seconds and shows that the machine still forks quickly.
fn explode(profile: &Profile, script: &str) -> End {
    let sandbox = sandbox();
    let (mut order, ..) = order("/bin/sh", &["-c", script]);
    // Nobody reads, so that the output of a bomb goes nowhere.
    let null = || {
        std::fs::File::options()
            .write(true)
            .open("/dev/null")
            .unwrap()
            .into()
    };
    order.fds[1] = null();
    order.fds[2] = null();
    let child = sandbox.start(profile, order).unwrap();
    let start = Instant::now();
    let mut slowest = Duration::ZERO;
    let end = loop {
        let fork = Instant::now();
        Command::new("/bin/true").status().unwrap();
        slowest = slowest.max(fork.elapsed());
        if let Some(end) = child.try_wait().unwrap() {
            break end;
        }
        if start.elapsed() > Duration::from_secs(3) {
            child.kill();
            break wait_within(&child, Duration::from_secs(2));
        }
    };
    assert!(
        slowest < Duration::from_secs(1),
        "a spawn beside the bomb took {slowest:?}"
    );
    end
}

#[test]
fn a_fork_bomb_is_contained() {
    let end = explode(
        &profile(Confinement::Required),
        "b() { b | b & b; }; b; sleep 2",
    );
    if is_root() {
        assert_eq!(end.limit, Some(Limit::Processes));
    }
}

#[test]
fn a_hopping_process_cannot_outrun_the_end() {
    // Every process forks its successor and dies at once.
    let hop = "import os\nwhile True:\n  if os.fork(): os._exit(0)\n";
    for tier in [glee_sandbox::Tier::Full, glee_sandbox::Tier::Landlock] {
        let sandbox = glee_sandbox::Sandbox::at_most(launcher(), tier);
        let (order, ..) = order("/usr/bin/python3", &["-I", "-c", hop, "hop-4701"]);
        let child = sandbox
            .start(&profile(Confinement::Required), order)
            .unwrap();
        wait_within(&child, Duration::from_secs(5));
        assert!(marked("hop-4701").is_empty());
    }
}

#[test]
fn a_memory_bomb_is_contained() {
    let mut small = profile(Confinement::Required);
    small.limits.memory = Some(64 << 20);
    let end = explode(&small, "exec tail /dev/zero");
    if is_root() {
        assert_eq!(end.limit, Some(Limit::Memory));
    }
    assert_ne!(end.exit, glee_sandbox::Exit::Code(0));
}

#[test]
fn an_output_bomb_and_many_files_are_contained() {
    explode(&profile(Confinement::Required), "yes");
    let files = "i=0; while :; do i=$((i+1)); : > /tmp/f$i || exit 1; done";
    let mut small = profile(Confinement::Required);
    small.limits.scratch_size = 4 << 20;
    assert_eq!(explode(&small, files).limit, Some(Limit::Scratch));
}

#[test]
fn a_hundred_hung_calls_are_killed_quickly() {
    let sandbox = sandbox();
    let count = if std::env::var("GLEE_LONG").is_ok() {
        1000
    } else {
        50
    };
    let children: Vec<_> = (0..count)
        .map(|_| {
            let (order, ..) = order(
                "/bin/sh",
                &["-c", "trap '' TERM; setsid sleep 4801 & sleep 4801"],
            );
            sandbox
                .start(&profile(Confinement::Required), order)
                .unwrap()
        })
        .collect();
    let start = Instant::now();
    children.iter().for_each(|it| it.kill());
    for child in &children {
        child.wait().unwrap();
    }
    assert!(
        start.elapsed() < Duration::from_secs(2),
        "{:?}",
        start.elapsed()
    );
    assert!(marked("sleep 4801").is_empty());
}
