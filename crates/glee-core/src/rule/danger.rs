//! The rules about commands that come with glee.

use std::path::{Path, PathBuf};

use super::download::{downloaded_code, downloaded_to, hidden_code, is_interpreter};
use super::overview::Overview;
use super::place::{Ground, Standing, is_device, is_of_the_system};
use crate::policy::{Case, Decision, Rule};
use crate::shell::{Flow, GAP, SHELLS, Simple, Word};

/// A rule about single commands; the strictest of what it says of each counts.
#[derive(Clone, Copy)]
pub struct CommandRule {
    name: &'static str,
    about: &'static str,
    judge: fn(&Sight<'_>) -> Option<Decision>,
}

/// One command, among those it runs with.
pub(super) struct Sight<'a> {
    pub(super) overview: &'a Overview<'a>,
    pub(super) index: usize,
    pub(super) command: &'a Simple,
    ground: Ground<'a>,
}

pub const RULES: &[CommandRule] = &[
    CommandRule {
        name: "deletion",
        about: "recursive deletion: never of the system, a home, the project itself, `.git` or `.glee`; with force, anything else asks",
        judge: deletion,
    },
    CommandRule {
        name: "disks",
        about: "never formats, partitions or wipes a disk",
        judge: disks,
    },
    CommandRule {
        name: "devices",
        about: "never writes to the device of a disk or of memory",
        judge: devices,
    },
    CommandRule {
        name: "system-files",
        about: "never overwrites files of the system",
        judge: system_files,
    },
    CommandRule {
        name: "system-modes",
        about: "never changes modes or owners of the system or of a home, recursively",
        judge: system_modes,
    },
    CommandRule {
        name: "downloaded-code",
        about: "never runs what it downloads in the same line",
        judge: downloaded_code,
    },
    CommandRule {
        name: "hidden-code",
        about: "asks before it runs what was decoded in the same line",
        judge: hidden_code,
    },
    CommandRule {
        name: "remote-shell",
        about: "never gives a shell to a network connection",
        judge: remote_shell,
    },
    CommandRule {
        name: "fork-bomb",
        about: "never starts itself without end",
        judge: fork_bomb,
    },
    CommandRule {
        name: "power",
        about: "never stops or restarts the machine",
        judge: power,
    },
    CommandRule {
        name: "all-processes",
        about: "never ends every process, or the first one",
        judge: all_processes,
    },
];

impl Rule for CommandRule {
    fn name(&self) -> &str {
        self.name
    }

    fn about(&self) -> &str {
        self.about
    }

    fn remedy(&self) -> &str {
        "another command; this rule comes with glee and holds for every call"
    }

    fn judge(&self, case: &Case<'_>) -> Result<Decision, String> {
        let ground = case.ground();
        let mut strictest = Decision::Allow;
        for script in &case.reach().scripts {
            let overview = Overview::new(script);
            for (index, command) in script.commands.iter().enumerate() {
                let sight = Sight {
                    overview: &overview,
                    index,
                    command,
                    ground,
                };
                if let Some(decision) = (self.judge)(&sight) {
                    strictest = strictest.or_stricter(decision);
                }
            }
        }
        Ok(strictest)
    }
}

pub(super) fn deny(reason: impl Into<String>) -> Option<Decision> {
    Some(Decision::Deny {
        reason: reason.into(),
    })
}

pub(super) fn ask(reason: impl Into<String>) -> Option<Decision> {
    Some(Decision::Ask {
        reason: reason.into(),
    })
}

impl Sight<'_> {
    fn runs_any(&self, names: &[&str]) -> bool {
        self.command.runs_any(names)
    }

    fn runs(&self, name: &str) -> bool {
        self.runs_any(&[name])
    }

    fn has(&self, words: &[&str]) -> bool {
        self.command
            .args()
            .iter()
            .any(|it| words.contains(&it.text.as_str()))
    }

    fn cwd(&self) -> Option<&str> {
        self.command.cwd.as_deref()
    }

    /// Where a word leads: as it stands, and after links.
    fn paths(&self, word: &Word) -> Vec<PathBuf> {
        self.ground.paths(&word.text, self.cwd())
    }

    fn is_project(&self, word: &Word) -> bool {
        self.paths(word).iter().all(|it| it == self.ground.root)
    }

    /// Whether it lies in a directory of the project.
    fn is_within_project(&self, word: &Word) -> bool {
        let inside = |it: &PathBuf| {
            let inner = it.strip_prefix(self.ground.root);
            inner.is_ok_and(|it| it.components().count() > 1)
        };
        let paths = self.paths(word);
        !paths.is_empty() && paths.iter().all(inside)
    }

    /// Options and what is left, as GNU programs read them: in any order, up to `--`.
    fn options(&self) -> (Vec<&str>, Vec<&Word>) {
        let (mut options, mut operands, mut over) = (Vec::new(), Vec::new(), false);
        for word in self.command.args() {
            match word.text.as_str() {
                "--" if !over => over = true,
                text if !over && text.len() > 1 && text.starts_with('-') => options.push(text),
                _ => operands.push(word),
            }
        }
        (options, operands)
    }

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

fn part(word: &Word, text: &str) -> Option<Word> {
    Some(Word {
        text: text.to_owned(),
        ..word.clone()
    })
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

/// Whether a short option is among these, alone or with others; or a long one, cut short or not.
fn has_option(options: &[&str], short: &[char], long: &str) -> bool {
    options.iter().any(|it| match it.strip_prefix("--") {
        Some(name) => !name.is_empty() && long.starts_with(name),
        None => it[1..].contains(short),
    })
}

fn deletion(sight: &Sight<'_>) -> Option<Decision> {
    let (options, operands) = sight.options();
    let vital = |it: &&Word| sight.ground.standing(it, sight.cwd()) == Standing::Vital;
    if sight.runs("mv") {
        // What lies in `.git` may be moved, `.git` may not.
        let sources = operands.split_last().map_or(&[][..], |it| it.1);
        let lost = sources
            .iter()
            .find(|it| vital(it) && !sight.is_within_project(it))?;
        return deny(format!("it would move {} away", shown(lost)));
    }
    if sight.runs("rsync") && options.iter().any(|it| it.starts_with("--del")) {
        let target = operands.last().filter(|it| vital(it))?;
        return deny(format!("it would delete what is in {}", shown(target)));
    }
    // A program that only the run could tell is taken for `rm` when it is called as only `rm` is.
    let program = sight.command.program()?;
    let may_be_rm = !program.known && program.text.chars().all(|c| c == GAP);
    if !sight.runs_any(&["rm", "grm", "srm"]) && !may_be_rm {
        return None;
    }
    let recursive = has_option(&options, &['r', 'R'], "recursive");
    let force = has_option(&options, &['f'], "force");
    if options.contains(&"--no-preserve-root") {
        return deny("it would delete the whole system");
    }
    if !recursive || may_be_rm && !force {
        return None;
    }
    let mut decision = None;
    for operand in operands {
        let what = shown(operand);
        // A variable that is not set is nothing: `$x/etc` is `/etc`.
        let start = operand.text.trim_start_matches(GAP);
        let unset = part(operand, start).filter(|_| start.starts_with('/'));
        let may_be_vital = !operand.known && unset.is_some_and(|it| vital(&&it));
        let found = match sight.ground.standing(operand, sight.cwd()) {
            Standing::Vital => return deny(format!("it would delete {what} and everything in it")),
            _ if may_be_vital => format!("it deletes {what}, which may be `{start}`"),
            _ if !force || may_be_rm => continue,
            Standing::Own => format!("it deletes {what} and everything in it, without a question"),
            Standing::Elsewhere => {
                format!("it deletes {what}, outside the project, and everything in it")
            }
            Standing::Unknown => {
                format!("it deletes {what}, which only the run can tell, and everything in it")
            }
        };
        decision = decision.or(ask(found));
    }
    decision
}

fn shown(word: &Word) -> String {
    format!("`{}`", word.text.replace(GAP, "…"))
}

fn disks(sight: &Sight<'_>) -> Option<Decision> {
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

fn devices(sight: &Sight<'_>) -> Option<Decision> {
    let written = sight.written();
    let device = written.iter().find(|word| {
        let paths = sight.paths(word);
        paths.iter().any(|path| is_device(path, word.glob))
    })?;
    deny(format!("it writes to the device {}", shown(device)))
}

fn system_files(sight: &Sight<'_>) -> Option<Decision> {
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

fn system_modes(sight: &Sight<'_>) -> Option<Decision> {
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

fn remote_shell(sight: &Sight<'_>) -> Option<Decision> {
    let connects =
        |word: &Word| word.text.starts_with("/dev/tcp/") || word.text.starts_with("/dev/udp/");
    let redirected = sight
        .command
        .redirects
        .iter()
        .any(|it| connects(&it.target));
    // Redirections alone are those of commands in braces.
    let shell = sight.runs_any(SHELLS) || sight.runs("exec") || sight.command.words.is_empty();
    if redirected && shell {
        return deny("it gives a shell to a network connection");
    }
    let netcat = sight.runs_any(&["nc", "ncat", "netcat"]);
    if netcat && sight.overview.of_shells().feeds(sight.command, sight.index) {
        return deny("it gives a shell to a network connection");
    }
    let args = || sight.command.args().iter();
    let executes = args().any(|it| match it.text.strip_prefix("--") {
        Some(long) => matches!(
            long.split('=').next(),
            Some("exec" | "sh-exec" | "lua-exec")
        ),
        None => {
            let letters = it.text.split('/').next().unwrap_or_default();
            letters.starts_with('-') && letters.ends_with(['e', 'c'])
        }
    });
    let socat = sight.runs("socat")
        && args().any(|it| {
            let text = it.text.to_ascii_lowercase();
            text.starts_with("exec:") || text.starts_with("system:")
        });
    match netcat && executes || socat {
        true => deny("it gives a program to a network connection"),
        false => None,
    }
}

fn fork_bomb(sight: &Sight<'_>) -> Option<Decision> {
    let calls = |range| sight.overview.calls_of_itself(range) > 0;
    let fed_by_itself = || sight.command.fed_by.iter().any(|it| calls(it.clone()));
    // Without words to tell it when to stop, twice in a row never ends: `f;f`.
    let at = sight.index;
    let is_bare = sight.command.words.len() == 1;
    let again = || is_bare && at > 0 && calls(at - 1..at);
    if calls(at..at + 1) && (sight.command.background || fed_by_itself() || again()) {
        return deny("it starts itself without end");
    }
    let code = sight.command.args().iter().any(|it| {
        let text: String = it.text.split_whitespace().collect();
        text.contains("forkwhilefork")
            || text.contains("while(1){fork")
            || text.contains("whileTrue:os.fork()")
    });
    match is_interpreter(sight.command) && code {
        true => deny("it starts itself without end"),
        false => None,
    }
}

/// What `systemctl` calls the end of a machine's work.
const STOPS: &[&str] = &[
    "poweroff",
    "reboot",
    "halt",
    "kexec",
    "emergency",
    "rescue",
    "suspend",
    "hibernate",
];

fn power(sight: &Sight<'_>) -> Option<Decision> {
    let only_asks = sight.has(&["--help", "--version", "-c", "--show"]);
    let ends = sight.runs_any(&["shutdown", "reboot", "halt", "poweroff"]) && !only_asks
        || sight.runs_any(&["init", "telinit"])
            && sight.command.args().len() == 1
            && sight.has(&["0", "1", "6", "s", "S"])
        || sight.runs_any(&["systemctl", "loginctl"])
            && sight.command.args().iter().any(|it| {
                let target = it.text.trim_end_matches(".target");
                STOPS.contains(&target)
            });
    match ends {
        true => deny("it stops or restarts the machine"),
        false => None,
    }
}

fn all_processes(sight: &Sight<'_>) -> Option<Decision> {
    if sight.runs("killall5") {
        return deny("it ends every process");
    }
    if !sight.runs("kill") {
        return None;
    }
    let args: Vec<&str> = sight
        .command
        .args()
        .iter()
        .map(|it| it.text.as_str())
        .collect();
    // The first word may be a signal, as in `kill -1 42`.
    let targets = match args.as_slice() {
        ["-l" | "-L" | "-0", ..] | ["-s" | "-n" | "--signal", "0", ..] => &[],
        ["-s" | "-n" | "--signal", _, rest @ ..] => rest,
        [first, rest @ ..] if first.starts_with('-') => rest,
        all => all,
    };
    let mut processes = targets.iter().filter_map(|it| it.parse::<i64>().ok());
    match processes.find(|it| matches!(it, -1 | 1)) {
        Some(1) => deny("it ends the first process, and with it the machine"),
        Some(_) => deny("it ends every process"),
        None => None,
    }
}
