//! Who commits, as the person has told git for all repositories. The sandbox hides that config, which may hold
//! more than a name; so the name is read here, and only that is handed on.

use std::path::{Path, PathBuf};

/// Files that include files.
const DEEPEST: usize = 4;
/// A config that is larger is nobody's.
const LARGEST: u64 = 1 << 20;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Person {
    name: Option<String>,
    email: Option<String>,
}

impl Person {
    /// As git reads it: what comes later counts.
    pub(super) fn of(home: &Path) -> Person {
        let config =
            std::env::var_os("XDG_CONFIG_HOME").map_or_else(|| home.join(".config"), PathBuf::from);
        let mut person = Person::default();
        person.read(&config.join("git/config"), home, 0);
        person.read(&home.join(".gitconfig"), home, 0);
        person
    }

    /// A config that says this and nothing else.
    pub(super) fn config(&self) -> String {
        let quoted = |it: &String| {
            let it = it.replace('\\', "\\\\").replace('"', "\\\"");
            // A line of its own would be another entry.
            it.replace('\n', "\\n")
        };
        let line = |key: &str, value: &Option<String>| match value {
            Some(value) => format!("\t{key} = \"{}\"\n", quoted(value)),
            None => String::new(),
        };
        let (name, email) = (line("name", &self.name), line("email", &self.email));
        format!("[user]\n{name}{email}")
    }

    fn read(&mut self, file: &Path, home: &Path, depth: usize) {
        let is_small = |it: std::fs::Metadata| it.is_file() && it.len() <= LARGEST;
        if depth > DEEPEST || !file.metadata().is_ok_and(is_small) {
            return;
        }
        for (section, key, value) in entries(&std::fs::read_to_string(file).unwrap_or_default()) {
            match (section.as_str(), key.as_str()) {
                ("user", "name") => self.name = Some(value),
                ("user", "email") => self.email = Some(value),
                ("include", "path") => {
                    let path = match value.strip_prefix("~/") {
                        Some(rest) => home.join(rest),
                        None => file.with_file_name("").join(value),
                    };
                    self.read(&path, home, depth + 1);
                }
                _ => {}
            }
        }
    }
}

/// Sections, keys and values, in order.
fn entries(text: &str) -> Vec<(String, String, String)> {
    let mut section = String::new();
    let mut found = Vec::new();
    for line in text.replace("\\\n", "").lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[') {
            section = name.split(']').next().unwrap_or_default().to_lowercase();
        } else if let Some((key, value)) = line.split_once('=') {
            let key = key.trim().to_lowercase();
            found.push((section.clone(), key, value_of(value.trim())));
        }
    }
    found
}

/// Without quotes, escapes and what stands behind it as a comment.
fn value_of(text: &str) -> String {
    let mut value = String::new();
    let mut is_quoted = false;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => is_quoted = !is_quoted,
            '#' | ';' if !is_quoted => break,
            '\\' => value.extend(chars.next().map(|it| match it {
                'n' => '\n',
                't' => '\t',
                other => other,
            })),
            other => value.push(other),
        }
    }
    value.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_as_git_finds_it() {
        let home = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(home.path().join(name), text).unwrap();
        write(
            ".gitconfig",
            "[core]\n\tname = x\n[User]\n  Name = \"Ada # \\\"L\\\"\" ; c\n\temail = a@b # c\n[include]\npath = more\n[url \"user\"]\nname = x\n",
        );
        write(
            "more",
            "[user]\nemail = ada@example.com\n[include]\npath = ~/more\n",
        );
        let mut person = Person::default();
        person.read(&home.path().join(".gitconfig"), home.path(), 0);
        assert_eq!(person.name.as_deref(), Some("Ada # \"L\""));
        assert_eq!(person.email.as_deref(), Some("ada@example.com"));
        write("config", &person.config());
        let mut again = Person::default();
        again.read(&home.path().join("config"), home.path(), 0);
        assert_eq!(again, person);
        assert_eq!(Person::default().config(), "[user]\n");
    }
}
