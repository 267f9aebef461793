//! Interpreters that stay: the module is imported once, inside the sandbox, and each call is a fork.
//!
//! One interpreter serves one call at a time, each by a fork of its own that was made before anything of the
//! call was known. It is given up, and the fork that stands by with it, when a call leaves anything behind —
//! a process, a file in its scratch directory, a System V object — or when a file it imported changes.

use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use glee_core::admit::Admitted;
use glee_core::outcome::Failure;
use glee_sandbox::{Child, End, Exit, Profile};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::UnixStream;

use super::super::cage::Cage;
use super::super::place::Place;
use super::super::process::{Finished, Stop, conclude, ended, launch, no_pipe};
use super::super::streams::Streams;
use super::{KEEPER, open_interpreter};

/// An interpreter that nobody calls is kept this long.
const IDLE: Duration = Duration::from_secs(60);
/// Most idle interpreters of one function.
const MOST_IDLE: usize = 4;

/// How a call ends that failed for want of something, by `runner.py`.
const SCARCE: Exit = Exit::Code(2);

/// The interpreters that wait for calls.
#[derive(Default)]
pub(in crate::exec) struct Warm {
    waiting: Mutex<HashMap<Key, Vec<Keeper>>>,
}

/// Calls with equal keys can be served by the same interpreter.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    profile: Profile,
    interpreter: PathBuf,
    module: String,
    cwd: PathBuf,
}

/// One interpreter with its module imported.
struct Keeper {
    child: Child,
    control: BufReader<UnixStream>,
    files: Vec<(PathBuf, Stamp)>,
    since: Instant,
}

/// When a file has another stamp, it is another file.
type Stamp = Option<(u64, i64, i64, u64)>;

/// How to start an interpreter, for a call.
pub(super) struct Start<'a> {
    pub(super) interpreter: &'a Path,
    pub(super) module: &'a str,
    pub(super) cwd: &'a Path,
    /// Without secrets: those come with each call.
    pub(super) env: Vec<(OsString, OsString)>,
}

impl Warm {
    /// Serves a call from an interpreter that stays; `None` when the module does not allow it.
    pub(super) async fn run(
        self: &Arc<Warm>,
        start: Start<'_>,
        request: Vec<u8>,
        place: &Place,
        call: &Admitted,
        cage: &Cage,
    ) -> Result<Option<Finished>, Failure> {
        let key = Key {
            profile: place.profile.clone(),
            interpreter: start.interpreter.to_owned(),
            module: start.module.to_owned(),
            cwd: start.cwd.to_owned(),
        };
        let mut keeper = match self.take(&key) {
            Some(keeper) => keeper,
            None => match Keeper::start(start, place, call, cage).await? {
                Some(keeper) => keeper,
                None => return Ok(None),
            },
        };
        let (fds, streams) = Streams::open(Vec::new(), Some(request)).map_err(no_pipe)?;
        if keeper.hand_over(fds).is_err() {
            // It died while it waited. A run of its own serves this call.
            return Ok(None);
        }
        let ((stop, again), collected) = streams.follow(keeper.serve(call), call).await;
        let refused = cage.refused(&keeper.child, &call.grant().network);
        if again == Again::Yes {
            self.put(key, keeper);
        }
        conclude(stop, collected, refused, call).map(Some)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Vec<Keeper>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, key: &Key) -> Option<Keeper> {
        let mut waiting = self.lock();
        let idle = waiting.get_mut(key)?;
        idle.retain(|it| it.files.iter().all(|(path, then)| stamp(path) == *then));
        idle.pop()
    }

    fn put(self: &Arc<Warm>, key: Key, mut keeper: Keeper) {
        keeper.since = Instant::now();
        let mut waiting = self.lock();
        let idle = waiting.entry(key).or_default();
        if idle.len() < MOST_IDLE {
            idle.push(keeper);
        }
        drop(waiting);
        let warm = Arc::downgrade(self);
        tokio::spawn(async move {
            tokio::time::sleep(IDLE + Duration::from_secs(1)).await;
            if let Some(warm) = warm.upgrade() {
                let mut waiting = warm.lock();
                waiting
                    .values_mut()
                    .for_each(|idle| idle.retain(|it| it.since.elapsed() < IDLE));
                waiting.retain(|_, idle| !idle.is_empty());
            }
        });
    }
}

/// Whether an interpreter can serve another call.
#[derive(PartialEq, Eq)]
enum Again {
    Yes,
    No,
}

impl Keeper {
    /// `None` when the module cannot be imported, or must not be forked.
    async fn start(
        start: Start<'_>,
        place: &Place,
        call: &Admitted,
        cage: &Cage,
    ) -> Result<Option<Keeper>, Failure> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(no_pipe)?;
        let nothing = || -> io::Result<OwnedFd> {
            Ok(std::fs::OpenOptions::new()
                .read(true)
                .write(true)
                .open("/dev/null")?
                .into())
        };
        let mut fds = Vec::new();
        for _ in 0..3 {
            fds.push(nothing().map_err(no_pipe)?);
        }
        fds.push(theirs.into());
        let mut words = ["-I", "-B", "-c", KEEPER, start.module]
            .map(OsString::from)
            .to_vec();
        words.push(start.cwd.into());
        let mut env = start.env;
        // What a fork has to find first, each fork has to find.
        env.push(("LD_BIND_NOW".into(), "1".into()));
        let order = open_interpreter(start.interpreter.to_owned())?.order(
            words,
            env,
            start.cwd.to_owned(),
            fds,
        );
        let child = launch(order, place, call, cage).await?;
        ours.set_nonblocking(true).map_err(no_pipe)?;
        let mut control = BufReader::new(UnixStream::from_std(ours).map_err(no_pipe)?);
        let ready = tokio::select! {
            said = listen(&mut control) => said.ok(),
            () = tokio::time::sleep(call.timeout()) => None,
            () = call.cancel().cancelled() => None,
        };
        let Some(ready) = ready.filter(|it| it["ready"] == true) else {
            return Ok(None);
        };
        let files = ready["files"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(PathBuf::from);
        let files = files.map(|it| (it.clone(), stamp(&it))).collect();
        Ok(Some(Keeper {
            child,
            control,
            files,
            since: Instant::now(),
        }))
    }

    /// Gives the interpreter the descriptors of a call.
    fn hand_over(&mut self, fds: Vec<OwnedFd>) -> io::Result<()> {
        self.child.begin();
        let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(6))];
        let mut rights = SendAncillaryBuffer::new(&mut space);
        rights.push(SendAncillaryMessage::ScmRights(&fds));
        sendmsg(
            self.control.get_ref(),
            &[IoSlice::new(b"c")],
            &mut rights,
            SendFlags::NOSIGNAL,
        )?;
        Ok(())
    }

    /// Waits for the end of a call. What cannot be left as it was is ended here, with its whole tree.
    async fn serve(&mut self, call: &Admitted) -> (Stop, Again) {
        let stop = tokio::select! {
            said = listen(&mut self.control) => match said {
                Ok(said) => match (exit(&said), said["clean"] == true) {
                    // A kill may be the memory limit's, and something else was perhaps not to be had for another; the
                    // end of the tree tells.
                    (exit, true) if exit != Exit::Signal(9) && exit != SCARCE => {
                        let end = End { exit, cpu: Duration::ZERO, peak_memory: 0, limit: None };
                        return (Stop::Ended(Ok(end)), Again::Yes);
                    }
                    (exit, _) => return (self.finish(exit).await, Again::No),
                },
                Err(_) => Stop::Ended(ended(&self.child).await),
            },
            () = tokio::time::sleep(call.timeout()) => Stop::Deadline(call.timeout()),
            () = call.cancel().cancelled() => Stop::Cancelled,
        };
        self.child.kill();
        match ended(&self.child).await {
            Ok(_) => (stop, Again::No),
            Err(err) => (Stop::Ended(Err(err)), Again::No),
        }
    }

    async fn finish(&self, exit: Exit) -> Stop {
        self.child.kill();
        Stop::Ended(ended(&self.child).await.map(|end| End { exit, ..end }))
    }
}

async fn listen(control: &mut BufReader<UnixStream>) -> io::Result<Value> {
    let mut line = String::new();
    if control.read_line(&mut line).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_str(&line).map_err(io::Error::other)
}

/// Python tells a signal as a negative number.
fn exit(said: &Value) -> Exit {
    match said["code"]
        .as_i64()
        .and_then(|it| i32::try_from(it).ok())
        .unwrap_or(1)
    {
        signal @ ..0 => Exit::Signal(-signal),
        code => Exit::Code(code),
    }
}

fn stamp(path: &Path) -> Stamp {
    let found = path.metadata().ok()?;
    Some((found.ino(), found.mtime(), found.mtime_nsec(), found.size()))
}
