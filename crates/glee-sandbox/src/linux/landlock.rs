//! The Landlock layer: the same grants once more, held by the kernel at every open, and no signal or abstract socket
//! across the border.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};

use rustix::fs::FileType;

use super::cell::SCRATCH;
use super::grants::{Access, settle};
use super::root::{devices, open_granted, system_paths};
use crate::{Network, Profile};

/// The newest rules this code knows; older kernels hold those they have.
const KNOWN: ABI = ABI::V7;

/// What the kernel holds of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Held {
    All,
    /// Files and directories, but not the newer rules on signals and sockets.
    Files,
    Nothing,
}

/// Whose scratch a payload has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScratchRule {
    /// Private mounts that may be written.
    Private,
    /// There is none; /tmp is the host's.
    None,
}

/// Restricts this process and all that it starts.
pub(super) fn restrict(profile: &Profile, scratch: ScratchRule) -> io::Result<Held> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))
        .and_then(|it| it.scope(Scope::from_all(KNOWN)))
        .map_err(io::Error::other)?;
    if profile.network == Network::None {
        ruleset = ruleset
            .handle_access(AccessNet::from_all(KNOWN))
            .map_err(io::Error::other)?;
    }
    let mut ruleset = ruleset.create().map_err(io::Error::other)?;

    for path in system_paths(&profile.network) {
        ruleset = allow_system(ruleset, path, AccessFs::from_read(KNOWN))?;
    }
    for path in devices() {
        ruleset = allow(ruleset, path, AccessFs::ReadFile | AccessFs::WriteFile)?;
    }
    ruleset = allow(
        ruleset,
        Path::new("/proc"),
        AccessFs::ReadFile | AccessFs::ReadDir,
    )?;
    if scratch == ScratchRule::Private {
        for path in SCRATCH {
            ruleset = allow(
                ruleset,
                Path::new(path),
                AccessFs::from_all(KNOWN) & !devices_and_ioctl(),
            )?;
        }
    }
    for (path, access) in settle(profile) {
        let rights = match access {
            Access::Read | Access::Protected => AccessFs::from_read(KNOWN),
            Access::Write | Access::Pinned => AccessFs::from_all(KNOWN) & !devices_and_ioctl(),
            // A mount covers it; without mounts nothing is started.
            Access::Hidden => continue,
        };
        ruleset = allow(ruleset, &path, rights)?;
    }
    let status = ruleset.restrict_self().map_err(io::Error::other)?;
    Ok(match status.ruleset {
        RulesetStatus::FullyEnforced => Held::All,
        RulesetStatus::PartiallyEnforced => Held::Files,
        RulesetStatus::NotEnforced => Held::Nothing,
    })
}

/// A further layer that holds nothing but signals, for payloads that live in no PID namespace. It must name renames
/// across directories and allow them, or it would forbid them as every layer does that is silent.
pub(super) fn signal_layer() -> io::Result<Option<OwnedFd>> {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::Refer)
        .and_then(|it| it.scope(Scope::Signal))
        .and_then(Ruleset::create)
        .map_err(io::Error::other)?;
    allow(ruleset, Path::new("/"), AccessFs::Refer.into()).map(Into::into)
}

/// Nobody inside makes device nodes or talks to drivers.
fn devices_and_ioctl() -> BitFlags<AccessFs> {
    AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev
}

/// A system path may be a link. One that does not exist is nothing to allow.
fn allow_system(
    ruleset: RulesetCreated,
    path: &Path,
    rights: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    match path.canonicalize() {
        Ok(path) => allow(ruleset, &path, rights),
        Err(_) => Ok(ruleset),
    }
}

fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    rights: BitFlags<AccessFs>,
) -> io::Result<RulesetCreated> {
    let Some((opened, kind)) = open_granted(path) else {
        return Ok(ruleset);
    };
    let rights = match kind {
        FileType::Directory => rights,
        _ => rights & AccessFs::from_file(KNOWN),
    };
    let rule = PathBeneath::new(opened, rights);
    ruleset.add_rule(rule).map_err(io::Error::other)
}
