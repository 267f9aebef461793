//! Warm launchers, kept by profile.

use std::collections::HashMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fs, io};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, Shutdown, SocketFlags, SocketType, shutdown, socketpair};

use super::cgroup;
use super::grants::{Access, settle};
use super::lane::{Lane, Turn};
use super::launcher::ARGUMENT;
use super::message::{read_strength, read_unavailable, read_weaker, write_profile, write_setup};
use super::placeholder;
use super::telling::{self, Told};
use super::wire::{Control, Frame, Kind, Malformed, Peeked};
use crate::{Moment, Network, Profile, Recall, StartError, Strength, Tier};

/// An unused launcher is kept this long.
const IDLE: Duration = Duration::from_secs(60);
/// One that holds the place of a path that does not exist is in the way of others, and kept shorter.
const IDLE_HOLDING: Duration = Duration::from_secs(3);
/// More launchers than this do not wait for the same profile; a burst of calls must not leave a crowd behind.
const MOST_IDLE: usize = 32;
const MOST_IDLE_OF_ALL: usize = 128;
/// A launcher that was told to go and is still there after this is killed.
const GRACE: Duration = Duration::from_secs(2);
/// A launcher that does not answer for this long is given up.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often whoever waits looks whether that was called off.
const LOOK: Duration = Duration::from_millis(50);
/// A launcher is replaced after this, so that an updated system becomes visible.
const AGE: Duration = Duration::from_secs(600);
const TICK: Duration = Duration::from_millis(100);
const IDLE_TICK: Duration = Duration::from_secs(1);

/// A running launcher and the socket to it.
pub(super) struct Launcher {
    process: process::Child,
    pub(super) control: Control,
    pub(super) strength: Strength,
    profile: Key,
    made: Instant,
    granted: Vec<(PathBuf, Identity)>,
    /// How long it waits unused.
    idle: Duration,
    /// Whether the last warden has left and the next one has not yet said that it is ready.
    pub(super) awaits_warden: bool,
    /// When it began what it does now.
    pub(super) since: Moment,
    /// What its gatekeeper refuses, where there may be one.
    pub(super) told: Option<Told>,
}

impl Launcher {
    fn is_current(&self) -> bool {
        self.made.elapsed() < AGE
            && self
                .granted
                .iter()
                .all(|(path, then)| identity(path) == *then)
    }

    pub(super) fn id(&self) -> u32 {
        self.process.id()
    }

    /// Whatever was asked for until now is no matter of what follows.
    pub(super) fn begin(&mut self) {
        self.since = Moment::now();
        if let Some(told) = &self.told {
            told.forget();
        }
    }

    /// Waits for the next message; an error when the launcher is gone or silent.
    pub(super) fn answer(&mut self, recall: &Recall) -> Result<Frame, StartError> {
        answer(&mut self.control, recall)
    }

    /// Takes the end out of the socket, if it is there.
    pub(super) fn answer_if_there(&mut self) -> Result<Frame, StartError> {
        match self.control.peek()? {
            Peeked::Frame(Kind::Ended, _) => self.answer(&Recall::default()),
            _ => Err(io::Error::from(io::ErrorKind::WouldBlock).into()),
        }
    }

    /// Hands an order over. When this fails, nothing of it was run.
    pub(super) fn order(
        &mut self,
        body: &[u8],
        fds: &[BorrowedFd<'_>],
        recall: &Recall,
    ) -> Result<(), StartError> {
        if self.awaits_warden && self.answer(recall)?.kind != Kind::Ready {
            return Err(io::Error::from(io::ErrorKind::InvalidData).into());
        }
        self.awaits_warden = false;
        self.begin();
        Ok(self.control.send(Kind::Order, body, fds)?)
    }
}

fn answer(control: &mut Control, recall: &Recall) -> Result<Frame, StartError> {
    let failed = |kind: io::ErrorKind| StartError::Io(kind.into());
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(frame) = control.buffered().map_err(io::Error::from)? {
            return Ok(frame);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(failed(io::ErrorKind::TimedOut));
        }
        let look = left.min(LOOK).try_into();
        match poll(
            &mut [PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN)],
            Some(&look.map_err(|_| failed(io::ErrorKind::TimedOut))?),
        ) {
            // Not before: what comes in time is better known than left behind.
            Ok(0) if recall.is_called_off() => return Err(StartError::CalledOff),
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Ok(_) if control.fill_one()? == 0 => {
                return Err(failed(io::ErrorKind::UnexpectedEof));
            }
            Ok(_) => {}
            Err(err) => return Err(StartError::Io(err.into())),
        }
    }
}

/// A profile, and as launchers are told it.
pub(super) struct Terms<'a> {
    profile: &'a Profile,
    bytes: Key,
}

type Key = Arc<[u8]>;

impl<'a> Terms<'a> {
    pub(super) fn new(profile: &'a Profile) -> Result<Terms<'a>, StartError> {
        Ok(Terms {
            profile,
            bytes: write_profile(profile)?.into(),
        })
    }
}

/// What a path leads to, if anything.
type Identity = Option<(u64, u64)>;

fn identity(path: &Path) -> Identity {
    fs::symlink_metadata(path)
        .ok()
        .map(|it| (it.dev(), it.ino()))
}

/// A grant is bound to what its path led to when the launcher was made. When that was replaced since, the launcher
/// shows what is no longer there.
fn identities(profile: &Profile) -> Vec<(PathBuf, Identity)> {
    let known = |path: PathBuf| {
        let identity = identity(&path);
        (path, identity)
    };
    settle(profile).into_iter().map(|it| known(it.0)).collect()
}

fn holds_places(profile: &Profile) -> bool {
    let protected = settle(profile)
        .into_iter()
        .filter(|it| it.1 == Access::Protected);
    protected
        .flat_map(|it| it.0.ancestors().map(placeholder::is_at).collect::<Vec<_>>())
        .any(|it| it)
}

#[derive(PartialEq)]
pub(super) enum Origin {
    New,
    /// It may have died since.
    Used,
}

struct Idle {
    launcher: Launcher,
    since: Instant,
}

/// No more than this is attempted for a profile, and why.
#[derive(Clone)]
struct Lowered {
    ceiling: Tier,
    why: String,
    since: Instant,
}

/// What a launcher holds, or why it can hold only less.
fn first_answer(frame: &Frame) -> Result<Result<Strength, String>, StartError> {
    let malformed = |it: Malformed| StartError::Io(it.into());
    match frame.kind {
        Kind::Ready => read_strength(&frame.body).map(Ok).map_err(malformed),
        Kind::Weaker => read_weaker(&frame.body).map(Err).map_err(malformed),
        Kind::Unavailable => {
            let it = read_unavailable(&frame.body).map_err(malformed)?;
            Err(StartError::Unavailable {
                layer: it.layer,
                why: it.why,
                what_to_do: it.what_to_do,
            })
        }
        _ => Err(malformed(Malformed)),
    }
}

enum Attempt {
    Ready(Launcher),
    /// The machine cannot hold that much, and why.
    Weaker(String),
}

/// The launchers that wait, and the thread that clears away those that are no longer needed.
pub(super) struct Pool {
    program: PathBuf,
    lanes: Mutex<HashMap<Key, Lane<Idle>>>,
    /// So many launchers of a profile are started at once: more would not be there sooner.
    most_starting: usize,
    /// Profiles this machine can hold only in part.
    lowered: Mutex<HashMap<Key, Lowered>>,
    /// No more than this is attempted.
    ceiling: Tier,
    /// One that was begun before anybody knew what it will hold.
    expected: Mutex<Option<JoinHandle<io::Result<Unset>>>>,
    retired: mpsc::Sender<process::Child>,
}

/// A launcher that was not told yet what to hold.
type Unset = (Control, process::Child);

impl Pool {
    pub(super) fn new(program: PathBuf, ceiling: Tier) -> Arc<Pool> {
        let (retired, arriving) = mpsc::channel();
        let pool = Arc::new(Pool {
            program,
            lanes: Mutex::default(),
            most_starting: thread::available_parallelism().map_or(1, usize::from),
            lowered: Mutex::default(),
            ceiling,
            expected: Mutex::default(),
            retired,
        });
        let weak = Arc::downgrade(&pool);
        // Without the thread nothing is reaped early, which costs memory and no correctness.
        let _ = thread::Builder::new()
            .name("glee-launchers".into())
            .spawn(move || clear_away(&weak, &arriving));
        pool
    }

    /// A launcher that waits and still shows what its grants lead to; else the next that is given back, or a new one.
    pub(super) fn take(
        &self,
        terms: &Terms<'_>,
        recall: &Recall,
    ) -> Result<(Launcher, Origin), StartError> {
        loop {
            match self.turn(terms, recall)? {
                Turn::Take(it) if it.launcher.is_current() => {
                    return Ok((it.launcher, Origin::Used));
                }
                Turn::Take(it) => self.retire(it.launcher),
                Turn::Start => {
                    let _starting = Starting { pool: self, terms };
                    return Ok((self.start_launcher(terms, recall)?, Origin::New));
                }
            }
        }
    }

    fn turn(&self, terms: &Terms<'_>, recall: &Recall) -> Result<Turn<Idle>, StartError> {
        let asked = self.lane(&mut self.lanes(), terms).ask(self.most_starting);
        let waits = match asked {
            Ok(turn) => return Ok(turn),
            Err(waits) => waits,
        };
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline && !recall.is_called_off() {
            if let Ok(turn) = waits.recv_timeout(LOOK) {
                return Ok(turn);
            }
        }
        // Nothing is sent while the lock is held, so what is not there now will not be lost.
        let mut lanes = self.lanes();
        let turn = waits.try_recv();
        drop(waits);
        match turn {
            Ok(turn) => Ok(turn),
            Err(_) if recall.is_called_off() => Err(StartError::CalledOff),
            // Whatever keeps the others from coming up, this call fails for itself.
            Err(_) => Ok(self.lane(&mut lanes, terms).start_anyway()),
        }
    }

    fn lane<'a>(
        &self,
        lanes: &'a mut HashMap<Key, Lane<Idle>>,
        terms: &Terms<'_>,
    ) -> &'a mut Lane<Idle> {
        lanes.entry(terms.bytes.clone()).or_insert_with(Lane::new)
    }

    /// Gives a launcher to the next call. When nobody waits it is kept; when there are too many of its kind it goes,
    /// and when there are too many at all, the one that has waited longest.
    pub(super) fn put(&self, launcher: Launcher) {
        let surplus = {
            let mut all = self.lanes();
            let lane = all
                .entry(launcher.profile.clone())
                .or_insert_with(Lane::new);
            let given = lane.give(Idle {
                since: Instant::now(),
                launcher,
            });
            match given {
                Some(it) if lane.idle.len() < MOST_IDLE => {
                    lane.idle.push(it);
                    take_surplus(&mut all)
                }
                other => other.map(|it| it.launcher),
            }
        };
        if let Some(launcher) = surplus {
            self.retire(launcher);
        }
    }

    /// Sends a launcher away: its socket ends, so it and all of its tree end, and the process is waited for later.
    pub(super) fn retire(&self, launcher: Launcher) {
        // A copy of the socket that some other process holds must not keep the tree alive.
        let _ = shutdown(&launcher.control, Shutdown::Both);
        let _ = self.retired.send(launcher.process);
    }

    /// Starts a launcher and waits until it holds the profile, or as much of it as the machine allows.
    fn start_launcher(&self, terms: &Terms<'_>, recall: &Recall) -> Result<Launcher, StartError> {
        let lowered = self.lowered().get(&terms.bytes).cloned();
        // What a machine had run out of may be there again.
        let lowered = lowered.filter(|it| it.since.elapsed() < AGE);
        let most = lowered.unwrap_or_else(|| Lowered {
            ceiling: self.ceiling,
            why: "not to be used".to_owned(),
            since: Instant::now(),
        });
        match self.try_launcher(terms, &most, recall)? {
            Attempt::Ready(launcher) => Ok(launcher),
            // Half-way into namespaces there is no way back, so a weaker launcher is another process.
            Attempt::Weaker(why) => {
                let less = Lowered {
                    ceiling: Tier::Landlock,
                    why,
                    since: Instant::now(),
                };
                self.lowered().insert(terms.bytes.clone(), less.clone());
                match self.try_launcher(terms, &less, recall)? {
                    Attempt::Ready(launcher) => Ok(launcher),
                    Attempt::Weaker(_) => Err(StartError::Io(io::ErrorKind::InvalidData.into())),
                }
            }
        }
    }

    fn try_launcher(
        &self,
        terms: &Terms<'_>,
        most: &Lowered,
        recall: &Recall,
    ) -> Result<Attempt, StartError> {
        // Before there is a process that nobody would wait for if this fails.
        let (told, teller) = match terms.profile.network {
            Network::Outbound { .. } => telling::pipe().map(|(it, far)| (Some(it), Some(far)))?,
            Network::None | Network::Proxy { .. } => (None, None),
        };
        let (mut control, process) = match self.take_expected() {
            Some(unset) => unset,
            None => spawn(&self.program)?,
        };
        let setup = write_setup(&terms.bytes, most.ceiling, &most.why);
        let fds: Vec<BorrowedFd<'_>> = teller.iter().map(AsFd::as_fd).collect();
        let answer = control
            .send(Kind::Setup, &setup, &fds)
            .map_err(StartError::Io)
            .and_then(|()| answer(&mut control, recall));
        let strength = match answer.and_then(|frame| first_answer(&frame)) {
            Ok(Ok(strength)) => strength,
            other => {
                let _ = self.retired.send(process);
                return other.map(|weaker| Attempt::Weaker(weaker.err().unwrap_or_default()));
            }
        };
        Ok(Attempt::Ready(Launcher {
            process,
            control,
            strength,
            profile: terms.bytes.clone(),
            made: Instant::now(),
            granted: identities(terms.profile),
            idle: if holds_places(terms.profile) {
                IDLE_HOLDING
            } else {
                IDLE
            },
            awaits_warden: false,
            since: Moment::now(),
            told,
        }))
    }

    /// Begins a launcher, meanwhile, for a profile that will be known soon.
    pub(super) fn expect(&self) {
        let program = self.program.clone();
        let begun = thread::Builder::new().spawn(move || spawn(&program));
        // Without it the launcher is begun when it is needed.
        *self.expected() = begun.ok();
    }

    fn take_expected(&self) -> Option<Unset> {
        let begun = self.expected().take()?;
        begun.join().ok()?.ok()
    }

    fn expected(&self) -> MutexGuard<'_, Option<JoinHandle<io::Result<Unset>>>> {
        self.expected.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lanes(&self) -> MutexGuard<'_, HashMap<Key, Lane<Idle>>> {
        // The map is whole after every statement, so a panic elsewhere has broken nothing in it.
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lowered(&self) -> MutexGuard<'_, HashMap<Key, Lowered>> {
        self.lowered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_stale(&self) -> Vec<Launcher> {
        let mut stale = Vec::new();
        self.lanes().retain(|_, lane| {
            stale.extend(
                lane.idle
                    .extract_if(.., |it| it.since.elapsed() > it.launcher.idle)
                    .map(|it| it.launcher),
            );
            !lane.is_unused()
        });
        stale
    }
}

fn spawn(program: &Path) -> io::Result<Unset> {
    let (ours, theirs): (OwnedFd, OwnedFd) = socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )?;
    let control = Control::with_patience(ours, PATIENCE)?;
    let process = Command::new(program)
        .arg(ARGUMENT)
        .env_clear()
        .current_dir(Path::new("/"))
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    Ok((control, process))
}

fn take_surplus(all: &mut HashMap<Key, Lane<Idle>>) -> Option<Launcher> {
    if all.values().map(|it| it.idle.len()).sum::<usize>() <= MOST_IDLE_OF_ALL {
        return None;
    }
    // The first of each kind has waited longest, because the last is taken first.
    let oldest = all
        .values_mut()
        .map(|it| &mut it.idle)
        .filter(|it| !it.is_empty())
        .min_by_key(|it| it[0].since)?;
    Some(oldest.remove(0).launcher)
}

/// Tells the next when a start is over, also when it panics.
struct Starting<'a> {
    pool: &'a Pool,
    terms: &'a Terms<'a>,
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        let mut lanes = self.pool.lanes();
        self.pool.lane(&mut lanes, self.terms).started();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let lanes = std::mem::take(&mut *self.lanes());
        for it in lanes.into_values().flat_map(|it| it.idle) {
            self.retire(it.launcher);
        }
        if let Some((_, process)) = self.take_expected() {
            let _ = self.retired.send(process);
        }
    }
}

/// Retires launchers nobody has used for a while, and waits for those that were retired.
fn clear_away(pool: &Weak<Pool>, arriving: &mpsc::Receiver<process::Child>) {
    let mut leaving: Vec<(process::Child, Instant)> = Vec::new();
    loop {
        let closed = match arriving.recv_timeout(if leaving.is_empty() { IDLE_TICK } else { TICK })
        {
            Ok(process) => {
                leaving.push((process, Instant::now()));
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        leaving.retain_mut(|(process, since)| {
            if since.elapsed() > GRACE {
                let _ = process.kill();
            }
            let leaves = matches!(process.try_wait(), Ok(None));
            if !leaves {
                // It has done so itself unless it was killed.
                cgroup::remove(process.id());
            }
            leaves
        });
        if let Some(pool) = pool.upgrade() {
            for launcher in pool.take_stale() {
                pool.retire(launcher);
            }
        }
        if closed {
            if leaving.is_empty() {
                return;
            }
            thread::sleep(Duration::from_millis(10));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::{Confinement, Limits};

    /// A launcher that comes up never, and goes when it is told to through the pipe.
    fn never_ready(directory: &Path) -> (PathBuf, fs::File) {
        let (program, told) = (directory.join("launcher"), directory.join("told"));
        let made = Command::new("mkfifo").arg(&told).status();
        assert!(made.expect("runs").success());
        let script = format!("#!/bin/sh\nread -r it < '{}'\n", told.display());
        fs::write(&program, script).expect("writes");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("is executable");
        // Opened for both, so that nobody who opens the other end waits for it.
        let told = fs::File::options().read(true).write(true).open(told);
        (program, told.expect("opens"))
    }

    fn by_hand(pool: &Pool, terms: &Terms<'_>) -> Launcher {
        let (control, process) = spawn(&pool.program).expect("starts");
        Launcher {
            process,
            control,
            strength: Strength {
                tier: Tier::None,
                layers: vec![],
            },
            profile: terms.bytes.clone(),
            made: Instant::now(),
            granted: vec![],
            idle: IDLE,
            awaits_warden: false,
            since: Moment::now(),
            told: None,
        }
    }

    fn profile() -> Profile {
        Profile {
            confinement: Confinement::Required,
            network: Network::None,
            read: vec![],
            write: vec![],
            protect: vec![],
            hide: vec![],
            limits: Limits::default(),
        }
    }

    #[test]
    fn a_launcher_that_is_given_back_serves_a_call_while_others_do_not_come_up() {
        let directory = tempfile::tempdir().expect("a directory");
        let (program, mut told) = never_ready(directory.path());
        let pool = Pool::new(program, Tier::Full);
        let profile = profile();
        let terms = Terms::new(&profile).expect("can be told");
        let crowd = pool.most_starting + 3;
        let (taken, takes) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..crowd {
                let (taken, pool, terms) = (taken.clone(), &pool, &terms);
                scope.spawn(move || taken.send(pool.take(terms, &Recall::default())));
            }
            let waiting = loop {
                let (waiting, starting) = pool.lane(&mut pool.lanes(), &terms).crowd();
                if waiting + starting == crowd {
                    break waiting;
                }
                thread::yield_now();
            };
            assert_eq!(waiting, 3);
            pool.put(by_hand(&pool, &terms));
            let first = takes.recv().expect("somebody got something");
            let (launcher, origin) = first.expect("a launcher");
            assert!(origin == Origin::Used);
            // It goes before the others do, which is not waited for.
            pool.retire(launcher);
            // All that were started go, and whoever waited starts one that goes, too: a call of a launcher that does
            // not come up fails, and keeps nobody waiting.
            told.write_all(&b"go\n".repeat(crowd)).expect("writes");
            for _ in 1..crowd {
                assert!(takes.recv().expect("somebody failed").is_err());
            }
        });
        assert!(pool.lane(&mut pool.lanes(), &terms).is_unused());
    }

    #[test]
    fn nobody_waits_for_a_launcher_that_was_called_off() {
        let directory = tempfile::tempdir().expect("a directory");
        let (program, mut told) = never_ready(directory.path());
        let pool = Pool::new(program, Tier::Full);
        let profile = profile();
        let terms = Terms::new(&profile).expect("can be told");
        let crowd = pool.most_starting + 3;
        let recall = Recall::default();
        let began = Instant::now();
        let ended: Vec<_> = thread::scope(|scope| {
            let take = || pool.take(&terms, &recall).map(drop);
            let takes: Vec<_> = (0..crowd).map(|_| scope.spawn(take)).collect();
            // Some wait for the launcher that they have started, and the others for their turn.
            loop {
                let (waiting, starting) = pool.lane(&mut pool.lanes(), &terms).crowd();
                if waiting + starting == crowd {
                    break;
                }
                thread::yield_now();
            }
            recall.call_off();
            takes.into_iter().map(|it| it.join()).collect()
        });
        assert!(began.elapsed() < PATIENCE / 2, "{:?}", began.elapsed());
        for it in ended {
            assert!(matches!(it, Ok(Err(StartError::CalledOff))));
        }
        assert!(pool.lane(&mut pool.lanes(), &terms).is_unused());
        told.write_all(&b"go\n".repeat(2 * crowd)).expect("writes");
    }
}
