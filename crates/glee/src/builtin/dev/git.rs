//! git, in the sandbox: `git_status`, `git_diff`, `git_log`, `git_commit`.
//!
//! What a repository's own config has git start runs in the sandbox as well, without the network; and
//! where git is only asked, nothing it starts can write.

use std::path::Path;
use std::time::Duration;

use glee_core::outcome::{Failure, FailureKind};
use glee_core::permission::Network;
use glee_core::rule::sensitive;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::confined::{Confined, Site, Told, about, succeeded};
use super::super::workspace::shown;
use super::super::{Stop, blocking};
use super::repository::{Draft, Repository};
use crate::exec::{Ended, Program};
use crate::native::About;

/// git is quick, also in a large repository.
const PATIENCE: Duration = Duration::from_secs(60);

/// Each is an argument of git's.
const MOST_LEFT_OUT: usize = 1000;

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

const NO_HOOKS: &[&str] = &["-c", "core.hooksPath=/dev/null"];

/// Where git is only asked, it locks nothing either.
const ASK: &[&str] = &["--no-optional-locks"];

/// What runs before a commit, in the order git has it, with the message in a file that goes with the sandbox. The
/// message that came of it is all that is said; git itself is what the words after it are.
const HOOKS: &str = r#"message="$TMPDIR/COMMIT_EDITMSG"
cat > "$message"
"$@" hook run --ignore-missing pre-commit >&2 &&
"$@" hook run --ignore-missing prepare-commit-msg -- "$message" message >&2 &&
"$@" hook run --ignore-missing commit-msg -- "$message" >&2 &&
cat "$message"
"#;

/// What a tool may do that only asks git. Of a worktree, the repository is elsewhere.
fn asking(name: &str, description: &str, outside: &[String]) -> About {
    about(name, description, &Network::None)
        .reads(&with_project(outside))
        .writes(&[])
        .tags(&["git"])
        .read_only()
}

fn with_project(outside: &[String]) -> Vec<&str> {
    ["."]
        .into_iter()
        .chain(outside.iter().map(String::as_str))
        .collect()
}

async fn ask(site: &Site<'_>, asked: Vec<String>) -> Result<Ended, Failure> {
    let what = format!("git {}", asked[0]);
    let words = [words(ASK), words(NO_HOOKS), asked].concat();
    succeeded(&what, run(site, words).await?)
}

async fn run(site: &Site<'_>, asked: Vec<String>) -> Result<Ended, Failure> {
    let words = words(START).into_iter().chain(asked).collect();
    let ended = site.run_words(words, PATIENCE).await?;
    match ended.code == 128 && ended.stderr.contains("not a git repository") {
        true => Err(no_repository()),
        false => Ok(ended),
    }
}

fn no_repository() -> Failure {
    let message = "the project is no git repository";
    Failure::new(FailureKind::ExecutionError, message).hint("a person makes it one with `git init`")
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

pub(in super::super) struct GitStatus(pub(in super::super) Vec<String>);

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
        asking(
            "git_status",
            "Tell what has changed in the project since its last commit.",
            &self.0,
        )
    }

    async fn run(&self, _: Nothing, site: Site<'_>) -> Result<Told<State>, Failure> {
        let asked = words(&["status", "--porcelain=v1", "-z", "--branch"]);
        let ended = ask(&site, asked).await?;
        Ok(Told {
            output: state(&ended.stdout),
            truncated: ended.truncated,
            warnings: Vec::new(),
        })
    }
}

/// What `git status --porcelain=v1 -z --branch` says.
fn state(said: &str) -> State {
    let mut state = State {
        branch: String::new(),
        entries: Vec::new(),
    };
    let mut parts = said.split('\0');
    while let Some(part) = parts.next() {
        // Two letters, one space, and a path that may begin with a space of its own.
        let Some((status, path)) = part.split_at_checked(2) else {
            continue;
        };
        let path = path.strip_prefix(' ').unwrap_or(path).to_owned();
        if status == "##" {
            state.branch = path;
            continue;
        }
        // Behind what was renamed, staged or not, stands its old name.
        if status.contains(['R', 'C']) {
            parts.next();
        }
        let status = status.to_owned();
        state.entries.push(Change { path, status });
    }
    state
}

pub(in super::super) struct GitDiff(pub(in super::super) Vec<String>);

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
        asking(
            "git_diff",
            "Show how files of the project differ from a commit; those that hold secrets are left out.",
            &self.0,
        )
    }

    async fn run(&self, input: Compared, site: Site<'_>) -> Result<Told<Difference>, Failure> {
        let commit = match input.commit {
            // Without a word git takes what is staged; what is staged it compares with the last commit.
            None if !input.staged => Some(last(&site).await?),
            None => None,
            Some(given) => Some(commit(&site, &given).await?),
        };
        let asked = |how: &[&str]| {
            let staged = input.staged.then(|| "--cached".to_owned());
            let end = ["--".to_owned()];
            let mut asked = words(&["diff", "--no-color", "--no-ext-diff", "--no-textconv"]);
            asked.extend(words(how));
            asked.extend(
                staged
                    .into_iter()
                    .chain(revision(commit.clone()))
                    .chain(end),
            );
            asked
        };
        let paths = paths(&site, &input.paths)?;
        let names = [asked(&["--name-only", "--no-renames", "-z"]), paths.clone()].concat();
        let secret = secret(&site, ask(&site, names).await?)?;
        let left_out = secret.iter().map(|it| format!(":(exclude,literal){it}"));
        let ended = ask(&site, [asked(&[]), paths, left_out.collect()].concat()).await?;
        Ok(Told {
            output: Difference { diff: ended.stdout },
            truncated: ended.truncated,
            warnings: match secret.len() {
                0 => Vec::new(),
                1 => vec!["one file that holds secrets is left out".to_owned()],
                count => vec![format!("{count} files that hold secrets are left out")],
            },
        })
    }
}

/// The hash of a commit that is named. A name may lead to a file as well, past all that is said of paths.
async fn commit(site: &Site<'_>, given: &str) -> Result<String, Failure> {
    let mut asked = words(&["rev-parse", "--verify", "--quiet", "--end-of-options"]);
    asked.push(format!("{given}^{{commit}}"));
    let found = run(site, asked).await?;
    let hash = found.stdout.trim();
    let is_hash = !hash.is_empty() && hash.bytes().all(|it| it.is_ascii_hexdigit());
    match found.code == 0 && is_hash {
        true => Ok(hash.to_owned()),
        false => {
            let message = format!("`{}` names no commit", given.escape_debug());
            Err(Failure::new(FailureKind::InvalidInput, message)
                .hint("give a hash, a branch or a tag; `git_log` lists commits"))
        }
    }
}

/// Files that differ and that no tool shows.
fn secret(site: &Site<'_>, names: Ended) -> Result<Vec<String>, Failure> {
    let changed = names.stdout.split('\0').filter(|it| !it.is_empty());
    let secret = changed.filter(|it| sensitive::holds_secrets(&site.root().join(it)));
    let secret: Vec<String> = secret.map(str::to_owned).collect();
    // What was not looked at is not shown.
    if names.truncated.is_some() || secret.len() > MOST_LEFT_OUT {
        let message = "too many files differ to leave out those that hold secrets";
        return Err(Failure::new(FailureKind::ExecutionError, message)
            .hint("name some of them with `paths`"));
    }
    Ok(secret)
}

/// The last commit; before the first one, the tree that holds nothing.
async fn last(site: &Site<'_>) -> Result<String, Failure> {
    let found = run(site, words(&["rev-parse", "--verify", "--quiet", "HEAD"])).await?;
    let found = match found.code {
        0 => found,
        _ => ask(site, words(&["hash-object", "-t", "tree", "--stdin"])).await?,
    };
    Ok(found.stdout.trim().to_owned())
}

pub(in super::super) struct GitLog(pub(in super::super) Vec<String>);

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
        asking("git_log", "List commits of the project.", &self.0)
    }

    async fn run(&self, input: Wanted, site: Site<'_>) -> Result<Told<History>, Failure> {
        let mut words = words(&[
            "log",
            "--no-color",
            "--no-show-signature",
            "-z",
            "--format=%H%x1f%an%x1f%aI%x1f%s",
        ]);
        words.push(format!("--max-count={}", input.limit));
        words.extend(revision(input.commit));
        words.push("--".to_owned());
        words.extend(paths(&site, &input.paths)?);
        let ended = ask(&site, words).await?;
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
            warnings: Vec::new(),
        })
    }
}

/// With what a commit writes, and what it reads outside of the project.
pub(in super::super) struct GitCommit {
    pub(in super::super) written: Vec<String>,
    pub(in super::super) outside: Vec<String>,
}

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
        let written: Vec<&str> = self.written.iter().map(String::as_str).collect();
        about(
            "git_commit",
            "Make a commit of what is staged, and of the paths that are named; a person is always asked. Hooks run, and can change nothing but the message.",
            &Network::None,
        )
        .reads(&with_project(&self.outside))
        .writes(&written)
        .tags(&["git"])
    }

    fn refuses(&self, _: &Message, workspace: &Path) -> Result<(), Failure> {
        Repository::of(workspace)
            .map(|_| ())
            .ok_or_else(no_repository)
    }

    fn asks(&self, input: &Message, _: &Path) -> Option<String> {
        let subject = input.message.lines().next().unwrap_or_default();
        Some(format!("it makes a commit: {subject}"))
    }

    fn make_ready(&self, workspace: &Path) -> Result<(), Failure> {
        Repository::of(workspace).map_or(Ok(()), |it| it.make_ready())
    }

    async fn run(&self, input: Message, site: Site<'_>) -> Result<Told<Made>, Failure> {
        let repository = Repository::of(site.root()).ok_or_else(no_repository)?;
        let (root, home) = (site.root().to_owned(), site.home().map(Path::to_owned));
        let begin = move |_: &Stop| Draft::begin(repository, &root, home.as_deref());
        let draft = blocking(begin).await?;
        let act = async |words: Vec<String>, stdin: &str| act(&site, &draft, words, stdin).await;
        if !input.paths.is_empty() {
            let mut words = words(&["add", "--"]);
            words.extend(paths(&site, &input.paths)?);
            act(words, "").await?;
        }
        let message = hooks(&site, &draft, input.message).await?;
        let committed = act(words(&["commit", "--file=-"]), &message).await;
        let committed = committed.map_err(|failure| {
            let said = failure.details.get("stderr").and_then(|it| it.as_str());
            match said.is_some_and(|it| it.contains("Please tell me who you are")) {
                true => failure.hint("a person says who commits here: `git config user.name …`, `git config user.email …`"),
                false => failure,
            }
        })?;
        let hash = act(words(&["rev-parse", "HEAD"]), "").await?;
        let hash = hash.stdout.trim().to_owned();
        let made = hash.clone();
        blocking(move |_| draft.finish(&made)).await?;
        Ok(Told {
            warnings: after(&site).await.into_iter().collect(),
            ..Told::from(Made {
                hash,
                summary: committed.stdout.trim().to_owned(),
            })
        })
    }
}

/// Whoever can write a hook's file decides what it does; so it runs where it can write nothing, and what may write
/// runs no hook. Gives the message as they leave it.
async fn hooks(site: &Site<'_>, draft: &Draft, message: String) -> Result<String, Failure> {
    let mut env = draft.environment(site.root());
    env.push(("GIT_EDITOR".to_owned(), ":".to_owned()));
    let program = Program {
        words: [words(&["sh", "-c", HOOKS, "sh"]), words(START)].concat(),
        cwd: site.root().to_owned(),
        env,
        stdin: format!("{message}\n"),
        timeout: PATIENCE,
    };
    let ended = succeeded("a hook of the repository", site.run_reading(program).await?)?;
    Ok(ended.stdout)
}

/// The hook that runs when the commit is made: whatever it does, that stays.
async fn after(site: &Site<'_>) -> Option<String> {
    let hook = words(&["hook", "run", "--ignore-missing", "post-commit"]);
    let program = Program {
        words: [words(START), hook].concat(),
        cwd: site.root().to_owned(),
        env: Vec::new(),
        stdin: String::new(),
        timeout: PATIENCE,
    };
    let ended = site.run_reading(program).await;
    let failed = ended
        .and_then(|it| succeeded("the hook `post-commit`", it))
        .err()?;
    let said = failed.details.get("stderr").and_then(|it| it.as_str());
    let said = said.unwrap_or_default().trim();
    Some(format!(
        "the commit is made, but {}: {said}",
        failed.message
    ))
}

/// Runs git where a commit is being made. It tidies nothing up meanwhile: that needs more than a commit.
async fn act(
    site: &Site<'_>,
    draft: &Draft,
    asked: Vec<String>,
    stdin: &str,
) -> Result<Ended, Failure> {
    let what = format!("git {}", asked[0]);
    let quiet = [
        "-c",
        "gc.auto=0",
        "-c",
        "maintenance.auto=false",
        "-c",
        "core.splitIndex=false",
    ];
    let program = Program {
        words: [words(START), words(NO_HOOKS), words(&quiet), asked].concat(),
        cwd: site.root().to_owned(),
        env: draft.environment(site.root()),
        stdin: stdin.to_owned(),
        timeout: PATIENCE,
    };
    succeeded(&what, site.run(program).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_tells_of_changes() {
        let said = "## main\0R  new\0old\0 R moved\0was\0??  led by a space\0 M é\0";
        let state = state(said);
        assert_eq!(state.branch, "main");
        let entries = state.entries.iter();
        let entries: Vec<_> = entries.map(|it| (&*it.status, &*it.path)).collect();
        assert_eq!(
            entries,
            [
                ("R ", "new"),
                (" R", "moved"),
                ("??", " led by a space"),
                (" M", "é")
            ]
        );
    }
}
