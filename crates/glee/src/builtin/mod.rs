//! The tools that come with glee: one table, from which their list, their schemas, their page in the
//! docs and what runs them are made.

mod charset;
mod code;
mod codegen;
mod confined;
mod dev;
mod docker;
#[cfg(test)]
mod escapes;
mod list;
mod pattern;
mod read;
pub mod reference;
mod relocate;
mod remove;
mod scrape;
mod search;
mod text;
mod web;
mod workspace;
mod write;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use glee_core::host::HostPattern;
use glee_core::model::ToolSpec;
use glee_core::outcome::{Failure, FailureKind};
use glee_core::permission::Network;
use rustix::fs::Stat;
use url::Url;

use crate::exec::http::HttpExec;
use crate::exec::{Cage, real};
use crate::native::{Context, Unfit, uncompiled};
use confined::confined;
use dev::repository::Repository;
use dev::{find, git, project};
use workspace::{Ground, Opening};

/// A tool that comes with glee.
pub struct Builtin {
    pub bundle: &'static str,
    pub name: &'static str,
    make: fn(&Means) -> Result<ToolSpec, Unfit>,
}

/// Bundles, and what they are for.
pub const BUNDLES: &[(&str, &str)] = &[
    ("core", "files, code and the web: what an agent works with"),
    ("system", "small tools with plain inputs and outputs"),
    (
        "dev",
        "what is done to a code base: git, search, tests, formatting, packages",
    ),
];

/// What a bundle is for.
pub fn about(bundle: &str) -> &'static str {
    let found = BUNDLES.iter().find(|it| it.0 == bundle);
    found.map_or("", |it| it.1)
}

/// Every tool that comes with glee.
pub const TABLE: &[Builtin] = &[
    core("list_directory", |it| {
        uncompiled(list::ListDirectory(it.ground()))
    }),
    core("read_file", |it| uncompiled(read::ReadFile(it.ground()))),
    core("write_file", |it| uncompiled(write::WriteFile(it.ground()))),
    core("delete_file", |it| {
        uncompiled(remove::DeleteFile(it.ground()))
    }),
    core("move_file", |it| {
        uncompiled(relocate::MoveFile(it.ground()))
    }),
    core("run_code", |it| confined(code::RunCode(it.network()), it)),
    core("web_fetch", |it| uncompiled(web::WebFetch(it.web()))),
    core("web_search", |it| {
        uncompiled(search::WebSearch(it.search()))
    }),
    core("list_files", |it| uncompiled(it.plain_list("list_files"))),
    core("shell", |it| confined(code::Shell(it.network()), it)),
    core("fetch", |it| uncompiled(web::FetchUrl(it.web()))),
    core("http_request", |it| uncompiled(web::HttpRequest(it.web()))),
    system("tool_http_get", |it| uncompiled(web::ToolHttpGet(it.web()))),
    system("tool_html_scraper", |it| {
        uncompiled(scrape::ToolHtmlScraper(it.web()))
    }),
    system("tool_json_parse", |it| {
        uncompiled(text::ToolJsonParse(it.ground()))
    }),
    system("tool_text_search", |_| uncompiled(text::ToolTextSearch)),
    system("tool_exec", |it| confined(code::ToolExec(it.network()), it)),
    system("tool_file_read", |it| {
        uncompiled(read::ToolFileRead(it.ground()))
    }),
    system("tool_file_write", |it| {
        uncompiled(write::ToolFileWrite(it.ground()))
    }),
    system("tool_ls", |it| uncompiled(it.plain_list("tool_ls"))),
    system("tool_docker_list", |it| {
        uncompiled(docker::ToolDockerList(it.settings.docker.clone()))
    }),
    system("tool_codegen", |it| uncompiled(it.codegen())),
    dev("git_status", |it| {
        confined(git::GitStatus(it.repository()), it)
    }),
    dev("git_diff", |it| confined(git::GitDiff(it.repository()), it)),
    dev("git_log", |it| confined(git::GitLog(it.repository()), it)),
    dev("git_commit", |it| confined(it.commit(), it)),
    dev("search_code", |it| {
        uncompiled(find::SearchCode(it.ground()))
    }),
    dev("run_tests", |it| {
        confined(project::RunTests(it.network()), it)
    }),
    dev("format_code", |it| {
        confined(project::FormatCode(it.network()), it)
    }),
    dev("install_package", |it| {
        confined(project::InstallPackage(it.registries()), it)
    }),
];

type Make = fn(&Means) -> Result<ToolSpec, Unfit>;

const fn core(name: &'static str, make: Make) -> Builtin {
    let bundle = "core";
    Builtin { bundle, name, make }
}

const fn system(name: &'static str, make: Make) -> Builtin {
    let bundle = "system";
    Builtin { bundle, name, make }
}

const fn dev(name: &'static str, make: Make) -> Builtin {
    let bundle = "dev";
    Builtin { bundle, name, make }
}

/// What a project says about the tools that come with glee.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// Names of bundles and of tools.
    pub enable: BTreeSet<String>,
    /// Names that are not enabled, whatever their bundle is.
    pub disable: BTreeSet<String>,
    /// Where programs may connect to: none unless given.
    pub network: Network,
    /// Hosts that web tools may ask without a question, and the private addresses they may ask at all.
    pub allowed_hosts: Vec<HostPattern>,
    pub search: Option<Search>,
    pub model: Option<Model>,
    /// The socket of the engine of containers, when it is not where it usually is.
    pub docker: Option<PathBuf>,
    /// Where packages come from, when that is not where they usually do.
    pub registries: Option<Vec<HostPattern>>,
    /// Directories of programs beside the system's, which programs may read.
    pub programs: Vec<PathBuf>,
}

/// Who searches the web.
#[derive(Clone, Debug)]
pub struct Search {
    pub provider: Provider,
    pub url: Url,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provider {
    Brave,
    Searxng,
}

/// A model behind an interface like OpenAI's.
#[derive(Clone, Debug)]
pub struct Model {
    pub url: Url,
    pub name: String,
    /// The name of the secret that opens it.
    pub key: Option<String>,
}

impl Settings {
    pub fn enables(&self, tool: &Builtin) -> bool {
        (self.enable.contains(tool.bundle) || self.enable.contains(tool.name))
            && !self.disable.contains(tool.bundle)
            && !self.disable.contains(tool.name)
    }

    /// The tools that are enabled.
    pub fn enabled(&self) -> impl Iterator<Item = &'static Builtin> {
        TABLE.iter().filter(|it| self.enables(it))
    }
}

/// What the tools work with.
pub struct Means {
    settings: Settings,
    /// Holds the programs that are started.
    cage: Cage,
    http: Arc<HttpExec>,
    ground: Ground,
    /// The project's, as it is when the tools are made.
    root: PathBuf,
}

/// What people decided and what was done, which no file tool reads. A program can: the sandbox shows it the project.
const UNREAD: &[&str] = &[".glee/approvals", ".glee/reviews", ".glee/audit"];

impl Means {
    /// `hidden` are directories that nobody reads.
    pub fn new(
        root: &Path,
        settings: Settings,
        hidden: &[PathBuf],
        cage: &Cage,
        http: Arc<HttpExec>,
    ) -> Means {
        // A project without these tools does not look there: a home may hang.
        let hidden: Arc<[PathBuf]> = match settings.enabled().count() {
            0 => Arc::new([]),
            _ => {
                let own = UNREAD.iter().map(|it| root.join(it));
                let hidden = hidden.iter().cloned().chain(own);
                hidden.map(|it| real(&it)).collect()
            }
        };
        Means {
            ground: Ground {
                hidden,
                home: std::env::home_dir(),
                opening: Opening::of_this_kernel(),
            },
            cage: cage.strict(&settings.programs),
            settings,
            http,
            root: root.to_owned(),
        }
    }

    /// The tools that the project has enabled.
    pub fn tools(&self) -> Result<Vec<Arc<ToolSpec>>, Unfit> {
        let enabled = self.settings.enabled();
        enabled.map(|it| Ok(Arc::new((it.make)(self)?))).collect()
    }

    fn ground(&self) -> Ground {
        self.ground.clone()
    }

    fn network(&self) -> Network {
        self.settings.network.clone()
    }

    fn web(&self) -> web::Web {
        web::Web {
            http: self.http.clone(),
            listed: self.settings.allowed_hosts.clone(),
        }
    }

    fn search(&self) -> search::Searching {
        search::Searching {
            http: self.http.clone(),
            with: self.settings.search.clone(),
        }
    }

    fn codegen(&self) -> codegen::ToolCodegen {
        codegen::ToolCodegen {
            http: self.http.clone(),
            model: self.settings.model.clone(),
        }
    }

    fn registries(&self) -> Vec<HostPattern> {
        let usual = || project::REGISTRIES.iter().flat_map(|it| it.parse());
        let given = self.settings.registries.clone();
        given.unwrap_or_else(|| usual().collect())
    }

    /// Where the project's repository is, when it is not in the project.
    fn repository(&self) -> Vec<String> {
        Repository::outside(&self.root)
    }

    fn commit(&self) -> git::GitCommit {
        git::GitCommit {
            written: Repository::written(&self.root),
            outside: self.repository(),
        }
    }

    fn plain_list(&self, name: &'static str) -> list::Plain {
        let ground = self.ground();
        list::Plain { name, ground }
    }
}

/// Whether something may take the place of what is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Puts {
    OnlyNew,
    AlsoInstead,
}

impl Puts {
    /// Where nobody had to agree, nothing was there.
    fn of(context: &Context<'_>) -> Puts {
        match context.is_agreed() {
            true => Puts::AlsoInstead,
            false => Puts::OnlyNew,
        }
    }
}

/// Tells work on a thread that nobody waits for it any more: what was answered is that it was stopped.
#[derive(Clone, Default)]
struct Stop(Arc<AtomicBool>);

impl Stop {
    fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }

    /// To be asked right before something is changed.
    fn check(&self) -> Result<(), Failure> {
        match self.is_set() {
            true => Err(Failure::new(FailureKind::Cancelled, "it was stopped")),
            false => Ok(()),
        }
    }
}

/// Whoever waits for work, and stops it by going away.
struct Waiting(Stop);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::SeqCst);
    }
}

/// Files are read and written on a thread that may block. No thread can be ended: it is told to stop.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce(&Stop) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let stop = Stop::default();
    let _waiting = Waiting(stop.clone());
    match tokio::task::spawn_blocking(move || work(&stop)).await {
        Ok(done) => done,
        Err(err) => Err(Failure::new(FailureKind::Internal, err.to_string())),
    }
}

/// When a file was last written, as ISO 8601 has it.
fn time(found: &Stat) -> String {
    match jiff::Timestamp::new(found.st_mtime, found.st_mtime_nsec as i32) {
        Ok(time) => time.to_string(),
        Err(_) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_told_that_nobody_waits() {
        let (began, begun) = tokio::sync::oneshot::channel();
        let (done, stopped) = tokio::sync::oneshot::channel();
        let work = blocking(move |stop| {
            let before = stop.check().is_ok();
            began.send(()).unwrap();
            while !stop.is_set() {
                std::thread::yield_now();
            }
            done.send((before, stop.check().is_err())).unwrap();
            Ok(())
        });
        tokio::select! {
            _ = work => unreachable!("it ends when nobody waits"),
            _ = begun => {}
        }
        assert_eq!(stopped.await.unwrap(), (true, true));
    }
}
