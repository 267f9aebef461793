//! What holds with every confinement, shown without one: exact arguments, exit, environment, descriptors, tree.

use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

use glee_sandbox::{Confinement, Exit, StartError, Tier};

use crate::support::*;

#[test]
fn arguments_arrive_byte_for_byte() {
    let (mut order, mut out, _err) = order("/usr/bin/printf", &["%s\\n"]);
    order
        .args
        .push(std::ffi::OsString::from_vec(b"a \xff\n'\"$x`;|".to_vec()));
    let sandbox = sandbox();
    let child = sandbox.start(&profile(Confinement::Off), order).unwrap();
    let mut seen = Vec::new();
    assert_eq!(child.wait().unwrap().exit, Exit::Code(0));
    // The order's own copies of the pipe are closed with it, so the end of the pipe is the end of the child.
    out.read_to_end(&mut seen).unwrap();
    assert_eq!(seen, b"a \xff\n'\"$x`;|\n");
}

#[test]
fn exit_codes_and_signals_are_told_apart() {
    let sandbox = sandbox();
    let off = profile(Confinement::Off);
    assert_eq!(sh(&sandbox, &off, "exit 7").end.exit, Exit::Code(7));
    assert_eq!(
        sh(&sandbox, &off, "kill -TERM $$").end.exit,
        Exit::Signal(15)
    );
    assert_eq!(
        sh(&sandbox, &off, "kill -ABRT $$").end.exit,
        Exit::Signal(6)
    );
    assert_eq!(
        sh(&sandbox, &off, "kill -KILL $$").end.exit,
        Exit::Signal(9)
    );
}

#[test]
fn the_environment_is_exactly_what_was_ordered() {
    let (mut order, mut out, _err) = order("/usr/bin/env", &["-0"]);
    order.env = vec![("A".into(), "1=2\n3".into()), ("B".into(), "".into())];
    let child = sandbox().start(&profile(Confinement::Off), order).unwrap();
    let mut seen = String::new();
    out.read_to_string(&mut seen).unwrap();
    child.wait().unwrap();
    assert_eq!(seen, "A=1=2\n3\0B=\0");
}

#[test]
fn only_the_ordered_descriptors_are_open() {
    // Deliberately without close-on-exec, like a careless library in glee.
    let leaked = File::open("/etc/passwd").unwrap();
    rustix::io::fcntl_setfd(&leaked, rustix::io::FdFlags::empty()).unwrap();
    let sandbox = sandbox();
    let seen = sh(
        &sandbox,
        &profile(Confinement::Off),
        "exec ls -1 /proc/self/fd",
    )
    .ok();
    // The launcher has let go of it, too, or it would keep open what glee has closed.
    for launcher in marked("glee-sandbox-launcher __launcher") {
        for fd in std::fs::read_dir(launcher.join("fd"))
            .into_iter()
            .flatten()
            .flatten()
        {
            let leads_to = std::fs::read_link(fd.path()).unwrap_or_default();
            assert_ne!(leads_to, std::path::Path::new("/etc/passwd"));
        }
    }
    // 3 is the directory that ls itself reads.
    assert_eq!(seen, "0\n1\n2\n3\n");
    let (mut four, mut out, _err) = order("/bin/sh", &["-c", "echo hello >&3"]);
    let extra = four.fds[1].try_clone().unwrap();
    four.fds[1] = File::open("/dev/null").unwrap().into();
    four.fds.push(extra);
    let child = sandbox.start(&profile(Confinement::Off), four).unwrap();
    let mut seen = String::new();
    out.read_to_string(&mut seen).unwrap();
    assert_eq!(seen, "hello\n");
    assert_eq!(child.wait().unwrap().exit, Exit::Code(0));
}

#[test]
fn large_arguments_pass_and_larger_ones_are_refused() {
    let sandbox = sandbox();
    let off = profile(Confinement::Off);
    let (mut large, mut out, _err) = order("/bin/sh", &["-c", "echo $#"]);
    large
        .args
        .extend((0..14).map(|_| "x".repeat(100_000).into()));
    let child = sandbox.start(&off, large).unwrap();
    let mut seen = String::new();
    out.read_to_string(&mut seen).unwrap();
    assert_eq!(seen, "13\n");
    child.wait().unwrap();
    let (mut larger, ..) = order("/bin/true", &[]);
    larger
        .args
        .extend((0..100).map(|_| "x".repeat(100_000).into()));
    assert!(matches!(
        sandbox.start(&off, larger),
        Err(StartError::TooLarge)
    ));
}

#[test]
fn what_cannot_start_says_why() {
    let sandbox = sandbox();
    let off = profile(Confinement::Off);
    let start = |program: &str| run(&sandbox, &off, program, &[]).map(|it| it.end);
    assert!(matches!(
        start("/no/such/program"),
        Err(StartError::NotFound(_))
    ));
    assert!(matches!(
        start("no-such-program"),
        Err(StartError::NotFound(_))
    ));
    assert!(matches!(
        start("/etc/passwd"),
        Err(StartError::NotExecutable(_))
    ));
    assert!(matches!(start("/etc"), Err(StartError::NotExecutable(_))));
    assert!(matches!(
        start("/bin/tr\0ue"),
        Err(StartError::Nul {
            part: "the program"
        })
    ));
    assert!(matches!(
        run(&sandbox, &off, "/bin/true", &["a\0b"]),
        Err(StartError::Nul {
            part: "an argument"
        })
    ));
    let (mut lost, ..) = order("/bin/true", &[]);
    lost.cwd = "/no/such/directory".into();
    assert!(matches!(sandbox.start(&off, lost), Err(StartError::Cwd(_))));
    assert_eq!(start("true").unwrap().exit, Exit::Code(0));
}

#[test]
fn daemons_die_with_the_main_process() {
    let script = "setsid sh -c 'sleep 4101 & sleep 4101' & (sleep 4101 &) ; sleep 4101 & kill -STOP $!; echo done";
    let start = std::time::Instant::now();
    assert_eq!(
        sh(&sandbox(), &profile(Confinement::Off), script).ok(),
        "done\n"
    );
    assert!(
        start.elapsed() < Duration::from_secs(5),
        "a grandchild that holds stdout blocked the answer"
    );
    assert_eq!(marked("sleep 4101").len(), 0);
}

#[test]
fn kill_ends_the_whole_tree_and_may_be_repeated() {
    let (order, ..) = order(
        "/bin/sh",
        &[
            "-c",
            "trap '' TERM INT; setsid sleep 4102 & sleep 4102 & sleep 4102",
        ],
    );
    let child = sandbox().start(&profile(Confinement::Off), order).unwrap();
    // The shell, which has these words in its own line, and all three that it starts.
    within(Duration::from_secs(2), || marked("sleep 4102").len() == 4);
    assert!(child.try_wait().unwrap().is_none());
    child.kill();
    child.kill();
    assert_eq!(
        wait_within(&child, Duration::from_secs(2)).exit,
        Exit::Signal(9)
    );
    assert_eq!(marked("sleep 4102").len(), 0);
    child.kill();
    assert_eq!(child.wait().unwrap().exit, Exit::Signal(9));
}

#[test]
fn drop_kills_the_tree() {
    let (order, ..) = order("/bin/sh", &["-c", "setsid sleep 4103 & sleep 4103"]);
    drop(sandbox().start(&profile(Confinement::Off), order).unwrap());
    gone_within("sleep 4103", Duration::from_secs(2));
}

#[test]
fn a_launcher_serves_many_calls() {
    let sandbox = sandbox();
    for round in 0..50 {
        assert_eq!(
            sh(&sandbox, &profile(Confinement::Off), "echo $0").ok(),
            "/bin/sh\n",
            "round {round}"
        );
    }
}

#[test]
fn off_is_reported_as_no_strength() {
    assert_eq!(
        sandbox().strength(&profile(Confinement::Off)).tier,
        Tier::None
    );
}
