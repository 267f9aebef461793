//! The program of an order that was checked: opened once, where the payload sees it, and compared.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::fs::{Mode, OFlags};

use super::message::{Failed, OrderView, Step};
use super::script::Script;
use crate::profile::Identity;

/// Where a bare program name is looked up, whatever the environment says.
const BASE_PATH: [&CStr; 6] = [
    c"/usr/local/bin/",
    c"/usr/bin/",
    c"/bin/",
    c"/usr/local/sbin/",
    c"/usr/sbin/",
    c"/sbin/",
];

pub(super) fn candidates(program: &CStr) -> Vec<CString> {
    if program.to_bytes().contains(&b'/') {
        return vec![program.to_owned()];
    }
    BASE_PATH
        .iter()
        .map(|dir| {
            let mut bytes = dir.to_bytes().to_vec();
            bytes.extend(program.to_bytes());
            CString::new(bytes).unwrap_or_default()
        })
        .collect()
}

/// A program that is what was checked.
pub(super) struct Program {
    pub(super) path: CString,
    opened: OwnedFd,
    /// Where it must stay what it is for its interpreter.
    pub(super) script: Option<Script>,
}

impl Program {
    /// The caller's own descriptor would do as well, but leads through a mount of the host, where it could be changed.
    /// The payload's descriptors will be below `from`.
    pub(super) fn open(
        order: &OrderView<'_>,
        checked: Identity,
        from: usize,
    ) -> Result<Program, Failed> {
        let at = |step| move |errno: i32| Failed { step, errno };
        let of = |err: rustix::io::Errno| err.raw_os_error();
        let from = RawFd::try_from(from).map_err(|_| at(Step::Descriptors)(libc::EMFILE))?;
        let mut failed = at(Step::Exec)(libc::ENOENT);
        for path in candidates(order.program) {
            // As a place, because a program need not be readable.
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let opened = match rustix::fs::open(&path, flags, Mode::empty()) {
                Ok(opened) => opened,
                Err(err) => {
                    failed = at(Step::Exec)(of(err));
                    continue;
                }
            };
            let opened = rustix::io::fcntl_dupfd_cloexec(&opened, from)
                .map_err(|err| at(Step::Descriptors)(of(err)))?;
            let script = match order.is_kept {
                // What cannot be kept as it was checked does not run.
                true => Script::read(&path, opened.as_fd(), checked, from)
                    .map_err(|err| at(Step::Exec)(err.raw_os_error().unwrap_or(libc::EIO)))?,
                false => None,
            };
            // Last, so that it is certain for what was read, too.
            if Identity::of(&opened).ok() != Some(checked) {
                return Err(at(Step::Checked)(0));
            }
            return Ok(Program {
                path,
                opened,
                script,
            });
        }
        Err(failed)
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.opened.as_raw_fd()
    }
}
