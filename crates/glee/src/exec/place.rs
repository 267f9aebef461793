//! Where a call runs: what holds it, its scratch directory, its environment.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use glee_core::admit::Admitted;
use glee_core::outcome::{Failure, FailureKind, Held};
use glee_core::permission::Network;
use glee_core::template::Template;
use glee_sandbox::{Confinement, PROXY_ADDRESS, Profile, Strength, Tier};

use super::cage::{Cage, held};
use super::notes;
use super::process::{given_up, invalid, too_large};
use super::temporary::Temporary;

/// Where programs are looked for, and what a tool finds in its own PATH.
pub(super) const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin";

/// Where a call runs: what holds it, and a private directory that is gone afterwards.
pub(super) struct Place {
    pub(super) profile: Profile,
    /// What is said to hold it.
    pub(super) strength: Strength,
    scratch: Scratch,
}

enum Scratch {
    /// The sandbox gives every call a /tmp of its own.
    OfSandbox,
    OfHost(Temporary),
}

impl Place {
    /// What the sandbox has made ready to answer whether it can hold the call waits for the call.
    pub(super) async fn make(call: &Admitted, cage: &Cage) -> Result<(Held, Place), Failure> {
        let profile = cage.profile(call.spec(), call.root()).await?;
        Place::of(profile, call, cage).await
    }

    /// The same, where nothing can be written but what is gone afterwards.
    pub(super) async fn reading(&self, call: &Admitted, cage: &Cage) -> Result<Place, Failure> {
        let profile = Profile {
            write: Vec::new(),
            protect: Vec::new(),
            ..self.profile.clone()
        };
        Ok(Place::of(profile, call, cage).await?.1)
    }

    async fn of(
        mut profile: Profile,
        call: &Admitted,
        cage: &Cage,
    ) -> Result<(Held, Place), Failure> {
        let strength = tokio::select! {
            // Mostly it is known, and nothing is waited for.
            biased;
            strength = cage.strength(profile.clone()) => strength?,
            why = given_up(call) => return Err(why),
        };
        let scratch = match has_own_root(strength.tier) {
            true => Scratch::OfSandbox,
            false => {
                let directory = host_scratch()?;
                profile.write.push(directory.path().to_owned());
                Scratch::OfHost(directory)
            }
        };
        let place = Place {
            profile,
            scratch,
            strength,
        };
        Ok((held(&place.strength), place))
    }

    /// The profile that the sandbox was asked about.
    pub(super) fn asked(&self) -> Profile {
        let mut profile = self.profile.clone();
        if let Scratch::OfHost(directory) = &self.scratch {
            profile.write.retain(|it| it != directory.path());
        }
        profile
    }

    /// Whether the sandbox can tell what a call left behind.
    pub(super) fn is_private(&self) -> bool {
        matches!(self.scratch, Scratch::OfSandbox)
    }

    fn scratch(&self) -> &Path {
        match &self.scratch {
            Scratch::OfSandbox => Path::new("/tmp"),
            Scratch::OfHost(directory) => directory.path(),
        }
    }

    pub(super) fn surroundings(&self) -> Surroundings<'_> {
        Surroundings {
            scratch: self.scratch(),
            has_proxy: has_own_root(self.strength.tier),
        }
    }

    /// The working directory, if it exists inside. Otherwise the tool has no use for it, and starts in
    /// its scratch directory.
    pub(super) fn cwd(&self, wanted: PathBuf) -> Result<PathBuf, Failure> {
        let real = wanted
            .canonicalize()
            .ok()
            .filter(|it| it.is_dir())
            .ok_or_else(|| {
                let message = format!(
                    "the working directory `{}` does not exist",
                    wanted.display()
                );
                Failure::new(FailureKind::ExecutionError, message)
            })?;
        let seen = exists_inside(&self.profile, &real);
        let confined = self.profile.confinement != Confinement::Off;
        Ok(if confined && !seen {
            self.scratch().to_owned()
        } else {
            real
        })
    }
}

/// Whether a tier shows only what is granted, with a network and a scratch directory of its own.
pub(super) fn has_own_root(tier: Tier) -> bool {
    match tier {
        Tier::Full | Tier::FullWithoutCgroup => true,
        Tier::Landlock | Tier::None => false,
    }
}

/// Whether a directory is there in the sandbox: granted, or on the way to something granted.
pub(super) fn exists_inside(profile: &Profile, directory: &Path) -> bool {
    let mut granted = profile.read.iter().chain(&profile.write);
    granted.any(|it| directory.starts_with(it) || it.starts_with(directory))
}

fn host_scratch() -> Result<Temporary, Failure> {
    Temporary::make().map_err(|err| {
        Failure::new(
            FailureKind::Internal,
            format!("no scratch directory could be made: {err}"),
        )
    })
}

/// What a child finds where it runs.
#[derive(Clone, Copy)]
pub(super) struct Surroundings<'a> {
    pub(super) scratch: &'a Path,
    /// Whether the proxy answers there. Where it does not, nothing holds the child to its hosts, and whoever was sent to the
    /// proxy would reach none of them.
    pub(super) has_proxy: bool,
}

/// What every child has, and where its notes go: nothing of glee's own gets in.
pub(super) fn bare_environment(
    call: &Admitted,
    around: Surroundings<'_>,
    notes: u32,
) -> Vec<(OsString, OsString)> {
    let mut env: Vec<(OsString, OsString)> = vec![
        ("PATH".into(), PATH.into()),
        ("HOME".into(), around.scratch.into()),
        ("TMPDIR".into(), around.scratch.into()),
        ("LANG".into(), "C.UTF-8".into()),
        (notes::VARIABLE.into(), notes.to_string().into()),
    ];
    if around.has_proxy && matches!(call.grant().network, Network::Hosts(_)) {
        for name in [
            "http_proxy",
            "https_proxy",
            "HTTP_PROXY",
            "HTTPS_PROXY",
            "ALL_PROXY",
            "all_proxy",
        ] {
            env.push((name.into(), format!("http://{PROXY_ADDRESS}").into()));
        }
    }
    env
}

/// The environment of a call: that, the declared secrets, and what its manifest sets.
pub(super) fn environment(
    call: &Admitted,
    extra: &[(String, Template)],
    around: Surroundings<'_>,
    notes: u32,
) -> Result<Vec<(OsString, OsString)>, Failure> {
    let mut env = bare_environment(call, around, notes);
    let mut set = |name: &str, value: String| {
        env.retain(|(known, _)| known != name);
        env.push((name.into(), value.into()));
    };
    for (name, secret) in call.secrets() {
        set(name, secret.reveal().to_owned());
    }
    let scope = call.scope();
    for (name, template) in extra {
        if let Some(value) = template.text(&scope).map_err(too_large)? {
            if value.contains('\0') {
                return Err(invalid(format!(
                    "the environment variable `{name}` cannot hold NUL"
                )));
            }
            set(name, value);
        }
    }
    Ok(env)
}
