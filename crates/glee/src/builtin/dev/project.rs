//! What a project's own programs do, found by what the project is: `run_tests`, `format_code`,
//! `install_package`.

use std::path::Path;
use std::time::Duration;

use glee_core::host::HostPattern;
use glee_core::outcome::{Failure, FailureKind};
use glee_core::permission::Network;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::confined::{Confined, Site, Told, about, succeeded};
use super::super::pattern::invalid;
use super::super::workspace::shown;
use crate::exec::{Ended, Program};
use crate::native::About;

/// A kind of project: the file that tells it, and its programs.
struct Kind {
    sign: &'static str,
    test: &'static [&'static str],
    /// What chooses among the tests, before the filter.
    filter: &'static [&'static str],
    format: &'static [&'static str],
    check: &'static [&'static str],
}

/// In the order in which they are looked for.
const KINDS: &[Kind] = &[
    Kind {
        sign: "Cargo.toml",
        test: &["cargo", "test", "--offline"],
        filter: &["--"],
        format: &["cargo", "fmt"],
        check: &["cargo", "fmt", "--check"],
    },
    Kind {
        sign: "go.mod",
        test: &["go", "test", "./..."],
        filter: &["-run"],
        format: &["gofmt", "-w", "."],
        check: &["gofmt", "-l", "."],
    },
    Kind {
        sign: "package.json",
        test: &["npm", "test"],
        filter: &["--"],
        format: &["node_modules/.bin/prettier", "--write", "."],
        check: &["node_modules/.bin/prettier", "--check", "."],
    },
    PYTHON,
    Kind {
        sign: "setup.py",
        ..PYTHON
    },
    Kind {
        sign: "tests",
        ..PYTHON
    },
    Kind {
        sign: "Makefile",
        test: &["make", "test"],
        filter: &[],
        format: &["make", "format"],
        check: &["make", "format-check"],
    },
];

const PYTHON: Kind = Kind {
    sign: "pyproject.toml",
    test: &["python3", "-m", "unittest", "discover"],
    filter: &["-k"],
    format: &["ruff", "format", "."],
    check: &["ruff", "format", "--check", "."],
};

fn kind(site: &Site<'_>) -> Result<&'static Kind, Failure> {
    let is_there = |it: &&Kind| site.root().join(it.sign).exists();
    KINDS.iter().find(is_there).ok_or_else(|| {
        let signs: Vec<&str> = KINDS.iter().map(|it| it.sign).collect();
        let message = format!(
            "what kind of project this is cannot be told: there is no {}",
            signs.join(", ")
        );
        Failure::new(FailureKind::ExecutionError, message)
            .hint("run the program itself with `shell`")
    })
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|&it| it.to_owned()).collect()
}

/// The environment that a Python project keeps its packages in, where there is one.
const ENVIRONMENT: &str = ".venv/bin";

/// A program with its words, and what there is to say of the choice.
struct Choice {
    words: Vec<String>,
    warning: Option<String>,
}

/// The project's own program where its environment has it and it can be started. An environment is what its link says;
/// nobody opens a directory because a link leads there.
fn of_project(site: &Site<'_>, words: &[&str]) -> Choice {
    let mut words = owned(words);
    let name = match words[0].as_str() {
        "python3" => "python",
        "ruff" => "ruff",
        _ => {
            let warning = None;
            return Choice { words, warning };
        }
    };
    let own = format!("{ENVIRONMENT}/{name}");
    let mut warning = None;
    // Whatever stands in an environment is started by its python.
    match stranger(site) {
        Some(python) => {
            warning = Some(format!(
                "`{}` is used instead of the project's own: {python}",
                words[0]
            ))
        }
        None if site.can_start(&site.root().join(&own)) => words[0] = own,
        None => {}
    }
    Choice { words, warning }
}

/// Why the python of the project's environment cannot be started, if there is one that cannot.
fn stranger(site: &Site<'_>) -> Option<String> {
    let own = format!("{ENVIRONMENT}/python");
    let path = site.root().join(&own);
    let is_there = path.symlink_metadata().is_ok();
    (is_there && !site.can_start(&path)).then(|| {
        let real = path.canonicalize().unwrap_or(path);
        format!(
            "`{own}` leads to `{}`, which programs cannot read; list the directory it was installed to under `builtins.programs` in .glee/config.yml",
            real.display()
        )
    })
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(in super::super) struct Run {
    /// What was run
    command: Vec<String>,
    /// Whether it ended well
    passed: bool,
    exit_code: i32,
    stdout: String,
    stderr: String,
    /// In milliseconds
    duration: u64,
}

impl Run {
    fn told(choice: Choice, ended: Ended) -> Told<Run> {
        let Choice {
            words: command,
            warning,
        } = choice;
        Told {
            truncated: ended.truncated,
            warnings: warning.into_iter().chain(ended.warnings()).collect(),
            output: Run {
                command,
                passed: ended.code == 0,
                exit_code: ended.code,
                duration: ended.duration.as_millis() as u64,
                stdout: ended.stdout,
                stderr: ended.stderr,
            },
        }
    }
}

pub(in super::super) struct RunTests(pub(in super::super) Network);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Tests {
    /// Which tests to run, as the project's program takes it; all unless given
    #[serde(default)]
    filter: Option<String>,
    /// How many seconds they may take
    #[serde(default = "ten_minutes")]
    #[schemars(range(min = 0.01, max = 3600))]
    timeout: f64,
}

fn ten_minutes() -> f64 {
    600.0
}

impl Confined for RunTests {
    type Input = Tests;
    type Output = Run;

    fn about(&self) -> About {
        about(
            "run_tests",
            "Run the project's tests in the sandbox, with the program that belongs to its kind: cargo, go, npm, python or make.",
            &self.0,
        )
        .tags(&["code"])
    }

    async fn run(&self, input: Tests, site: Site<'_>) -> Result<Told<Run>, Failure> {
        let kind = kind(&site)?;
        let mut choice = of_project(&site, kind.test);
        // Python has two ways, and one of them may not be there.
        if kind.test == PYTHON.test && has_pytest(&site).await {
            choice = of_project(&site, &["python3", "-m", "pytest", "-q"]);
        }
        if let Some(filter) = input.filter {
            if filter.starts_with('-') {
                return Err(invalid("`filter` cannot start with `-`".to_owned()));
            }
            choice.words.extend(owned(kind.filter));
            choice.words.push(filter);
        }
        let timeout = Duration::from_secs_f64(input.timeout);
        let ended = site.run_words(choice.words.clone(), timeout).await?;
        Ok(Run::told(choice, ended))
    }
}

async fn has_pytest(site: &Site<'_>) -> bool {
    let choice = of_project(site, &["python3", "-c", "import pytest"]);
    let asked = site.run_words(choice.words, Duration::from_secs(10)).await;
    asked.is_ok_and(|it| it.code == 0)
}

pub(in super::super) struct FormatCode(pub(in super::super) Network);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Format {
    /// One file to format, from the project's root; the whole project unless given
    #[serde(default)]
    path: Option<String>,
    /// Whether to tell only what is not formatted
    #[serde(default)]
    check: bool,
}

/// What formats a single file, by how its name ends: the program, and what makes it only look.
const FORMATTERS: &[(&[&str], &[&str], &[&str])] = &[
    (&["rs"], &["rustfmt"], &["rustfmt", "--check"]),
    (&["go"], &["gofmt", "-w"], &["gofmt", "-l"]),
    (&["py", "pyi"], PY.0, PY.1),
    (
        JS,
        &["node_modules/.bin/prettier", "--write"],
        &["node_modules/.bin/prettier", "--check"],
    ),
    (&["json"], JSON.0, JSON.1),
];

const JS: &[&str] = &["js", "jsx", "ts", "tsx", "css", "html", "md", "yml", "yaml"];
type Words = &'static [&'static str];
const PY: (Words, Words) = (&["ruff", "format"], &["ruff", "format", "--check"]);
/// Everybody has Python, and it keeps the order of keys.
const JSON: (Words, Words) = (
    &[
        "python3",
        "-c",
        "import json,sys; p=sys.argv[1]; t=json.load(open(p)); open(p,'w').write(json.dumps(t,indent=2,ensure_ascii=False)+'\\n')",
    ],
    &[
        "python3",
        "-c",
        "import json,sys; s=open(sys.argv[1]).read(); sys.exit(s!=json.dumps(json.loads(s),indent=2,ensure_ascii=False)+'\\n')",
    ],
);

impl Confined for FormatCode {
    type Input = Format;
    type Output = Run;

    fn about(&self) -> About {
        about(
            "format_code",
            "Format a file or the project, with the program that belongs to it: rustfmt, gofmt, ruff or prettier.",
            &self.0,
        )
        .tags(&["code"])
    }

    async fn run(&self, input: Format, site: Site<'_>) -> Result<Told<Run>, Failure> {
        let choice = match &input.path {
            None => {
                let kind = kind(&site)?;
                of_project(&site, if input.check { kind.check } else { kind.format })
            }
            Some(path) => {
                let workspace = site.workspace()?;
                let path = match input.check {
                    true => workspace.inside(path)?,
                    false => workspace.changeable(path)?,
                };
                workspace.file(&path)?;
                let end = path
                    .extension()
                    .and_then(|it| it.to_str())
                    .unwrap_or_default();
                let known = FORMATTERS.iter().find(|it| it.0.contains(&end));
                let (_, format, check) = known.ok_or_else(|| {
                    invalid(format!("nothing is known that formats `{}`", shown(&path)))
                })?;
                let mut choice = of_project(&site, if input.check { check } else { format });
                // With its directory it cannot be taken for an option.
                choice.words.push(format!("./{}", shown(&path)));
                choice
            }
        };
        let ended = site
            .run_words(choice.words.clone(), Duration::from_secs(120))
            .await?;
        Ok(Run::told(choice, ended))
    }
}

/// With the hosts that packages come from.
pub(in super::super) struct InstallPackage(pub(in super::super) Vec<HostPattern>);

/// Where packages come from, unless the project says otherwise.
pub(in super::super) const REGISTRIES: &[&str] = &[
    "pypi.org",
    "files.pythonhosted.org",
    "registry.npmjs.org",
    "crates.io",
    "index.crates.io",
    "static.crates.io",
    "proxy.golang.org",
    "sum.golang.org",
];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Packages {
    /// Names of packages, with versions as the manager writes them
    #[schemars(length(min = 1, max = 50))]
    packages: Vec<String>,
    /// What installs them; told by the project's files unless given
    #[serde(default)]
    manager: Option<Manager>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Manager {
    Pip,
    Npm,
    Cargo,
    Go,
}

impl Confined for InstallPackage {
    type Input = Packages;
    type Output = Run;

    fn about(&self) -> About {
        about(
            "install_package",
            "Install packages into the project: with pip into .venv, or with npm, cargo or go. A person is always asked; the network is only where packages come from.",
            &Network::Hosts(self.0.clone()),
        )
        .tags(&["code"])
    }

    fn refuses(&self, input: &Packages, workspace: &Path) -> Result<(), Failure> {
        if let Some(wrong) = input.packages.iter().find(|it| !is_name(it)) {
            let message = format!("`{}` is no name of a package", wrong.escape_debug());
            return Err(invalid(message));
        }
        match input.manager {
            Some(_) => Ok(()),
            None => manager(workspace).map(|_| ()),
        }
    }

    fn asks(&self, input: &Packages, _: &Path) -> Option<String> {
        Some(format!("it installs {}", input.packages.join(", ")))
    }

    async fn run(&self, input: Packages, site: Site<'_>) -> Result<Told<Run>, Failure> {
        self.refuses(&input, site.root())?;
        let manager = match input.manager {
            Some(manager) => manager,
            None => manager(site.root())?,
        };
        let mut words = match manager {
            Manager::Pip => {
                let python = format!("{ENVIRONMENT}/python");
                if let Some(why) = stranger(&site) {
                    return Err(Failure::new(FailureKind::ExecutionError, why));
                }
                if !site.root().join(&python).exists() {
                    let make = owned(&["python3", "-m", "venv", ".venv"]);
                    let made = site.run_words(make, Duration::from_secs(120)).await?;
                    succeeded("python3 -m venv", made)?;
                }
                owned(&[
                    &python,
                    "-m",
                    "pip",
                    "install",
                    "--no-input",
                    "--disable-pip-version-check",
                    "--",
                ])
            }
            Manager::Npm => owned(&[
                "npm",
                "install",
                "--no-audit",
                "--no-fund",
                "--no-update-notifier",
                "--",
            ]),
            Manager::Cargo => owned(&["cargo", "add", "--"]),
            Manager::Go => owned(&["go", "get", "--"]),
        };
        words.extend(input.packages);
        let program = Program {
            words: words.clone(),
            cwd: site.root().to_owned(),
            env: Vec::new(),
            stdin: String::new(),
            timeout: Duration::from_secs(600),
        };
        let ended = succeeded(&words[..2].join(" "), site.run(program).await?)?;
        let warning = None;
        Ok(Run::told(Choice { words, warning }, ended))
    }
}

fn manager(root: &Path) -> Result<Manager, Failure> {
    let there = |name: &str| root.join(name).exists();
    let known = [
        ("Cargo.toml", Manager::Cargo),
        ("go.mod", Manager::Go),
        ("package.json", Manager::Npm),
        ("pyproject.toml", Manager::Pip),
        ("requirements.txt", Manager::Pip),
        ("setup.py", Manager::Pip),
        (".venv", Manager::Pip),
    ];
    let found = known.iter().find(|it| there(it.0)).map(|it| it.1);
    found.ok_or_else(|| invalid("say with `manager` what shall install them".to_owned()))
}

/// A name and perhaps a version: no option, no path upwards, no address.
fn is_name(text: &str) -> bool {
    let first = text.chars().next();
    first.is_some_and(|it| it.is_ascii_alphanumeric() || it == '@')
        && !text.contains("..")
        && text
            .chars()
            .all(|it| it.is_ascii_alphanumeric() || "@/._-~^=<>!,+*[]".contains(it))
}

#[cfg(test)]
mod tests {
    use super::is_name;

    #[test]
    fn names_of_packages() {
        for name in [
            "left-pad",
            "@scope/x@1.2.3",
            "requests[socks]>=2,<3",
            "golang.org/x/text",
        ] {
            assert!(is_name(name), "{name}");
        }
        for name in [
            "",
            "-e",
            "--target=/",
            "../x",
            "a/../b",
            "git+https://x/y",
            "a b",
            "a;b",
            "a\nb",
        ] {
            assert!(!is_name(name), "{name:?}");
        }
    }
}
