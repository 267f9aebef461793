//! What a call would run and touch, by what its tool is and by what its inputs are called.

use std::collections::HashMap;
use std::path::Path;
use std::sync::LazyLock;

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
            "bash",
            "commands",
            "cmds",
        ],
    ),
    (Meaning::Script, &["script", "scripts"]),
    (Meaning::Code, &["code"]),
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
    (Meaning::Address, &["url", "uri"]),
];

/// The same, by name.
static MEANINGS: LazyLock<HashMap<&str, Meaning>> = LazyLock::new(|| {
    let named =
        |(meaning, names): &'static (Meaning, &[&str])| names.iter().map(|it| (*it, *meaning));
    INPUTS.iter().flat_map(named).collect()
});

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// Read as a shell would read it. A list is an argument vector.
    Line,
    /// The same, but it may be in another language that nobody names.
    Script,
    /// The same, where a language beside it says that it is a shell's. On its own it is content: a country
    /// has a code, too.
    Code,
    /// More words for the line beside it.
    Words,
    /// Says in which language the line beside it is; what is in one that is no shell's is not read.
    Language,
    /// The directory the line beside it runs in, and a path.
    Place,
    Path,
    /// A path where it says `file:`.
    Address,
}

/// Most inputs of one object that are command lines.
const MAX_COMMANDS: usize = 16;

/// The commands a call would run and the paths it names.
#[derive(Default)]
pub struct Reach {
    pub scripts: Vec<Script>,
    /// As they were given; relative ones start at the project's root.
    pub paths: Vec<String>,
    /// Why a command could not be read.
    pub unreadable: Option<Unreadable>,
    /// The same of what may be no command.
    pub doubtful: Option<Unreadable>,
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
                let home = home.map(Path::to_string_lossy);
                let at = Surroundings {
                    cwd: Some(&cwd),
                    home: home.as_deref(),
                };
                reach.add(shell::read_words(words, stdin.and_then(as_text), at));
            }
            Exec::Python(_) | Exec::Native(_) => {}
        }
        reach.walk(args, &|cwd| at(cwd.unwrap_or(".")), home);
        reach
    }

    /// By the names of the arguments alone, for a tool that runs here.
    pub fn of_args(args: &Map<String, Value>, root: &Path, home: Option<&Path>) -> Reach {
        let mut reach = Reach::default();
        let at = |cwd: Option<&str>| {
            absolute(root, cwd.unwrap_or("."))
                .to_string_lossy()
                .into_owned()
        };
        reach.walk(args, &at, home);
        reach
    }

    fn add(&mut self, script: Result<Script, Unreadable>) {
        match script {
            Ok(script) => self.scripts.push(script),
            Err(why) => self.unreadable = Some(why),
        }
    }

    fn add_path(&mut self, text: &str, is_address: bool) {
        let is_of_file = |(scheme, _): (&str, _)| scheme.eq_ignore_ascii_case("file");
        if is_address {
            let is_path = text.split_once(':').is_some_and(is_of_file);
            self.paths.extend(is_path.then(|| text.to_owned()));
            return;
        }
        let Some(address) = text.split_once("://") else {
            self.paths.push(text.to_owned());
            return;
        };
        if is_of_file(address) {
            self.paths.push(text.to_owned());
        }
        // Where a path is wanted it is one, whatever else it looks like: a directory may be called `conf:`.
        // With single slashes nobody takes it for an address.
        let mut path = text.to_owned();
        while path.contains("//") {
            path = path.replace("//", "/");
        }
        self.paths.push(path);
    }

    fn walk(
        &mut self,
        args: &Map<String, Value>,
        at: &dyn Fn(Option<&str>) -> String,
        home: Option<&Path>,
    ) {
        let meant = args.iter().map(|(name, value)| (meaning(name), value));
        let meant: Vec<(Option<Meaning>, &Value)> = meant.collect();
        let given = |wanted: Meaning| {
            let mut given = meant.iter().filter(|it| it.0 == Some(wanted));
            given.next().map(|it| it.1)
        };
        let language = given(Meaning::Language).and_then(Value::as_str);
        let more = given(Meaning::Words).map(words_of).unwrap_or_default();
        let place = given(Meaning::Place).and_then(Value::as_str);
        let mut commands = 0;
        for &(meaning, value) in &meant {
            match meaning {
                Some(Meaning::Path | Meaning::Place | Meaning::Address) => {
                    for text in texts(value) {
                        self.add_path(text.trim(), meaning == Some(Meaning::Address));
                    }
                }
                Some(Meaning::Code) if language.is_none() => {}
                Some(Meaning::Line | Meaning::Script | Meaning::Code) => {
                    if language.is_some_and(is_another_language) {
                        continue;
                    }
                    commands += 1;
                    if commands > MAX_COMMANDS {
                        self.unreadable = Some(Unreadable("there are too many of it".to_owned()));
                        return;
                    }
                    let cwd = at(place);
                    let home = home.map(Path::to_string_lossy);
                    let at = Surroundings {
                        cwd: Some(&cwd),
                        home: home.as_deref(),
                    };
                    for line in lines(value) {
                        match shell::read(&line, at) {
                            Err(why) if meaning == Some(Meaning::Script) => {
                                self.doubtful = Some(why);
                            }
                            script => self.add(script),
                        }
                    }
                    // What follows code are its arguments, and no words of it.
                    if meaning != Some(Meaning::Code) && (value.is_array() || !more.is_empty()) {
                        let mut words = texts(value);
                        words.extend(more.iter().cloned());
                        self.add(shell::read_words(words, None, at));
                    }
                }
                Some(Meaning::Words | Meaning::Language) | None => {}
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
    MEANINGS.get(folded.as_str()).copied()
}

/// Languages that are not read. A word that is none of them may be anything, and the line is read.
const LANGUAGES: &[&str] = &[
    "python",
    "py",
    "ipython",
    "javascript",
    "js",
    "typescript",
    "ts",
    "node",
    "nodejs",
    "deno",
    "bun",
    "ruby",
    "rb",
    "perl",
    "php",
    "lua",
    "r",
    "rscript",
    "julia",
    "go",
    "rust",
    "java",
    "kotlin",
    "scala",
    "c",
    "cpp",
    "c++",
    "csharp",
    "c#",
    "swift",
    "sql",
    "powershell",
    "pwsh",
    "applescript",
    "html",
    "css",
    "json",
    "yaml",
];

fn is_another_language(given: &str) -> bool {
    let given = given.trim().to_ascii_lowercase();
    let name = given.rsplit('/').next().unwrap_or_default();
    // A version may follow the name.
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    LANGUAGES.contains(&name) || LANGUAGES.contains(&plain)
}

/// The texts in a value, and in lists in it; what is in an object goes by its own names.
fn texts(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => vec![text.clone()],
        Value::Array(items) => items.iter().flat_map(texts).collect(),
        _ => Vec::new(),
    }
}

/// How an object calls the line it holds.
const LINES: &[&str] = &["line", "text", "value", "run", "string"];

/// The lines to read: the text itself, one in an object, and what stands in a list like a line.
fn lines(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => {
            let texts = items.iter().flat_map(texts);
            let first = items.first().and_then(Value::as_str);
            let is_words = first.is_some_and(|it| !it.trim().contains(char::is_whitespace));
            texts
                .filter(|it| !is_words && it.trim().contains(char::is_whitespace))
                .collect()
        }
        Value::Object(fields) => {
            let lines = fields
                .iter()
                .filter(|(name, _)| LINES.contains(&name.as_str()));
            lines.flat_map(|(_, value)| texts(value)).collect()
        }
        value => texts(value),
    }
}

/// More words: a list, or a text that is split as a shell would do it.
fn words_of(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => text.split_whitespace().map(str::to_owned).collect(),
        value => texts(value),
    }
}
