//! Commands that only change what holds for those after them.

use super::expand::Value;
use super::grammar::Shell;
use super::{Simple, Unreadable, Word};

impl Shell {
    /// Whether the command is one of these.
    pub(super) fn keep_in_mind(
        &mut self,
        name: &str,
        command: &Simple,
    ) -> Result<bool, Unreadable> {
        match name {
            "cd" | "pushd" => {
                let operand = command
                    .args()
                    .iter()
                    .find(|it| !it.text.starts_with('-') || it.text == "-");
                let directory = match operand {
                    None if name == "cd" => self.variable("HOME").and_then(|it| it.only()),
                    Some(word) if word.known && !word.glob && word.text != "-" => {
                        Some(word.text.clone())
                    }
                    _ => None,
                };
                self.go(directory.as_deref());
            }
            "popd" => self.go(None),
            "export" | "declare" | "local" | "readonly" | "typeset" => {
                for word in command.args() {
                    self.declare(word)?;
                }
            }
            "set" => self.set_words(command.args())?,
            "shift" => {
                let by = command.args().first().map_or(Ok(1), |it| it.text.parse());
                self.shift(by.unwrap_or(0))?;
            }
            "read" | "unset" | "mapfile" | "readarray" => self.read_variables(name, command)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `x=1`, as a word.
    fn declare(&mut self, word: &Word) -> Result<(), Unreadable> {
        let Some((name, text)) = word.text.split_once('=') else {
            return Ok(());
        };
        let mut value = Word::into_value(Word {
            text: text.to_owned(),
            ..word.clone()
        });
        let plain = name.trim_end_matches('+');
        // The list that follows was taken note of where it stands.
        if text.is_empty() {
            return Ok(());
        }
        if plain != name
            && let Some(before) = self.variable(plain)
        {
            value = before.then(value);
        }
        self.set(plain, value)
    }

    /// `set -e -- a b`
    fn set_words(&mut self, words: &[Word]) -> Result<(), Unreadable> {
        let mut at = 0;
        while let Some(word) = words.get(at) {
            match word.text.as_str() {
                "--" | "-" => return self.set_arguments(&words[at + 1..]),
                text if text.starts_with(['-', '+']) => at += 1 + usize::from(text.ends_with('o')),
                _ => return self.set_arguments(&words[at..]),
            }
        }
        Ok(())
    }

    fn read_variables(&mut self, name: &str, command: &Simple) -> Result<(), Unreadable> {
        let input = self.input_of(command).filter(|_| name == "read");
        let value = match input {
            Some(word) => Word::into_value(Word {
                text: word.text.trim_end().to_owned(),
                ..word
            }),
            None => Value::gap().made(&command.fed_by),
        };
        for word in command.args().iter().filter(|it| !it.text.starts_with('-')) {
            self.spend(value.size())?;
            self.assign(&word.text, Some(value.clone()));
        }
        Ok(())
    }
}

impl Word {
    pub(super) fn into_value(self) -> Value {
        Value::any_of(vec![self])
    }
}
