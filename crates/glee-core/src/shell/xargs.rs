//! Programs that start a command with words that come in.

use super::grammar::Shell;
use super::wrapper::Call;
use super::{Simple, Unreadable, Word};

/// Most commands that one `xargs` is thought to start.
const MAX_STARTED: usize = 64;

impl Shell {
    pub(super) fn run_xargs(
        &mut self,
        index: usize,
        call: &Call,
        command: &Simple,
        mut words: Vec<Word>,
    ) -> Result<(), Unreadable> {
        let mark = if call.has(&["I", "i", "replace"]) {
            let given = call.value(&["I", "i", "replace"]);
            Some(given.map_or("{}", |it| it.text.as_str()).to_owned())
        } else {
            None
        };
        let by_lines = mark.is_some() || call.has(&["0", "null", "d", "delimiter"]);
        let (input, all) = self.words_that_come_in(command, by_lines);
        if all {
            found_below(&mut words);
        }
        let Some(mark) = mark else {
            words.extend(input);
            return self.start(index, command, words);
        };
        for given in input.iter().take(MAX_STARTED) {
            self.start(index, command, replaced(&words, &mark, given))?;
        }
        Ok(())
    }

    /// `parallel 'rm {}' ::: a b`
    pub(super) fn run_parallel(
        &mut self,
        index: usize,
        command: &Simple,
        words: Vec<Word>,
    ) -> Result<(), Unreadable> {
        let at = words.iter().position(|it| it.text.starts_with(":::"));
        let input = match at {
            Some(at) => words[at + 1..].to_vec(),
            None => self.words_that_come_in(command, true).0,
        };
        let mut words = words[..at.unwrap_or(words.len())].to_vec();
        if !words.iter().any(|it| it.text.contains("{}")) {
            words.push(Word::literal("{}"));
        }
        for given in input.iter().take(MAX_STARTED) {
            let words = replaced(&words, "{}", given);
            match words.first().is_some_and(|it| it.text.contains(' ')) {
                true => self.word_text(&words[0], &[])?,
                false => self.start(index, command, words)?,
            }
        }
        Ok(())
    }

    /// What comes in as words, and whether these stand for all that is below them.
    fn words_that_come_in(&self, command: &Simple, by_lines: bool) -> (Vec<Word>, bool) {
        if let Some(found) = self.found_by(&command.fed_by) {
            return found;
        }
        let input = self.input_of(command).filter(|it| it.known);
        let words = match input {
            Some(text) if by_lines => {
                let lines = text.text.lines().filter(|it| !it.is_empty());
                lines.map(Word::literal).collect()
            }
            Some(text) => text.text.split_whitespace().map(Word::literal).collect(),
            None => vec![Word {
                made_by: command.fed_by.clone(),
                ..Word::gap()
            }],
        };
        (words, false)
    }
}

/// To delete all that is found below a place is to delete the place.
pub(super) fn found_below(words: &mut Vec<Word>) {
    let deletes = words
        .first()
        .is_some_and(|it| it.text.rsplit('/').next() == Some("rm"));
    if deletes {
        words.insert(1, Word::literal("-r"));
    }
}

pub(super) fn replaced(words: &[Word], mark: &str, given: &Word) -> Vec<Word> {
    let replace = |word: &Word| match word.text.contains(mark) {
        false => word.clone(),
        true => Word {
            text: word.text.replace(mark, &given.text),
            known: word.known && given.known,
            glob: word.glob || given.glob,
            made_by: given.made_by.clone(),
        },
    };
    words.iter().map(replace).collect()
}
