//! The warden: starts one payload after another as glee orders, and ends each one's whole tree.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::cell::Scratch;
use super::cgroup::{Cgroup, Counts};
use super::landlock;
use super::launcher::USED_UP;
use super::message::{Then, read_order, write_end, write_failed, write_strength};
use super::payload::{self, Stack, Terms};
use super::program::Program;
use super::script::{Asking, Script};
use super::tree::{Reaped, Tree, Wait, reap};
use super::wire::{Control, Frame, Kind};
use crate::{End, Exit, Limit, Limits, Strength};

/// How often the warden looks at what a tree uses, where the kernel does not count for it.
const LOOK: Duration = Duration::from_millis(50);

pub(super) struct Warden<'a> {
    control: Control,
    tree: Tree,
    limits: Limits,
    /// Present where it is private.
    scratch: Option<Scratch>,
    cgroup: Option<&'a Cgroup>,
    counts: Counts,
    /// The limit for which the warden itself has killed the tree.
    exceeded: Option<Limit>,
    /// What is told with readiness.
    strength: Vec<u8>,
    /// Put on every payload that could otherwise reach the warden with signals.
    layer: Option<OwnedFd>,
    stack: Stack,
    children: OwnedFd,
}

impl<'a> Warden<'a> {
    pub(super) fn new(
        control: Control,
        tree: Tree,
        limits: Limits,
        scratch: Option<Scratch>,
        cgroup: Option<&'a Cgroup>,
    ) -> io::Result<Warden<'a>> {
        let counts = cgroup.map(Cgroup::counts).unwrap_or_default();
        let (stack, children) = (Stack::new(), child_signals()?);
        let layer = match tree {
            Tree::Scoped => landlock::signal_layer()?,
            Tree::Namespace | Tree::Adopted => None,
        };
        Ok(Warden {
            control,
            tree,
            limits,
            scratch,
            cgroup,
            counts,
            exceeded: None,
            strength: Vec::new(),
            layer,
            stack,
            children,
        })
    }

    /// Serves orders until glee is gone.
    pub(super) fn serve(&mut self, strength: &Strength) -> io::Result<()> {
        self.strength = write_strength(strength);
        self.be_ready()?;
        while let Some(frame) = self.control.receive()? {
            match frame.kind {
                Kind::Order => self.run(frame)?,
                // It was meant for a payload that has ended meanwhile.
                Kind::Kill => {}
                _ => return Err(io::ErrorKind::InvalidData.into()),
            }
        }
        Ok(())
    }

    fn be_ready(&self) -> io::Result<()> {
        self.control.send(Kind::Ready, &self.strength, &[])
    }

    fn run(&mut self, frame: Frame) -> io::Result<()> {
        let order = read_order(&frame.body)?;
        let cpu_seconds = self.limits.cpu.map(|it| it.as_secs_f64().ceil() as u64);
        let program = order
            .checked
            .map(|it| Program::open(&order, it, frame.fds.len()));
        let program = match program.transpose() {
            Ok(program) => program,
            Err(failed) => return self.control.send(Kind::Failed, &write_failed(failed), &[]),
        };
        let terms = Terms {
            cpu_seconds,
            checked: program.as_ref(),
            layer: self.layer.as_ref().map(AsFd::as_fd),
        };
        let started = payload::start(&mut self.stack, &order, &frame.fds, terms);
        // Our copies of the payload's pipes must not outlive it.
        drop(frame);
        let pid = match started {
            Err(failed) => return self.control.send(Kind::Failed, &write_failed(failed), &[]),
            Ok(pid) => pid,
        };
        self.control.send(Kind::Started, &[], &[])?;
        let script = program.and_then(|it| it.script);
        let reaped = self.watch(pid, script)?;
        self.tree.end();
        let end = self.ended(&reaped);
        let untouched = self.scratch.as_ref().is_none_or(Scratch::is_untouched);
        let then = if untouched { Then::Next } else { Then::Fresh };
        self.control
            .send(Kind::Ended, &write_end(&end, then), &[])?;
        match then {
            Then::Next => Ok(()),
            Then::Fresh if self.scratch.as_mut().is_some_and(Scratch::tidy) => self.be_ready(),
            Then::Fresh => std::process::exit(USED_UP),
        }
    }

    fn ended(&mut self, reaped: &Reaped) -> End {
        let exit = if libc::WIFSIGNALED(reaped.status) {
            Exit::Signal(libc::WTERMSIG(reaped.status))
        } else {
            Exit::Code(libc::WEXITSTATUS(reaped.status))
        };
        let usage = &reaped.usage;
        let largest = u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024;
        End {
            exit,
            cpu: duration(usage.ru_utime) + duration(usage.ru_stime),
            peak_memory: self.cgroup.and_then(Cgroup::take_peak).unwrap_or(largest),
            limit: self.limit_hit(exit),
        }
    }

    fn limit_hit(&mut self, exit: Exit) -> Option<Limit> {
        let before = self.counts;
        self.counts = self.cgroup.map(Cgroup::counts).unwrap_or_default();
        if self.exceeded.is_some() {
            return self.exceeded;
        }
        // A shell tells of a signal to its child by a code above 128.
        let signal = match exit {
            Exit::Signal(it) => it,
            Exit::Code(it) => it - 128,
        };
        match signal {
            libc::SIGXCPU => Some(Limit::Cpu),
            libc::SIGXFSZ => Some(Limit::FileSize),
            _ if self.counts.killed > before.killed => Some(Limit::Memory),
            _ if self.counts.refused > before.refused => Some(Limit::Processes),
            _ if self.scratch.as_ref().is_some_and(Scratch::is_full) => Some(Limit::Scratch),
            _ => None,
        }
    }

    /// Kills the tree when it uses more than it may. The kernel's own limits are on single processes; this is on all of
    /// them together.
    fn look(&mut self) {
        let usage = self.tree.usage();
        if self.limits.cpu.is_some_and(|most| usage.cpu > most) {
            self.exceeded = Some(Limit::Cpu);
        }
        if self.cgroup.is_none()
            && self
                .limits
                .processes
                .is_some_and(|most| usage.processes > most.into())
        {
            self.exceeded = Some(Limit::Processes);
        }
        if self.cgroup.is_none()
            && let Some(most) = self.limits.memory
            && usage.resident > most
            && self.tree.proportional_memory() > most
        {
            self.exceeded = Some(Limit::Memory);
        }
        if self.exceeded.is_some() {
            self.tree.kill();
        }
    }

    /// Waits for the payload to end, and kills the tree when glee says so or is gone.
    fn watch(&mut self, payload: libc::pid_t, script: Option<Script>) -> io::Result<Reaped> {
        let mut asking = script.and_then(|it| it.listened_to(payload));
        let counts_itself = self.cgroup.is_none()
            && (self.limits.memory.is_some() || self.limits.processes.is_some());
        let tick = (counts_itself || self.limits.cpu.is_some()).then_some(Timespec {
            tv_sec: 0,
            tv_nsec: LOOK.subsec_nanos().into(),
        });
        let mut next_look = Instant::now() + LOOK;
        self.exceeded = None;
        loop {
            while let Some(reaped) = reap(Wait::Poll)? {
                if reaped.pid == payload {
                    return Ok(reaped);
                }
            }
            if let Some(frame) = self.control.buffered()? {
                match frame.kind {
                    Kind::Kill => self.tree.kill(),
                    _ => return Err(io::ErrorKind::InvalidData.into()),
                }
                continue;
            }
            let mut ready = [
                PollFd::new(&self.children, PollFlags::IN),
                PollFd::from_borrowed_fd(self.control.as_fd(), PollFlags::IN),
                // Where nobody asks, this is waited for twice.
                PollFd::from_borrowed_fd(
                    asking.as_ref().map_or(self.control.as_fd(), Asking::as_fd),
                    PollFlags::IN,
                ),
            ];
            match poll(&mut ready, tick.as_ref()) {
                Err(rustix::io::Errno::INTR) => continue,
                other => other?,
            };
            let [child, glee, asked] = ready.map(|it| it.revents());
            if let Some(script) = &mut asking
                && !asked.is_empty()
                && (!asked.contains(PollFlags::IN) || script.answer().is_err())
            {
                // Nobody is left who could ask.
                asking = None;
            }
            if tick.is_some() && next_look <= Instant::now() {
                next_look = Instant::now() + LOOK;
                self.look();
            }
            if !child.is_empty() {
                let mut info = [0; 1024];
                rustix::io::read(&self.children, &mut info)?;
            }
            if !glee.is_empty() && self.control.fill()? == 0 {
                self.tree.end();
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

fn duration(time: libc::timeval) -> Duration {
    Duration::new(
        u64::try_from(time.tv_sec).unwrap_or(0),
        u32::try_from(time.tv_usec).unwrap_or(0) * 1000,
    )
}

/// A descriptor that is readable when a child has ended.
fn child_signals() -> io::Result<OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: builds a signal set in a local, blocks it in this single-threaded process, and owns the descriptor it
    // gets.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGCHLD);
        let mut blocked = set;
        // The limit of a payload's files is the warden's, too, and an error tells of it as well.
        libc::sigaddset(&mut blocked, libc::SIGXFSZ);
        if libc::sigprocmask(libc::SIG_BLOCK, &blocked, std::ptr::null_mut()) < 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = libc::signalfd(-1, &set, libc::SFD_CLOEXEC);
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(fd))
    }
}
