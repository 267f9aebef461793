//! What a call takes from the machine: its clocks, and the environment of glee's own process.

use std::time::{Duration, Instant, SystemTime};

use glee_core::port::{Boot, Clock, Secrets};
use glee_core::secret::Secret;
use rustix::time::{ClockId, clock_gettime};

/// A variable that is there and not text allows nothing.
pub(super) fn allowed_permissions() -> Option<String> {
    std::env::var_os("ALLOWED_TOOL_PERMS").map(|it| it.into_string().unwrap_or_default())
}

/// Secrets are environment variables of glee's own process.
pub(super) struct Environment;

impl Secrets for Environment {
    fn get(&self, name: &str) -> Option<Secret> {
        std::env::var(name).ok().map(Secret::new)
    }
}

pub(super) struct SystemClock {
    began: Instant,
    boot_id: Option<String>,
}

impl SystemClock {
    pub(super) fn new() -> SystemClock {
        let read = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
        SystemClock {
            began: Instant::now(),
            boot_id: read.ok().map(|it| it.trim().to_owned()),
        }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn boot(&self) -> Option<Boot> {
        let up = clock_gettime(ClockId::Boottime);
        Some(Boot {
            id: self.boot_id.clone()?,
            up: Duration::try_from(up).ok()?,
        })
    }
}
