//! Where a project's repository keeps what is its own, and how a commit gets there.
//!
//! Much of git's directory decides what git runs next. So a commit is made in a directory of its own, which git
//! takes for that of a further worktree: what changes with a commit stands there, and of the repository only its
//! objects, branches and their history are written. Glee itself takes over what is left there: the index and HEAD.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use glee_core::outcome::{Failure, FailureKind};
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::super::Stop;
use super::super::remove;
use super::super::workspace::{Ground, Links, Opening, Workspace, failure};
use super::person::Person;

/// Where commits are made, in the repository's own directory.
const DRAFTS: &str = "glee";
const DRAFT: &str = "glee/commit";
/// What git holds while it changes the index.
const LOCK: &str = "index.lock";
/// Read of a file that says where another one is.
const LONGEST: u64 = 8 << 10;

/// What of a worktree's own is needed to make a commit.
const NEEDED: &[&str] = &["HEAD", "index", "config.worktree", "info/sparse-checkout"];
/// What is under way in a worktree, and is no matter of one commit.
const UNFINISHED: &[&str] = &[
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
];

/// The directories of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Repository {
    /// What is this worktree's own.
    own: PathBuf,
    /// What all its worktrees share.
    common: PathBuf,
}

impl Repository {
    /// Nothing where there is none. A `.git` that is a file names a directory; that this worktree belongs to it,
    /// the directory must say as well, or any could be named.
    pub(in super::super) fn of(root: &Path) -> Option<Repository> {
        let git = root.join(".git");
        let found = git.symlink_metadata().ok()?;
        if found.is_dir() {
            return Some(Repository {
                own: git.clone(),
                common: git,
            });
        }
        let named = line(&git)?;
        let own = root.join(named.strip_prefix("gitdir:")?.trim());
        let own = own.canonicalize().ok()?;
        let back = own.join(line(&own.join("gitdir"))?).canonicalize().ok()?;
        let common = own
            .join(line(&own.join("commondir"))?)
            .canonicalize()
            .ok()?;
        let is_ours = back == git.canonicalize().ok()?;
        (is_ours && own.parent()? == common.join("worktrees")).then_some(Repository { own, common })
    }

    /// What is read of it outside of the project, as grants say it.
    pub(in super::super) fn outside(root: &Path) -> Vec<String> {
        let linked = Repository::of(root).filter(|it| it.own != it.common);
        linked
            .iter()
            .map(|it| it.common.display().to_string())
            .collect()
    }

    /// What a commit writes, as grants say it. In the project by names from its root, so that they hold also for a
    /// repository that comes later.
    pub(in super::super) fn written(root: &Path) -> Vec<String> {
        let git = PathBuf::from(".git");
        let linked = Repository::of(root).filter(|it| it.own != it.common);
        let (own, common) = linked.map_or((git.clone(), git), |it| (it.own, it.common));
        let paths = [
            common.join("objects"),
            common.join("refs"),
            common.join("logs"),
            own.join(DRAFTS),
        ];
        paths.map(|it| it.display().to_string()).into()
    }

    /// Makes what grants name and git has not made yet.
    pub(super) fn make_ready(&self) -> Result<(), Failure> {
        for (directory, name) in [(&self.own, DRAFTS), (&self.common, "logs")] {
            let made = make_directory(&opened(directory)?, name);
            made.map_err(|err| failure(&directory.join(name), err))?;
        }
        Ok(())
    }
}

/// The first line of a small file.
fn line(path: &Path) -> Option<String> {
    let found = path.symlink_metadata().ok()?;
    if !found.is_file() || found.len() > LONGEST {
        return None;
    }
    let text = std::fs::read_to_string(path).ok()?;
    Some(text.lines().next()?.to_owned())
}

/// No link in it is followed, and nothing leads out of it.
fn opened(directory: &Path) -> Result<Workspace, Failure> {
    let ground = Ground {
        hidden: Arc::new([]),
        home: None,
        opening: Opening::of_this_kernel(),
    };
    Workspace::open(directory, &ground)
}

fn make_directory(at: &Workspace, name: &str) -> Result<(), Errno> {
    let (parent, name) = at.place(Path::new(name)).map_err(|_| Errno::NOTDIR)?;
    match rustix::fs::mkdirat(&parent, &name, Mode::from_raw_mode(0o777)) {
        Err(Errno::EXIST) => {
            let found = rustix::fs::statat(&parent, &name, AtFlags::SYMLINK_NOFOLLOW)?;
            match FileType::from_raw_mode(found.st_mode) {
                FileType::Directory => Ok(()),
                _ => Err(Errno::NOTDIR),
            }
        }
        made => made,
    }
}

/// A commit that is being made. Nobody else changes the index meanwhile, as git itself has it.
pub(super) struct Draft {
    repository: Repository,
    own: Workspace,
    /// HEAD as it was.
    head: String,
    is_lock_held: bool,
}

impl Draft {
    pub(super) fn begin(
        repository: Repository,
        root: &Path,
        home: Option<&Path>,
    ) -> Result<Draft, Failure> {
        let own = opened(&repository.own)?;
        let unfinished = |it: &&&str| repository.own.join(it).symlink_metadata().is_ok();
        if let Some(what) = UNFINISHED.iter().find(unfinished) {
            let message =
                format!("something else is under way in the repository: there is `{what}`");
            return Err(Failure::new(FailureKind::Conflict, message)
                .hint("a person finishes it, or gives it up, before other commits are made"));
        }
        drop(create(&own, LOCK).map_err(|err| {
            match err {
                Errno::EXIST => Failure::new(
                    FailureKind::Conflict,
                    "another git is at work in the repository: there is `index.lock`",
                )
                .hint("try it again; where no git runs any more, a person removes that file")
                .retryable(),
                err => failure(&repository.own.join(LOCK), err),
            }
        })?);
        let mut draft = Draft {
            own,
            head: String::new(),
            is_lock_held: true,
            repository,
        };
        draft.fill(root, home).map_err(|err| {
            let message = format!("the commit could not be prepared: {err}");
            Failure::new(FailureKind::ExecutionError, message)
        })?;
        Ok(draft)
    }

    /// What git is told of where it works.
    pub(super) fn environment(&self, root: &Path) -> Vec<(String, String)> {
        let draft = self.repository.own.join(DRAFT);
        let set = |name: &str, path: &Path| (name.to_owned(), path.display().to_string());
        vec![
            set("GIT_DIR", &draft),
            set("GIT_WORK_TREE", root),
            set("GIT_INDEX_FILE", &draft.join("index")),
            set("GIT_CONFIG_GLOBAL", &draft.join("person")),
        ]
    }

    fn fill(&mut self, root: &Path, home: Option<&Path>) -> std::io::Result<()> {
        self.clear();
        make_directory(&self.own, DRAFT)?;
        make_directory(&self.own, &format!("{DRAFT}/info"))?;
        let shared = std::fs::read_dir(&self.repository.own)?.flatten();
        let shared = shared.filter_map(|it| it.file_name().into_string().ok());
        let shared = shared.filter(|it| it.starts_with("sharedindex."));
        let needed = NEEDED.iter().map(|&it| it.to_owned());
        for name in needed.chain(shared) {
            if let Some(from) = self.file(&name)? {
                copy(from, &create(&self.own, &format!("{DRAFT}/{name}"))?)?;
            }
        }
        if let Some(head) = self.file("HEAD")? {
            head.take(LONGEST).read_to_string(&mut self.head)?;
        }
        let person = home.map(Person::of).unwrap_or_default();
        for (name, text) in [
            ("commondir", self.repository.common.display().to_string()),
            ("gitdir", root.join(".git").display().to_string()),
            ("person", person.config()),
        ] {
            create(&self.own, &format!("{DRAFT}/{name}"))?.write_all(text.as_bytes())?;
        }
        Ok(())
    }

    /// Takes over what the commit left: what is staged now, and where HEAD is when it is on no branch.
    pub(super) fn finish(mut self, hash: &str) -> Result<(), Failure> {
        self.take_over(hash).map_err(|err| {
            let message =
                format!("the commit {hash} was made, but the index could not be written: {err}");
            Failure::new(FailureKind::ExecutionError, message)
                .hint("a person brings the index up to date with `git reset`")
        })
    }

    fn take_over(&mut self, hash: &str) -> std::io::Result<()> {
        if let Some(index) = self.file(&format!("{DRAFT}/index"))? {
            let (directory, name) = self.own.place(Path::new(LOCK)).map_err(|_| Errno::NOTDIR)?;
            let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let lock = File::from(rustix::fs::openat(&directory, &name, flags, Mode::empty())?);
            copy(index, &lock)?;
            lock.sync_all()?;
            rustix::fs::renameat(&directory, &name, &directory, "index")?;
            self.is_lock_held = false;
        }
        if let Some(history) = self.file(&format!("{DRAFT}/logs/HEAD"))? {
            self.append_history(history)?;
        }
        let is_hash = !hash.is_empty() && hash.bytes().all(|it| it.is_ascii_hexdigit());
        if !self.head.starts_with("ref:") && is_hash {
            let mut lock = create(&self.own, "HEAD.lock")?;
            lock.write_all(format!("{hash}\n").as_bytes())?;
            lock.sync_all()?;
            let (directory, name) = self
                .own
                .place(Path::new("HEAD.lock"))
                .map_err(|_| Errno::NOTDIR)?;
            rustix::fs::renameat(&directory, &name, &directory, "HEAD")?;
        }
        Ok(())
    }

    /// One line: that HEAD has moved.
    fn append_history(&self, history: File) -> std::io::Result<()> {
        let mut text = String::new();
        history.take(64 << 10).read_to_string(&mut text)?;
        let Some(line) = text.lines().next_back() else {
            return Ok(());
        };
        make_directory(&self.own, "logs")?;
        let (directory, name) = self
            .own
            .place(Path::new("logs/HEAD"))
            .map_err(|_| Errno::NOTDIR)?;
        let flags =
            OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let log = rustix::fs::openat(&directory, &name, flags, Mode::from_raw_mode(0o666))?;
        File::from(log).write_all(format!("{line}\n").as_bytes())
    }

    /// A regular file that no link leads to, if it is there.
    fn file(&self, name: &str) -> std::io::Result<Option<File>> {
        let opened = match self.own.at(Path::new(name), OFlags::RDONLY, Links::Refused) {
            Ok(opened) => File::from(opened),
            Err(failure) if failure.kind == FailureKind::FileNotFound => return Ok(None),
            Err(failure) => return Err(std::io::Error::other(failure.message)),
        };
        match opened.metadata()?.is_file() {
            true => Ok(Some(opened)),
            false => Err(std::io::Error::other(format!("`{name}` is no file"))),
        }
    }

    fn clear(&self) {
        let _ = remove::all(&self.own, DRAFT, &Stop::default());
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        self.clear();
        if self.is_lock_held
            && let Ok((directory, name)) = self.own.place(Path::new(LOCK))
        {
            let _ = rustix::fs::unlinkat(&directory, &name, AtFlags::empty());
        }
    }
}

/// With its time: by the time of its index git knows which files it must look into.
fn copy(mut from: File, mut to: &File) -> std::io::Result<()> {
    std::io::copy(&mut from, &mut to)?;
    to.set_modified(from.metadata()?.modified()?)
}

/// A new file, where there was none.
fn create(at: &Workspace, name: &str) -> Result<File, Errno> {
    let (directory, name) = at.place(Path::new(name)).map_err(|_| Errno::NOTDIR)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::openat(directory.as_fd(), &name, flags, Mode::from_raw_mode(0o666));
    made.map(File::from)
}
