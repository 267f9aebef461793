//! The rules about commands that come with glee.

use std::path::PathBuf;

use super::download::{downloaded_code, hidden_code, is_interpreter};
use super::overview::Overview;
use super::place::{Ground, Standing};
use super::system::{devices, disks, system_files, system_modes};
use crate::policy::{Case, Decision, Rule};
use crate::shell::{GAP, SHELLS, Simple, Word};

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
    pub(super) ground: Ground<'a>,
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
    pub(super) fn runs_any(&self, names: &[&str]) -> bool {
        self.command.runs_any(names)
    }

    pub(super) fn runs(&self, name: &str) -> bool {
        self.runs_any(&[name])
    }

    pub(super) fn has(&self, words: &[&str]) -> bool {
        self.command
            .args()
            .iter()
            .any(|it| words.contains(&it.text.as_str()))
    }

    pub(super) fn cwd(&self) -> Option<&str> {
        self.command.cwd.as_deref()
    }

    /// Where a word leads: as it stands, and after links.
    pub(super) fn paths(&self, word: &Word) -> Vec<PathBuf> {
        self.ground.paths(&word.text, self.cwd())
    }

    pub(super) fn is_project(&self, word: &Word) -> bool {
        self.paths(word).iter().all(|it| it == self.ground.root)
    }

    /// Whether it lies in a directory of the project.
    pub(super) fn is_within_project(&self, word: &Word) -> bool {
        let inside = |it: &PathBuf| {
            let inner = it.strip_prefix(self.ground.root);
            inner.is_ok_and(|it| it.components().count() > 1)
        };
        let paths = self.paths(word);
        !paths.is_empty() && paths.iter().all(inside)
    }

    /// Options and what is left, as GNU programs read them: in any order, up to `--`.
    pub(super) fn options(&self) -> (Vec<&str>, Vec<&Word>) {
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
}

pub(super) fn part(word: &Word, text: &str) -> Option<Word> {
    Some(Word {
        text: text.to_owned(),
        ..word.clone()
    })
}

/// Whether a short option is among these, alone or with others; or a long one, cut short or not.
pub(super) fn has_option(options: &[&str], short: &[char], long: &str) -> bool {
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

pub(super) fn shown(word: &Word) -> String {
    format!("`{}`", word.text.replace(GAP, "…"))
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
