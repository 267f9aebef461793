//! The rules about commands that come with glee.

use std::path::Path;

use super::download::{downloaded_code, hidden_code, is_interpreter};
use super::overview::Overview;
use super::place::{Ground, Standing, absolute, is_device, is_of_the_system};
use crate::policy::{Case, Decision, Rule};
use crate::shell::{Flow, SHELLS, Simple, Word};

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

    fn path(&self, word: &Word) -> Option<std::path::PathBuf> {
        absolute(&word.text, self.cwd())
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

    /// Files that the command writes to: by redirection, and by what it is.
    fn written(&self) -> Vec<&Word> {
        let redirects = self.command.redirects.iter();
        let mut written: Vec<&Word> = redirects
            .filter(|it| it.flow == Flow::Out)
            .map(|it| &*it.target)
            .collect();
        let (_, operands) = self.options();
        if self.runs_any(&["tee", "truncate", "shred"]) {
            written.extend(operands);
        } else if self.runs_any(&["cp", "mv", "install", "ln", "rsync"]) {
            written.extend(operands.last());
        }
        written
    }
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
    // A program that only the run could tell is taken for `rm` when it is called as only `rm` is.
    let program = sight.command.words.first()?;
    let may_be_rm = !program.known && program.text.chars().all(|c| c == crate::shell::GAP);
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
        let found = match sight.ground.standing(operand, sight.cwd()) {
            Standing::Vital => return deny(format!("it would delete {what} and everything in it")),
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
    format!("`{}`", word.text.replace(crate::shell::GAP, "…"))
}

fn disks(sight: &Sight<'_>) -> Option<Decision> {
    const LOOK: &[&str] = &[
        "-l",
        "--list",
        "-h",
        "--help",
        "-V",
        "--version",
        "-n",
        "--no-act",
        "print",
        "list",
    ];
    const TOOLS: &[&str] = &[
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
    let name = sight.command.program()?;
    let is_tool = sight.runs_any(TOOLS) || name.text.starts_with("mkfs");
    if is_tool && !sight.has(LOOK) && !sight.command.args().is_empty() {
        return deny(format!("{} changes a disk", shown(&name)));
    }
    if sight.runs("cryptsetup") && sight.has(&["luksFormat", "erase", "luksErase"]) {
        return deny("it formats a disk");
    }
    if sight.runs("zpool") && sight.has(&["destroy", "create", "labelclear"]) {
        return deny("it changes a pool of disks");
    }
    None
}

fn devices(sight: &Sight<'_>) -> Option<Decision> {
    let mut written: Vec<String> = sight.written().iter().map(|it| it.text.clone()).collect();
    if sight.runs("dd") {
        let outputs = sight
            .command
            .args()
            .iter()
            .filter_map(|it| it.text.strip_prefix("of="));
        written.extend(outputs.map(str::to_owned));
    }
    let device = written
        .iter()
        .find(|it| absolute(it, sight.cwd()).is_some_and(|it| is_device(&it)))?;
    deny(format!("it writes to the device `{device}`"))
}

fn system_files(sight: &Sight<'_>) -> Option<Decision> {
    let mut written = sight.written();
    if sight.runs_any(&["sed", "perl"])
        && sight
            .command
            .args()
            .iter()
            .any(|it| it.text.starts_with("-i"))
    {
        written.extend(sight.options().1);
    }
    let file = written.into_iter().find(|it| {
        sight
            .path(it)
            .is_some_and(|it| is_of_the_system(&it) || it == Path::new("/dev"))
    })?;
    deny(format!(
        "it writes to {}, which belongs to the system",
        shown(file)
    ))
}

fn system_modes(sight: &Sight<'_>) -> Option<Decision> {
    if !sight.runs_any(&["chmod", "chown", "chgrp"]) {
        return None;
    }
    let (options, operands) = sight.options();
    let recursive = has_option(&options, &['R'], "recursive");
    for operand in operands.iter().skip(1) {
        let path = sight.path(operand)?;
        let vital = sight.ground.standing(operand, sight.cwd()) == Standing::Vital;
        // `chmod -R u+w .` is housekeeping.
        if recursive && vital && !path.starts_with(sight.ground.root) {
            return deny(format!(
                "it changes the modes of {} and of everything in it",
                shown(operand)
            ));
        }
    }
    None
}

fn remote_shell(sight: &Sight<'_>) -> Option<Decision> {
    let connects =
        |word: &Word| word.text.starts_with("/dev/tcp/") || word.text.starts_with("/dev/udp/");
    let redirected = sight
        .command
        .redirects
        .iter()
        .any(|it| connects(&it.target));
    let shell = sight.runs_any(SHELLS) || sight.runs("exec");
    if redirected && shell {
        return deny("it gives a shell to a network connection");
    }
    let netcat = sight.runs_any(&["nc", "ncat", "netcat"]);
    let executes = sight.command.args().iter().any(|it| {
        matches!(it.text.as_str(), "--exec" | "--sh-exec")
            || it.text.starts_with('-')
                && !it.text.starts_with("--")
                && it.text.ends_with(['e', 'c'])
    });
    let socat = sight.runs("socat")
        && sight
            .command
            .args()
            .iter()
            .any(|it| it.text.to_ascii_lowercase().starts_with("exec:"));
    match netcat && executes || socat {
        true => deny("it gives a program to a network connection"),
        false => None,
    }
}

fn fork_bomb(sight: &Sight<'_>) -> Option<Decision> {
    let calls = |range| sight.overview.calls_of_itself(range) > 0;
    let fed_by_itself = || sight.command.fed_by.iter().any(|it| calls(it.clone()));
    if calls(sight.index..sight.index + 1) && (sight.command.background || fed_by_itself()) {
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

fn power(sight: &Sight<'_>) -> Option<Decision> {
    let only_asks = sight.has(&["--help", "--version", "-c", "--show"]);
    let ends = sight.runs_any(&["shutdown", "reboot", "halt", "poweroff"]) && !only_asks
        || sight.runs_any(&["init", "telinit"])
            && sight.command.args().len() == 1
            && sight.has(&["0", "1", "6", "s", "S"])
        || sight.runs("systemctl")
            && sight.has(&[
                "poweroff",
                "reboot",
                "halt",
                "kexec",
                "emergency",
                "rescue",
                "suspend",
                "hibernate",
            ]);
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
        ["-s" | "-n" | "--signal", _, rest @ ..] => rest,
        ["-l" | "-L", ..] => &[],
        [first, rest @ ..] if first.starts_with('-') => rest,
        all => all,
    };
    match targets.iter().find(|it| matches!(**it, "-1" | "1")) {
        Some(&"1") => deny("it ends the first process, and with it the machine"),
        Some(_) => deny("it ends every process"),
        None => None,
    }
}
