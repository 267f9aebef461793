//! The launcher: a process of its own that takes a profile, makes the place where it holds, and keeps a warden there.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::exit;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use super::message::{Unavailable, read_profile, write_unavailable};
use super::namespaces::{self, Fork, Place};
use super::tree::Tree;
use super::warden::{Warden, ready};
use super::wire::{Control, Kind};
use crate::{Confinement, Layer, LayerState, Profile, State, Strength, Tier};

/// The argument that makes a process a launcher.
pub(super) const ARGUMENT: &str = "__launcher";

/// Must be the first thing `main` does: when this process was started as a launcher it never returns.
pub fn run_if_launcher() {
    if std::env::args_os().nth(1).is_some_and(|it| it == ARGUMENT) {
        // glee learns of any failure by the end of the socket, so there is nobody to print to.
        exit(i32::from(run().is_err()));
    }
}

fn run() -> io::Result<()> {
    let mut control = Control::new(take_control()?);
    // A signal from the terminal glee runs in is for glee to answer, not for its launchers.
    let _ = rustix::process::setsid();
    let Some(setup) = control.receive()? else {
        return Ok(());
    };
    if setup.kind != Kind::Setup {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let profile = read_profile(&setup.body)?;
    let strength = strength(&profile);
    if profile.confinement == Confinement::Required
        && let Some((layer, why)) = strength.missing().next()
    {
        let refusal = Unavailable {
            layer: layer.to_string(),
            why: why.to_owned(),
            what_to_do: "set sandbox: best-effort to run without it".to_owned(),
        };
        return control.send(Kind::Unavailable, &write_unavailable(&refusal), &[]);
    }
    match namespaces::enter() {
        Place::Namespace => keep_warden(control, &profile, &strength),
        Place::Host => {
            rustix::process::set_child_subreaper(Some(getpid()))?;
            guard(control, Tree::Adopted, &profile, &strength)
        }
    }
}

/// Takes the socket that arrived as standard input, and nothing else that was inherited.
fn take_control() -> io::Result<OwnedFd> {
    // SAFETY: closes every descriptor above the standard ones; nothing in this fresh process owns one yet.
    if unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: standard input is open: it is the socket, by the contract with `pool`.
    let stdin = unsafe { BorrowedFd::borrow_raw(0) };
    let control = rustix::io::fcntl_dupfd_cloexec(stdin, 3)?;
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(control)
}

/// What this build holds of any profile.
fn strength(profile: &Profile) -> Strength {
    let why = if profile.confinement == Confinement::Off {
        "confinement is off"
    } else {
        "not built yet"
    };
    let layers = Layer::ALL
        .into_iter()
        .map(|layer| LayerState {
            layer,
            state: State::Missing {
                why: why.to_owned(),
            },
        })
        .collect();
    Strength {
        tier: Tier::None,
        layers,
    }
}

/// Starts the warden as process 1 of a PID namespace and stays until it or glee is gone.
fn keep_warden(control: Control, profile: &Profile, strength: &Strength) -> io::Result<()> {
    let launcher = pidfd_open(getpid(), PidfdFlags::empty())?;
    match namespaces::fork_into_pid_namespace()? {
        Fork::Child => {
            // The namespace must not outlive the launcher, even if that is killed before this line.
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
            if !readable(launcher.as_fd())? {
                namespaces::mount_proc();
                guard(control, Tree::Namespace, profile, strength)?;
            }
            exit(0)
        }
        Fork::Parent(warden) => {
            drop(launcher);
            let mut watched = [
                PollFd::new(&warden, PollFlags::IN),
                // No flag is asked for, so that only the end of glee wakes us: the messages are the warden's.
                PollFd::from_borrowed_fd(control.as_fd(), PollFlags::empty()),
            ];
            while let Err(rustix::io::Errno::INTR) = poll(&mut watched, None) {}
            // Leaving takes the warden along, and with process 1 the kernel kills all of its namespace.
            Ok(())
        }
    }
}

fn guard(control: Control, tree: Tree, profile: &Profile, strength: &Strength) -> io::Result<()> {
    ready(&control, strength)?;
    let served = Warden::new(control, tree, profile.limits)?.serve();
    tree.end();
    served
}

fn readable(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let now = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    Ok(poll(
        &mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)],
        Some(&now),
    )? > 0)
}
