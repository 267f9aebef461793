//! Programs that start another one with the words they are given: what they start is a command too.

use super::{Simple, Word};

/// Programs whose words, after options, are another command.
const WRAPPERS: &[Wrapper] = &[
    wrapper("builtin", "", &[]),
    wrapper("command", "", &[]),
    wrapper("exec", "a", &[]),
    wrapper("nohup", "", &[]),
    wrapper("setsid", "", &[]),
    wrapper("nice", "n", &["--adjustment"]),
    wrapper("ionice", "cnpPu", &["--class", "--classdata"]),
    wrapper("chrt", "TPD", &[]).after(1),
    wrapper("taskset", "", &[]).after(1),
    wrapper("time", "fo", &["--format", "--output"]),
    wrapper("timeout", "sk", &["--signal", "--kill-after"]).after(1),
    wrapper("stdbuf", "ioe", &["--input", "--output", "--error"]),
    wrapper("unbuffer", "", &[]),
    wrapper("env", "uCPS", &["--unset", "--chdir", "--split-string"]).setting(),
    wrapper(
        "sudo",
        "ughpCrtTUDRa",
        &[
            "--user",
            "--group",
            "--host",
            "--prompt",
            "--chdir",
            "--chroot",
            "--role",
            "--type",
            "--other-user",
            "--close-from",
            "--command-timeout",
        ],
    )
    .setting(),
    wrapper("doas", "uC", &[]),
    wrapper("pkexec", "", &["--user"]),
    wrapper("runuser", "ugG", &["--user", "--group"]),
    wrapper("chroot", "", &[]).after(1),
    wrapper(
        "unshare",
        "SGR",
        &["--root", "--wd", "--setuid", "--setgid", "--setgroups"],
    ),
    wrapper("nsenter", "tSG", &["--target", "--setuid", "--setgid"]),
    wrapper("setpriv", "", &["--reuid", "--regid", "--groups"]),
    wrapper(
        "systemd-run",
        "puEtM",
        &[
            "--property",
            "--unit",
            "--setenv",
            "--machine",
            "--uid",
            "--gid",
            "--slice",
            "--description",
        ],
    ),
    wrapper("strace", "eopsPEuIOSXabn", &[]),
    wrapper("ltrace", "eoplansuxAF", &[]),
    wrapper(
        "flock",
        "wE",
        &["--timeout", "--wait", "--conflict-exit-code"],
    )
    .after(1),
    wrapper("watch", "nq", &["--interval"]),
    wrapper("caffeinate", "tw", &[]),
    wrapper("proxychains", "f", &[]),
    wrapper("proxychains4", "f", &[]),
    wrapper("xvfb-run", "nefsp", &[]),
    wrapper("fakeroot", "lsib", &[]),
    wrapper("gosu", "", &[]).after(1),
    wrapper("prlimit", "", &[]),
    wrapper("screen", "cehLpsSTtxX", &[]),
    wrapper("busybox", "", &[]),
    wrapper("toybox", "", &[]),
    wrapper(
        "parallel",
        "jNnILa",
        &["--jobs", "--max-args", "--arg-file"],
    ),
    wrapper(
        "xargs",
        "InPLdaEs",
        &[
            "--max-args",
            "--max-procs",
            "--delimiter",
            "--arg-file",
            "--max-chars",
        ],
    )
    .may_have("ile"),
    wrapper("ssh", "bcDEeFIiJLlmOopQRSWw", &[]).after(1),
];

pub(super) struct Wrapper {
    name: &'static str,
    /// Short options whose value may be the next word.
    short: &'static str,
    /// Short options whose value, if there is one, is glued to them.
    glued: &'static str,
    /// Long options whose value may be the next word.
    long: &'static [&'static str],
    /// Words of its own before the command.
    operands: usize,
    /// Whether `x=1` may stand before the command.
    assignments: bool,
}

const fn wrapper(
    name: &'static str,
    short: &'static str,
    long: &'static [&'static str],
) -> Wrapper {
    Wrapper {
        name,
        short,
        glued: "",
        long,
        operands: 0,
        assignments: false,
    }
}

/// How a wrapper was called.
#[derive(Default)]
pub(super) struct Call {
    /// Letters and long names with their values.
    options: Vec<(String, Option<Word>)>,
    /// `x=1`, before the command.
    pub(super) settings: Vec<Word>,
    /// Where the command begins.
    pub(super) at: usize,
    /// Whether the word there may be the value of an option instead.
    pub(super) doubtful: bool,
}

impl Call {
    /// The value of the first of these options that is given, if it has one.
    pub(super) fn value(&self, names: &[&str]) -> Option<&Word> {
        let (_, value) = self.options.iter().find(|it| names.contains(&&*it.0))?;
        value.as_ref()
    }

    pub(super) fn has(&self, names: &[&str]) -> bool {
        self.options.iter().any(|it| names.contains(&&*it.0))
    }
}

impl Wrapper {
    const fn after(self, operands: usize) -> Wrapper {
        Wrapper { operands, ..self }
    }

    const fn may_have(self, glued: &'static str) -> Wrapper {
        Wrapper { glued, ..self }
    }

    const fn setting(self) -> Wrapper {
        Wrapper {
            assignments: true,
            ..self
        }
    }

    /// `docker exec`
    pub(super) const fn of_exec() -> Wrapper {
        wrapper(
            "exec",
            "euw",
            &["--env", "--env-file", "--user", "--workdir"],
        )
        .after(1)
    }

    pub(super) fn named(name: &str) -> Option<&'static Wrapper> {
        WRAPPERS.iter().find(|it| it.name == name)
    }

    pub(super) fn call(&self, words: &[Word]) -> Call {
        let mut call = Call {
            at: 1,
            ..Call::default()
        };
        let (mut operands, mut over) = (self.operands, false);
        while let Some(word) = words.get(call.at) {
            let text = word.text.as_str();
            let next = words.get(call.at + 1);
            let is_option = !over && text.len() > 1 && text.starts_with('-');
            if is_option && text == "--" {
                over = true;
            } else if is_option && text.starts_with("--") {
                self.long_option(word, next, &mut call);
            } else if is_option {
                self.short_options(word, next, &mut call);
            } else if self.assignments && !over && text == "-" {
                call.options.push(("i".to_owned(), None));
            } else if self.assignments && text.contains('=') && !text.starts_with('=') {
                call.settings.push(word.clone());
                call.doubtful = false;
            } else if operands > 0 {
                operands -= 1;
                call.doubtful = false;
            } else {
                break;
            }
            call.at += 1;
            // What `env -S` splits comes before all that follows.
            if call.has(&["S", "split-string"]) && self.name == "env" {
                break;
            }
        }
        call.at = call.at.min(words.len());
        call
    }

    fn long_option(&self, word: &Word, next: Option<&Word>, call: &mut Call) {
        let (name, value) = match word.text.split_once('=') {
            Some((name, value)) => (name, Some(cut(word, value))),
            None => (word.text.as_str(), None),
        };
        let takes_next = value.is_none() && self.long.contains(&name);
        call.doubtful = value.is_none() && !takes_next;
        let value = value.or(next.filter(|_| takes_next).cloned());
        call.options.push((name[2..].to_owned(), value));
        call.at += usize::from(takes_next);
    }

    /// `-n`, `-nu 5`, `-nu5`.
    fn short_options(&self, word: &Word, next: Option<&Word>, call: &mut Call) {
        call.doubtful = false;
        for (at, c) in word.text.char_indices().skip(1) {
            let glued = &word.text[at + c.len_utf8()..];
            let glued = (!glued.is_empty()).then(|| cut(word, glued));
            let name = c.to_string();
            if self.short.contains(c) {
                call.at += usize::from(glued.is_none());
                call.options.push((name, glued.or(next.cloned())));
                return;
            }
            if self.glued.contains(c) {
                call.options.push((name, glued));
                return;
            }
            call.options.push((name, None));
        }
    }
}

/// A part of a word.
pub(super) fn cut(word: &Word, text: &str) -> Word {
    Word {
        text: text.to_owned(),
        ..word.clone()
    }
}

/// The value of an option that may stand anywhere: `-c x`, `-qc x`, `-cx`, `--command x`,
/// `--command=x`.
pub(super) fn value_of(words: &[Word], short: char, long: &str) -> Option<Word> {
    for (at, word) in words.iter().enumerate().skip(1) {
        let next = || words.get(at + 1).cloned();
        if let Some(name) = word.text.strip_prefix("--") {
            match name.split_once('=') {
                Some((name, value)) if name == long => return Some(cut(word, value)),
                None if name == long => return next(),
                _ => {}
            }
        } else if let Some(letters) = word.text.strip_prefix('-')
            && let Some((_, value)) = letters.split_once(short)
        {
            return match value {
                "" => next(),
                value => Some(cut(word, value)),
            };
        }
    }
    None
}

/// Shells, which read their text as this one does.
pub(crate) const SHELLS: &[&str] = &[
    "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "csh", "tcsh", "yash",
    "bash4", "bash5", "zsh5", "ksh93",
];

/// Names of the standard input.
pub(crate) const INPUT: &[&str] = &["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"];

/// How a shell was called.
pub(crate) struct ShellCall<'a> {
    /// The text after `-c`, and what follows it.
    pub(crate) text: Option<(Word, &'a [Word])>,
    /// The file it runs.
    pub(crate) file: Option<&'a Word>,
}

/// Neither a text nor a file: it runs what comes in.
pub(crate) fn shell_call(words: &[Word]) -> ShellCall<'_> {
    let (mut at, mut text, mut input) = (1, false, false);
    while let Some(word) = words.get(at) {
        let option = word.text.as_str();
        if option == "--" || option == "-" {
            at += 1;
            break;
        }
        if let Some(long) = option.strip_prefix("--") {
            if let Some(glued) = long.strip_prefix("command=") {
                return ShellCall {
                    text: Some((cut(word, glued), &words[at + 1..])),
                    file: None,
                };
            }
            text |= long == "command";
            at += if matches!(long, "rcfile" | "init-file") {
                2
            } else {
                1
            };
        } else if option.len() > 1 && option.starts_with(['-', '+']) {
            text |= option.starts_with('-') && option.contains('c');
            input |= option.starts_with('-') && option.contains('s');
            at += if option.ends_with(['o', 'O']) { 2 } else { 1 };
        } else {
            break;
        }
    }
    let rest = words.get(at..).unwrap_or_default();
    match rest.split_first() {
        Some((first, more)) if text => ShellCall {
            text: Some((first.clone(), more)),
            file: None,
        },
        Some((first, _)) if !input && !INPUT.contains(&first.text.as_str()) => ShellCall {
            text: None,
            file: Some(first),
        },
        _ => ShellCall {
            text: None,
            file: None,
        },
    }
}

/// The words that are the program's own, and not those of the command it starts.
pub(crate) fn own_words(command: &Simple) -> &[Word] {
    let name = command.program().map(|it| it.text).unwrap_or_default();
    match Wrapper::named(&name) {
        Some(wrapper) => &command.words[..wrapper.call(&command.words).at],
        None => &command.words,
    }
}

/// Where among the words texts stand that are read as commands themselves.
pub(crate) fn read_words_of(words: &[Word]) -> Vec<usize> {
    let mut at = 0;
    while let Some(program) = words.get(at) {
        let rest = &words[at..];
        let name = program.text.rsplit('/').next().unwrap_or_default();
        if SHELLS.contains(&name) {
            let after = shell_call(rest).text.map(|it| it.1.len());
            let text = after.map(|after| words.len() - after - 1);
            return text.into_iter().collect();
        }
        if matches!(name, "eval" | "trap" | "alias") {
            return (at + 1..words.len()).collect();
        }
        match Wrapper::named(name) {
            Some(wrapper) => at += wrapper.call(rest).at.max(1),
            None => break,
        }
    }
    Vec::new()
}

/// A name among those looked through that a word may be, where it is not all known.
pub(super) fn name_that_fits(program: &Word) -> Option<&'static str> {
    let others = ["eval", "source", "su", "find"];
    let wrappers = WRAPPERS.iter().map(|it| it.name);
    SHELLS
        .iter()
        .copied()
        .chain(others)
        .chain(wrappers)
        .find(|name| super::matches(&program.text, name, program))
}
