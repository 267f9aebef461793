//! The documentation is run: every command a page shows is executed and must print what the page says.
//!
//! How a page is written is told in `docs/README.md`. In short: a `yaml`, `python` or `bash` block
//! begins with a comment that names a file, and is that file; a `console` block holds commands and
//! what they print; `json` must parse; `text` is only looked at.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use glee_core::example::text_matches;
use glee_core::outcome::FailureKind;
use serde_json::Value;

use crate::support::{GLEE, Scene, repository, stdout};

const LONGEST_LINE: usize = 400;
/// Blocks of files; their first line is a comment with the path.
const FILES: &[&str] = &["yaml", "python", "bash"];

struct Page {
    /// From the repository's root.
    path: PathBuf,
    lines: Vec<Line>,
    blocks: Vec<Block>,
}

struct Line {
    number: usize,
    text: String,
    in_block: bool,
}

struct Block {
    language: String,
    /// Of the opening fence.
    line: usize,
    text: String,
}

impl Page {
    fn read(path: &Path) -> Page {
        let text = fs::read_to_string(repository().join(path)).unwrap();
        let mut page = Page {
            path: path.to_owned(),
            lines: Vec::new(),
            blocks: Vec::new(),
        };
        let mut open: Option<Block> = None;
        for (at, text) in text.lines().enumerate() {
            let number = at + 1;
            let fence = text.trim_start().strip_prefix("```");
            page.lines.push(Line {
                number,
                text: text.to_owned(),
                in_block: open.is_some() || fence.is_some(),
            });
            match (fence, open.take()) {
                (Some(language), None) => {
                    open = Some(Block {
                        language: language.trim().to_owned(),
                        line: number,
                        text: String::new(),
                    });
                }
                (Some(_), Some(block)) => page.blocks.push(block),
                (None, Some(mut block)) => {
                    block.text.push_str(text);
                    block.text.push('\n');
                    open = Some(block);
                }
                (None, None) => {}
            }
        }
        assert!(
            open.is_none(),
            "{}: a block is never closed",
            path.display()
        );
        page
    }

    fn prose(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|it| !it.in_block)
    }

    fn headings(&self) -> impl Iterator<Item = &str> {
        self.prose()
            .filter(|it| it.text.starts_with('#'))
            .map(|it| it.text.trim_start_matches('#').trim())
    }

    /// Every word that stands in `code` in the prose.
    fn code_words(&self) -> BTreeSet<String> {
        self.prose()
            .flat_map(|it| it.text.split('`').skip(1).step_by(2))
            .flat_map(|it| it.split(|c: char| !c.is_alphanumeric() && !"_-".contains(c)))
            .map(str::to_owned)
            .collect()
    }

    fn at(&self, line: usize, why: impl std::fmt::Display) -> String {
        format!("{}:{line}: {why}", self.path.display())
    }
}

fn pages() -> Vec<Page> {
    let mut paths: Vec<PathBuf> = ["docs", "docs/reference"]
        .into_iter()
        .flat_map(|it| {
            let entries = fs::read_dir(repository().join(it)).unwrap();
            entries.map(move |entry| Path::new(it).join(entry.unwrap().file_name()))
        })
        .filter(|it| it.extension().is_some_and(|it| it == "md"))
        .collect();
    paths.sort();
    paths.extend(
        ["README.md"]
            .map(PathBuf::from)
            .into_iter()
            .filter(|it| repository().join(it).exists()),
    );
    paths.iter().map(|it| Page::read(it)).collect()
}

fn page(path: &str) -> Page {
    Page::read(Path::new(path))
}

fn none(problems: Vec<String>) {
    assert!(problems.is_empty(), "\n\n{}\n", problems.join("\n\n"));
}

#[test]
fn what_the_pages_show_is_what_happens() {
    none(pages().iter().flat_map(run).collect());
}

/// Runs the blocks of one page, in order, in one project.
fn run(page: &Page) -> Vec<String> {
    let scene = Scene::new();
    let mut problems = Vec::new();
    for (at, block) in page.blocks.iter().enumerate() {
        match block.language.as_str() {
            "console" => problems.extend(run_console(page, block, &scene)),
            "json" => {
                if let Err(err) = serde_json::from_str::<Value>(&block.text) {
                    problems.push(page.at(block.line, format!("not JSON: {err}")));
                }
            }
            "text" => {}
            // The quick start builds glee; that is run where glee is built.
            "sh" if page.path == Path::new("README.md") => {}
            language if FILES.contains(&language) => match file(block) {
                Some((path, text)) => {
                    scene.write(path, text);
                    problems.extend(unused(page, block, path, &page.blocks[at + 1..]));
                }
                None => problems.push(page.at(
                    block.line,
                    format!("a `{language}` block begins with a comment that names its file"),
                )),
            },
            other => {
                problems.push(page.at(block.line, format!("`{other}` is no language for a block")))
            }
        }
    }
    problems
}

/// The path on the first line, and the file itself, which is everything below.
fn file(block: &Block) -> Option<(&str, &str)> {
    let (first, text) = block.text.split_once('\n')?;
    let path = first.strip_prefix("# ")?;
    let is_path = path.contains(['/', '.']) && !path.contains(' ') && !path.starts_with('/');
    is_path.then_some((path, text))
}

/// A tool that is shown and never used would be a promise nobody keeps.
fn unused(page: &Page, block: &Block, path: &str, later: &[Block]) -> Option<String> {
    let tool = path.strip_prefix(".glee/tools/")?.split('/').next()?;
    let is_used = later
        .iter()
        .filter(|it| it.language == "console")
        .flat_map(|it| it.text.lines())
        .any(|line| line.starts_with("$ ") && line.split([' ', '/']).any(|word| word == tool));
    (!is_used).then(|| page.at(block.line, format!("no later command uses `{tool}`")))
}

/// `$ ` begins a command; the lines up to the next one are what it prints, on both streams, with `...`
/// for any lines. A comment `# exit N` behind the command says how it ends when that is not 0.
fn run_console(page: &Page, block: &Block, scene: &Scene) -> Vec<String> {
    let mut commands: Vec<(usize, &str, String)> = Vec::new();
    for (at, line) in block.text.lines().enumerate() {
        let number = block.line + 1 + at;
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((number, command, String::new())),
            (None, Some((_, _, output))) => {
                output.push_str(line);
                output.push('\n');
            }
            (None, None) => {
                return vec![page.at(number, "a `console` block begins with `$ `")];
            }
        }
    }
    let failures = commands.iter().filter_map(|(line, command, expected)| {
        let wanted = match command.split_once("# exit ") {
            None => 0,
            Some((_, code)) => code.trim().parse().unwrap_or(-1),
        };
        let (code, actual) = shell(scene, command);
        if code == Some(wanted) && text_matches(expected, &actual) {
            return None;
        }
        let mut why = format!("$ {command}\n");
        let _ = write!(
            why,
            "--- the page says (exit {wanted})\n{expected}--- it was (exit {code:?})\n{actual}"
        );
        Some(page.at(*line, why))
    });
    failures.collect()
}

/// Both streams go into one pipe, so that they come in the order a reader sees.
fn shell(scene: &Scene, command: &str) -> (Option<i32>, String) {
    let mut path = Path::new(GLEE).parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", &format!("exec 2>&1\n{command}")])
        .current_dir(&scene.root)
        .env_clear()
        .env("PATH", path)
        .env("XDG_STATE_HOME", scene.root.with_file_name("state"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (output.status.code(), stdout(&output))
}

#[test]
fn every_link_leads_somewhere() {
    let mut problems = Vec::new();
    for page in pages() {
        for line in page.prose() {
            for target in links(&line.text) {
                if let Err(why) = follow(&page, target) {
                    problems.push(page.at(line.number, why));
                }
            }
        }
    }
    none(problems);
}

/// The targets of `[text](target)`, outside `code`.
fn links(line: &str) -> Vec<&str> {
    line.split('`')
        .step_by(2)
        .flat_map(|it| it.split("](").skip(1))
        .filter_map(|it| it.split_once(')'))
        .map(|(target, _)| target)
        .collect()
}

fn follow(from: &Page, target: &str) -> Result<(), String> {
    if target.starts_with("https://") {
        return Ok(());
    }
    let (file, anchor) = match target.split_once('#') {
        Some((file, anchor)) => (file, Some(anchor)),
        None => (target, None),
    };
    let path = match file {
        "" => from.path.clone(),
        file => from.path.parent().unwrap().join(file),
    };
    if !repository().join(&path).exists() {
        return Err(format!("there is no `{target}`"));
    }
    match anchor {
        Some(anchor) if !Page::read(&path).headings().any(|it| slug(it) == anchor) => {
            Err(format!("`{}` has no heading `#{anchor}`", path.display()))
        }
        _ => Ok(()),
    }
}

/// What a heading is called in a link.
fn slug(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || " _-".contains(*c))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn lines_can_be_read_and_nothing_is_left_to_do() {
    let mut problems = Vec::new();
    for page in pages() {
        for line in &page.lines {
            if line.text.chars().count() > LONGEST_LINE {
                problems.push(page.at(line.number, "the line is too long"));
            }
            if ["TODO", "FIXME", "TBD"]
                .iter()
                .any(|it| line.text.contains(it))
            {
                problems.push(page.at(line.number, "something is left to do"));
            }
        }
    }
    none(problems);
}

#[test]
fn the_index_names_every_page() {
    let index = page("docs/README.md");
    let linked: BTreeSet<&str> = index.prose().flat_map(|it| links(&it.text)).collect();
    let missing = pages().into_iter().filter_map(|it| {
        let name = it.path.strip_prefix("docs").ok()?.to_str()?.to_owned();
        (name != "README.md" && !linked.contains(name.as_str()))
            .then(|| format!("docs/README.md does not lead to {name}"))
    });
    none(missing.collect());
}

#[test]
fn every_error_has_a_section() {
    let page = page("docs/errors.md");
    let sections: BTreeSet<&str> = page.headings().collect();
    let codes: BTreeSet<&str> = FailureKind::ALL.iter().map(|it| it.code()).collect();
    let is_code = |it: &&&str| it.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    let missing = codes
        .iter()
        .filter(|it| !sections.contains(*it))
        .map(|it| format!("docs/errors.md has no section {it}"));
    let unknown = sections
        .iter()
        .filter(is_code)
        .filter(|it| !codes.contains(*it))
        .map(|it| format!("docs/errors.md has a section {it}, which is no error"));
    none(missing.chain(unknown).collect());
}

#[test]
fn every_key_of_a_manifest_is_told() {
    tells_every_property("docs/manifest.md", "schemas/tool.schema.json");
}

#[test]
fn every_key_of_prompts_and_resources_is_told() {
    let page = "docs/prompts-and-resources.md";
    tells_every_property(page, "schemas/resource.schema.json");
    // How questions are written is told with the tools.
    let mut schema = schema("schemas/prompt.schema.json");
    schema["$defs"]
        .as_object_mut()
        .unwrap()
        .shift_remove("WireRequest");
    tells_every_property_of(page, &schema);
}

#[test]
fn every_key_of_the_config_is_told() {
    tells_every_property("docs/config.md", "schemas/config.schema.json");
}

fn schema(path: &str) -> Value {
    let schema = fs::read_to_string(repository().join(path)).unwrap();
    serde_json::from_str(&schema).unwrap()
}

fn tells_every_property(path: &str, schema_path: &str) {
    tells_every_property_of(path, &schema(schema_path));
}

fn tells_every_property_of(path: &str, schema: &Value) {
    let mut names = BTreeSet::new();
    properties(schema, &mut names);
    let told = page(path).code_words();
    let missing = names.difference(&told);
    none(
        missing
            .map(|it| format!("{path} does not tell of `{it}`"))
            .collect(),
    );
}

/// The names of all properties, at any depth.
fn properties(schema: &Value, names: &mut BTreeSet<String>) {
    match schema {
        Value::Array(items) => items.iter().for_each(|it| properties(it, names)),
        Value::Object(map) => {
            if let Some(Value::Object(properties)) = map.get("properties") {
                names.extend(properties.keys().cloned());
            }
            map.values().for_each(|it| properties(it, names));
        }
        _ => {}
    }
}

/// The rules that the lint cases expect; the page may well know more of them.
#[test]
fn every_rule_of_lint_is_told() {
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let below = |directory: &Path| -> Vec<PathBuf> {
        fs::read_dir(directory)
            .unwrap()
            .map(|it| it.unwrap().path())
            .collect()
    };
    let rules: BTreeSet<String> = below(&cases)
        .iter()
        .flat_map(|it| below(it))
        .filter_map(|it| fs::read_to_string(it.join("lint.json")).ok())
        .flat_map(|it| serde_json::from_str::<Vec<Value>>(&it).unwrap())
        .map(|it| it["rule"].as_str().unwrap().to_owned())
        .collect();
    assert!(rules.len() > 20, "the lint cases are not where they were");
    let mut told = page("docs/manifest.md").code_words();
    told.extend(page("docs/prompts-and-resources.md").code_words());
    let missing = rules.difference(&told);
    none(
        missing
            .map(|it| format!("no page tells of the rule `{it}`"))
            .collect(),
    );
}

#[test]
fn every_command_has_a_section() {
    let help = stdout(&Scene::new().glee(&["--help"]));
    let commands: Vec<&str> = help
        .lines()
        .skip_while(|it| *it != "Commands:")
        .skip(1)
        .map_while(|it| it.split_whitespace().next())
        .filter(|it| *it != "help")
        .collect();
    assert!(commands.len() > 5, "the help is not what it was: {help}");
    let page = page("docs/cli.md");
    let sections: BTreeSet<&str> = page.headings().collect();
    let missing = commands
        .iter()
        .filter(|it| !sections.contains(format!("glee {it}").as_str()));
    none(
        missing
            .map(|it| format!("docs/cli.md has no section `glee {it}`"))
            .collect(),
    );
}
