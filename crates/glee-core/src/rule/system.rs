//! The rules about what belongs to the system: its disks, its files, their modes.

use std::path::{Path, PathBuf};

use super::danger::{Sight, ask, deny, has_option, part, shown};
use super::download::downloaded_to;
use super::place::{Standing, is_device, is_of_the_system};
use crate::policy::Decision;
use crate::shell::{Flow, Word};

pub(super) fn disks(sight: &Sight<'_>) -> Option<Decision> {
    let name = sight.command.program()?;
    let is_tool = sight.runs_any(DISK_TOOLS) || name.text.starts_with("mkfs");
    if is_tool && !sight.command.args().is_empty() && !only_looks(sight, &name.text) {
        // A file with the content of a disk is a file.
        let (_, operands) = sight.options();
        let is_disk = |it: &&Word| {
            let below = |it: &PathBuf| it.starts_with("/dev");
            !it.known || it.glob || sight.paths(it).iter().any(below)
        };
        if operands.iter().any(is_disk) || sight.runs_any(&["vgremove", "lvremove"]) {
            return deny(format!("{} changes a disk", shown(&name)));
        }
    }
    for (program, words) in DISK_COMMANDS {
        let begins = |it: &Word| words.iter().any(|word| it.text.starts_with(word));
        if sight.runs(program) && sight.command.args().iter().any(begins) {
            return deny(format!("{} erases a disk", shown(&name)));
        }
    }
    None
}

/// Programs that change the disk they are given.
const DISK_TOOLS: &[&str] = &[
    "fdisk",
    "sfdisk",
    "cfdisk",
    "gdisk",
    "sgdisk",
    "parted",
    "wipefs",
    "blkdiscard",
    "mke2fs",
    "mkswap",
    "mkdosfs",
    "mkntfs",
    "newfs",
    "pvcreate",
    "pvremove",
    "vgremove",
    "lvremove",
];

/// Programs that change a disk with some of their words, or with what begins so.
const DISK_COMMANDS: &[(&str, &[&str])] = &[
    ("cryptsetup", &["luksFormat", "erase", "luksErase"]),
    ("zpool", &["destroy", "create", "labelclear"]),
    ("zfs", &["destroy"]),
    ("nvme", &["format", "sanitize"]),
    ("hdparm", &["--security-erase", "--trim-sector-ranges"]),
    ("badblocks", &["-w"]),
    ("mdadm", &["--zero-superblock", "--create"]),
];

/// Whether a disk tool is asked to show something, or what it would do.
fn only_looks(sight: &Sight<'_>, name: &str) -> bool {
    const CHANGES: &[&str] = &[
        "mklabel",
        "mktable",
        "mkpart",
        "rm",
        "resizepart",
        "set",
        "name",
        "rescue",
        "toggle",
        "disk_set",
        "disk_toggle",
        "move",
        "resize",
    ];
    let (options, _) = sight.options();
    sight.has(&["--help", "--version", "-V"])
        || match name {
            "fdisk" | "sfdisk" | "gdisk" => sight.has(&["-l", "--list", "-d", "--dump", "-x"]),
            "sgdisk" => sight.has(&["-p", "--print", "-v", "--verify"]) && options.len() == 1,
            "parted" => !sight.has(CHANGES) && sight.has(&["-l", "--list", "print"]),
            "wipefs" => sight.has(&["-n", "--no-act"]) || options.is_empty(),
            "mke2fs" | "mkfs.ext2" | "mkfs.ext3" | "mkfs.ext4" => sight.has(&["-n"]),
            _ => false,
        }
}

pub(super) fn devices(sight: &Sight<'_>) -> Option<Decision> {
    let written = sight.written();
    let device = written.iter().find(|word| {
        let paths = sight.paths(word);
        paths.iter().any(|path| is_device(path, word.glob))
    })?;
    deny(format!("it writes to the device {}", shown(device)))
}

pub(super) fn system_files(sight: &Sight<'_>) -> Option<Decision> {
    let written = sight.written();
    let is_file = |it: &PathBuf| is_of_the_system(it) || it == Path::new("/dev");
    if let Some(file) = written
        .iter()
        .find(|it| sight.paths(it).iter().any(is_file))
    {
        return deny(format!(
            "it writes to {}, which belongs to the system",
            shown(file)
        ));
    }
    let hooks = sight.ground.root.join(".git/hooks");
    let is_hook = |it: &&Word| sight.paths(it).iter().any(|it| it.starts_with(&hooks));
    let hook = written.iter().find(is_hook)?;
    ask(format!("it changes {}, which git will run", shown(hook)))
}

pub(super) fn system_modes(sight: &Sight<'_>) -> Option<Decision> {
    if !sight.runs_any(&["chmod", "chown", "chgrp"]) {
        return None;
    }
    let (options, operands) = sight.options();
    // The mode is taken for a file of this name, which harms nobody.
    let vital = operands.iter().find(|operand| {
        let is_vital = sight.ground.standing(operand, sight.cwd()) == Standing::Vital;
        // `chmod -R u+w .` is housekeeping.
        is_vital && !sight.is_within_project(operand) && !sight.is_project(operand)
    })?;
    match has_option(&options, &['R'], "recursive") {
        true => deny(format!(
            "it changes the modes of {} and of everything in it",
            shown(vital)
        )),
        false => None,
    }
}

impl Sight<'_> {
    /// Files that the command writes to or takes away: by redirection, and by what it is.
    fn written(&self) -> Vec<Word> {
        let redirects = self.command.redirects.iter();
        let outputs = redirects.filter(|it| it.flow == Flow::Out);
        let mut written: Vec<Word> = outputs.map(|it| Word::clone(&it.target)).collect();
        let (options, operands) = self.options();
        let mut operands = operands.into_iter().cloned();
        if self.runs_any(&["tee", "truncate", "shred", "rm", "unlink", "mv", "ddrescue"])
            || self.runs_any(&["sed", "gsed", "perl"]) && edits_in_place(&options)
        {
            written.extend(operands);
        } else if self.runs_any(&["cp", "install", "ln", "rsync"]) {
            written.extend(operands.next_back());
        } else if self.runs_any(&["dd", "dcfldd"]) {
            let outputs = self.command.args().iter();
            written.extend(outputs.filter_map(|it| part(it, it.text.strip_prefix("of=")?)));
        } else {
            let files = downloaded_to(self.command).into_iter();
            written.extend(files.map(Word::literal));
        }
        if self.runs_any(&["cp", "mv", "install", "ln"]) {
            written.extend(self.target_directory());
        }
        written
    }

    /// The directory of `cp -t x …` and its like.
    fn target_directory(&self) -> Option<Word> {
        let args = self.command.args();
        args.iter().enumerate().find_map(|(at, word)| {
            let long = word.text.strip_prefix("--target-directory");
            let glued = long.and_then(|it| it.strip_prefix('=')).or_else(|| {
                let letters = word.text.strip_prefix('-').filter(|_| long.is_none())?;
                letters.strip_prefix('t').filter(|it| !it.is_empty())
            });
            match glued {
                Some(text) => part(word, text),
                None if long == Some("") || word.text == "-t" => args.get(at + 1).cloned(),
                None => None,
            }
        })
    }
}

/// `-i`, `-ni`, `-i.bak`, `--in-place`; what follows an option with a value is no option.
fn edits_in_place(options: &[&str]) -> bool {
    options.iter().any(|it| match it.strip_prefix("--") {
        Some(long) => long.starts_with("in-place"),
        None => it[1..]
            .chars()
            .take_while(|c| !"eEfMmIl".contains(*c))
            .any(|c| c == 'i'),
    })
}
