//! A socket in the file system.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;
use rustix::thread::{Uid, set_thread_res_uid};

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
    // Whoever can rename the directory itself can put another in its place.
    let above = directory.parent().unwrap();
    let before = fs::metadata(above).unwrap().permissions();
    fs::set_permissions(above, fs::Permissions::from_mode(0o777)).unwrap();
    refused("others can rename what is in");
    fs::set_permissions(above, before).unwrap();
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
    // The kernel knows users by thread; this one does not come back.
    let ask = |user: u32| {
        let path = path.clone();
        let asking = std::thread::spawn(move || {
            set_thread_res_uid(
                Uid::from_raw(user),
                Uid::from_raw(user),
                Uid::from_raw(user),
            )
            .unwrap();
            answer(&path)
        });
        asking.join().unwrap()
    };
    assert_eq!(ask(65534).unwrap_err().kind(), ErrorKind::PermissionDenied);
    // As if somebody had opened the way for them.
    let mut open = path.clone();
    let everybody = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    everybody(&open, 0o666).unwrap();
    while open.pop() && open.parent().is_some() && open != std::env::temp_dir() {
        everybody(&open, 0o755).unwrap();
    }
    match ask(65534) {
        Ok(answer) => assert_eq!(answer, ""),
        // Not the file keeps them out: the connection is there, and nothing comes of it.
        Err(err) => assert_ne!(err.kind(), ErrorKind::PermissionDenied),
    }
    assert!(ask(0).unwrap().starts_with("HTTP/1.1 200"));
}
