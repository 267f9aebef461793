//! The launcher: a process of its own that takes a profile, makes the place where it holds, and keeps a warden there.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::exit;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, pidfd_open, pidfd_send_signal, waitpid,
};

use super::cell::{self, Scratch};
use super::cgroup::{self, Cgroup};
use super::grants::{Access, settle};
use super::landlock::{self, Held, ScratchRule};
use super::limits::{self, Counted};
use super::message::{Setup, read_setup, write_unavailable, write_weaker};
use super::namespaces::{self, Fork};
use super::privileges;
use super::report::{Report, refusal};
use super::root::{self, Root};
use super::seccomp::{self, Metadata};
use super::tree::Tree;
use super::warden::Warden;
use super::wire::{Control, Kind};
use crate::{Confinement, Layer, Network, Profile, Strength, Tier};

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
    let Some(frame) = control.receive()? else {
        return Ok(());
    };
    if frame.kind != Kind::Setup {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let setup = read_setup(&frame.body)?;
    match setup.profile.confinement {
        Confinement::Off => unconfined(control, &setup.profile),
        _ if setup.ceiling >= Tier::FullWithoutCgroup => full(control, &setup),
        _ => landlocked(control, &setup),
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

/// No confinement, but the tree still ends as one.
fn unconfined(control: Control, profile: &Profile) -> io::Result<()> {
    let strength = Report::nothing("confinement is off");
    if namespaces::enter_unconfined().is_err() {
        rustix::process::set_child_subreaper(Some(getpid()))?;
        limits::apply(&profile.limits, Counted::ByNobody)?;
        return guard(control, Tree::Adopted, profile, &strength, None, None);
    }
    keep_wardens(control, |control| {
        namespaces::show_own_proc();
        limits::apply(&profile.limits, Counted::ByNobody)?;
        guard(control, Tree::Namespace, profile, &strength, None, None)
    })
}

/// All layers: a minimal root and namespaces, with Landlock and seccomp inside.
fn full(control: Control, setup: &Setup) -> io::Result<()> {
    let profile = &setup.profile;
    let cgroup = if setup.ceiling == Tier::Full {
        cgroup::join(&profile.limits).map_err(|err| err.to_string())
    } else {
        Err("not to be used".to_owned())
    };
    let network = match profile.network {
        Network::Outbound { .. } => namespaces::Network::Shared,
        Network::None | Network::Proxy { .. } => namespaces::Network::Own,
    };
    let root = namespaces::enter(network)
        .map_err(|err| format!("user namespaces: {err}"))
        .and_then(|()| root::build(profile).map_err(|err| format!("minimal root: {err}")));
    let root = match root {
        Ok(root) => root,
        Err(why) => return control.send(Kind::Weaker, &write_weaker(&why), &[]),
    };
    privileges::hide_memory()?;
    let kept = keep_wardens(control, |control| {
        let scratch = match cell::furnish(&root, &profile.limits) {
            Ok(scratch) => scratch,
            Err(err) => {
                return control.send(Kind::Weaker, &write_weaker(&format!("cell: {err}")), &[]);
            }
        };
        confine_and_guard(control, profile, &root, scratch, &cgroup)
    });
    drop(root);
    if let Ok(cgroup) = cgroup {
        cgroup.leave();
    }
    kept
}

/// The warden of the full tier: gives up everything, then serves.
fn confine_and_guard(
    control: Control,
    profile: &Profile,
    root: &Root,
    scratch: Scratch,
    cgroup: &Result<Cgroup, String>,
) -> io::Result<()> {
    let mut report = Report::default();
    report.of(Layer::ProcessTree, Ok(()));
    report.of(Layer::Root, Ok(()));
    report.of(Layer::Protect, root.unprotected());
    report.of(
        Layer::Cgroup,
        cgroup.as_ref().map(drop).map_err(Clone::clone),
    );
    limits::apply(
        &profile.limits,
        if cgroup.is_ok() {
            Counted::ByCgroup
        } else {
            Counted::ByNobody
        },
    )?;
    privileges::no_new_privileges()?;
    report.of(
        Layer::Landlock,
        held(landlock::restrict(profile, ScratchRule::Private)),
    );
    privileges::drop_capabilities()?;
    privileges::hide_memory()?;
    let filtered =
        seccomp::restrict(&profile.network, Metadata::Free).map_err(|err| err.to_string());
    report.of(Layer::Network, network_held(profile, &filtered));
    report.of(Layer::Seccomp, filtered);
    guard(
        control,
        Tree::Namespace,
        profile,
        &report.strength(),
        Some(scratch),
        cgroup.as_ref().ok(),
    )
}

/// Without namespaces: Landlock, seccomp and the adoption of orphans, all on the launcher itself.
fn landlocked(control: Control, setup: &Setup) -> io::Result<()> {
    let profile = &setup.profile;
    let mut report = Report::default();
    report.of(Layer::ProcessTree, Err(setup.why.clone()));
    report.of(Layer::Root, Err(setup.why.clone()));
    report.of(Layer::Cgroup, Err(setup.why.clone()));
    let protects = settle(profile).iter().any(|it| it.1 == Access::Protected);
    let unprotected = "landlock cannot take a path out of a grant".to_owned();
    report.of(
        Layer::Protect,
        if protects { Err(unprotected) } else { Ok(()) },
    );
    rustix::process::set_child_subreaper(Some(getpid()))?;
    limits::apply(&profile.limits, Counted::ByNobody)?;
    privileges::no_new_privileges()?;
    let reached_before = signals_reach_glee();
    report.of(
        Layer::Landlock,
        held(landlock::restrict(profile, ScratchRule::None)),
    );
    // Seen and not inferred, because a signal to everybody depends on it.
    let tree = if reached_before && !signals_reach_glee() {
        Tree::Scoped
    } else {
        Tree::Adopted
    };
    privileges::drop_capabilities()?;
    privileges::hide_memory()?;
    let filtered =
        seccomp::restrict(&profile.network, Metadata::Frozen).map_err(|err| err.to_string());
    report.of(Layer::Network, network_held(profile, &filtered));
    report.of(Layer::Seccomp, filtered);
    guard(control, tree, profile, &report.strength(), None, None)
}

fn held(result: io::Result<Held>) -> Result<(), String> {
    match result {
        Ok(Held::All | Held::Files) => Ok(()),
        Ok(Held::Nothing) => Err("the kernel has no landlock".to_owned()),
        Err(err) => Err(err.to_string()),
    }
}

fn network_held(profile: &Profile, filtered: &Result<(), String>) -> Result<(), String> {
    match profile.network {
        Network::None => filtered.clone(),
        Network::Outbound { .. } | Network::Proxy { .. } => Err("not built yet".to_owned()),
    }
}

/// Runs one warden after another, each as process 1 of a PID namespace, until one fails or glee is gone.
fn keep_wardens(control: Control, warden: impl Fn(Control) -> io::Result<()>) -> io::Result<()> {
    loop {
        let launcher = pidfd_open(getpid(), PidfdFlags::empty())?;
        match namespaces::fork_into_cell()? {
            Fork::Child => {
                // The namespace must not outlive the launcher, even if that is killed before this line.
                rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
                let ended = if readable(launcher.as_fd())? {
                    Ok(())
                } else {
                    warden(control)
                };
                exit(i32::from(ended.is_err()))
            }
            Fork::Parent(pid, ended) => {
                if outlive(&control, pid, &ended)? != Some(USED_UP) {
                    return Ok(());
                }
            }
        }
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

fn guard(
    control: Control,
    tree: Tree,
    profile: &Profile,
    strength: &Strength,
    scratch: Option<Scratch>,
    cgroup: Option<&Cgroup>,
) -> io::Result<()> {
    if let Some(refusal) = refusal(profile, strength) {
        return control.send(Kind::Unavailable, &write_unavailable(&refusal), &[]);
    }
    let mut warden = Warden::new(control, tree, profile.limits, scratch, cgroup)?;
    let served = warden.serve(strength);
    tree.end();
    served
}

fn signals_reach_glee() -> bool {
    rustix::process::getppid().is_some_and(|glee| rustix::process::test_kill_process(glee).is_ok())
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
