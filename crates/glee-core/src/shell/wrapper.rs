//! Programs that start another one with the words they are given: what they start is a command too.

use super::expand::Value;
use super::grammar::Shell;
use super::{Flow, Redirect, Simple, Unreadable, Word};

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
    wrapper("env", "uCP", &["--unset", "--chdir"]).setting(),
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
        &["--root", "--wd", "--setuid", "--setgid"],
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
    wrapper("busybox", "", &[]),
    wrapper("toybox", "", &[]),
    wrapper(
        "parallel",
        "jNnILa",
        &["--jobs", "--max-args", "--arg-file"],
    ),
    wrapper(
        "xargs",
        "IinPLldaEes",
        &[
            "--max-args",
            "--max-procs",
            "--replace",
            "--delimiter",
            "--arg-file",
            "--max-lines",
            "--max-chars",
            "--eof",
        ],
    ),
    wrapper("ssh", "bcDEeFIiJLlmOopQRSWw", &[]).after(1),
];

struct Wrapper {
    name: &'static str,
    /// Short options whose value may be the next word.
    short: &'static str,
    /// The same for long ones.
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
        long,
        operands: 0,
        assignments: false,
    }
}

impl Wrapper {
    const fn after(self, operands: usize) -> Wrapper {
        Wrapper { operands, ..self }
    }

    const fn setting(self) -> Wrapper {
        Wrapper {
            assignments: true,
            ..self
        }
    }

    /// Where the command begins.
    fn command_at(&self, words: &[Word]) -> usize {
        let mut at = 1;
        let mut operands = self.operands;
        while let Some(word) = words.get(at) {
            let text = word.text.as_str();
            if text == "--" {
                at += 1;
                // What stands before the command may follow; the options are over.
                return (at + operands).min(words.len());
            }
            if text.starts_with("--") {
                at += if self.long.contains(&text) { 2 } else { 1 };
            } else if text.len() > 1 && text.starts_with('-') {
                let takes_next = text.ends_with(|c| self.short.contains(c)) && text.len() == 2
                    || text.len() > 2
                        && is_cluster(text)
                        && text.ends_with(|c| self.short.contains(c));
                at += if takes_next { 2 } else { 1 };
            } else if self.assignments && text.contains('=') && !text.starts_with('=') {
                at += 1;
            } else if operands > 0 {
                operands -= 1;
                at += 1;
            } else {
                break;
            }
        }
        at.min(words.len())
    }
}

/// `-nu` may be two options; `-n5` is one with its value.
fn is_cluster(text: &str) -> bool {
    text[1..].chars().all(|c| c.is_ascii_alphabetic())
}

/// Shells, which read their text as this one does.
pub(crate) const SHELLS: &[&str] = &[
    "sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish", "csh", "tcsh",
];

/// How a shell was called.
pub(crate) struct ShellCall<'a> {
    /// The text after `-c`, and what follows it.
    pub(crate) text: Option<(&'a Word, &'a [Word])>,
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
            text: Some((first, more)),
            file: None,
        },
        Some((first, _)) if !input && first.text != "/dev/stdin" => ShellCall {
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
    match WRAPPERS.iter().find(|it| it.name == name) {
        Some(wrapper) => &command.words[..wrapper.command_at(&command.words)],
        None => &command.words,
    }
}

/// Where among the words texts stand that are read as commands themselves.
pub(crate) fn read_words_of(words: &[Word]) -> Vec<usize> {
    let Some(program) = words.first() else {
        return Vec::new();
    };
    let name = program.text.rsplit('/').next().unwrap_or_default();
    if SHELLS.contains(&name) {
        let after = shell_call(words).text.map(|it| it.1.len());
        return after
            .map(|after| words.len() - after - 1)
            .into_iter()
            .collect();
    }
    if matches!(name, "eval" | "trap" | "alias") {
        return (1..words.len()).collect();
    }
    let Some(wrapper) = WRAPPERS.iter().find(|it| it.name == name) else {
        return Vec::new();
    };
    let at = wrapper.command_at(words);
    let inner = read_words_of(&words[at..]);
    inner.into_iter().map(|it| it + at).collect()
}

impl Shell {
    /// Takes note of what a command starts in turn, and of what it changes for those after it.
    pub(super) fn look_through(&mut self, index: usize) -> Result<(), Unreadable> {
        let command = self.script.commands[index].clone();
        let Some(program) = command.program() else {
            return Ok(());
        };
        let name = program.text.as_str();
        if self.keep_in_mind(name, &command) {
            return Ok(());
        }
        if SHELLS.contains(&name) {
            return self.run_shell(&command);
        }
        match name {
            "eval" => {
                let text = joined(command.args());
                return self.word_text(&text, &command.fed_by);
            }
            "su" | "runuser" | "script" | "flock" => {
                let text = after_option(&command.words, "-c", "--command");
                if let Some(text) = text {
                    let text = text.clone();
                    return self.word_text(&text, &command.fed_by);
                }
            }
            "env" => {
                let text = after_option(&command.words, "-S", "--split-string").cloned();
                let glued = command.args().iter().find_map(|it| {
                    let text = it
                        .text
                        .strip_prefix("-S")
                        .or(it.text.strip_prefix("--split-string="))?;
                    (!text.is_empty()).then(|| Word {
                        text: text.to_owned(),
                        ..it.clone()
                    })
                });
                if let Some(text) = text.or(glued) {
                    return self.word_text(&text, &command.fed_by);
                }
            }
            "trap" | "alias" => {
                for word in command.args() {
                    let text = match name {
                        "alias" => word.text.split_once('=').map_or("", |it| it.1),
                        _ => word.text.as_str(),
                    };
                    let text = Word {
                        text: text.to_owned(),
                        ..word.clone()
                    };
                    self.word_text(&text, &[])?;
                }
                return Ok(());
            }
            "find" | "gfind" | "fd" | "fdfind" => return self.run_find(index, &command),
            _ => {}
        }
        let Some(wrapper) = WRAPPERS.iter().find(|it| it.name == name) else {
            return Ok(());
        };
        let first = command.args().first().map_or("", |it| it.text.as_str());
        if name == "command" && first.starts_with("-") && first.contains(['v', 'V']) {
            return Ok(());
        }
        let at = wrapper.command_at(&command.words);
        let mut words = command.words[at..].to_vec();
        match name {
            "xargs" | "parallel" => self.append_input(&command, &mut words),
            // What is run there is one text, read by a shell.
            "ssh" | "watch" if words.len() == 1 => {
                return self.elsewhere(name == "ssh", |shell| {
                    shell.word_text(&words[0], &command.fed_by)
                });
            }
            "ssh" => {
                let text = joined(&words);
                return self.elsewhere(true, |shell| shell.word_text(&text, &command.fed_by));
            }
            _ => {}
        }
        self.start(index, &command, words)
    }

    /// The same input and place, other words.
    pub(super) fn start(
        &mut self,
        by: usize,
        command: &Simple,
        words: Vec<Word>,
    ) -> Result<(), Unreadable> {
        if words.is_empty() {
            return Ok(());
        }
        let texts = command.redirects.iter().filter(|it| it.flow == Flow::Text);
        let started = Simple {
            words,
            redirects: texts.cloned().collect::<Vec<Redirect>>(),
            fed_by: command.fed_by.clone(),
            background: command.background,
            cwd: command.cwd.clone(),
            started_by: Some(by),
        };
        self.spend(started.redirects.len() + started.fed_by.len())?;
        self.push(started)?;
        Ok(())
    }

    /// On another machine the directory is another.
    fn elsewhere(
        &mut self,
        is_remote: bool,
        read: impl FnOnce(&mut Shell) -> Result<(), Unreadable>,
    ) -> Result<(), Unreadable> {
        let cwd = self.cwd.clone();
        if is_remote {
            self.cwd = None;
        }
        let result = read(self);
        self.cwd = cwd;
        result
    }

    /// Whether the command only changes what holds for those after it.
    fn keep_in_mind(&mut self, name: &str, command: &Simple) -> bool {
        match name {
            "cd" | "pushd" => {
                let operand = command
                    .args()
                    .iter()
                    .find(|it| !it.text.starts_with('-') || it.text == "-");
                let directory = match operand {
                    None if name == "cd" => self.variable("HOME").and_then(|it| it.only()),
                    Some(word) if word.known && word.text != "-" => Some(word.text.clone()),
                    _ => None,
                };
                let directory = directory.and_then(|it| match (&self.cwd, it.starts_with('/')) {
                    (_, true) => Some(it),
                    (Some(cwd), false) => Some(format!("{cwd}/{it}")),
                    (None, false) => None,
                });
                self.cwd = directory.map(Into::into);
                self.variables.remove("PWD");
            }
            "export" | "declare" | "local" | "readonly" | "typeset" => {
                for word in command.args() {
                    if let Some((name, text)) = word.text.split_once('=') {
                        let mut value = Value::any_of(vec![Word {
                            text: text.to_owned(),
                            ..word.clone()
                        }]);
                        if let Some(name) = name.strip_suffix('+')
                            && let Some(before) = self.variable(name)
                        {
                            value = before.then(value);
                        }
                        self.set(name.trim_end_matches('+'), value);
                    }
                }
            }
            "set" => {
                let after = command.words.iter().position(|it| it.text == "--");
                if let Some(at) = after {
                    self.set_arguments(&command.words[at + 1..]);
                }
            }
            "read" | "unset" | "mapfile" | "readarray" => {
                for word in command.args() {
                    self.variables.insert(word.text.clone(), Value::gap());
                }
            }
            _ => return false,
        }
        true
    }

    fn set_arguments(&mut self, words: &[Word]) {
        for at in 1..=9 {
            let value = match words.get(at - 1) {
                Some(word) => Value::any_of(vec![word.clone()]),
                None => Value::literal(""),
            };
            self.variables.insert(at.to_string(), value);
        }
        for name in ["@", "*"] {
            self.variables
                .insert(name.to_owned(), Value::any_of(words.to_vec()));
        }
    }

    fn run_shell(&mut self, command: &Simple) -> Result<(), Unreadable> {
        let call = shell_call(&command.words);
        if let Some((text, arguments)) = call.text {
            let outer = self.variables.clone();
            // The first word after the text is what the shell calls itself.
            self.set_arguments(arguments.get(1..).unwrap_or_default());
            let (text, cwd) = (text.clone(), self.cwd.clone());
            self.word_text(&text, &command.fed_by)?;
            self.variables = outer;
            self.cwd = cwd;
        } else if call.file.is_none()
            && let Some(text) = self.input_of(command)
        {
            self.word_text(&text, &[])?;
        }
        Ok(())
    }

    /// What comes in becomes words of what `xargs` starts.
    fn append_input(&self, command: &Simple, words: &mut Vec<Word>) {
        let mark = replacement(&command.words);
        let input = self.input_of(command).filter(|it| it.known);
        let input: Vec<Word> = match input {
            Some(text) => text.text.split_whitespace().map(Word::literal).collect(),
            None => vec![Word {
                made_by: command.fed_by.clone(),
                ..Word::gap()
            }],
        };
        let Some(mark) = mark else {
            words.extend(input);
            return;
        };
        let before = std::mem::take(words);
        for word in before {
            if !word.text.contains(&mark) {
                words.push(word);
                continue;
            }
            words.extend(input.iter().map(|it| Word {
                text: word.text.replace(&mark, &it.text),
                known: word.known && it.known,
                glob: word.glob,
                made_by: it.made_by.clone(),
            }));
        }
    }
}

/// What `xargs -I {}` replaces.
fn replacement(words: &[Word]) -> Option<String> {
    for (at, word) in words.iter().enumerate().skip(1) {
        if !word.text.starts_with('-') {
            return None;
        }
        if let Some(mark) = word.text.strip_prefix("-I") {
            return match mark {
                "" => words.get(at + 1).map(|it| it.text.clone()),
                mark => Some(mark.to_owned()),
            };
        }
        if matches!(word.text.as_str(), "-i" | "--replace") {
            return Some("{}".to_owned());
        }
    }
    None
}

fn after_option<'a>(words: &'a [Word], short: &str, long: &str) -> Option<&'a Word> {
    let at = words
        .iter()
        .position(|it| it.text == short || it.text == long)?;
    words.get(at + 1)
}

/// The words as one text, as `eval` reads them.
fn joined(words: &[Word]) -> Word {
    Word {
        text: words
            .iter()
            .map(|it| it.text.as_str())
            .collect::<Vec<_>>()
            .join(" "),
        known: words.iter().all(|it| it.known),
        glob: false,
        made_by: words.iter().flat_map(|it| it.made_by.clone()).collect(),
    }
}
