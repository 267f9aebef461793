//! Which destinations a payload reaches.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use glee_sandbox::{
    Confinement, IpRange, Layer, Moment, Network, PROXY_ADDRESS, Profile, Sandbox, StartError, Tier,
};

use crate::support::*;

fn outbound(granted: Vec<IpRange>) -> Profile {
    Profile {
        network: Network::Outbound { granted },
        ..profile(Confinement::Required)
    }
}

fn loopback(port: u16) -> IpRange {
    IpRange {
        address: "127.0.0.1".parse().unwrap(),
        prefix: 32,
        port: Some(port),
    }
}

fn python(sandbox: &Sandbox, profile: &Profile, code: &str) -> Ran {
    let code = format!("import socket, sys, errno, threading, os\n{code}");
    run(sandbox, profile, "/usr/bin/python3", &["-I", "-c", &code]).unwrap()
}

/// Greets whoever connects.
fn greeter() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut word = [0; 5];
            if stream.read_exact(&mut word).is_ok() {
                let _ = stream.write_all(&word);
            }
        }
    });
    port
}

#[test]
fn outbound_reaches_loopback_only_where_granted() {
    let sandbox = sandbox();
    let port = greeter();
    let connect = format!(
        "s = socket.socket()\n\
         try: s.connect(('127.0.0.1', {port}))\n\
         except OSError as e: sys.exit(errno.errorcode[e.errno])\n\
         s.sendmsg([b'he', b'llo'])\n\
         print(s.recv(5).decode())"
    );
    let refused = python(&sandbox, &outbound(vec![]), &connect);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("EACCES"));
    assert_eq!(
        python(&sandbox, &outbound(vec![loopback(port)]), &connect).ok(),
        "hello\n"
    );
    assert!(sandbox.strength(&outbound(vec![])).enforces(Layer::Network));
}

#[test]
fn every_way_to_name_a_destination_is_judged() {
    let sandbox = sandbox();
    let tcp = greeter();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.set_nonblocking(true).unwrap();
    let port = udp.local_addr().unwrap().port();
    let attempts = [
        format!(
            "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}))"
        ),
        format!(
            "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('0.0.0.0', {port}))"
        ),
        format!(
            "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, ('127.0.0.1', {port}))"
        ),
        format!(
            "socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', ('::ffff:127.0.0.1', {port}))"
        ),
        format!("socket.socket(socket.AF_INET, socket.SOCK_DGRAM).connect(('127.0.0.1', {port}))"),
        format!("socket.socket().sendto(b'x', 0x20000000, ('127.0.0.1', {tcp}))"),
        format!("socket.socket(socket.AF_INET6).connect(('::ffff:127.0.0.1', {tcp}))"),
        format!("socket.socket(socket.AF_INET6).connect(('::1', {tcp}))"),
        "socket.socket().connect(('169.254.169.254', 80))".to_owned(),
        "socket.socket().connect(('10.0.0.1', 80))".to_owned(),
        "socket.socket(socket.AF_UNIX).connect('/run/x')".to_owned(),
        "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)".to_owned(),
        "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)".to_owned(),
        "s = socket.socket(); s.bind(('0.0.0.0', 0)); s.listen()".to_owned(),
    ];
    for attempt in attempts {
        let code = format!(
            "try:\n  {attempt}\nexcept PermissionError: sys.exit(0)\nexcept OSError as e: sys.exit(0 if e.errno in (errno.EOPNOTSUPP,) else str(e))\nsys.exit('went through')"
        );
        let code = code.replace(
            "s = socket.socket(); s.bind(('0.0.0.0', 0)); s.listen()",
            "s = socket.socket()\n  s.bind(('0.0.0.0', 0))\n  s.listen()",
        );
        let ran = python(&sandbox, &outbound(vec![]), &code);
        assert_eq!(String::from_utf8_lossy(&ran.stderr), "", "{attempt}");
    }
    let mut got = [0; 10];
    assert!(udp.recv(&mut got).is_err(), "a datagram arrived");
    // And the same ways work where they are granted.
    let granted = outbound(vec![loopback(port)]);
    for way in [
        format!(
            "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', {port}))"
        ),
        format!(
            "socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, ('127.0.0.1', {port}))"
        ),
        format!(
            "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('127.0.0.1', {port})); s.send(b'x')"
        ),
    ] {
        python(&sandbox, &granted, &way).ok();
        within(Duration::from_secs(2), || udp.recv(&mut got).is_ok());
    }
}

#[test]
fn a_destination_cannot_be_swapped_while_it_is_judged() {
    // One thread flips the address between a granted and an ungranted port, the other connects all the time.
    let allowed = greeter();
    let forbidden = TcpListener::bind("127.0.0.1:0").unwrap();
    forbidden.set_nonblocking(true).unwrap();
    let port = forbidden.local_addr().unwrap().port();
    let code = format!(
        "import ctypes, struct, time\n\
         c = ctypes.CDLL(None, use_errno=True)\n\
         good, bad = (struct.pack('=H', 2) + struct.pack('>H', p) + bytes([127,0,0,1]) + bytes(8) for p in ({allowed}, {port}))\n\
         buf = ctypes.create_string_buffer(good, 16)\n\
         stop = False\n\
         def flip():\n  \
           while not stop:\n    \
             ctypes.memmove(buf, bad, 16); ctypes.memmove(buf, good, 16)\n\
         t = threading.Thread(target=flip); t.start()\n\
         end = time.time() + 2\n\
         n = 0\n\
         while time.time() < end:\n  \
           s = socket.socket(); n += c.connect(s.fileno(), buf, 16) == 0; s.close()\n\
         stop = True; t.join(); print(n)"
    );
    let ran = python(&sandbox(), &outbound(vec![loopback(allowed)]), &code).ok();
    assert!(
        ran.trim().parse::<u32>().unwrap() > 0,
        "nothing connected at all: {ran}"
    );
    assert!(
        forbidden.accept().is_err(),
        "a swapped address went through"
    );
}

#[test]
fn the_proxy_is_the_only_way_out() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("proxy.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let (mut moment, mut word) = ([0; Moment::SIZE], [0; 7]);
            let read = stream.read_exact(&mut moment);
            if read.and_then(|()| stream.read_exact(&mut word)).is_ok() && word == *b"CONNECT" {
                let _ = stream.write_all(b"vetted");
            }
        }
    });
    let (host, port) = PROXY_ADDRESS.split_once(':').unwrap();
    let through = Profile {
        network: Network::Proxy { socket },
        ..profile(Confinement::Required)
    };
    let sandbox = sandbox();
    let code = format!(
        "s = socket.create_connection(('{host}', {port}))\ns.sendall(b'CONNECT')\nprint(s.recv(10).decode())"
    );
    assert_eq!(python(&sandbox, &through, &code).ok(), "vetted\n");
    assert_eq!(python(&sandbox, &through, &code).ok(), "vetted\n");
    let outside = greeter();
    for attempt in [
        format!("('127.0.0.1', {outside})"),
        "('1.1.1.1', 80)".to_owned(),
        "('169.254.169.254', 80)".to_owned(),
    ] {
        let ran = python(
            &sandbox,
            &through,
            &format!("socket.create_connection({attempt}, 2)"),
        );
        assert_ne!(ran.end.exit, glee_sandbox::Exit::Code(0), "{attempt}");
    }
}

#[test]
fn without_namespaces_the_network_is_all_or_refused() {
    let sandbox = Sandbox::at_most(launcher(), Tier::Landlock);
    let refused = run(&sandbox, &outbound(vec![]), "/bin/true", &[]);
    assert!(
        matches!(refused, Err(StartError::Unavailable { ref layer, .. }) if layer == "network")
    );
    let closed = python(&sandbox, &profile(Confinement::Required), "socket.socket()");
    assert!(String::from_utf8_lossy(&closed.stderr).contains("PermissionError"));
}

#[test]
fn names_are_resolved_as_on_the_host() {
    let seen = sh(&sandbox(), &outbound(vec![]), "cat /etc/resolv.conf").ok();
    assert_eq!(seen, std::fs::read_to_string("/etc/resolv.conf").unwrap());
}
