//! A launcher that is told nonsense ends, and takes nobody along.

use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::*;

/// Numbers that look random and are the same every time.
fn noise(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    })
}

#[track_caller]
fn ends_after(bytes: &[u8]) {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let mut launcher = Command::new(launcher())
        .arg("__launcher")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _ = ours.write_all(bytes);
    let _ = ours.shutdown(std::net::Shutdown::Write);
    let mut answer = Vec::new();
    let _ = ours.read_to_end(&mut answer);
    drop(ours);
    within(Duration::from_secs(5), || {
        launcher.try_wait().unwrap().is_some()
    });
}

#[test]
fn a_launcher_ends_on_noise() {
    ends_after(b"");
    for seed in 0..60 {
        let length = (seed * 37 % 500) as usize;
        ends_after(&noise(seed).take(length).collect::<Vec<_>>());
    }
}

#[test]
fn a_launcher_ends_on_well_framed_noise() {
    for seed in 0..60_u64 {
        let length = (seed * 13 % 200) as usize;
        // A header of every kind in turn, with a true length, and a body of noise.
        let mut bytes = u32::try_from(length).unwrap().to_le_bytes().to_vec();
        bytes.extend([(seed % 10) as u8, (seed % 3) as u8, 0, 0]);
        bytes.extend(noise(seed).take(length));
        ends_after(&bytes);
    }
    // A length that promises far more than comes.
    ends_after(&[0xff, 0xff, 0xff, 0xff, 1, 0, 0, 0]);
    ends_after(&[0xff, 0xff, 0x0f, 0x00, 1, 0, 0, 0, 1, 2, 3]);
}
