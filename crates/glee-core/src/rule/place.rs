//! What a path stands for: what must never be deleted, what must never be read.

use std::path::{Component, Path, PathBuf};

use crate::glob;
use crate::port::Files;
use crate::shell::{GAP, Word};

/// What a project's rules know of the machine.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    pub root: &'a Path,
    pub home: Option<&'a Path>,
    pub files: &'a dyn Files,
}

/// What would be lost with a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The system, a home, the project itself or its history.
    Vital,
    /// Something in the project, or below a directory for temporary files.
    Own,
    Elsewhere,
    Unknown,
}

/// Directories that belong to the system, with everything in them.
const SYSTEM: &[&str] = &[
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/usr",
    "/var",
    "/System",
    "/Library",
    "/Applications",
];

/// Directories for temporary files.
const SCRATCH: &[&str] = &["/tmp", "/var/tmp", "/private/tmp"];

/// Parts of a project that nothing brings back.
const OF_THE_PROJECT: &[&str] = &[".git", ".glee"];

impl Ground<'_> {
    /// What a deletion of this would take away.
    pub fn standing(&self, word: &Word, cwd: Option<&str>) -> Standing {
        let Some(mut path) = absolute(&word.text, cwd) else {
            return Standing::Unknown;
        };
        // `x/*` is all of x, and `x/$y` may be.
        let mut guessed = false;
        let mut inside = false;
        while let Some(name) = path.file_name().map(|it| it.to_string_lossy().into_owned()) {
            let all = word.glob && name.chars().all(|c| "*?.[]!^".contains(c));
            let gap = !word.known && name.chars().all(|c| c == GAP);
            if !all && !gap {
                break;
            }
            inside = true;
            guessed |= gap;
            path.pop();
        }
        if !word.known && path.to_string_lossy().contains(GAP) {
            return Standing::Unknown;
        }
        if word.glob && self.may_be_vital(&path) {
            return Standing::Vital;
        }
        // What is deleted is the link itself, but what lies behind one on the way.
        let real = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) if !inside => self.files.resolve(parent).join(name),
            _ => self.files.resolve(&path),
        };
        let standing = match self.standing_of(&real) {
            Standing::Vital => Standing::Vital,
            _ => self.standing_of(&path),
        };
        match (standing, guessed) {
            (Standing::Vital, true) if path.starts_with(self.root) => Standing::Unknown,
            (Standing::Own | Standing::Elsewhere, true) => Standing::Unknown,
            _ => standing,
        }
    }

    /// Whether a pattern fits something that must not be lost.
    fn may_be_vital(&self, pattern: &Path) -> bool {
        let of_the_project = OF_THE_PROJECT.iter().map(|it| self.root.join(it));
        let mut places = SYSTEM.iter().map(PathBuf::from).chain(of_the_project);
        let parts = pattern.components().count();
        let is_home =
            |home: &Path| parts == home.components().count() && fits_so_far(pattern, home);
        self.home.is_some_and(is_home)
            || places.any(|it| parts >= it.components().count() && fits_so_far(pattern, &it))
    }

    /// Where a text leads: as it stands, and after links.
    pub fn paths(&self, text: &str, cwd: Option<&str>) -> Vec<PathBuf> {
        let Some(path) = absolute(text, cwd) else {
            return Vec::new();
        };
        let real = self.files.resolve(&path);
        match real == path {
            true => vec![path],
            false => vec![path, real],
        }
    }

    fn standing_of(&self, path: &Path) -> Standing {
        let below = |places: &[&str]| places.iter().any(|it| path.starts_with(it));
        if let Ok(inside) = path.strip_prefix(self.root)
            && let Some(first) = inside.components().next()
        {
            let first = first.as_os_str().to_string_lossy();
            return match OF_THE_PROJECT.contains(&&*first) {
                true => Standing::Vital,
                false => Standing::Own,
            };
        }
        let holds = |place: &Path| place.starts_with(path);
        if holds(self.root) || self.home.is_some_and(holds) {
            return Standing::Vital;
        }
        if below(SCRATCH) {
            return Standing::Own;
        }
        let depth = path.components().count() - 1;
        let is_a_home = depth == 2 && below(&["/home", "/Users"]);
        if depth <= 1 || is_a_home || below(SYSTEM) {
            return Standing::Vital;
        }
        Standing::Elsewhere
    }
}

/// Whether each part of a pattern fits the part of the place, as far as the place goes.
pub fn fits_so_far(pattern: &Path, place: &Path) -> bool {
    let pairs = pattern.components().zip(place.components());
    pairs.into_iter().all(|(pattern, part)| {
        let pattern = pattern.as_os_str().to_string_lossy();
        glob::matches(&pattern, &part.as_os_str().to_string_lossy())
    })
}

/// A path from a word: absolute, without `.` and `..`, or nothing where the directory is not known.
pub fn absolute(text: &str, cwd: Option<&str>) -> Option<PathBuf> {
    let text = file_of_url(text).unwrap_or(text);
    let path = match (text.starts_with('/'), cwd) {
        (true, _) => PathBuf::from(text),
        (false, Some(cwd)) => Path::new(cwd).join(text),
        (false, None) => return None,
    };
    let mut out = PathBuf::from("/");
    for component in path.components() {
        match component {
            Component::Normal(name) => out.push(name),
            Component::ParentDir => {
                out.pop();
            }
            _ => {}
        }
        // Every process sees the same root there.
        let parts: Vec<_> = out.iter().collect();
        if parts.len() == 4 && parts[1] == "proc" && parts[3] == "root" {
            out = PathBuf::from("/");
        }
    }
    Some(out)
}

/// `file:///x`, `file://localhost/x` and `FILE:/x`.
fn file_of_url(text: &str) -> Option<&str> {
    let scheme = text
        .get(..5)
        .filter(|it| it.eq_ignore_ascii_case("file:"))?;
    let rest = &text[scheme.len()..];
    match rest.strip_prefix("//") {
        Some(rest) => rest.find('/').map(|at| &rest[at..]),
        None => rest.starts_with('/').then_some(rest),
    }
}

/// System files that nothing should write to.
pub fn is_of_the_system(path: &Path) -> bool {
    const WRITTEN_BY_MANY: &[&str] = &["/dev", "/var", "/run", "/proc/self", "/usr/local"];
    let below = |places: &[&str]| places.iter().any(|it| path.starts_with(it));
    below(SYSTEM) && !below(WRITTEN_BY_MANY)
}

/// Devices whose content is a disk or memory.
pub fn is_device(path: &Path, is_pattern: bool) -> bool {
    const DEVICES: &[&str] = &[
        "sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "dm-", "mapper", "loop", "md",
        "nbd", "mtd", "sr", "mem", "kmem", "port", "block",
    ];
    const EXAMPLES: &[&str] = &[
        "/dev/sda",
        "/dev/sda1",
        "/dev/vda",
        "/dev/nvme0n1",
        "/dev/mem",
    ];
    if is_pattern
        && EXAMPLES
            .iter()
            .any(|it| glob::matches(&path.to_string_lossy(), it))
    {
        return true;
    }
    let Ok(inside) = path.strip_prefix("/dev") else {
        return false;
    };
    // `/dev/group/volume` is a disk too.
    const DIRECTORIES: &[&str] = &[
        "shm",
        "pts",
        "fd",
        "tcp",
        "udp",
        "mqueue",
        "hugepages",
        "snd",
    ];
    let is_volume =
        inside.components().count() == 2 && !DIRECTORIES.iter().any(|it| inside.starts_with(it));
    let name = inside.to_string_lossy();
    is_volume || DEVICES.iter().any(|it| name.starts_with(it))
}
