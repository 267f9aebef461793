//! What a path stands for: what must never be deleted, what must never be read.

use std::path::{Component, Path, PathBuf};

use crate::glob;
use crate::shell::{GAP, Word};

/// What a project's rules know of the machine.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    pub root: &'a Path,
    pub home: Option<&'a Path>,
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
        while let Some(name) = path.file_name().map(|it| it.to_string_lossy().into_owned()) {
            let all = word.glob && name.chars().all(|c| "*?.[]!^".contains(c));
            let gap = !word.known && name.chars().all(|c| c == GAP);
            if !all && !gap {
                break;
            }
            guessed |= gap;
            path.pop();
        }
        if !word.known && path.to_string_lossy().contains(GAP) {
            return Standing::Unknown;
        }
        let standing = self.standing_of(&path);
        match (standing, guessed) {
            (Standing::Vital, true) if path.starts_with(self.root) => Standing::Unknown,
            (Standing::Own | Standing::Elsewhere, true) => Standing::Unknown,
            _ => standing,
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

/// A path from a word: absolute, without `.` and `..`, or nothing where the directory is not known.
pub fn absolute(text: &str, cwd: Option<&str>) -> Option<PathBuf> {
    let text = text.strip_prefix("file://").unwrap_or(text);
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
    }
    Some(out)
}

/// System files that nothing should write to.
pub fn is_of_the_system(path: &Path) -> bool {
    const WRITTEN_BY_MANY: &[&str] = &["/dev", "/var", "/run", "/proc/self"];
    let below = |places: &[&str]| places.iter().any(|it| path.starts_with(it));
    below(SYSTEM) && !below(WRITTEN_BY_MANY)
}

/// Devices whose content is a disk or memory.
pub fn is_device(path: &Path) -> bool {
    const DEVICES: &[&str] = &[
        "sd", "hd", "vd", "xvd", "nvme", "mmcblk", "disk", "rdisk", "dm-", "mapper", "loop", "md",
        "nbd", "mtd", "sr", "mem", "kmem", "port", "block",
    ];
    let Ok(inside) = path.strip_prefix("/dev") else {
        return false;
    };
    let name = inside.to_string_lossy();
    DEVICES.iter().any(|it| name.starts_with(it))
}

/// Files that hold what gives access to something else.
#[derive(Clone, Copy)]
enum Mark {
    /// This very path.
    Exactly(&'static str),
    /// A file or directory of this name, wherever it stands, and what is in it.
    Named(&'static str),
    /// A path that ends so, and what is in it.
    Ending(&'static [&'static str]),
}

const SENSITIVE: &[(Mark, &str)] = &[
    (Mark::Exactly("/etc/passwd"), "the list of users"),
    (Mark::Exactly("/etc/passwd-"), "the list of users"),
    (
        Mark::Exactly("/etc/master.passwd"),
        "the passwords of users",
    ),
    (Mark::Exactly("/etc/shadow"), "the passwords of users"),
    (Mark::Exactly("/etc/shadow-"), "the passwords of users"),
    (Mark::Exactly("/etc/gshadow"), "the passwords of groups"),
    (Mark::Exactly("/etc/sudoers"), "who may become root"),
    (Mark::Exactly("/etc/sudoers.d"), "who may become root"),
    (Mark::Named(".ssh"), "ssh keys"),
    (Mark::Named("id_rsa"), "an ssh key"),
    (Mark::Named("id_dsa"), "an ssh key"),
    (Mark::Named("id_ecdsa"), "an ssh key"),
    (Mark::Named("id_ecdsa_sk"), "an ssh key"),
    (Mark::Named("id_ed25519"), "an ssh key"),
    (Mark::Named("id_ed25519_sk"), "an ssh key"),
    (Mark::Named(".env"), "secrets of a program"),
    (Mark::Named(".netrc"), "passwords"),
    (Mark::Named(".git-credentials"), "passwords of git"),
    (Mark::Named(".gnupg"), "keys of gnupg"),
    (
        Mark::Ending(&[".aws", "credentials"]),
        "credentials of a cloud",
    ),
    (
        Mark::Ending(&[".config", "gcloud"]),
        "credentials of a cloud",
    ),
    (
        Mark::Ending(&[".kube", "config"]),
        "credentials of a cluster",
    ),
    (
        Mark::Ending(&[".docker", "config.json"]),
        "credentials of a registry",
    ),
    (
        Mark::Ending(&["proc", "self", "environ"]),
        "the environment of a process",
    ),
];

/// Endings of files that stand beside sensitive ones to show their form.
const HARMLESS: &[&str] = &[".example", ".sample", ".template", ".dist", ".pub"];

/// What a sensitive file holds, if this is one. In a pattern, or a path with gaps, a part that has a
/// letter to tell by stands for whatever it fits; one that stands for everything does not.
pub fn sensitive(path: &Path, open: bool) -> Option<&'static str> {
    let parts: Vec<String> = path
        .components()
        .filter_map(|it| match it {
            Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
            _ => None,
        })
        .collect();
    let last = parts.last()?;
    if HARMLESS.iter().any(|it| last.ends_with(it)) {
        return None;
    }
    let fit = |part: &str, name: &str| fits(part, name, open);
    let found = SENSITIVE.iter().find(|(mark, _)| match mark {
        Mark::Exactly(whole) => {
            let mut names = whole[1..].split('/');
            parts.len() >= names.clone().count()
                && parts
                    .iter()
                    .all(|part| names.next().is_none_or(|name| fit(part, name)))
        }
        Mark::Named(".env") => fit(last, ".env") || last.starts_with(".env."),
        Mark::Named(name) => parts.iter().any(|part| fit(part, name)),
        Mark::Ending(names) => parts.windows(names.len()).any(|window| {
            window
                .iter()
                .zip(*names)
                .all(|(part, name)| fit(part, name))
        }),
    });
    found.map(|(_, what)| *what)
}

fn fits(part: &str, name: &str, open: bool) -> bool {
    if !open || !part.contains(['*', '?', '[', GAP]) {
        return part == name;
    }
    part.contains(|c: char| c.is_alphanumeric()) && glob::matches(&part.replace(GAP, "*"), name)
}
