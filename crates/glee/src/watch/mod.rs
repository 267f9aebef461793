//! What changes on disk while a project is open: heard, taken in as a whole, and told to whoever
//! serves the project.

mod targets;

use std::collections::BTreeSet;
use std::io;
use std::mem;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use glee_core::catalog::Snapshot;
use glee_core::model::ToolSpec;
use notify::event::{AccessKind, EventKind, ModifyKind};
use notify::{Config, Event, RecommendedWatcher, Watcher};

use crate::app::App;

use targets::{Targets, is_change};

/// A change is taken in when nothing happened for so long.
const QUIET: Duration = Duration::from_millis(50);
/// Nobody waits longer than this for somebody who never stops changing things.
const LONGEST: Duration = Duration::from_millis(500);
/// A file that is being written is not read before it is closed, unless it stays open for so long.
const LONGEST_OPEN: Duration = Duration::from_secs(2);
/// When so much happens that events are lost, everything is looked at, but not more often than this:
/// looking is itself something that happens.
const BETWEEN_RESCANS: Duration = Duration::from_secs(2);
/// When watching begins: a program that has just started has better things to do. What happens before is found by
/// looking.
const BEGINNING: Duration = Duration::from_millis(50);

/// Which of the lists that clients see are other ones now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub tools: bool,
    pub prompts: bool,
    pub resources: bool,
    /// What stops documents from being used. Each is told once, and said on stderr.
    pub problems: Vec<String>,
}

/// Watches until it is dropped.
pub struct Watching {
    stop: Sender<Heard>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        // A watch that ended by itself cannot hear it.
        let _ = self.stop.send(Heard::Stop);
    }
}

enum Heard {
    Change(Event),
    /// Events were lost.
    Lost,
    Stop,
}

impl App {
    /// Takes in every change of the project's documents and of the files its tools run, and tells
    /// which lists changed. A document that is broken keeps its last good version.
    pub fn watch(
        self: &Arc<App>,
        changed: impl Fn(&Change) + Send + 'static,
    ) -> io::Result<Watching> {
        let (heard, events) = channel();
        let stop = heard.clone();
        let app = self.clone();
        let first = self.tools();
        thread::Builder::new()
            .name("watch".to_owned())
            .spawn(move || {
                let mut watch = Watch {
                    last: Seen::of(&app, first),
                    app,
                    heard,
                    told: BTreeSet::new(),
                };
                if !stopped_within(BEGINNING, &events) {
                    watch.run(&events, &changed);
                }
            })?;
        Ok(Watching { stop })
    }
}

struct Watch {
    app: Arc<App>,
    /// Given to watchers, which send what they hear.
    heard: Sender<Heard>,
    last: Seen,
    told: BTreeSet<String>,
}

impl Watch {
    fn run(&mut self, events: &Receiver<Heard>, changed: &impl Fn(&Change)) {
        let mut watcher = None;
        let mut is_first = true;
        loop {
            // Directories may be other ones now, under the same names, so they are watched anew: first,
            // because what happens after the look must be heard, and before the old watcher goes.
            let targets = Targets::of(&self.app);
            let (next, unheard) = self.listen(&targets);
            watcher = next.or(watcher);
            // Somebody may be at it already.
            if mem::take(&mut is_first) && settle(events, &targets, None).is_break() {
                return;
            }
            self.take_in(unheard, changed);
            // A tool that is new may run a file that nobody watches yet.
            if Targets::of(&self.app) == targets && wait(events, &targets).is_break() {
                return;
            }
        }
    }

    /// A watcher of all targets, and why it does not hear everything, if so.
    fn listen(&self, targets: &Targets) -> (Option<RecommendedWatcher>, Option<String>) {
        let heard = self.heard.clone();
        let hear = move |event: notify::Result<Event>| {
            let heard = match event {
                Ok(event) if event.need_rescan() => heard.send(Heard::Lost),
                Ok(event) if is_change(&event) => heard.send(Heard::Change(event)),
                Ok(_) | Err(_) => Ok(()),
            };
            // Nobody listens any more.
            let _ = heard;
        };
        let config = Config::default().with_follow_symlinks(false);
        let mut watcher = match RecommendedWatcher::new(hear, config) {
            Ok(watcher) => watcher,
            Err(err) => return (None, Some(format!("changes are not noticed: {err}"))),
        };
        let mut unheard = None;
        for (path, mode) in targets.places() {
            if let Err(err) = watcher.watch(path, mode) {
                let path = path.display();
                unheard = Some(format!("{path}: changes are not noticed: {err}"));
            }
        }
        (Some(watcher), unheard)
    }

    /// Reads everything anew, and tells what is different from what was seen before.
    fn take_in(&mut self, unheard: Option<String>, changed: &impl Fn(&Change)) {
        let failed = self.app.reload().err().map(|it| it.to_string());
        let now = Seen::of(&self.app, self.app.tools());
        let problems: BTreeSet<String> = now.problems().chain(failed).chain(unheard).collect();
        let change = Change {
            problems: problems.difference(&self.told).cloned().collect(),
            ..now.since(&self.last)
        };
        self.told = problems;
        self.last = now;
        change.problems.iter().for_each(|it| self.app.warn(it));
        if change != Change::default() {
            changed(&change);
        }
    }
}

/// What clients see of a project.
struct Seen {
    of: Arc<Snapshot>,
    /// The tools' documents and digests. With equal ones the definitions are equal.
    tools: Vec<(String, [u8; 32], Option<String>)>,
}

impl Seen {
    fn of(app: &App, snapshot: Arc<Snapshot>) -> Seen {
        let tool = |it: &Arc<ToolSpec>| (it.name.clone(), it.document, app.digest(it));
        Seen {
            tools: snapshot.offered().map(tool).collect(),
            of: snapshot,
        }
    }

    fn since(&self, before: &Seen) -> Change {
        Change {
            tools: self.tools != before.tools,
            prompts: !self.of.prompts().eq(before.of.prompts()),
            resources: !self.of.resources().eq(before.of.resources()),
            problems: Vec::new(),
        }
    }

    fn problems(&self) -> impl Iterator<Item = String> {
        let tools = self.of.broken();
        let tools = tools.map(|(it, why)| format!(".glee/tools/{it}/tool.yml: {why}"));
        let prompts = self.of.broken_prompts();
        let prompts = prompts.map(|(it, why)| format!(".glee/prompts/{it}.yml: {why}"));
        let resources = self.of.broken_resources();
        let resources = resources.map(|(it, why)| format!(".glee/resources/{it}.yml: {why}"));
        let strays = self.of.strays();
        let strays =
            strays.map(|(file, why)| format!("{file} is not used, and left as it is: {why}"));
        tools.chain(prompts).chain(resources).chain(strays)
    }
}

/// Nothing else can be heard before anybody watches.
fn stopped_within(time: Duration, events: &Receiver<Heard>) -> bool {
    !matches!(events.recv_timeout(time), Err(RecvTimeoutError::Timeout))
}

/// Waits for a change, and then until it is complete. Breaks when nobody wants to know.
fn wait(events: &Receiver<Heard>, targets: &Targets) -> ControlFlow<()> {
    for heard in events {
        match heard {
            Heard::Change(event) if targets.concern(&event) => {
                return settle(events, targets, Some(&event));
            }
            Heard::Change(_) => {}
            Heard::Lost => {
                thread::sleep(BETWEEN_RESCANS);
                return ControlFlow::Continue(());
            }
            Heard::Stop => break,
        }
    }
    ControlFlow::Break(())
}

/// Waits until nothing happens any more and what was being written is closed.
fn settle(events: &Receiver<Heard>, targets: &Targets, first: Option<&Event>) -> ControlFlow<()> {
    let began = Instant::now();
    let mut last = began;
    let mut written = BTreeSet::new();
    first.into_iter().for_each(|it| note(&mut written, it));
    loop {
        let until = match written.is_empty() {
            true => (last + QUIET).min(began + LONGEST),
            false => began + LONGEST_OPEN,
        };
        match events.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Heard::Change(event)) if targets.concern(&event) => {
                note(&mut written, &event);
                last = Instant::now();
            }
            Ok(Heard::Change(_) | Heard::Lost) => {}
            Err(RecvTimeoutError::Timeout) => return ControlFlow::Continue(()),
            Ok(Heard::Stop) | Err(RecvTimeoutError::Disconnected) => {
                return ControlFlow::Break(());
            }
        }
    }
}

/// Keeps account of the files that are being written.
fn note(written: &mut BTreeSet<PathBuf>, event: &Event) {
    match event.kind {
        EventKind::Modify(ModifyKind::Data(_)) => written.extend(event.paths.iter().cloned()),
        EventKind::Access(AccessKind::Close(_))
        | EventKind::Remove(_)
        | EventKind::Modify(ModifyKind::Name(_)) => {
            event.paths.iter().for_each(|it| {
                written.remove(it);
            });
        }
        _ => {}
    }
}
