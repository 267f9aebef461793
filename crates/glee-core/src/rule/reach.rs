//! What a call would run and touch, by what its tool is and by what its inputs are called.

use std::path::Path;

use serde_json::{Map, Value};

use crate::model::{Exec, ToolSpec};
use crate::permission::absolute;
use crate::secret::{Secret, SecretValues};
use crate::shell::{self, GAP, Script, Surroundings, Unreadable};
use crate::template::{Scope, as_text};

/// What an input means, by its name. Names are compared in lower case and without `_` and `-`, at any
/// depth of the arguments. An input that is not listed is content, and content is never searched.
pub const INPUTS: &[(Meaning, &[&str])] = &[
    (
        Meaning::Line,
        &[
            "command",
            "cmd",
            "commandline",
            "shell",
            "shellcommand",
            "script",
            "bash",
        ],
    ),
    (Meaning::Words, &["args", "arguments", "argv"]),
    (
        Meaning::Language,
        &["language", "lang", "interpreter", "runtime"],
    ),
    (
        Meaning::Place,
        &["cwd", "workdir", "workingdirectory", "workingdir"],
    ),
    (
        Meaning::Path,
        &[
            "path",
            "paths",
            "file",
            "files",
            "filename",
            "filenames",
            "filepath",
            "filepaths",
            "directory",
            "directories",
            "dir",
            "dirs",
            "folder",
            "source",
            "sources",
            "sourcepath",
            "src",
            "destination",
            "destinationpath",
            "dest",
            "dst",
            "target",
            "targetpath",
            "from",
            "to",
            "oldpath",
            "newpath",
            "root",
            "inputfile",
            "outputfile",
        ],
    ),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Read as a shell would read it. A list is an argument vector.
    Line,
    /// More words for the line beside it.
    Words,
    /// Says in which language the line beside it is; only shells' are read.
    Language,
    /// The directory the line beside it runs in, and a path.
    Place,
    Path,
}

/// The commands a call would run and the paths it names.
#[derive(Default)]
pub struct Reach {
    pub scripts: Vec<Script>,
    /// As they were given; relative ones start at the project's root.
    pub paths: Vec<String>,
    /// Why a command could not be read.
    pub unreadable: Option<Unreadable>,
}

impl Reach {
    /// Only what runs here reaches anything here: what an http tool is given goes to its server.
    pub fn of(
        spec: &ToolSpec,
        args: &Map<String, Value>,
        root: &Path,
        home: Option<&Path>,
    ) -> Reach {
        let mut reach = Reach::default();
        let home = home.map(Path::to_string_lossy);
        let at = |cwd: &str| absolute(root, cwd).to_string_lossy().into_owned();
        match &spec.exec {
            Exec::Http(_) => return reach,
            Exec::Command(command) => {
                // What a secret holds is nobody's to see, and not known here.
                let mask = |name: &String| (name.clone(), Secret::new(GAP.to_string()));
                let secrets: SecretValues = spec.permissions.secrets.keys().map(mask).collect();
                let scope = Scope::new(args, &secrets);
                let mut words = vec![command.entrypoint.clone()];
                // What is too large to be filled in is refused where it is filled in to be run.
                for template in &command.args {
                    words.extend(template.words(&scope).unwrap_or_default());
                }
                let stdin = command.stdin.as_ref().and_then(|it| it.fill(&scope).ok()?);
                let cwd = at(&command.cwd);
                let at = Surroundings {
                    cwd: Some(&cwd),
                    home: home.as_deref(),
                };
                reach.add(shell::read_words(words, stdin.and_then(as_text), at));
            }
            Exec::Python(_) | Exec::Native(_) => {}
        }
        reach.walk(args, &|cwd| at(cwd.unwrap_or(".")), home.as_deref());
        reach
    }

    /// By the names of the arguments alone, for a tool that runs here.
    pub fn of_args(args: &Map<String, Value>, root: &Path, home: Option<&Path>) -> Reach {
        let mut reach = Reach::default();
        let home = home.map(Path::to_string_lossy);
        let at = |cwd: Option<&str>| {
            absolute(root, cwd.unwrap_or("."))
                .to_string_lossy()
                .into_owned()
        };
        reach.walk(args, &at, home.as_deref());
        reach
    }

    fn add(&mut self, script: Result<Script, Unreadable>) {
        match script {
            Ok(script) => self.scripts.push(script),
            Err(why) => self.unreadable = Some(why),
        }
    }

    fn walk(
        &mut self,
        args: &Map<String, Value>,
        at: &dyn Fn(Option<&str>) -> String,
        home: Option<&str>,
    ) {
        let given = |wanted: Meaning| {
            args.iter()
                .find(|(name, _)| meaning(name) == Some(wanted))
                .map(|(_, value)| value)
        };
        for (name, value) in args {
            match meaning(name) {
                Some(Meaning::Path | Meaning::Place) => self.paths.extend(texts(value)),
                Some(Meaning::Line) => {
                    let language = given(Meaning::Language).and_then(Value::as_str);
                    if language.is_some_and(|it| !is_shell(it)) {
                        continue;
                    }
                    let cwd = at(given(Meaning::Place).and_then(Value::as_str));
                    let at = Surroundings {
                        cwd: Some(&cwd),
                        home,
                    };
                    let more = given(Meaning::Words).map(texts).unwrap_or_default();
                    if let Value::String(line) = value {
                        self.add(shell::read(line, at));
                    }
                    if value.is_array() || !more.is_empty() {
                        let mut words = texts(value);
                        words.extend(more);
                        self.add(shell::read_words(words, None, at));
                    }
                }
                Some(Meaning::Words | Meaning::Language) => {}
                None => {}
            }
            match value {
                Value::Object(inner) => self.walk(inner, at, home),
                Value::Array(items) => {
                    for inner in items.iter().filter_map(Value::as_object) {
                        self.walk(inner, at, home);
                    }
                }
                _ => {}
            }
        }
    }
}

fn meaning(name: &str) -> Option<Meaning> {
    // The longest name that is listed; most inputs are told apart by this alone.
    if name.len() > 24 {
        return None;
    }
    let folded: String = name
        .chars()
        .filter(|c| !matches!(c, '_' | '-'))
        .map(|c| c.to_ascii_lowercase())
        .collect();
    INPUTS
        .iter()
        .find(|(_, names)| names.contains(&folded.as_str()))
        .map(|(meaning, _)| *meaning)
}

fn is_shell(language: &str) -> bool {
    let language = language.to_ascii_lowercase();
    language == "shell" || shell::SHELLS.contains(&language.as_str())
}

fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items
            .iter()
            .filter_map(|it| it.as_str().map(str::to_owned))
            .collect(),
        _ => Vec::new(),
    }
}
