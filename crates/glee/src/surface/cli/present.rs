//! The person at the terminal, while their call goes on: sees how far it is, and is asked for what is
//! missing.

use std::io::{self, IsTerminal};

use glee_core::elicit::Asked;
use glee_core::name::spelled_out;
use glee_core::port::{Approver, Later, Level, Note, Party, Supply};
use indicatif::ProgressBar;

use super::print;
use crate::approve::form;

/// Most characters of a message beside the spinner.
const LONGEST_SHOWN: usize = 120;

pub(super) struct Present {
    pub(super) tool: String,
    /// Not drawn where nobody would see it.
    pub(super) bar: ProgressBar,
}

impl Party for Present {
    fn hear(&self, note: Note) {
        match note {
            Note::Progress {
                done,
                total,
                message,
            } => {
                let shown = progress(&self.tool, done, total, message.as_deref());
                self.bar.set_message(shown);
            }
            Note::Log { level, text } => {
                if io::stderr().is_terminal() {
                    self.bar.suspend(|| print::note(word(level), "2", &text));
                }
            }
        }
    }

    fn supply<'a>(&'a self, asked: &'a [Asked]) -> Later<'a, Supply> {
        Box::pin(form::fill(asked))
    }

    fn approver(&self) -> Option<&dyn Approver> {
        None
    }
}

fn progress(tool: &str, done: f64, total: Option<f64>, message: Option<&str>) -> String {
    let far = match total {
        Some(total) if total > 0.0 => {
            format!("{:.0}%", (done / total * 100.0).clamp(0.0, 100.0))
        }
        _ => done.to_string(),
    };
    let line = message.and_then(|it| it.lines().next()).unwrap_or_default();
    let line: String = spelled_out(line).chars().take(LONGEST_SHOWN).collect();
    format!("running {tool} {far} {line}").trim_end().to_owned()
}

fn word(level: Level) -> &'static str {
    match level {
        Level::Debug => "debug",
        Level::Info => "info",
        Level::Notice => "notice",
        Level::Warning => "warning",
        Level::Error => "error",
        Level::Critical => "critical",
        Level::Alert => "alert",
        Level::Emergency => "emergency",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_one_harmless_line() {
        let shown = |done, total, message| progress("tool", done, total, message);
        assert_eq!(shown(1.0, Some(4.0), None), "running tool 25%");
        assert_eq!(shown(9.0, Some(4.0), Some("end")), "running tool 100% end");
        assert_eq!(shown(3.0, None, Some("a\nb")), "running tool 3 a");
        assert_eq!(shown(3.5, Some(0.0), None), "running tool 3.5");
        let escaped = shown(1.0, Some(1.0), Some("\u{1b}[2Jx"));
        assert_eq!(escaped, "running tool 100% \\u{1b}[2Jx");
    }
}
