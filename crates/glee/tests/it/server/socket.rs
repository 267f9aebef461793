//! A socket in the file system.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;

use crate::mcp::server::{PATIENCE, Served, eventually, scene};
use crate::support::Scene;

/// A path beside the project, in a directory that is not there yet.
fn place(scene: &Scene) -> PathBuf {
    scene.root.with_file_name("sockets").join("glee.sock")
}

fn serve(scene: &Scene, path: &Path) -> Served {
    let path = path.to_str().unwrap();
    Served::start(
        scene,
        &[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--no-auth",
            "--socket",
            path,
        ],
    )
}

const ASK: &[u8] = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

fn answer(path: &Path) -> std::io::Result<String> {
    let mut stream = UnixStream::connect(path)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(ASK)?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    Ok(text)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_socket_is_its_owners_alone_and_gone_afterwards() {
    let scene = scene();
    let path = place(&scene);
    let mut served = serve(&scene, &path);
    assert!(answer(&path).unwrap().starts_with("HTTP/1.1 200"));
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    let id = served.child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-TERM", &id])
            .status()
            .unwrap()
            .success()
    );
    eventually("it stops", || served.child.try_wait().unwrap().is_some());
    assert!(!path.exists());
}

#[test]
fn what_a_dead_server_left_is_replaced_and_a_live_one_is_not() {
    let scene = scene();
    let path = place(&scene);
    let mut first = serve(&scene, &path);
    let second = scene.glee(&["serve", "--socket", path.to_str().unwrap()]);
    assert!(!second.status.success());
    let told = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(told.contains("a server listens there already"), "{told}");
    assert!(answer(&path).unwrap().starts_with("HTTP/1.1 200"));
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    assert!(fs::symlink_metadata(&path).unwrap().file_type().is_socket());
    let _again = serve(&scene, &path);
    assert!(answer(&path).unwrap().starts_with("HTTP/1.1 200"));
}

#[test]
fn nothing_else_is_taken_for_a_socket() {
    let scene = scene();
    let path = place(&scene);
    let directory = path.parent().unwrap();
    fs::create_dir(directory).unwrap();
    let refused = |why: &str| {
        let output = scene.glee(&["serve", "--socket", path.to_str().unwrap()]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && told.contains(why), "{told}");
    };
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
    refused("is open to others");
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap();
    fs::write(&path, "precious").unwrap();
    refused("something else than a socket");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    fs::remove_file(&path).unwrap();
    // A link is not followed, wherever it leads.
    let elsewhere = directory.join("other.sock");
    let _listener = UnixListener::bind(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
    refused("something else than a socket");
}

/// The kernel says who connects; that the file could be reached is not enough.
#[test]
fn another_user_of_the_machine_is_refused() {
    if !geteuid().is_root() {
        return;
    }
    let scene = scene();
    let path = place(&scene);
    let _served = serve(&scene, &path);
    let script = "import socket,sys\ns=socket.socket(socket.AF_UNIX)\ns.settimeout(60)\n\
                  s.connect(sys.argv[1])\ntry:\n s.sendall(sys.stdin.buffer.read())\n d=s.recv(100)\nexcept OSError: d=b''\nprint(d[:12].decode())\n";
    let ask = |user: &str| {
        let mut child = Command::new("setpriv")
            .args([
                "--reuid",
                user,
                "--regid",
                user,
                "--clear-groups",
                "python3",
                "-c",
                script,
            ])
            .arg(&path)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(ASK).unwrap();
        let output = child.wait_with_output().unwrap();
        (
            String::from_utf8_lossy(&output.stdout).into_owned(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (answer, told) = ask("65534");
    assert!(
        answer.is_empty() && told.contains("PermissionError"),
        "{answer}{told}"
    );
    // As if somebody had opened the way for them.
    let mut open = path.clone();
    let everybody = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    everybody(&open, 0o666).unwrap();
    while open.pop() && open.parent().is_some() && open != std::env::temp_dir() {
        everybody(&open, 0o755).unwrap();
    }
    let (answer, told) = ask("65534");
    assert_eq!(answer.trim(), "", "{told}");
    assert!(
        !told.contains("PermissionError"),
        "it was the file that kept them out: {told}"
    );
    assert_eq!(ask("0").0.trim(), "HTTP/1.1 200");
}
