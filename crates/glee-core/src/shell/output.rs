//! What a command prints, where that can be told without running it.

use std::ops::Range;

use data_encoding::BASE64;

use super::expand::Value;
use super::grammar::Shell;
use super::{Flow, Simple, Word};

/// Through how many commands a text is followed, as in `echo x | cat | cat`.
const MAX_HOPS: usize = 16;

impl Shell {
    /// What a substitution becomes.
    pub(super) fn output_value(&self, range: Range<usize>) -> Value {
        let value = match self.output_of(range.clone(), MAX_HOPS) {
            Some(text) => Value::literal(text.trim_end_matches('\n')),
            None => Value::gap(),
        };
        value.made(&[range])
    }

    /// What comes in at the standard input of a command.
    pub(super) fn input_of(&self, command: &Simple) -> Option<Word> {
        self.input_through(command, MAX_HOPS)
    }

    fn input_through(&self, command: &Simple, hops: usize) -> Option<Word> {
        let text = command
            .redirects
            .iter()
            .rev()
            .find(|it| it.flow == Flow::Text);
        if let Some(redirect) = text {
            return Some(Word::clone(&redirect.target));
        }
        match command.fed_by.as_slice() {
            [range] if hops > 0 => self.output_of(range.clone(), hops - 1).map(Word::literal),
            _ => None,
        }
    }

    fn output_of(&self, range: Range<usize>, hops: usize) -> Option<String> {
        let commands = self.script.commands.get(range)?;
        match commands {
            [command] => self.printed(command, hops),
            _ => None,
        }
    }

    fn printed(&self, command: &Simple, hops: usize) -> Option<String> {
        if command.redirects.iter().any(|it| it.flow == Flow::Out) {
            return None;
        }
        let (program, args) = command.words.split_first()?;
        if !command.words.iter().all(|it| it.known && !it.glob) {
            return None;
        }
        let args: Vec<&str> = args.iter().map(|it| it.text.as_str()).collect();
        match (program.text.rsplit('/').next()?, args.as_slice()) {
            ("echo", args) => {
                let flags = args
                    .iter()
                    .take_while(|it| matches!(**it, "-n" | "-e" | "-E" | "-ne" | "-en"));
                let (flags, words) = args.split_at(flags.count());
                let text = words.join(" ");
                let escaped = flags.iter().any(|it| it.contains('e')) && text.contains('\\');
                (!escaped).then(|| text + "\n")
            }
            ("printf", ["%s" | "%s\\n" | "%b", text]) if !text.contains('\\') => {
                Some((*text).to_owned())
            }
            ("printf", [format]) => {
                let text = format.replace("\\n", "\n");
                (!text.contains(['%', '\\'])).then_some(text)
            }
            ("cat" | "tee", [] | ["-"]) => self
                .input_through(command, hops)
                .filter(|it| it.known)
                .map(|it| it.text),
            ("base64", ["-d" | "-D" | "--decode" | "-di"]) => {
                let text = self
                    .input_through(command, hops)
                    .filter(|it| it.known)?
                    .text;
                let text: String = text.split_whitespace().collect();
                String::from_utf8(BASE64.decode(text.as_bytes()).ok()?).ok()
            }
            _ => None,
        }
    }
}
