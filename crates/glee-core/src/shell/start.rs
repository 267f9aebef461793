//! What a command starts in turn: by being a shell, a wrapper, a function or an alias.

use super::grammar::Shell;
use super::wrapper::{SHELLS, Wrapper, cut, name_that_fits, shell_call, value_of};
use super::{Flow, GAP, INPUT, Redirect, Simple, Unreadable, Word};

impl Shell {
    /// Takes note of what a command starts in turn, and of what it changes for those after it.
    pub(super) fn look_through(&mut self, index: usize) -> Result<(), Unreadable> {
        let command = self.script.commands[index].clone();
        let Some(program) = command.program() else {
            return Ok(());
        };
        self.remember_file(&command)?;
        if !program.known && program.text.chars().all(|c| c == GAP) {
            // It may be nothing, or a wrapper.
            return self.start(index, &command, command.args().to_vec());
        }
        let name = match program.known && !program.glob {
            true => program.text.as_str(),
            false => name_that_fits(&program).unwrap_or(&program.text),
        };
        self.follow(name, &command)?;
        if self.keep_in_mind(name, &command)? {
            return Ok(());
        }
        if SHELLS.contains(&name) {
            return self.run_shell(&command);
        }
        match name {
            "eval" => {
                let text = joined(command.args());
                self.word_text(&text, &command.fed_by)
            }
            "source" | "." => self.run_file(command.args().first(), &command),
            "su" | "sg" => match value_of(&command.words, 'c', "command") {
                Some(text) => self.word_text(&text, &command.fed_by),
                None => self.run_input(&command),
            },
            "script" => match value_of(&command.words, 'c', "command") {
                Some(text) => self.word_text(&text, &command.fed_by),
                None => Ok(()),
            },
            "at" | "batch" => self.run_input(&command),
            "trap" | "alias" => self.run_later(name, &command),
            "find" | "gfind" | "fd" | "fdfind" => self.run_find(index, &command),
            "git" => self.run_git(index, &command),
            "docker" | "podman" => self.run_in_container(index, &command),
            "tmux" => match command.args().last() {
                Some(text) if text.text.contains(' ') => self.word_text(text, &[]),
                _ => Ok(()),
            },
            "tar" | "gtar" => {
                let action = value_of(&command.words, '\0', "checkpoint-action");
                match action.as_ref().and_then(|it| it.text.strip_prefix("exec=")) {
                    Some(text) => self.word_text(&cut(&Word::gap(), text), &[]),
                    None => Ok(()),
                }
            }
            _ => match Wrapper::named(name) {
                Some(wrapper) => self.run_wrapper(index, name, wrapper, &command),
                None => Ok(()),
            },
        }
    }

    fn run_wrapper(
        &mut self,
        index: usize,
        name: &str,
        wrapper: &Wrapper,
        command: &Simple,
    ) -> Result<(), Unreadable> {
        let first = command.args().first().map_or("", |it| it.text.as_str());
        if name == "command" && first.starts_with('-') && first.contains(['v', 'V']) {
            return Ok(());
        }
        let call = wrapper.call(&command.words);
        let words = command.words[call.at..].to_vec();
        match name {
            "runuser" | "flock" => {
                if let Some(text) = value_of(&command.words, 'c', "command") {
                    return self.word_text(&text, &command.fed_by);
                }
            }
            "xargs" => return self.run_xargs(index, &call, command, words),
            "parallel" => return self.run_parallel(index, command, words),
            "ssh" => {
                let proxy = value_of(&command.words, 'o', "")
                    .and_then(|it| Some(cut(&it, it.text.strip_prefix("ProxyCommand=")?)));
                if let Some(text) = proxy {
                    self.word_text(&text, &[])?;
                }
                return self.apart(|shell| {
                    // On another machine the directory is another.
                    shell.go(None);
                    shell.run_words(command, &words)
                });
            }
            "watch" => return self.run_words(command, &words),
            "sudo" if words.is_empty() && call.has(&["s", "i", "shell", "login"]) => {
                return self.run_input(command);
            }
            _ => {}
        }
        self.apart(|shell| {
            for word in &call.settings {
                if let Some((name, value)) = word.text.split_once('=') {
                    shell.spend(word.text.len())?;
                    shell.assign(name, Some(Word::into_value(cut(word, value))));
                }
            }
            if let Some(place) = call.value(&["C", "D", "chdir"]).filter(|_| name != "doas") {
                shell.go(Some(&place.text)
                    .filter(|_| place.known)
                    .map(String::as_str));
            }
            let command = Simple {
                cwd: shell.cwd(),
                ..command.clone()
            };
            if let Some(text) = call.value(&["S", "split-string"]).filter(|_| name == "env") {
                let mut all = vec![text.clone()];
                all.extend(words);
                return shell.run_words(&command, &all);
            }
            if call.doubtful && words.len() > 1 {
                shell.start(index, &command, words[1..].to_vec())?;
            }
            shell.start(index, &command, words)
        })
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
        let started = Simple {
            words,
            redirects: texts_of(command),
            fed_by: command.fed_by.clone(),
            background: command.background,
            cwd: command.cwd.clone(),
            settings: command.settings,
            started_by: Some(by),
        };
        self.spend(started.redirects.len() + started.fed_by.len())?;
        self.push(started)?;
        Ok(())
    }

    /// Words that a shell reads as one text; without any it reads what comes in.
    fn run_words(&mut self, command: &Simple, words: &[Word]) -> Result<(), Unreadable> {
        if words.is_empty() {
            return self.run_input(command);
        }
        let start = self.script.commands.len();
        self.word_text(&joined(words), &command.fed_by)?;
        self.give(start, &texts_of(command))
    }

    fn run_input(&mut self, command: &Simple) -> Result<(), Unreadable> {
        match self.input_of(command) {
            Some(text) => self.word_text(&text, &[]),
            None => Ok(()),
        }
    }

    fn run_shell(&mut self, command: &Simple) -> Result<(), Unreadable> {
        let call = shell_call(&command.words);
        let Some((text, arguments)) = call.text else {
            return self.apart(|shell| shell.run_file(call.file, command));
        };
        self.apart(|shell| {
            // The first word after the text is what the shell calls itself.
            shell.set_arguments(arguments.get(1..).unwrap_or_default())?;
            let start = shell.script.commands.len();
            shell.word_text(&text, &command.fed_by)?;
            shell.give(start, &texts_of(command))
        })
    }

    /// A file that was written in the same line, or what comes in.
    fn run_file(&mut self, file: Option<&Word>, command: &Simple) -> Result<(), Unreadable> {
        let Some(file) = file.filter(|it| !INPUT.contains(&it.text.as_str())) else {
            return self.run_input(command);
        };
        // `bash <(echo …)`
        if let [range] = file.made_by.as_slice()
            && let Some(text) = self.output_of(range.clone())
        {
            return self.word_text(&Word::literal(text), &[]);
        }
        match self.files.get(&file.text).cloned() {
            Some(text) if file.known => self.word_text(&text, &command.fed_by),
            _ => Ok(()),
        }
    }

    /// What `trap` and `alias` are given runs at another time.
    fn run_later(&mut self, name: &str, command: &Simple) -> Result<(), Unreadable> {
        for word in command.args() {
            if name == "trap" {
                self.word_text(word, &[])?;
            } else if let Some((name, text)) = word.text.split_once('=') {
                let text = cut(word, text);
                self.word_text(&text, &[])?;
                let with_words = format!("{} \"$@\"", text.text);
                self.define(name, cut(&text, &with_words));
            }
        }
        Ok(())
    }

    /// `git -c alias.x='!…'`, `git submodule foreach …`, `git bisect run …`.
    fn run_git(&mut self, index: usize, command: &Simple) -> Result<(), Unreadable> {
        let args = command.args();
        for word in args.iter().filter(|it| it.text.starts_with("alias.")) {
            if let Some((_, text)) = word.text.split_once("=!") {
                self.word_text(&cut(word, text), &[])?;
            }
        }
        let runs = |first: &str, second: &str| {
            let pair = args
                .windows(2)
                .position(|it| it[0].text == first && it[1].text == second);
            pair.map(|at| args[at + 2..].to_vec())
        };
        if let Some(words) = runs("submodule", "foreach") {
            return self.run_words(command, &words);
        }
        match runs("bisect", "run") {
            Some(words) => self.start(index, command, words),
            None => Ok(()),
        }
    }

    /// `docker exec -it name …`; what a container has is not what is here, but it is somebody's.
    fn run_in_container(&mut self, index: usize, command: &Simple) -> Result<(), Unreadable> {
        const EXEC: Wrapper = Wrapper::of_exec();
        match command.args().first() {
            Some(first) if first.text == "exec" => {
                let at = EXEC.call(command.args()).at;
                let words = command.args()[at..].to_vec();
                let command = Simple {
                    cwd: None,
                    ..command.clone()
                };
                self.start(index, &command, words)
            }
            _ => Ok(()),
        }
    }

    /// Keeps what is written to a file, when it is known: a shell may run it later.
    fn remember_file(&mut self, command: &Simple) -> Result<(), Unreadable> {
        let mut targets: Vec<String> = command
            .redirects
            .iter()
            .filter(|it| it.flow == Flow::Out && it.target.known)
            .map(|it| it.target.text.clone())
            .collect();
        if command.runs("tee") {
            let files = command.args().iter().filter(|it| !it.text.starts_with('-'));
            targets.extend(files.map(|it| it.text.clone()));
        }
        if targets.is_empty() {
            return Ok(());
        }
        if let Some(text) = self.printed_by(command) {
            self.spend(text.len())?;
            let text = std::sync::Arc::new(Word::literal(text));
            for file in targets {
                self.files.insert(file, text.clone());
            }
        }
        Ok(())
    }
}

fn texts_of(command: &Simple) -> Vec<Redirect> {
    let texts = command.redirects.iter().filter(|it| it.flow == Flow::Text);
    texts.cloned().collect()
}

/// The words as one text, as `eval` reads them.
fn joined(words: &[Word]) -> Word {
    let texts: Vec<&str> = words.iter().map(|it| it.text.as_str()).collect();
    Word {
        text: texts.join(" "),
        known: words.iter().all(|it| it.known),
        glob: false,
        made_by: words.iter().flat_map(|it| it.made_by.clone()).collect(),
    }
}
