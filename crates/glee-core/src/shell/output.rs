//! What a command prints, where that can be told without running it.

use std::ops::Range;

use data_encoding::BASE64;

use super::escape::unescaped;
use super::expand::Value;
use super::grammar::Shell;
use super::{Flow, Simple, Word};

/// Through how many commands in all a text is followed, as in `echo x | cat | cat`.
const MAX_HOPS: usize = 32;
/// Longest text that `printf` is thought to print.
const MAX_PRINTED: usize = 64 << 10;

impl Shell {
    /// What a substitution becomes.
    pub(super) fn output_value(&self, range: Range<usize>) -> Value {
        let value = match self.output_of(range.clone()) {
            Some(text) => Value::literal(text.trim_end_matches('\n')),
            None => match self.found_by(std::slice::from_ref(&range)) {
                Some((found, _)) => Value::any_of(found).guessed(),
                None => Value::gap(),
            },
        };
        value.made(&[range])
    }

    /// What comes in at the standard input of a command.
    pub(super) fn input_of(&self, command: &Simple) -> Option<Word> {
        self.input_through(command, &mut { MAX_HOPS })
    }

    pub(super) fn output_of(&self, range: Range<usize>) -> Option<String> {
        self.output_through(range, &mut { MAX_HOPS })
    }

    /// What a command prints, wherever that goes.
    pub(super) fn printed_by(&self, command: &Simple) -> Option<String> {
        self.printed(command, &mut { MAX_HOPS })
    }

    fn input_through(&self, command: &Simple, hops: &mut usize) -> Option<Word> {
        let text = command
            .redirects
            .iter()
            .rev()
            .find(|it| it.flow == Flow::Text);
        if let Some(redirect) = text {
            return Some(Word::clone(&redirect.target));
        }
        let file = command
            .redirects
            .iter()
            .rev()
            .find(|it| it.flow == Flow::In);
        if let Some(redirect) = file {
            return self
                .files
                .get(&redirect.target.text)
                .map(|it| Word::clone(it));
        }
        match command.fed_by.as_slice() {
            [range] => self.output_through(range.clone(), hops).map(Word::literal),
            _ => None,
        }
    }

    fn output_through(&self, range: Range<usize>, hops: &mut usize) -> Option<String> {
        let commands = self.script.commands.get(range)?;
        let commands = commands.iter().filter(|it| !it.words.is_empty());
        let is_kept = |it: &Simple| it.redirects.iter().any(|it| it.flow == Flow::Out);
        let printed = commands
            .filter(|it| !is_kept(it))
            .map(|it| self.printed(it, hops));
        printed.collect()
    }

    fn printed(&self, command: &Simple, hops: &mut usize) -> Option<String> {
        *hops = hops.checked_sub(1)?;
        let (program, args) = command.words.split_first()?;
        if !command.words.iter().all(|it| it.known && !it.glob) {
            return None;
        }
        let args: Vec<&str> = args.iter().map(|it| it.text.as_str()).collect();
        let mut input = || self.input_through(command, hops).filter(|it| it.known);
        match (program.text.rsplit('/').next()?, args.as_slice()) {
            ("echo", args) => {
                let flags = args
                    .iter()
                    .take_while(|it| matches!(**it, "-n" | "-e" | "-E" | "-ne" | "-en"));
                let (flags, words) = args.split_at(flags.count());
                let text = words.join(" ");
                match flags.iter().any(|it| it.contains('e')) {
                    true => Some(unescaped(&text) + "\n"),
                    false => Some(text + "\n"),
                }
            }
            ("printf", [format, args @ ..]) => formatted(format, args),
            ("cat", [] | ["-"]) | ("tee", _) => input().map(|it| it.text),
            ("cat", [file]) => self.files.get(*file).map(|it| it.text.clone()),
            ("base64", ["-d" | "-D" | "--decode" | "-di"]) => {
                let text: String = input()?.text.split_whitespace().collect();
                String::from_utf8(BASE64.decode(text.as_bytes()).ok()?).ok()
            }
            _ => None,
        }
    }
}

/// What `printf` makes of texts.
fn formatted(format: &str, args: &[&str]) -> Option<String> {
    let mut out = String::new();
    let mut args = args.iter();
    loop {
        let left = args.len();
        let mut parts = format.split('%');
        out.push_str(&unescaped(parts.next()?));
        while let Some(part) = parts.next() {
            let mut chars = part.chars();
            match chars.next() {
                Some('s' | 'd') => out.push_str(args.next().unwrap_or(&"")),
                Some('b') => out.push_str(&unescaped(args.next().unwrap_or(&""))),
                // `%%`
                None => {
                    out.push('%');
                    out.push_str(&unescaped(parts.next()?));
                    continue;
                }
                Some(_) => return None,
            }
            out.push_str(&unescaped(chars.as_str()));
        }
        // The format is used again while there are arguments.
        if out.len() > MAX_PRINTED {
            return None;
        }
        if args.len() == 0 || args.len() == left {
            return Some(out);
        }
    }
}
