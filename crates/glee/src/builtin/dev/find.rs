//! Searching the project's code, by a pattern or by words: `search_code`.
//!
//! What `.gitignore` leaves out is left out, and so is what holds secrets. Every directory and file is
//! opened beneath the project's root, those that say what is left out as well.

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use glee_core::outcome::Failure;
use glee_core::rule::sensitive;
use ignore::Match as Verdict;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{AtFlags, FileType, OFlags};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::list::{below, names};
use super::super::pattern::{Case, Pattern, TooLong, invalid};
use super::super::workspace::{DEEPEST, Ground, Links, Workspace, shown};
use super::super::{Stop, blocking};
use crate::native::{About, Context, NativeTool};

/// Larger files are not code.
const LARGEST: u64 = 4 << 20;
/// Larger files leave nothing out, and neither do more lines.
const LARGEST_IGNORE: u64 = 1 << 20;
const MOST_PATTERNS: usize = 5_000;
/// Bytes of a line that leaves something out. No path that is searched has more.
const LONGEST_PATTERN: usize = 1 << 10;
/// What says what is left out of a directory, the last word last.
const IGNORES: &[&str] = &[".gitignore", ".ignore"];
/// Letters of a line that are shown.
const LONGEST_LINE: usize = 400;
/// Words of one query.
const MOST_WORDS: usize = 32;

pub(in super::super) struct SearchCode(pub(in super::super) Ground);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(in super::super) struct Input {
    /// What to search for: a regular expression, or words
    #[schemars(length(min = 1, max = 10000))]
    query: String,
    /// `regex` lists the lines that match; `words` ranks files by how well the words fit them
    #[serde(default)]
    mode: Mode,
    /// A directory to search in, from the project's root
    #[serde(default)]
    path: Option<String>,
    /// Whether capital letters are as good as small ones
    #[serde(default)]
    ignore_case: bool,
    /// How many matches to give
    #[serde(default = "fifty")]
    #[schemars(range(min = 1, max = 1000))]
    max_results: usize,
}

fn fifty() -> usize {
    50
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Regex,
    Words,
}

#[derive(Serialize, JsonSchema)]
pub(in super::super) struct Output {
    matches: Vec<Match>,
    /// Whether there are more, or may be: in a line that is too long for the pattern
    truncated: bool,
}

#[derive(Serialize, JsonSchema)]
struct Match {
    path: String,
    /// From 1
    line: usize,
    text: String,
    /// How well the file fits; only for words
    #[serde(skip_serializing_if = "Option::is_none")]
    score: Option<f64>,
}

impl NativeTool for SearchCode {
    type Input = Input;
    type Output = Output;

    fn about(&self) -> About {
        About::new(
            "search_code",
            "Search the project's files by a regular expression or by words. What .gitignore leaves out is left out.",
        )
        .reads(&["."])
        .tags(&["code", "search"])
        .read_only()
    }

    async fn run(&self, input: Input, context: Context<'_>) -> Result<Output, Failure> {
        let (root, ground) = (context.workspace().to_owned(), self.0.clone());
        blocking(move |stop| {
            let workspace = Workspace::open(&root, &ground)?;
            let project = Project {
                workspace,
                root,
                stop,
            };
            search(&project, &input)
        })
        .await
    }
}

/// What is searched.
struct Project<'a> {
    workspace: Workspace,
    root: PathBuf,
    stop: &'a Stop,
}

fn search(project: &Project<'_>, input: &Input) -> Result<Output, Failure> {
    let below = match &input.path {
        None => PathBuf::new(),
        Some(path) => project.workspace.inside(path)?,
    };
    let directory = project.workspace.directory(&below)?;
    let mut walk = Walk::new(project, &below);
    let mut each = |visit: &mut Visit<'_>| walk.directory(directory.as_fd(), &below, visit);
    match input.mode {
        Mode::Regex => {
            let case = if input.ignore_case {
                Case::Ignored
            } else {
                Case::Told
            };
            let wanted = Wanted {
                line: Pattern::new(&input.query, case)?,
                anywhere: anywhere(&input.query, case),
            };
            Ok(lines(&mut each, &wanted, input.max_results, project.stop))
        }
        Mode::Words => {
            let words = words(&input.query);
            if words.is_empty() || words.len() > MOST_WORDS {
                return Err(invalid(format!("give between 1 and {MOST_WORDS} words")));
            }
            Ok(ranked(&mut each, &words, input.max_results))
        }
    }
}

/// Takes a text of the project by its path from the root, and says whether to go on.
type Visit<'a> = dyn FnMut(PathBuf, &str) -> ControlFlow<()> + 'a;
type Each<'a> = dyn FnMut(&mut Visit<'_>) -> ControlFlow<()> + 'a;

/// Goes through directories in the order of their names.
struct Walk<'a> {
    project: &'a Project<'a>,
    /// What is left out, as the directories on the way here say it; those further down have the last word.
    ignores: Vec<Gitignore>,
}

impl Walk<'_> {
    /// A directory that is named is searched, whatever is said of it; what is in it is left out as the
    /// directories above it say.
    fn new<'a>(project: &'a Project<'a>, below: &Path) -> Walk<'a> {
        let mut walk = Walk {
            project,
            ignores: Vec::new(),
        };
        walk.read_ignore(Path::new(""), Path::new(".git/info/exclude"));
        let mut above: Vec<&Path> = below.ancestors().skip(1).collect();
        above.reverse();
        for directory in above {
            walk.read_ignores(directory);
        }
        walk
    }

    fn directory(
        &mut self,
        directory: BorrowedFd<'_>,
        path: &Path,
        visit: &mut Visit<'_>,
    ) -> ControlFlow<()> {
        let known = self.ignores.len();
        self.read_ignores(path);
        // What cannot be listed holds nothing that could be found.
        for name in names(directory).unwrap_or_default() {
            if self.project.stop.is_set() {
                return ControlFlow::Break(());
            }
            if name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let path = path.join(&name);
            let found = rustix::fs::statat(directory, &name, AtFlags::SYMLINK_NOFOLLOW);
            match found.map(|it| FileType::from_raw_mode(it.st_mode)) {
                Ok(FileType::Directory) if !self.leaves_out(&path, true) => {
                    if path.components().count() < DEEPEST
                        && let Ok(inner) = below(directory, &name)
                        && let workspace = &self.project.workspace
                        && workspace.check_place(&path, inner.as_fd()).is_ok()
                    {
                        self.directory(inner.as_fd(), &path, visit)?;
                    }
                }
                Ok(FileType::RegularFile) if !self.leaves_out(&path, false) => {
                    if let Some(text) = text(self.project, &path) {
                        visit(path, &text)?;
                    }
                }
                _ => {}
            }
        }
        self.ignores.truncate(known);
        ControlFlow::Continue(())
    }

    fn leaves_out(&self, path: &Path, is_directory: bool) -> bool {
        let path = self.project.root.join(path);
        let verdicts = self.ignores.iter().rev();
        let mut verdicts = verdicts.map(|it| it.matched(&path, is_directory));
        verdicts
            .find(|it| !it.is_none())
            .is_some_and(|it| matches!(it, Verdict::Ignore(_)))
    }

    fn read_ignores(&mut self, directory: &Path) {
        for name in IGNORES {
            self.read_ignore(directory, &directory.join(name));
        }
    }

    /// Only a regular file, and no link to one, says anything: a device has no end.
    fn read_ignore(&mut self, directory: &Path, file: &Path) {
        let opened = self
            .project
            .workspace
            .at(file, OFlags::RDONLY, Links::Refused);
        let Some(text) = opened.ok().and_then(|it| read(it.into(), LARGEST_IGNORE)) else {
            return;
        };
        let mut builder = GitignoreBuilder::new(self.project.root.join(directory));
        let lines = text.lines().take(MOST_PATTERNS);
        for line in lines.filter(|it| it.len() <= LONGEST_PATTERN) {
            // A line that is no pattern leaves nothing out.
            let _ = builder.add_line(None, &literal_braces(line));
        }
        self.ignores.extend(builder.build().ok());
    }
}

/// A line of a `.gitignore` as globs have it: for git braces stand for themselves, for globs they hold choices, each
/// of which may hold others. In a class of letters they stand for themselves in both.
fn literal_braces(line: &str) -> String {
    let mut escaped = String::with_capacity(line.len());
    let mut letters = line.chars();
    let mut class: Option<usize> = None;
    while let Some(letter) = letters.next() {
        match (letter, class) {
            ('\\', None) => {
                escaped.push(letter);
                escaped.extend(letters.next());
                continue;
            }
            ('{' | '}', None) => escaped.push('\\'),
            ('[', None) => class = Some(0),
            // One that comes first is a letter of the class.
            (']', Some(1..)) => class = None,
            ('!' | '^', Some(0)) => {}
            (_, Some(seen)) => class = Some(seen + 1),
            _ => {}
        }
        escaped.push(letter);
    }
    escaped
}

/// All of a regular file that is text and not too large.
fn read(file: File, largest: u64) -> Option<String> {
    let found = file.metadata().ok()?;
    if !found.is_file() || found.len() > largest {
        return None;
    }
    let mut bytes = Vec::with_capacity(found.len() as usize);
    file.take(largest).read_to_end(&mut bytes).ok()?;
    let is_binary = memchr::memchr(0, &bytes[..bytes.len().min(8 << 10)]).is_some();
    String::from_utf8(bytes).ok().filter(|_| !is_binary)
}

fn text(project: &Project<'_>, path: &Path) -> Option<String> {
    if sensitive::holds_secrets(&project.root.join(path)) {
        return None;
    }
    let (file, _) = project.workspace.file(path).ok()?;
    read(file.into(), LARGEST)
}

/// A pattern for a line; and one that is in a text wherever a line of it has the other, when there is one. To look at
/// a text as a whole is much faster.
struct Wanted {
    line: Pattern,
    anywhere: Option<Pattern>,
}

/// Not for patterns that speak of the beginning and the end of all, or of how they are read; nor for texts where a
/// line may end otherwise than by `\n`.
fn anywhere(query: &str, case: Case) -> Option<Pattern> {
    let sets_flags = query
        .split("(?")
        .skip(1)
        .any(|it| !it.starts_with([':', 'P', '<']));
    if sets_flags || query.contains("\\A") || query.contains("\\z") {
        return None;
    }
    Pattern::new(&format!("(?m:{query})"), case).ok()
}

fn lines(each: &mut Each<'_>, wanted: &Wanted, most: usize, stop: &Stop) -> Output {
    let mut output = Output {
        matches: Vec::new(),
        truncated: false,
    };
    let _ = each(&mut |path, text| {
        let has_none = |it: &Pattern| matches!(it.is_in(text), Ok(false)) && !text.contains('\r');
        if wanted.anywhere.as_ref().is_some_and(has_none) {
            return ControlFlow::Continue(());
        }
        // Line by line: what a pattern says of a beginning and an end, it says of a line's.
        for (at, line) in text.lines().enumerate() {
            if stop.is_set() {
                return ControlFlow::Break(());
            }
            match wanted.line.is_in(line) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(TooLong) => {
                    output.truncated = true;
                    continue;
                }
            }
            if output.matches.len() == most {
                output.truncated = true;
                return ControlFlow::Break(());
            }
            output.matches.push(Match {
                path: shown(&path),
                line: at + 1,
                text: shortened(line),
                score: None,
            });
        }
        ControlFlow::Continue(())
    });
    output
}

/// What is known of one file: how often each word stands in it, and the line where most of them do.
struct Page {
    path: PathBuf,
    counts: Vec<usize>,
    length: usize,
    line: usize,
    text: String,
}

/// Files by how well the words fit them: rare words count more, and so do short files (BM25).
fn ranked(each: &mut Each<'_>, wanted: &[String], most: usize) -> Output {
    let mut pages = Vec::new();
    let (mut files, mut length) = (0usize, 0usize);
    let hint = hint(wanted);
    let _ = each(&mut |path, text| {
        files += 1;
        length += text.len();
        pages.extend(page(path, text, wanted, hint.as_ref()));
        ControlFlow::Continue(())
    });
    let average = length as f64 / files.max(1) as f64;
    let rarity: Vec<f64> = (0..wanted.len())
        .map(|word| {
            let with = pages.iter().filter(|it| it.counts[word] > 0).count() as f64;
            ((files as f64 - with + 0.5) / (with + 0.5) + 1.0).ln()
        })
        .collect();
    let score = |page: &Page| -> f64 {
        let long = 0.25 + 0.75 * page.length as f64 / average.max(1.0);
        let parts = page.counts.iter().zip(&rarity).map(|(&count, rarity)| {
            let count = count as f64;
            rarity * count * 2.2 / (count + 1.2 * long)
        });
        parts.sum()
    };
    let mut scored: Vec<(f64, Page)> = pages.into_iter().map(|it| (score(&it), it)).collect();
    scored.sort_by(|(one, a), (other, b)| other.total_cmp(one).then_with(|| a.path.cmp(&b.path)));
    Output {
        truncated: scored.len() > most,
        matches: scored
            .into_iter()
            .take(most)
            .map(|(score, page)| Match {
                path: shown(&page.path),
                line: page.line,
                text: page.text,
                score: Some((score * 1000.0).round() / 1000.0),
            })
            .collect(),
    }
}

/// What is in every line that has one of the words. What is not ASCII has small letters that no pattern knows.
fn hint(wanted: &[String]) -> Option<Pattern> {
    let is_plain = wanted.iter().all(|it| it.is_ascii());
    is_plain
        .then(|| Pattern::new(&wanted.join("|"), Case::Ignored).ok())
        .flatten()
}

fn page(path: PathBuf, text: &str, wanted: &[String], hint: Option<&Pattern>) -> Option<Page> {
    let has_some = |text: &str| hint.is_none_or(|it| it.is_in(text).unwrap_or(true));
    let places: HashMap<&str, usize> = wanted
        .iter()
        .enumerate()
        .map(|(at, it)| (it.as_str(), at))
        .collect();
    let mut counts = vec![0; wanted.len()];
    // The name of a file tells what it is about.
    for word in words(&path.to_string_lossy()) {
        if let Some(&at) = places.get(word.as_str()) {
            counts[at] += 2;
        }
    }
    let (mut line, mut best, mut shown) = (1, 0, text.lines().next().unwrap_or_default());
    let lines = has_some(text).then(|| text.lines()).into_iter().flatten();
    for (at, text) in lines.enumerate().filter(|it| has_some(it.1)) {
        let mut here = 0u32;
        for word in words(text) {
            if let Some(&word) = places.get(word.as_str()) {
                counts[word] += 1;
                here |= 1 << word;
            }
        }
        if here.count_ones() > best {
            (line, best, shown) = (at + 1, here.count_ones(), text);
        }
    }
    counts.iter().any(|&it| it > 0).then(|| Page {
        counts,
        length: text.len(),
        line,
        text: shortened(shown),
        path,
    })
}

/// The words of a text, in small letters: `parseHttpUrl` and `parse_http_url` hold three.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut before = ' ';
    for c in text.chars().chain([' ']) {
        let begins = c.is_uppercase() && before.is_lowercase();
        if (begins || !c.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        before = c;
    }
    words
}

fn shortened(line: &str) -> String {
    line.trim_end().chars().take(LONGEST_LINE).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::Arc;

    use super::super::super::workspace::Opening;
    use super::*;

    #[test]
    fn words_of_code() {
        assert_eq!(
            words("parseHttpUrl(x_1)"),
            ["parse", "http", "url", "x", "1"]
        );
        assert_eq!(words("--"), [""; 0]);
    }

    fn found(root: &Path, query: &str, path: Option<&str>) -> Vec<String> {
        let ground = Ground {
            hidden: Arc::new([]),
            home: None,
            opening: Opening::of_this_kernel(),
        };
        let project = Project {
            workspace: Workspace::open(root, &ground).unwrap(),
            root: root.to_owned(),
            stop: &Stop::default(),
        };
        let input = serde_json::json!({"query": query, "path": path});
        let output = search(&project, &serde_json::from_value(input).unwrap()).unwrap();
        let places = output.matches.into_iter();
        places
            .map(|it| format!("{}:{}", it.path, it.line))
            .collect()
    }

    fn scene(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        for (path, content) in files {
            let path = root.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        (home, root)
    }

    #[test]
    fn what_is_left_out() {
        let (_home, root) = scene(&[
            (".gitignore", "*.log\n/out\n!keep.log\n"),
            (".git/info/exclude", "mine\nkeep.log\n"),
            ("a.log", "x"),
            ("keep.log", "x"),
            ("mine", "x"),
            ("out/a", "x"),
            ("sub/a.log", "x"),
            ("sub/b", "x"),
            ("sub/out/a", "x"),
            ("sub/.ignore", "b\n"),
            ("sub/deep/.gitignore", "!*.log\n"),
            ("sub/deep/a.log", "x"),
            (".hidden/a", "x"),
        ]);
        let below = ["sub/deep/a.log:1", "sub/out/a:1"];
        assert_eq!(found(&root, "x", Some("sub")), below);
        assert_eq!(
            found(&root, "x", None),
            ["keep.log:1", "sub/deep/a.log:1", "sub/out/a:1"]
        );
        assert_eq!(found(&root, "x", Some("sub/deep")), ["sub/deep/a.log:1"]);
        // Who names it wants it.
        assert_eq!(found(&root, "x", Some("out")), ["out/a:1"]);
    }

    /// A device without an end, a pipe that nobody writes to, and a file outside.
    #[test]
    fn only_files_of_the_project_say_what_is_left_out() {
        let (_home, root) = scene(&[("root/a", "x"), ("root/sub/b", "x"), ("ignore", "*\n")]);
        let root = root.join("root");
        symlink("/dev/zero", root.join(".gitignore")).unwrap();
        symlink("../ignore", root.join(".ignore")).unwrap();
        std::fs::create_dir_all(root.join(".git/info")).unwrap();
        symlink("/dev/zero", root.join(".git/info/exclude")).unwrap();
        let pipe = root.join("sub/.gitignore");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, mode, 0).unwrap();
        let (done, wait) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(found(&root, "x", None)));
        let found = wait.recv_timeout(std::time::Duration::from_secs(20));
        assert_eq!(found.unwrap(), ["a:1", "sub/b:1"]);
    }

    #[test]
    fn patterns_without_end_are_not_all_read() {
        let many = "a*b*c*d?e[x-z]\n".repeat(60_000);
        let (_home, root) = scene(&[("a", "x"), (".gitignore", &many)]);
        let began = std::time::Instant::now();
        assert_eq!(found(&root, "x", None), ["a:1"]);
        assert!(began.elapsed() < std::time::Duration::from_secs(20));
    }

    /// Each brace that opens choices would take some of the stack: an overflow ends the process.
    #[test]
    fn braces_stand_for_themselves_however_many() {
        let deep = format!("{}a{}\n", "{".repeat(30_000), "}".repeat(30_000));
        let wide = format!("{}a{}\n", "{".repeat(500), "}".repeat(500));
        let lines = "{a,b}\n\\{c\\}\nd{e\n[{]x\n[]{]y\n";
        let ignore = format!("{deep}{wide}{lines}");
        let names = ["a", "b", "{a,b}", "{c}", "d{e", "{x", "{y", "z"];
        let mut files: Vec<(&str, &str)> = names.iter().map(|it| (*it, "x")).collect();
        files.push((".gitignore", &ignore));
        let (_home, root) = scene(&files);
        assert_eq!(found(&root, "x", None), ["a:1", "b:1", "z:1"]);
        // git says so, too.
        let git = |words: &[&str]| {
            let mut git = std::process::Command::new("git");
            git.args(words).current_dir(&root).output().unwrap().stdout
        };
        git(&["init", "-q"]);
        let words: Vec<&str> = ["check-ignore", "--"].into_iter().chain(names).collect();
        let left_out = String::from_utf8(git(&words)).unwrap();
        assert_eq!(left_out.lines().collect::<Vec<_>>(), names[2..7]);
    }

    #[test]
    fn a_pattern_is_for_a_line() {
        let (_home, root) = scene(&[("a.rs", "// x\r\nfn main() {\n}\n")]);
        assert_eq!(found(&root, "^fn main", None), ["a.rs:2"]);
        assert_eq!(found(&root, "x$", None), ["a.rs:1"]);
        assert_eq!(found(&root, r"\A\}\z", None), ["a.rs:3"]);
        // However the text as a whole is looked at before.
        let (_home, root) = scene(&[("a", "one\ntwo\n\nthree four\n"), ("b", "x\ry\n")]);
        for (query, expected) in [
            ("^two$", "a:2"),
            ("^$", "a:3"),
            ("(?-m)^two$", "a:2"),
            (r"\Athree", "a:4"),
            (r"four\z", "a:4"),
            (r"\bfour$", "a:4"),
            ("x.y", "b:1"),
            ("(?:x).y$", "b:1"),
        ] {
            assert_eq!(found(&root, query, None), [expected], "{query}");
        }
        assert_eq!(found(&root, r"one\stwo", None), [""; 0]);
    }
}
