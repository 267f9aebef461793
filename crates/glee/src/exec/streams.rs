//! The streams of a child: fed and captured together, so that none can block another.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;

use glee_core::admit::Admitted;
use glee_core::outcome::Truncated;
use glee_core::redact::Redactor;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;

use super::aloud::Aloud;
use super::notes::Notes;

/// How much of a stream goes into a failure.
const SHOWN: usize = 16 << 10;
/// Where a child finds the channel of its notes: behind its other descriptors.
pub(super) const NOTES: u32 = 3;
pub(super) const NOTES_AFTER_EXCHANGE: u32 = 5;
/// Room, in an answer, for what stands before the result itself.
const ANSWER_HEAD: usize = 64 << 10;

/// Our ends of a child's streams.
pub(super) struct Streams {
    stdin: Option<Rest>,
    stdout: pipe::Receiver,
    stderr: pipe::Receiver,
    /// What the child can read from descriptor 3, and what it answers on descriptor 4.
    exchange: Option<(Option<Rest>, pipe::Receiver)>,
    notes: Notes,
}

/// What is to be written yet.
type Rest = (pipe::Sender, Vec<u8>);

/// What came out of a child.
pub(super) struct Collected {
    pub(super) stdout: Captured,
    pub(super) stderr: Captured,
    pub(super) answer: Captured,
}

impl Streams {
    /// The child's ends, in the order of their descriptors, and ours.
    pub(super) fn open(
        stdin: Vec<u8>,
        request: Option<Vec<u8>>,
    ) -> io::Result<(Vec<OwnedFd>, Streams)> {
        let (stdin_child, stdin) = into_child(stdin)?;
        let (stdout, stdout_child) = from_child()?;
        let (stderr, stderr_child) = from_child()?;
        let mut fds = vec![stdin_child, stdout_child, stderr_child];
        let exchange = match request {
            None => None,
            Some(request) => {
                let (request_child, request) = into_child(request)?;
                let (answer, answer_child) = from_child()?;
                fds.extend([request_child, answer_child]);
                Some((request, answer))
            }
        };
        let (notes_child, notes) = Notes::open()?;
        fds.push(notes_child);
        Ok((
            fds,
            Streams {
                stdin,
                stdout,
                stderr,
                exchange,
                notes,
            },
        ))
    }

    /// Feeds, reads and hears until the process is over and the ends of its streams are closed.
    pub(super) async fn follow<T>(
        self,
        over: impl Future<Output = T>,
        call: &Admitted,
    ) -> (T, Collected) {
        let keep = call.spec().limits.output_bytes;
        let exchange = async {
            match self.exchange {
                None => Captured::default(),
                Some((request, answer)) => {
                    tokio::join!(capture(answer, keep + ANSWER_HEAD), feed(request)).0
                }
            }
        };
        let mut aloud = Aloud::to_caller_of(call);
        let work = async {
            let tell = |bytes: &[u8]| {
                if let Some(aloud) = &mut aloud {
                    aloud.say(bytes);
                }
            };
            let (over, stdout, stderr, answer, ()) = tokio::join!(
                over,
                capture_telling(self.stdout, keep, tell),
                capture(self.stderr, keep),
                exchange,
                feed(self.stdin)
            );
            let collected = Collected {
                stdout,
                stderr,
                answer,
            };
            if let Some(aloud) = aloud {
                aloud.finish();
            }
            (over, collected)
        };
        self.notes.during(work, call.into()).await
    }
}

/// The beginning of a stream, and how long it really was.
#[derive(Default)]
pub(super) struct Captured {
    pub(super) bytes: Vec<u8>,
    pub(super) total: u64,
}

impl Captured {
    pub(super) fn truncated(&self) -> Option<Truncated> {
        let kept = self.bytes.len() as u64;
        (self.total > kept).then_some(Truncated {
            kept,
            total: Some(self.total),
        })
    }

    /// For people and models: the end of it, where programs say what went wrong. Secrets go before
    /// it is cut, because half of one would be recognised by nobody.
    pub(super) fn shown(&self, call: &Admitted) -> String {
        let text = String::from_utf8_lossy(&self.bytes).into_owned();
        let redactor = Redactor::new(call.secrets());
        let text = match self.truncated() {
            Some(_) => redactor.cut_text(text),
            None => redactor.text(text),
        };
        match text.len().checked_sub(SHOWN) {
            None | Some(0) => text,
            Some(start) => format!("…{}", &text[text.ceil_char_boundary(start)..]),
        }
    }
}

/// Mostly a pipe takes all of it at once: then it is there before the child is, and nobody has to come back for the rest.
fn into_child(mut bytes: Vec<u8>) -> io::Result<(OwnedFd, Option<Rest>)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    set_nonblocking(&write)?;
    let taken = rustix::io::write(&write, &bytes)?;
    bytes.drain(..taken);
    let rest = match bytes.is_empty() {
        true => None,
        false => Some((pipe::Sender::from_owned_fd(write)?, bytes)),
    };
    Ok((read, rest))
}

pub(super) fn from_child() -> io::Result<(pipe::Receiver, OwnedFd)> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
    set_nonblocking(&read)?;
    Ok((pipe::Receiver::from_owned_fd(read)?, write))
}

fn set_nonblocking(fd: &OwnedFd) -> io::Result<()> {
    rustix::io::ioctl_fionbio(fd, true)?;
    Ok(())
}

/// A child that does not read its input is no failure.
async fn feed(rest: Option<Rest>) {
    if let Some((mut pipe, bytes)) = rest {
        let _ = pipe.write_all(&bytes).await;
    }
}

/// Reads to the end, keeps the beginning. A child is never blocked by what is thrown away.
pub(super) async fn capture(pipe: pipe::Receiver, keep: usize) -> Captured {
    capture_telling(pipe, keep, |_| ()).await
}

/// The same, told as it is kept.
async fn capture_telling(
    mut pipe: pipe::Receiver,
    keep: usize,
    mut tell: impl FnMut(&[u8]),
) -> Captured {
    let mut captured = Captured::default();
    // Most streams say little or nothing: room that is not filled beforehand is not touched either.
    let mut chunk = Vec::with_capacity(64 << 10);
    while let Ok(length @ 1..) = pipe.read_buf(&mut chunk).await {
        captured.total += length as u64;
        let room = keep - captured.bytes.len();
        let kept = &chunk[..length.min(room)];
        captured.bytes.extend_from_slice(kept);
        tell(kept);
        chunk.clear();
    }
    captured
}
