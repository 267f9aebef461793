//! What is told of all commands of a script at once, so that no rule looks at all of them again for
//! each of them.

use std::cell::OnceCell;
use std::collections::HashMap;
use std::ops::Range;

use super::download::{decodes, downloads, runs_what_comes_in, saved_as};
use crate::shell::{Flow, Script, Simple, Word};

pub(super) struct Overview<'a> {
    script: &'a Script,
    downloaded: OnceCell<Origin>,
    decoded: OnceCell<Origin>,
    of_shells: OnceCell<Origin>,
    /// How many of the commands before each one are calls of the function they stand in.
    calls_before: OnceCell<Vec<usize>>,
}

impl<'a> Overview<'a> {
    pub(super) fn new(script: &'a Script) -> Overview<'a> {
        Overview {
            script,
            downloaded: OnceCell::new(),
            decoded: OnceCell::new(),
            of_shells: OnceCell::new(),
            calls_before: OnceCell::new(),
        }
    }

    pub(super) fn downloaded(&self) -> &Origin {
        self.downloaded
            .get_or_init(|| Origin::of(self.script, downloads))
    }

    pub(super) fn decoded(&self) -> &Origin {
        self.decoded
            .get_or_init(|| Origin::of(self.script, decodes))
    }

    /// What shells print that are told by others what to run.
    pub(super) fn of_shells(&self) -> &Origin {
        self.of_shells
            .get_or_init(|| Origin::of(self.script, runs_what_comes_in))
    }

    /// How many of these commands are calls of the function they stand in.
    pub(super) fn calls_of_itself(&self, range: Range<usize>) -> usize {
        let before = self.calls_before.get_or_init(|| {
            let commands = &self.script.commands;
            let mut calls = vec![false; commands.len()];
            // Functions stand in each other only so deep, so this is no square.
            for function in &self.script.functions {
                for at in function.body.clone() {
                    calls[at] |= is_called(&commands[at], &function.name);
                }
            }
            let mut before = vec![0; commands.len() + 1];
            for (at, call) in calls.into_iter().enumerate() {
                before[at + 1] = before[at] + usize::from(call);
            }
            before
        });
        let last = before.len() - 1;
        before[range.end.min(last)].saturating_sub(before[range.start.min(last)])
    }
}

fn is_called(command: &Simple, name: &str) -> bool {
    command.words.first().is_some_and(|it| it.text == name)
}

/// Where some commands of one kind give their output: to other commands, and to files.
pub(super) struct Origin {
    /// How many of the commands before each one print something of it; the last counts all.
    before: Vec<usize>,
    /// The names of files that hold something of it, and the first command that wrote there.
    saved: HashMap<String, usize>,
    /// Commands that were looked at, each time they were.
    #[cfg(test)]
    pub(super) steps: usize,
}

/// How often all commands are gone through. Each time, what they print is followed through every
/// pipe that leads on, and one `>( … )` that leads back.
const MAX_PASSES: usize = 32;

impl Origin {
    fn of(script: &Script, is_source: fn(&Simple) -> bool) -> Origin {
        let count = script.commands.len();
        let mut origin = Origin {
            before: vec![0; count + 1],
            saved: HashMap::new(),
            #[cfg(test)]
            steps: 0,
        };
        let mut prints = vec![false; count];
        let sources: Vec<usize> = (0..count)
            .filter(|at| is_source(&script.commands[*at]))
            .collect();
        if sources.is_empty() {
            return origin;
        }
        for at in sources {
            prints[at] = true;
        }
        for _ in 0..MAX_PASSES {
            let mut changed = false;
            for (at, command) in script.commands.iter().enumerate() {
                #[cfg(test)]
                {
                    origin.steps += 1;
                }
                if !prints[at] && origin.comes_to(command, at) {
                    prints[at] = true;
                    changed = true;
                }
                if prints[at] {
                    for name in saved_as(command) {
                        origin.saved.entry(name).or_insert(at);
                    }
                }
                let before = origin.before[at] + usize::from(prints[at]);
                changed |= origin.before[at + 1] != before;
                origin.before[at + 1] = before;
            }
            if !changed {
                return origin;
            }
        }
        // Nobody writes so; then it may come from anywhere.
        origin.before = (0..=count).collect();
        origin
    }

    /// Whether a command is given some of it, by whatever way.
    fn comes_to(&self, command: &Simple, index: usize) -> bool {
        self.feeds(command, index) || command.words.iter().any(|it| self.is_in(it, index))
    }

    /// Whether it comes in at the standard input of a command.
    pub(super) fn feeds(&self, command: &Simple, index: usize) -> bool {
        let files = command
            .redirects
            .iter()
            .filter(|it| matches!(it.flow, Flow::In | Flow::Text));
        command.fed_by.iter().any(|it| self.is_printed_by(it))
            || files.into_iter().any(|it| match it.flow {
                Flow::In => self.is_in(&it.target, index),
                _ => self.makes(&it.target),
            })
    }

    fn is_printed_by(&self, range: &Range<usize>) -> bool {
        let last = self.before.len() - 1;
        self.before[range.end.min(last)] > self.before[range.start.min(last)]
    }

    /// Whether it is part of a word.
    pub(super) fn makes(&self, word: &Word) -> bool {
        word.made_by.iter().any(|it| self.is_printed_by(it))
    }

    /// Whether it is part of a word, or of the file the word names.
    pub(super) fn is_in(&self, word: &Word, index: usize) -> bool {
        self.makes(word) || word.known && self.is_saved(&word.text, index)
    }

    pub(super) fn is_saved(&self, path: &str, index: usize) -> bool {
        let name = path.rsplit('/').next().unwrap_or_default();
        self.saved.get(name).is_some_and(|by| *by < index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shell::{Surroundings, read};

    /// How often commands were looked at to follow downloads, for each command.
    fn looks(text: &str) -> usize {
        let script = read(text, Surroundings::default()).unwrap();
        let overview = Overview::new(&script);
        let steps = overview.downloaded().steps + overview.decoded().steps;
        steps / script.commands.len()
    }

    #[test]
    fn following_downloads_takes_no_more_for_each_command_in_a_long_script() {
        let many = 4000;
        for text in [
            "ls\n".repeat(many),
            "sh|".repeat(many) + "sh",
            "curl x|".to_owned() + &"sh|".repeat(many) + "sh",
            "curl -o a x\n".repeat(many),
            "curl x > >(cat > a)\ncat a > >(cat > b)\n".repeat(many / 2),
        ] {
            assert!(looks(&text) <= 2 * MAX_PASSES, "{}", &text[..10]);
        }
    }

    #[test]
    fn what_is_sent_around_without_end_may_come_from_anywhere() {
        let chain: String = (0..2 * MAX_PASSES)
            .map(|at| format!("cat {at} > >(cat > {})\n", at + 1))
            .collect();
        let text = format!("curl -o 0 x\n{chain}cat y");
        let script = read(&text, Surroundings::default()).unwrap();
        let last = script.commands.len() - 1;
        let overview = Overview::new(&script);
        assert!(overview.downloaded().is_printed_by(&(last..last + 1)));
    }
}
