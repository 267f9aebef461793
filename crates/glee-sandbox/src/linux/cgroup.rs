//! A control group per launcher: it counts the memory and the processes of one call's whole tree.
//!
//! The launcher joins once and everything it starts is born inside. Joining per call would cost more than the call.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags};

use super::limits::OURS;
use crate::{Network, Profile};

/// Threads of a gatekeeper or a bridge.
const HELPERS: u32 = 1 + super::gatekeeper::THREADS as u32;

/// The two generations of the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One = 1,
    Two,
}

impl Version {
    /// Where a launcher writes itself in. It is single-threaded, and moving one's own thread needs none
    /// of the kernel's locks over all processes, which cost ten milliseconds; the second version lets
    /// only whole processes move.
    fn members(self) -> &'static str {
        match self {
            Version::One => "tasks",
            Version::Two => "cgroup.procs",
        }
    }
}

/// The generation that counts memory on this machine, if one can be used.
pub(super) fn version() -> Option<u8> {
    homes().ok().map(|(memory, _)| memory.version as u8)
}

/// A directory of the control group file system in which we may make our own.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Home {
    version: Version,
    path: PathBuf,
}

/// The groups of one launcher, and the files its wardens read and write in them.
pub(super) struct Cgroup {
    groups: Vec<Group>,
    events: Events,
}

struct Group {
    home: OwnedFd,
    name: String,
    /// Members of the home, for leaving.
    members: File,
}

/// What the kernel counted.
struct Events {
    memory: File,
    processes: File,
    peak: Option<File>,
}

/// Counts at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Processes that were killed for want of memory.
    pub(super) killed: u64,
    /// Forks that were refused.
    pub(super) refused: u64,
}

pub(super) fn name(launcher: u32) -> String {
    format!("glee-{launcher}")
}

/// Makes the groups, sets their limits and joins them.
pub(super) fn join(profile: &Profile) -> io::Result<Cgroup> {
    let limits = &profile.limits;
    let ours = match profile.network {
        Network::None => OURS,
        // Their helpers are born inside as well, and their threads count.
        Network::Outbound { .. } | Network::Proxy { .. } => OURS + HELPERS,
    };
    let (memory, processes) = homes()?;
    for home in [&memory, &processes] {
        remove_abandoned(home);
    }
    let name = name(std::process::id());
    let mut groups = Vec::new();
    for home in if memory == processes {
        vec![&memory]
    } else {
        vec![&memory, &processes]
    } {
        groups.push(Group::make(home, &name)?);
    }
    let (memory_in, processes_in) = (memory.path.join(&name), processes.path.join(&name));
    let set = |file: PathBuf, value: &str| {
        let told = fs::write(&file, value);
        told.map_err(|err| io::Error::new(err.kind(), format!("{}: {err}", file.display())))
    };
    if let Some(bytes) = limits.memory {
        match memory.version {
            Version::One => {
                set(memory_in.join("memory.limit_in_bytes"), &bytes.to_string())?;
                // Present only where swap is counted.
                let _ = set(
                    memory_in.join("memory.memsw.limit_in_bytes"),
                    &bytes.to_string(),
                );
            }
            Version::Two => {
                set(memory_in.join("memory.max"), &bytes.to_string())?;
                let _ = set(memory_in.join("memory.swap.max"), "0");
            }
        }
    }
    if let Some(count) = limits.processes {
        set(
            processes_in.join("pids.max"),
            &count.saturating_add(ours).to_string(),
        )?;
    }
    for (home, directory) in [(&memory, &memory_in), (&processes, &processes_in)] {
        set(directory.join(home.version.members()), "0")?;
    }
    let (memory_events, peak) = match memory.version {
        Version::One => ("memory.oom_control", "memory.max_usage_in_bytes"),
        Version::Two => ("memory.events", "memory.peak"),
    };
    let events = Events {
        memory: File::open(memory_in.join(memory_events))?,
        processes: File::open(processes_in.join("pids.events"))?,
        peak: OpenOptions::new()
            .read(true)
            .write(true)
            .open(memory_in.join(peak))
            .ok(),
    };
    Ok(Cgroup { groups, events })
}

impl Group {
    fn make(home: &Home, name: &str) -> io::Result<Group> {
        match fs::create_dir(home.path.join(name)) {
            // Of a launcher that had our number and was killed.
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
            other => other?,
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Group {
            home: rustix::fs::open(&home.path, flags, Mode::empty())?,
            name: name.to_owned(),
            members: OpenOptions::new()
                .write(true)
                .open(home.path.join(home.version.members()))?,
        })
    }
}

impl Cgroup {
    pub(super) fn counts(&self) -> Counts {
        Counts {
            killed: field(&self.events.memory, "oom_kill"),
            refused: field(&self.events.processes, "max"),
        }
    }

    /// The most memory since the last call of this.
    pub(super) fn take_peak(&self) -> Option<u64> {
        let file = self.events.peak.as_ref()?;
        let peak = text(file).trim().parse().ok();
        // Both versions forget the peak when anything is written; older kernels of the second refuse.
        let _ = (&*file).write_all(b"0");
        peak
    }

    /// Leaves the groups and removes them. All other members must be gone.
    pub(super) fn leave(self) {
        for it in &self.groups {
            let _ = (&it.members).write_all(b"0");
            let _ = rustix::fs::unlinkat(&it.home, &it.name, AtFlags::REMOVEDIR);
        }
    }
}

/// Removes groups of launchers that were killed together with their glee.
fn remove_abandoned(home: &Home) {
    for entry in fs::read_dir(&home.path).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let launcher = name.to_str().and_then(|it| it.strip_prefix("glee-"));
        if launcher.is_some_and(|it| !Path::new("/proc").join(it).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}

/// Removes what a launcher left behind that was killed.
pub(super) fn remove(launcher: u32) {
    if let Ok((memory, processes)) = homes() {
        for home in [memory, processes] {
            let _ = fs::remove_dir(home.path.join(name(launcher)));
        }
    }
}

fn text(file: &File) -> String {
    let mut bytes = [0; 512];
    let count = file.read_at(&mut bytes, 0).unwrap_or(0);
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

fn field(file: &File, name: &str) -> u64 {
    let text = text(file);
    let mut lines = text.lines().filter_map(|it| it.split_once(' '));
    lines
        .find(|it| it.0 == name)
        .and_then(|it| it.1.trim().parse().ok())
        .unwrap_or(0)
}

/// Where groups for memory and for processes can be made.
fn homes() -> io::Result<(Home, Home)> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let own = fs::read_to_string("/proc/self/cgroup")?;
    let first = |controller| version_one(&mounts, &own, controller);
    match (first("memory"), first("pids")) {
        (Some(memory), Some(processes)) => Ok((memory, processes)),
        _ => version_two(&mounts, &own).map(|home| (home.clone(), home)),
    }
}

fn version_one(mounts: &str, own: &str, controller: &str) -> Option<Home> {
    let has = |list: &str| list.split(',').any(|it| it == controller);
    let mount = mounts
        .lines()
        .filter_map(Mount::parse)
        .find(|it| it.kind == "cgroup" && has(it.options))?;
    let path = own.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        has(controllers).then_some(path)
    })?;
    Some(Home {
        version: Version::One,
        path: mount.place(path),
    })
}

/// The nearest group of our own ancestors that hands memory and processes on to its children.
fn version_two(mounts: &str, own: &str) -> io::Result<Home> {
    let missing = |why: &str| io::Error::new(io::ErrorKind::NotFound, why.to_owned());
    let mount = mounts
        .lines()
        .filter_map(Mount::parse)
        .find(|it| it.kind == "cgroup2");
    let mount = mount.ok_or_else(|| missing("no control groups are mounted"))?;
    let path = own
        .lines()
        .find_map(|it| it.strip_prefix("0::"))
        .ok_or_else(|| missing("not in a control group"))?;
    let place = mount.place(path);
    let top = Path::new(mount.point);
    for candidate in place.ancestors().take_while(|it| it.starts_with(top)) {
        let listed = |file: &str| {
            let text = fs::read_to_string(candidate.join(file)).unwrap_or_default();
            ["memory", "pids"]
                .iter()
                .all(|wanted| text.split_whitespace().any(|it| it == *wanted))
        };
        let handed_on = listed("cgroup.subtree_control")
            || (listed("cgroup.controllers")
                && fs::write(candidate.join("cgroup.subtree_control"), "+memory +pids").is_ok());
        if handed_on {
            return Ok(Home {
                version: Version::Two,
                path: candidate.to_path_buf(),
            });
        }
    }
    Err(missing("no control group hands memory and pids on"))
}

struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Mount<'a>> {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let mut right = right.split(' ');
        Some(Mount {
            root: left.next()?,
            point: left.next()?,
            kind: right.next()?,
            options: right.nth(1)?,
        })
    }

    /// In a container the mount shows only a part of the hierarchy, and paths still tell all of it.
    fn place(&self, path: &str) -> PathBuf {
        let inside =
            path.strip_prefix(self.root)
                .unwrap_or(if self.root == "/" { path } else { "" });
        Path::new(self.point).join(inside.trim_start_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn homes_are_found_in_hybrid_and_contained_hierarchies() {
        let mounts = "32 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      39 31 0:36 /docker/x /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
        let own = "8:pids:/docker/x/y\n4:memory:/a/b\n0::/\n";
        let path = |it| version_one(mounts, own, it).map(|it| it.path);
        assert_eq!(path("memory"), Some("/sys/fs/cgroup/memory/a/b".into()));
        assert_eq!(path("pids"), Some("/sys/fs/cgroup/pids/y".into()));
        assert_eq!(path("cpu"), None);
    }
}
