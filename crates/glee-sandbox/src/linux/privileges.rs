//! Gives up what a payload must never have: capabilities, new privileges, a readable memory.

use std::io;

use rustix::process::DumpableBehavior;

/// Above the last capability any kernel knows; the kernel refuses those it does not.
const CAPABILITIES: libc::c_ulong = 64;

#[repr(C)]
struct Header {
    version: u32,
    pid: libc::c_int,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Data {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Drops all capabilities, now and for whatever is executed later.
pub(super) fn drop_capabilities() -> io::Result<()> {
    for capability in 0..CAPABILITIES {
        // SAFETY: takes a number; fails for one that does not exist or when we may not, which capset below survives.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
    let header = Header {
        version: 0x2008_0522,
        pid: 0,
    };
    let none = [Data::default(); 2];
    // SAFETY: version 3 of the header comes with two data structures, all locals.
    let dropped = unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) };
    if dropped < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Executing a setuid program no longer changes anything.
pub(super) fn no_new_privileges() -> io::Result<()> {
    Ok(rustix::thread::set_no_new_privs(true)?)
}

/// Hides the memory, the environment and the descriptors of this process from other processes of the same user. For
/// `main`, after [`run_if_launcher`](crate::run_if_launcher): a payload in a weaker tier may see that glee is there.
pub fn hide_this_process() -> io::Result<()> {
    hide_memory()
}

/// Other processes of the same user cannot read this one's memory or descriptors.
pub(super) fn hide_memory() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(
        DumpableBehavior::NotDumpable,
    )?)
}

/// The opposite, for the moment in which the gatekeeper takes something out of the warden.
pub(super) fn show_memory() -> io::Result<()> {
    Ok(rustix::process::set_dumpable_behavior(
        DumpableBehavior::Dumpable,
    )?)
}
