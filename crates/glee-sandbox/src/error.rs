//! Why a child was not started.

use std::path::PathBuf;
use std::{error, fmt, io};

#[derive(Debug)]
pub enum StartError {
    /// The program, or the interpreter its first line names, does not exist where the child can see it.
    NotFound(PathBuf),
    /// The program exists and cannot be executed.
    NotExecutable(PathBuf),
    /// The program is no longer the file that was checked, or was changed.
    Replaced(PathBuf),
    /// The working directory does not exist where the child can see it, or cannot be entered.
    Cwd(PathBuf),
    /// The machine cannot hold what the profile requires.
    Unavailable {
        layer: String,
        why: String,
        what_to_do: String,
    },
    /// Arguments and environment are larger than the system passes to a program.
    TooLarge,
    /// A NUL byte in the program, an argument, the environment or the working directory.
    Nul {
        part: &'static str,
    },
    /// Nobody waits for it any more; see [`Recall`](crate::Recall). Nothing of it was run, or it was killed.
    CalledOff,
    Io(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::NotFound(program) => write!(f, "{} was not found", program.display()),
            StartError::NotExecutable(program) => {
                write!(f, "{} cannot be executed", program.display())
            }
            StartError::Replaced(program) => {
                write!(
                    f,
                    "{} was replaced or changed after it was checked",
                    program.display()
                )
            }
            StartError::Cwd(cwd) => {
                write!(f, "cannot enter the working directory {}", cwd.display())
            }
            StartError::Unavailable {
                layer,
                why,
                what_to_do,
            } => {
                write!(f, "cannot confine: {layer}: {why} ({what_to_do})")
            }
            StartError::TooLarge => f.write_str("arguments and environment are too large"),
            StartError::Nul { part } => write!(f, "NUL byte in {part}"),
            StartError::CalledOff => f.write_str("the start was called off"),
            StartError::Io(err) => write!(f, "cannot start: {err}"),
        }
    }
}

impl error::Error for StartError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            StartError::Io(err) => Some(err),
            _ => None,
        }
    }
}

impl From<io::Error> for StartError {
    fn from(err: io::Error) -> StartError {
        StartError::Io(err)
    }
}
