//! What `find` starts, and what it deletes.

use super::grammar::Shell;
use super::{GAP, Simple, Unreadable, Word};

impl Shell {
    /// `find … -exec …` and `find … -delete`. What is found is the pattern it is searched by, below
    /// where the search begins; without a pattern it is everything there.
    pub(super) fn run_find(&mut self, index: usize, command: &Simple) -> Result<(), Unreadable> {
        let args = command.args();
        let is_expression = |it: &&Word| {
            it.text.starts_with('-') && it.text.len() > 1 || matches!(it.text.as_str(), "(" | "!")
        };
        // `-L`, `-H` and `-P` come before the places.
        let skip = args
            .iter()
            .take_while(|it| matches!(it.text.as_str(), "-L" | "-H" | "-P"))
            .count();
        let places: Vec<Word> = args[skip..]
            .iter()
            .take_while(|it| !is_expression(it))
            .cloned()
            .collect();
        let places = if places.is_empty() {
            vec![Word::literal(".")]
        } else {
            places
        };
        let value_of = |names: &[&str]| {
            let at = args
                .iter()
                .position(|it| names.contains(&it.text.as_str()))?;
            args.get(at + 1)
        };
        let pattern = value_of(&["-name", "-iname", "-path", "-wholename", "-regex"])
            .filter(|it| it.text != "*");
        let narrowed =
            pattern.is_some() || args.iter().any(|it| NARROWING.contains(&it.text.as_str()));
        let found: Vec<Word> = places
            .iter()
            .map(|place| match pattern {
                Some(pattern) => Word {
                    text: format!(
                        "{}/{GAP}/{}",
                        place.text.trim_end_matches('/'),
                        pattern.text
                    ),
                    known: false,
                    glob: true,
                    made_by: place.made_by.clone(),
                },
                None if narrowed => Word {
                    text: format!("{}/{GAP}", place.text.trim_end_matches('/')),
                    known: false,
                    ..place.clone()
                },
                None => place.clone(),
            })
            .collect();
        let mut at = 0;
        while at < args.len() {
            match args[at].text.as_str() {
                "-delete" => {
                    let flags: &[&str] = if narrowed {
                        &["rm", "-f"]
                    } else {
                        &["rm", "-r", "-f"]
                    };
                    let mut words: Vec<Word> = flags.iter().map(|it| Word::literal(*it)).collect();
                    words.extend(found.iter().cloned());
                    self.start(index, command, words)?;
                }
                "-exec" | "-execdir" | "-ok" | "-okdir" | "-x" | "-X" | "--exec"
                | "--exec-batch" => {
                    let rest = &args[at + 1..];
                    let end = rest
                        .iter()
                        .position(|it| matches!(it.text.as_str(), ";" | "+"))
                        .unwrap_or(rest.len());
                    let mut words = Vec::new();
                    for word in &rest[..end] {
                        if word.text == "{}" {
                            words.extend(found.iter().cloned());
                        } else if word.text.contains("{}") {
                            words.extend(found.iter().map(|it| Word {
                                text: word.text.replace("{}", &it.text),
                                ..it.clone()
                            }));
                        } else {
                            words.push(word.clone());
                        }
                    }
                    self.start(index, command, words)?;
                    at += end;
                }
                _ => {}
            }
            at += 1;
        }
        Ok(())
    }
}

/// Tests of `find` that leave most things alone.
const NARROWING: &[&str] = &[
    "-empty",
    "-newer",
    "-mtime",
    "-mmin",
    "-atime",
    "-amin",
    "-ctime",
    "-cmin",
    "-size",
    "-perm",
    "-samefile",
    "-inum",
    "-links",
    "-user",
    "-group",
    "-nouser",
    "-nogroup",
    "-maxdepth",
];
