//! The tiers: how a launcher confines itself and its wardens, from everything to nothing.

use std::cell::Cell;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::process::getpid;

use super::bridge;
use super::cell::{self, Scratch};
use super::cgroup::{self, Cgroup};
use super::gate::Gate;
use super::gatekeeper;
use super::grants::{Access, settle};
use super::kernel;
use super::landlock::{self, Held, ScratchRule};
use super::launcher::{Helper, keep_wardens};
use super::limits::{self, Counted};
use super::message::{Setup, Unavailable, write_unavailable, write_weaker};
use super::namespaces;
use super::privileges;
use super::report::{Report, refusal};
use super::root::{self, Root};
use super::seccomp::{self, Gatekeeper, Helped};
use super::telling::Teller;
use super::tree::Tree;
use super::warden::Warden;
use super::wire::{Control, Kind};
use crate::{IpRange, Layer, Network, Profile, Strength, Tier};

/// No confinement, but the tree still ends as one.
pub(super) fn unconfined(control: Control, profile: &Profile) -> io::Result<()> {
    let strength = Report::nothing("confinement is off");
    if namespaces::enter_unconfined().is_err() {
        rustix::process::set_child_subreaper(Some(getpid()))?;
        limits::apply(
            &profile.limits,
            Counted::ByNobody {
                outside: Some(limits::of_this_user()),
            },
        )?;
        return guard(control, Tree::Adopted, profile, &strength, None, None);
    }
    // As root there is no user namespace of our own, and as a user there is one.
    let outside = rustix::process::getuid()
        .is_root()
        .then(limits::of_this_user);
    keep_wardens(
        control,
        || Ok(((), ())),
        |_, ()| Ok(None),
        |control, ()| {
            namespaces::show_own_proc();
            limits::apply(&profile.limits, Counted::ByNobody { outside })?;
            guard(control, Tree::Namespace, profile, &strength, None, None)
        },
    )
}

/// All layers: a minimal root and namespaces, with Landlock and seccomp inside. Each gatekeeper has the `teller`.
pub(super) fn full(control: Control, setup: &Setup, teller: Option<Teller>) -> io::Result<()> {
    let profile = &setup.profile;
    // Whoever takes it is a process of its own, so that the launcher has it still.
    let teller = Cell::new(teller);
    let cgroup = if setup.ceiling == Tier::Full {
        cgroup::join(profile).map_err(|err| err.to_string())
    } else {
        Err("not to be used".to_owned())
    };
    let surroundings = match surround(profile) {
        Ok(it) => it,
        Err(why) => return control.send(Kind::Weaker, &write_weaker(&why), &[]),
    };
    privileges::hide_memory()?;
    let kept = keep_wardens(
        control,
        UnixStream::pair,
        |warden, introduction| match &surroundings.outbound {
            None => Ok(None),
            Some((granted, resolv_conf)) => Helper::start(|| {
                let gate = Gate::new(granted.clone(), resolv_conf);
                let _ = keep_gate(&warden, introduction, gate, teller.take());
            })
            .map(Some),
        },
        |control, introduction| {
            // Or payloads could tell what nobody was refused.
            drop(teller.take());
            match cell::furnish(&surroundings.root, &profile.limits) {
                Ok(scratch) => confine(
                    control,
                    profile,
                    &surroundings,
                    scratch,
                    &cgroup,
                    introduction,
                ),
                Err(err) => control.send(Kind::Weaker, &write_weaker(&format!("cell: {err}")), &[]),
            }
        },
    );
    drop(surroundings);
    if let Ok(cgroup) = cgroup {
        cgroup.leave();
    }
    kept
}

/// What a launcher of the full tier has around its wardens.
struct Surroundings {
    root: Root,
    /// Ranges that are granted and how names are resolved, when there is a way out.
    outbound: Option<(Vec<IpRange>, String)>,
    /// Why the proxy cannot be reached, when there is to be one.
    proxy: Result<Option<Helper>, String>,
}

/// Enters namespaces and the minimal root, and starts what serves all wardens.
fn surround(profile: &Profile) -> Result<Surroundings, String> {
    let resolv_conf = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let (network, outbound) = match &profile.network {
        Network::Outbound { granted } => (
            namespaces::Network::Shared,
            Some((granted.clone(), resolv_conf)),
        ),
        Network::None | Network::Proxy { .. } => (namespaces::Network::Own, None),
    };
    let proxy = match &profile.network {
        Network::Proxy { socket } => root::open_granted(socket).map(|it| it.0),
        Network::None | Network::Outbound { .. } => None,
    };
    namespaces::enter(network).map_err(|err| format!("user namespaces: {err}"))?;
    let root = root::build(profile).map_err(|err| format!("minimal root: {err}"))?;
    let proxy = match (&profile.network, proxy) {
        (Network::Proxy { socket }, None) => Err(format!("{} does not exist", socket.display())),
        (_, None) => Ok(None),
        (_, Some(proxy)) => bridge::listen()
            .and_then(|inside| {
                Helper::start(move || {
                    if privileges::drop_capabilities().is_ok() {
                        bridge::serve(&inside, &proxy);
                    }
                })
            })
            .map(Some)
            .map_err(|err| format!("bridge: {err}")),
    };
    Ok(Surroundings {
        root,
        outbound,
        proxy,
    })
}

/// The gatekeeper: takes the listener out of the warden and answers.
fn keep_gate(
    warden: &OwnedFd,
    mut introduction: UnixStream,
    gate: Gate,
    teller: Option<Teller>,
) -> io::Result<()> {
    let mut number = [0; 4];
    introduction.read_exact(&mut number)?;
    let listener = gatekeeper::take_listener(warden.as_fd(), i32::from_ne_bytes(number))?;
    introduction.write_all(&[1])?;
    drop(introduction);
    gatekeeper::serve(listener, gate, teller);
    Ok(())
}

/// The other side of [`keep_gate`]: offers the listener and waits until it was taken. A message could not carry it,
/// because messages are already what the gatekeeper must be asked about.
fn hand_over(listener: &OwnedFd, mut introduction: UnixStream) -> io::Result<()> {
    privileges::show_memory()?;
    introduction.write_all(&listener.as_raw_fd().to_ne_bytes())?;
    introduction.read_exact(&mut [0])?;
    privileges::hide_memory()
}

/// The warden of the full tier: gives up everything, then serves.
fn confine(
    control: Control,
    profile: &Profile,
    surroundings: &Surroundings,
    scratch: Scratch,
    cgroup: &Result<Cgroup, String>,
    introduction: UnixStream,
) -> io::Result<()> {
    let mut report = Report::default();
    report.of(Layer::ProcessTree, Ok(()));
    report.of(Layer::Root, Ok(()));
    report.of(Layer::Protect, surroundings.root.unprotected());
    report.of(
        Layer::Cgroup,
        cgroup.as_ref().map(drop).map_err(Clone::clone),
    );
    let counted = if cgroup.is_ok() {
        Counted::ByCgroup
    } else {
        Counted::ByNobody { outside: None }
    };
    limits::apply(&profile.limits, counted)?;
    privileges::no_new_privileges()?;
    report.of(
        Layer::Landlock,
        held(landlock::restrict(profile, ScratchRule::Private)),
    );
    privileges::drop_capabilities()?;
    let gatekeeper = match surroundings.outbound {
        Some(_) => Gatekeeper::Present,
        None => Gatekeeper::Absent,
    };
    let filtered = seccomp::restrict(&profile.network, Helped::ByNamespaces, gatekeeper)
        .map_err(|err| err.to_string());
    let network = match &filtered {
        Err(why) => Err(why.clone()),
        Ok(Some(listener)) => {
            hand_over(listener, introduction).map_err(|err| format!("gatekeeper: {err}"))
        }
        Ok(None) => surroundings.proxy.as_ref().map(drop).map_err(Clone::clone),
    };
    report.of(Layer::Network, network);
    report.of(Layer::Seccomp, filtered.map(drop));
    privileges::hide_memory()?;
    let strength = report.strength();
    guard(
        control,
        Tree::Namespace,
        profile,
        &strength,
        Some(scratch),
        cgroup.as_ref().ok(),
    )
}

/// Without namespaces: Landlock, seccomp and the adoption of orphans, all on the launcher itself.
pub(super) fn landlocked(control: Control, setup: &Setup) -> io::Result<()> {
    let profile = &setup.profile;
    // Whatever the confinement: what is hidden would be open.
    if let Some((hidden, _)) = settle(profile).iter().find(|it| it.1 == Access::Hidden) {
        let refusal = Unavailable {
            layer: Layer::Protect.to_string(),
            why: format!(
                "landlock cannot take {} out of a grant ({})",
                hidden.display(),
                setup.why
            ),
            what_to_do:
                "grant paths that do not contain it, or run where user namespaces are allowed"
                    .to_owned(),
        };
        return control.send(Kind::Unavailable, &write_unavailable(&refusal), &[]);
    }
    let mut report = Report::default();
    report.of(Layer::ProcessTree, Err(setup.why.clone()));
    report.of(Layer::Root, Err(setup.why.clone()));
    let cgroup = cgroup::join(profile).map_err(|err| err.to_string());
    report.of(
        Layer::Cgroup,
        cgroup.as_ref().map(drop).map_err(Clone::clone),
    );
    let protects = settle(profile).iter().any(|it| it.1 == Access::Protected);
    let unprotected = "landlock cannot take a path out of a grant".to_owned();
    report.of(
        Layer::Protect,
        if protects { Err(unprotected) } else { Ok(()) },
    );
    rustix::process::set_child_subreaper(Some(getpid()))?;
    let counted = match cgroup {
        Ok(_) => Counted::ByCgroup,
        Err(_) => Counted::ByNobody {
            outside: Some(limits::of_this_user()),
        },
    };
    limits::apply(&profile.limits, counted)?;
    privileges::no_new_privileges()?;
    let reached_before = signals_reach_glee();
    let landlocked = held(landlock::restrict(profile, ScratchRule::None));
    let helped = Helped::ByLandlock {
        version: landlocked
            .as_ref()
            .ok()
            .and_then(|()| kernel::landlock())
            .unwrap_or_default(),
        warden: std::process::id(),
    };
    report.of(Layer::Landlock, landlocked);
    // Seen and not inferred, because a signal to everybody depends on it.
    let tree = if reached_before && !signals_reach_glee() {
        Tree::Scoped
    } else {
        Tree::Adopted
    };
    privileges::drop_capabilities()?;
    privileges::hide_memory()?;
    let filtered = seccomp::restrict(&profile.network, helped, Gatekeeper::Absent);
    let filtered = filtered.map(drop).map_err(|err| err.to_string());
    let network = match profile.network {
        Network::None => filtered.clone(),
        Network::Outbound { .. } => Err(format!("no gatekeeper: {}", setup.why)),
        Network::Proxy { .. } => Err(format!("no network of its own: {}", setup.why)),
    };
    report.of(Layer::Network, network);
    report.of(Layer::Seccomp, filtered);
    guard(
        control,
        tree,
        profile,
        &report.strength(),
        None,
        cgroup.as_ref().ok(),
    )
}

fn held(result: io::Result<Held>) -> Result<(), String> {
    match result {
        Ok(Held::All | Held::Files) => Ok(()),
        Ok(Held::Nothing) => Err("the kernel has no landlock".to_owned()),
        Err(err) => Err(err.to_string()),
    }
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
