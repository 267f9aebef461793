//! What a child was refused is told, to its own call and to nobody else.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use glee_sandbox::{
    Child, Confinement, Exit, Moment, Network, PROXY_ADDRESS, Profile, Refusal, Sandbox, Tier,
    Transport, launcher_behind,
};

use crate::support::*;

fn outbound() -> Profile {
    Profile {
        network: Network::Outbound { granted: vec![] },
        ..profile(Confinement::Required)
    }
}

fn start(sandbox: &Sandbox, profile: &Profile, code: &str) -> Child {
    let code = format!("import os, socket, sys\n{code}");
    let (order, _, _) = order("/usr/bin/python3", &["-I", "-c", &code]);
    sandbox.start(profile, order).unwrap()
}

/// What a program was refused, when it has ended.
fn refused(sandbox: &Sandbox, profile: &Profile, code: &str) -> Vec<Refusal> {
    let child = start(sandbox, profile, code);
    child.wait().unwrap();
    child.refused()
}

fn stream(to: &str) -> Refusal {
    Refusal {
        to: to.parse().unwrap(),
        transport: Transport::Stream,
    }
}

fn datagram(to: &str) -> Refusal {
    Refusal {
        transport: Transport::Datagram,
        ..stream(to)
    }
}

#[test]
fn each_destination_that_was_refused_is_told_once() {
    for tier in [Tier::Full, Tier::FullWithoutCgroup] {
        let sandbox = Sandbox::at_most(launcher(), tier);
        let code = "\
def attempt(f, *it):
  try: f(*it)
  except PermissionError: return
  sys.exit('went through')
for _ in range(3): attempt(socket.socket().connect, ('127.0.0.1', 8080))
attempt(socket.socket(socket.AF_INET6).connect, ('::1', 8081))
attempt(socket.socket(socket.AF_INET6).connect, ('::ffff:10.0.0.1', 80))
attempt(socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto, b'x', ('169.254.169.254', 53))
attempt(socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendmsg, [b'x'], [], 0, ('10.0.0.2', 1))
attempt(socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect, ('127.0.0.1', 0))";
        let told = refused(&sandbox, &outbound(), code);
        let expected = [
            stream("127.0.0.1:8080"),
            stream("[::1]:8081"),
            stream("10.0.0.1:80"),
            datagram("169.254.169.254:53"),
            datagram("10.0.0.2:1"),
        ];
        assert_eq!(told, expected);
    }
}

#[test]
fn a_call_is_told_only_what_it_was_refused_itself() {
    let sandbox = sandbox();
    let connect = |port: u16| format!("socket.socket().connect_ex(('127.0.0.1', {port}))");
    let first = start(&sandbox, &outbound(), &connect(1));
    let launcher = first.launcher_id();
    first.wait().unwrap();
    // Nobody has asked what the first one was refused, and the second has its launcher.
    let began = first.since();
    drop(first);
    let second = start(&sandbox, &outbound(), &connect(2));
    assert_eq!(second.launcher_id(), launcher);
    assert!(second.since() > began);
    second.wait().unwrap();
    assert_eq!(second.refused(), [stream("127.0.0.1:2")]);
    assert_eq!(second.refused(), []);
    drop(second);
    assert_eq!(refused(&sandbox, &outbound(), "pass"), []);
}

#[test]
fn a_child_that_goes_on_is_told_what_was_refused_since() {
    let sandbox = sandbox();
    let (near, far) = UnixStream::pair().unwrap();
    let code = "\
c = socket.socket(fileno=3)
while port := c.recv(1):
  socket.socket().connect_ex(('127.0.0.1', port[0]))
  c.send(b'.')";
    let (mut order, _, _) = order(
        "/usr/bin/python3",
        &["-I", "-c", &format!("import socket\n{code}")],
    );
    order.fds.push(far.into());
    let mut child = sandbox.start(&outbound(), order).unwrap();
    let attempt = |port: u8| {
        use std::io::Write;
        (&near).write_all(&[port]).unwrap();
        (&near).read_exact(&mut [0]).unwrap();
    };
    attempt(1);
    child.begin();
    attempt(2);
    // The record is there before the program goes on.
    assert_eq!(child.refused(), [stream("127.0.0.1:2")]);
    near.shutdown(std::net::Shutdown::Both).unwrap();
    child.wait().unwrap();
}

#[test]
fn a_flood_of_refusals_is_bounded_and_holds_nobody_up() {
    let sandbox = sandbox();
    let code = "\
for port in range(1, 3000):
  s = socket.socket()
  s.connect_ex(('127.0.0.1', port))
  s.close()";
    let child = start(&sandbox, &outbound(), code);
    assert_eq!(child.wait().unwrap().exit, Exit::Code(0));
    let told = child.refused();
    assert_eq!(told.len(), 16);
    assert_eq!(told[0], stream("127.0.0.1:1"));
    drop(child);
    // Nobody asks what this one was refused, and there is room for the next one's.
    start(&sandbox, &outbound(), code).wait().unwrap();
    let next = refused(
        &sandbox,
        &outbound(),
        "socket.socket().connect_ex(('10.0.0.1', 1))",
    );
    assert_eq!(next, [stream("10.0.0.1:1")]);
}

#[test]
fn what_was_refused_to_a_child_that_is_killed_is_told() {
    let sandbox = sandbox();
    let (mut near, far) = UnixStream::pair().unwrap();
    let code = "import os, socket, signal\n\
         socket.socket().connect_ex(('127.0.0.1', 1))\nos.write(3, b'.')\nsignal.pause()";
    let (mut order, _, _) = order("/usr/bin/python3", &["-I", "-c", code]);
    order.fds.push(far.into());
    let child = sandbox.start(&outbound(), order).unwrap();
    near.read_exact(&mut [0]).unwrap();
    child.kill();
    child.wait().unwrap();
    assert_eq!(child.refused(), [stream("127.0.0.1:1")]);
}

#[test]
fn where_there_is_no_gatekeeper_nothing_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect = format!("socket.socket().connect_ex(('127.0.0.1', {port}))");
    let lenient = Profile {
        confinement: Confinement::BestEffort,
        ..outbound()
    };
    let weaker = Sandbox::at_most(launcher(), Tier::Landlock);
    assert_eq!(refused(&weaker, &lenient, &connect), []);
    let off = Profile {
        confinement: Confinement::Off,
        ..outbound()
    };
    assert_eq!(refused(&sandbox(), &off, &connect), []);
    let closed = profile(Confinement::Required);
    assert_eq!(refused(&sandbox(), &closed, &connect), []);
}

/// The pipes that a process has open.
fn pipes(process: u32) -> BTreeSet<PathBuf> {
    let open = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    open.flatten()
        .filter_map(|it| fs::read_link(it.path()).ok())
        .filter(|it| it.to_string_lossy().starts_with("pipe:"))
        .collect()
}

fn children(of: u32) -> Vec<u32> {
    let path = format!("/proc/{of}/task/{of}/children");
    let all = fs::read_to_string(path).unwrap();
    all.split_whitespace()
        .map(|it| it.parse().unwrap())
        .collect()
}

/// How many PID namespaces a process is in: all but the gatekeeper and the bridge are in one of the cell.
fn depth(process: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("NSpid:"));
    line.unwrap().split_whitespace().count()
}

#[test]
fn nobody_but_the_gatekeeper_can_tell() {
    if !is_root() {
        return; // Another user cannot see what these processes have open.
    }
    let sandbox = sandbox();
    let (mut near, far) = UnixStream::pair().unwrap();
    let code = "import os, signal\nos.write(3, b'.')\nsignal.pause()";
    let (mut order, _, _) = order("/usr/bin/python3", &["-I", "-c", code]);
    order.fds.push(far.into());
    let child = sandbox.start(&outbound(), order).unwrap();
    near.read_exact(&mut [0]).unwrap();
    let launcher = child.launcher_id();
    let of_launcher = pipes(launcher);
    assert_eq!(of_launcher.len(), 1, "{of_launcher:?}");
    let own = depth(std::process::id());
    let (outside, wardens): (Vec<u32>, Vec<u32>) = children(launcher)
        .into_iter()
        .partition(|it| depth(*it) == own);
    let ([gatekeeper], [warden]) = (outside.as_slice(), wardens.as_slice()) else {
        panic!("{outside:?} {wardens:?}");
    };
    assert_eq!(pipes(*gatekeeper), of_launcher);
    let payload = children(*warden);
    assert_eq!(payload.len(), 1);
    for inside in [*warden, payload[0]] {
        assert!(pipes(inside).is_disjoint(&of_launcher));
    }
}

/// What listens as a proxy would, and the profile of whoever only gets out through it.
fn proxy_in(directory: &Path) -> (UnixListener, Profile) {
    let socket = directory.join("proxy.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let through = Profile {
        network: Network::Proxy { socket },
        ..profile(Confinement::Required)
    };
    (listener, through)
}

#[test]
fn a_connection_to_the_proxy_leads_to_its_launcher() {
    let dir = tempfile::tempdir().unwrap();
    let (listener, through) = proxy_in(dir.path());
    let (host, port) = PROXY_ADDRESS.split_once(':').unwrap();
    let code = format!("socket.create_connection(('{host}', {port})).recv(1)");
    let sandbox = sandbox();
    // Two at once, each with a launcher of its own.
    let first = start(&sandbox, &through, &code);
    let (of_first, _) = listener.accept().unwrap();
    let second = start(&sandbox, &through, &code);
    let (of_second, _) = listener.accept().unwrap();
    assert_ne!(first.launcher_id(), second.launcher_id());
    assert_eq!(launcher_behind(&of_first), Some(first.launcher_id()));
    assert_eq!(launcher_behind(&of_second), Some(second.launcher_id()));
    // Whoever asked has ended: what it is refused now is no matter of the next call.
    second.kill();
    second.wait().unwrap();
    within(Duration::from_secs(5), || {
        launcher_behind(&of_second).is_none()
    });
    assert_eq!(launcher_behind(&of_first), Some(first.launcher_id()));
    // Somebody who is no bridge.
    let (near, _far) = UnixStream::pair().unwrap();
    let behind = launcher_behind(&near);
    assert!(behind != Some(first.launcher_id()) && behind != Some(second.launcher_id()));
}

/// What a connection to a proxy's socket begins with.
fn moment_of(connection: &mut UnixStream) -> Moment {
    let mut bytes = [0; Moment::SIZE];
    connection.read_exact(&mut bytes).unwrap();
    Moment::from_bytes(bytes)
}

#[test]
fn a_connection_to_the_proxy_tells_whose_call_it_is_of() {
    let dir = tempfile::tempdir().unwrap();
    let (listener, through) = proxy_in(dir.path());
    let sandbox = sandbox();
    let ask = |then: &str| {
        let (host, port) = PROXY_ADDRESS.split_once(':').unwrap();
        let connect = format!("socket.create_connection(('{host}', {port}))");
        start(&sandbox, &through, &format!("s = {connect}\n{then}"))
    };
    let wait = ask("s.sendall(b'x')\ns.recv(1)");
    let (mut connection, _) = listener.accept().unwrap();
    assert!(moment_of(&mut connection) > wait.since());
    wait.kill();
    wait.wait().unwrap();
    drop((wait, connection));
    for leave in [
        "s.sendall(b'x')\nos._exit(0)",
        // It takes its time to carry all of this, and the end comes after it.
        "s.setblocking(False)\nfor _ in range(99):\n  try: s.send(bytes(65536))\n  except BlockingIOError: break\nos._exit(0)",
        "import struct\ns.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))\ns.sendall(b'x')\nos._exit(0)",
    ] {
        for _ in 0..20 {
            let gone = ask(leave);
            gone.wait().unwrap();
            drop(gone);
            let next = start(&sandbox, &through, "pass");
            // With the last of them it may have nothing to carry any more.
            let (mut connection, _) = listener.accept().unwrap();
            let mut bytes = [0; Moment::SIZE];
            if connection.read_exact(&mut bytes).is_ok() {
                assert!(Moment::from_bytes(bytes) < next.since(), "{leave}");
            }
            next.wait().unwrap();
        }
    }
}
