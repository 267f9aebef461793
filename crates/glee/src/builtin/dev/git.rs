//! git, in the sandbox: `git_status`, `git_diff`, `git_log`, `git_commit`.
//!
//! What a repository's own config has git start runs in the sandbox as well, without the network.

use std::path::Path;
use std::time::Duration;

use glee_core::outcome::{Failure, FailureKind};
use glee_core::permission::Network;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::confined::{Confined, Site, Told, about, succeeded};
use super::super::workspace::shown;
use crate::exec::Ended;
use crate::native::About;

/// git is quick, also in a large repository.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whoever owns the repository, it is in the sandbox; and git must not ask anybody.
const START: &[&str] = &[
    "git",
    "--no-pager",
    "-c",
    "safe.directory=*",
    "-c",
    "core.fsmonitor=false",
    "-c",
    "color.ui=false",
    "-c",
    "core.quotepath=false",
];

async fn git(site: &Site<'_>, words: Vec<String>) -> Result<Ended, Failure> {
    let what = format!("git {}", words[0]);
    let start = START.iter().map(|&it| it.to_owned());
    let ended = site
        .run_words(start.chain(words).collect(), PATIENCE)
        .await?;
    if ended.code == 128 && ended.stderr.contains("not a git repository") {
        let message = "the project is no git repository";
        return Err(Failure::new(FailureKind::ExecutionError, message)
            .hint("a person makes it one with `git init`"));
    }
    succeeded(&what, ended)
}

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|&it| it.to_owned()).collect()
}

/// Paths as git takes them: those of the project, and no patterns.
fn paths(site: &Site<'_>, given: &[String]) -> Result<Vec<String>, Failure> {
    let workspace = site.workspace()?;
    given
        .iter()
        .map(|it| Ok(format!(":(literal){}", shown(&workspace.inside(it)?))))
        .collect()
}

/// A name of a commit that git cannot take for an option.
fn revision(given: Option<String>) -> Vec<String> {
    let given = given.into_iter();
    given
        .flat_map(|it| ["--end-of-options".to_owned(), it])
        .collect()
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Nothing {}

pub(in super::super) struct GitStatus;

#[derive(Serialize, JsonSchema)]
pub(in super::super) struct State {
    /// The branch, as git tells of it
    branch: String,
    entries: Vec<Change>,
}

#[derive(Serialize, JsonSchema)]
struct Change {
    path: String,
    /// Two letters: what is staged, and what is not
    status: String,
}

impl Confined for GitStatus {
    type Input = Nothing;
    type Output = State;

    fn about(&self) -> About {
        about(
            "git_status",
            "Tell what has changed in the project since its last commit.",
            &Network::None,
        )
        .tags(&["git"])
        .read_only()
    }

    async fn run(&self, _: Nothing, site: Site<'_>) -> Result<Told<State>, Failure> {
        let ended = git(
            &site,
            words(&["status", "--porcelain=v1", "-z", "--branch"]),
        )
        .await?;
        let mut state = State {
            branch: String::new(),
            entries: Vec::new(),
        };
        let mut parts = ended.stdout.split('\0').filter(|it| !it.is_empty());
        while let Some(part) = parts.next() {
            let (status, path) = part.split_at(part.floor_char_boundary(2));
            if status == "##" {
                state.branch = path.trim().to_owned();
                continue;
            }
            // Behind what was renamed stands its old name.
            if status.starts_with(['R', 'C']) {
                parts.next();
            }
            state.entries.push(Change {
                path: path.trim_start().to_owned(),
                status: status.to_owned(),
            });
        }
        Ok(Told {
            output: state,
            truncated: ended.truncated,
        })
    }
}

pub(in super::super) struct GitDiff;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Compared {
    /// Only of these files and directories, from the project's root
    #[serde(default)]
    paths: Vec<String>,
    /// Whether what is staged is compared, and not what is in the files
    #[serde(default)]
    staged: bool,
    /// A commit to compare with; the last one unless given
    #[serde(default)]
    commit: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(in super::super) struct Difference {
    diff: String,
}

impl Confined for GitDiff {
    type Input = Compared;
    type Output = Difference;

    fn about(&self) -> About {
        about(
            "git_diff",
            "Show how files of the project differ from a commit.",
            &Network::None,
        )
        .tags(&["git"])
        .read_only()
    }

    async fn run(&self, input: Compared, site: Site<'_>) -> Result<Told<Difference>, Failure> {
        let mut words = words(&["diff", "--no-ext-diff", "--no-textconv"]);
        words.extend(input.staged.then(|| "--cached".to_owned()));
        words.extend(revision(input.commit));
        words.push("--".to_owned());
        words.extend(paths(&site, &input.paths)?);
        let ended = git(&site, words).await?;
        Ok(Told {
            output: Difference { diff: ended.stdout },
            truncated: ended.truncated,
        })
    }
}

pub(in super::super) struct GitLog;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Wanted {
    /// How many commits
    #[serde(default = "twenty")]
    #[schemars(range(min = 1, max = 500))]
    limit: u32,
    /// Only those that changed these files and directories, from the project's root
    #[serde(default)]
    paths: Vec<String>,
    /// Where to begin; the last commit unless given
    #[serde(default)]
    commit: Option<String>,
}

fn twenty() -> u32 {
    20
}

#[derive(Serialize, JsonSchema)]
pub(in super::super) struct History {
    commits: Vec<Commit>,
}

#[derive(Serialize, JsonSchema)]
struct Commit {
    hash: String,
    author: String,
    /// ISO 8601
    date: String,
    subject: String,
}

impl Confined for GitLog {
    type Input = Wanted;
    type Output = History;

    fn about(&self) -> About {
        about("git_log", "List commits of the project.", &Network::None)
            .tags(&["git"])
            .read_only()
    }

    async fn run(&self, input: Wanted, site: Site<'_>) -> Result<Told<History>, Failure> {
        let mut words = words(&["log", "-z", "--format=%H%x1f%an%x1f%aI%x1f%s"]);
        words.push(format!("--max-count={}", input.limit));
        words.extend(revision(input.commit));
        words.push("--".to_owned());
        words.extend(paths(&site, &input.paths)?);
        let ended = git(&site, words).await?;
        let commits = ended.stdout.split('\0').filter_map(|it| {
            let mut fields = it.splitn(4, '\u{1f}').map(str::to_owned);
            Some(Commit {
                hash: fields.next().filter(|it| !it.is_empty())?,
                author: fields.next()?,
                date: fields.next()?,
                subject: fields.next()?,
            })
        });
        Ok(Told {
            output: History {
                commits: commits.collect(),
            },
            truncated: ended.truncated,
        })
    }
}

pub(in super::super) struct GitCommit;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in super::super) struct Message {
    /// What the commit is about
    #[schemars(length(min = 1, max = 10000))]
    message: String,
    /// Files and directories to stage before, from the project's root
    #[serde(default)]
    paths: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
pub(in super::super) struct Made {
    hash: String,
    /// What git says of it
    summary: String,
}

impl Confined for GitCommit {
    type Input = Message;
    type Output = Made;

    fn about(&self) -> About {
        about(
            "git_commit",
            "Make a commit of what is staged, and of the paths that are named; a person is always asked.",
            &Network::None,
        )
        .tags(&["git"])
    }

    fn asks(&self, input: &Message, _: &Path) -> Option<String> {
        let subject = input.message.lines().next().unwrap_or_default();
        Some(format!("it makes a commit: {subject}"))
    }

    async fn run(&self, input: Message, site: Site<'_>) -> Result<Told<Made>, Failure> {
        if !input.paths.is_empty() {
            let mut words = words(&["add", "--"]);
            words.extend(paths(&site, &input.paths)?);
            git(&site, words).await?;
        }
        let message = format!("--message={}", input.message);
        let committed = git(&site, vec!["commit".to_owned(), message]).await;
        let committed = committed.map_err(|failure| {
            let said = failure.details.get("stderr").and_then(|it| it.as_str());
            match said.is_some_and(|it| it.contains("Please tell me who you are")) {
                true => failure.hint("a person says who commits here: `git config user.name …`, `git config user.email …`"),
                false => failure,
            }
        })?;
        let hash = git(&site, words(&["rev-parse", "HEAD"])).await?;
        Ok(Made {
            hash: hash.stdout.trim().to_owned(),
            summary: committed.stdout.trim().to_owned(),
        }
        .into())
    }
}
