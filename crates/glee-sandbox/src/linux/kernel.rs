//! What the kernel offers, for people to read. What holds is found by trying; only what an older Landlock does not know,
//! and a filter holds in its place, goes by the version.

use super::cgroup;
use crate::Kernel;

const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;

impl Kernel {
    pub fn of_this_machine() -> Kernel {
        Kernel {
            landlock: landlock(),
            cgroup: cgroup::version(),
        }
    }
}

pub(super) fn landlock() -> Option<u32> {
    // SAFETY: with this flag the call takes no memory and only tells a number.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<libc::c_void>(),
            0_usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    u32::try_from(version).ok().filter(|it| *it > 0)
}
