//! The launcher: a process of its own that takes a profile, makes the place where it holds, and keeps a warden there.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::exit;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open, pidfd_send_signal,
    waitpid,
};

use super::message::read_setup;
use super::namespaces::{self, Fork};
use super::telling::Teller;
use super::tiers;
use super::wire::{Control, Kind};
use crate::{Confinement, Tier};

/// The argument that makes a process a launcher.
pub(super) const ARGUMENT: &str = "__launcher";

/// A warden that ends with this wants to be followed by another, because its cell is used up.
pub(super) const USED_UP: i32 = 3;

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
    forget_signals();
    let Some(mut frame) = control.receive()? else {
        return Ok(());
    };
    if frame.kind != Kind::Setup {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let setup = read_setup(&frame.body)?;
    let teller = frame.fds.pop().map(Teller::new);
    drop(frame);
    let is_off = setup.profile.confinement == Confinement::Off;
    if !is_off && setup.ceiling >= Tier::FullWithoutCgroup {
        return tiers::full(control, &setup, teller);
    }
    // Here is no gatekeeper, and nobody else is to have its pipe.
    drop(teller);
    match is_off {
        true => tiers::unconfined(control, &setup.profile),
        false => tiers::landlocked(control, &setup),
    }
}

/// What glee ignores is not ignored by its children: an ignored signal would stay so across exec.
fn forget_signals() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: sets a disposition back to its default; fails for the two that have no other.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
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

/// Runs one warden after another, each as process 1 of a PID namespace, until one fails or glee is gone. `beside` starts
/// whoever a warden needs outside of its cell.
pub(super) fn keep_wardens<Introduction>(
    control: Control,
    introduce: impl Fn() -> io::Result<(Introduction, Introduction)>,
    beside: impl Fn(OwnedFd, Introduction) -> io::Result<Option<Helper>>,
    warden: impl Fn(Control, Introduction) -> io::Result<()>,
) -> io::Result<()> {
    loop {
        let launcher = pidfd_open(getpid(), PidfdFlags::empty())?;
        let (ours, theirs) = introduce()?;
        match namespaces::fork_into_cell()? {
            Fork::Child => {
                drop(ours);
                die_with(&launcher)?;
                exit(i32::from(warden(control, theirs).is_err()))
            }
            Fork::Parent(pid, ended) => {
                drop(theirs);
                let helper = beside(ended.try_clone()?, ours)?;
                let code = outlive(&control, pid, &ended)?;
                drop(helper);
                if code != Some(USED_UP) {
                    return Ok(());
                }
            }
        }
    }
}

/// A child must not outlive the launcher, even if that is killed before this line.
fn die_with(launcher: &OwnedFd) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if readable(launcher.as_fd())? {
        exit(0);
    }
    Ok(())
}

/// A process that serves beside the launcher and ends with this value.
pub(super) struct Helper(Pid);

impl Helper {
    pub(super) fn start(work: impl FnOnce()) -> io::Result<Helper> {
        let launcher = pidfd_open(getpid(), PidfdFlags::empty())?;
        match namespaces::fork()? {
            None => {
                die_with(&launcher)?;
                work();
                exit(0)
            }
            Some(pid) => Ok(Helper(pid)),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
        let _ = waitpid(Some(self.0), WaitOptions::empty());
    }
}

/// Waits for a warden to end, and ends it when glee is gone; its exit code if it ended by itself.
fn outlive(control: &Control, warden: Pid, ended: &OwnedFd) -> io::Result<Option<i32>> {
    let mut watched = [
        PollFd::new(ended, PollFlags::IN),
        // No flag is asked for, so that only the end of glee wakes us: the messages are the warden's.
        PollFd::from_borrowed_fd(control.as_fd(), PollFlags::empty()),
    ];
    while let Err(rustix::io::Errno::INTR) = poll(&mut watched, None) {}
    if watched[0].revents().is_empty() {
        // With process 1 the kernel kills all of its namespace, and tells us when that is done.
        pidfd_send_signal(ended, Signal::KILL)?;
    }
    let status = waitpid(Some(warden), WaitOptions::empty())?;
    Ok(status.and_then(|it| it.1.exit_status()))
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
