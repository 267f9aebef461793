//! Starts the ordered program: a clone that shares memory until it executes, so that nothing is copied.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::ptr;

use super::message::{Failed, OrderView, Step};
use super::program::{Program, candidates};
use super::script::{self, Script};

const STACK: usize = 64 << 10;

/// The memory the payload runs on until it executes. It is kept between calls, because fresh pages cost more than the
/// clone.
pub(super) struct Stack(Vec<u128>);

impl Stack {
    pub(super) fn new() -> Stack {
        Stack(vec![0; STACK / size_of::<u128>()])
    }
}

/// All that the payload needs between clone and exec, prepared so that it allocates nothing.
struct Plan<'a> {
    programs: Vec<CString>,
    checked: Option<&'a Program>,
    script: Option<Interpreted<'a>>,
    argv: Vec<*const c_char>,
    env: Vec<*const c_char>,
    cwd: &'a CStr,
    fds: &'a mut [RawFd],
    terms: Terms<'a>,
    failed: Option<Failed>,
}

/// How a script is started.
struct Interpreted<'a> {
    script: &'a Script,
    argv: Vec<*const c_char>,
}

impl<'a> Interpreted<'a> {
    /// By where it was found, as the kernel does: a bare name means something else to an interpreter.
    fn new(script: &'a Script, path: &'a CStr, order: &OrderView<'a>) -> Interpreted<'a> {
        let mut words = vec![script.interpreter.as_c_str()];
        words.extend(script.argument.as_deref());
        words.push(path);
        words.extend(order.argv.iter().skip(1));
        Interpreted {
            script,
            argv: pointers(&words),
        }
    }
}

/// What is asked of every payload besides its order.
#[derive(Clone, Copy)]
pub(super) struct Terms<'a> {
    pub(super) cpu_seconds: Option<u64>,
    /// Where that is to be run, and nothing else.
    pub(super) checked: Option<&'a Program>,
    /// A Landlock layer that keeps the payload's signals from the warden, where no namespace does.
    pub(super) layer: Option<BorrowedFd<'a>>,
}

/// Starts the program and returns its process id once it has executed.
pub(super) fn start(
    stack: &mut Stack,
    order: &OrderView<'_>,
    fds: &[OwnedFd],
    terms: Terms<'_>,
) -> Result<libc::pid_t, Failed> {
    let mut raw: Vec<RawFd> = fds.iter().map(AsRawFd::as_raw_fd).collect();
    let mut plan = Plan {
        programs: candidates(order.program),
        checked: terms.checked,
        script: terms
            .checked
            .and_then(|it| Some(Interpreted::new(it.script.as_ref()?, &it.path, order))),
        argv: pointers(&order.argv),
        env: pointers(&order.env),
        cwd: order.cwd,
        fds: &mut raw,
        terms,
        failed: None,
    };
    // SAFETY: CLONE_VFORK suspends this single-threaded process until the child has executed or exited, so the stack,
    // the plan and everything it points to outlive the child's use of them and nobody else touches them meanwhile.
    // The stack grows down from the end of the allocation, which is aligned to 16 bytes.
    let pid = unsafe {
        let top = stack.0.as_mut_ptr().add(stack.0.len());
        libc::clone(
            enter,
            top.cast(),
            libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD,
            ptr::from_mut(&mut plan).cast(),
        )
    };
    if pid < 0 {
        return Err(Failed {
            step: Step::Clone,
            errno: errno(),
        });
    }
    match plan.failed {
        None => Ok(pid),
        Some(failed) => {
            // SAFETY: waiting for our own child with no status wanted.
            unsafe { libc::waitpid(pid, ptr::null_mut(), 0) };
            Err(failed)
        }
    }
}

fn pointers(texts: &[&CStr]) -> Vec<*const c_char> {
    texts
        .iter()
        .map(|it| it.as_ptr())
        .chain([ptr::null()])
        .collect()
}

/// The first code of the payload, on its own stack, in the memory of the warden.
extern "C" fn enter(plan: *mut c_void) -> c_int {
    // SAFETY: `start` passes a pointer to its plan, which nobody else uses until this child has executed or exited.
    let plan = unsafe { &mut *plan.cast::<Plan<'_>>() };
    let step = match prepare(plan) {
        Err(step) => step,
        Ok(()) => match plan.checked {
            Some(checked) => execute_checked(plan, checked),
            None => execute(plan),
        },
    };
    plan.failed = Some(Failed {
        step,
        errno: errno(),
    });
    // SAFETY: leaves without running anything that belongs to the warden.
    unsafe { libc::_exit(127) }
}

fn prepare(plan: &mut Plan<'_>) -> Result<(), Step> {
    let check = |result: c_int, step| if result < 0 { Err(step) } else { Ok(()) };
    // SAFETY: plain system calls on numbers and on texts that outlive them; none of them touches memory of the warden
    // except errno, which the suspended warden does not read before it gets its own.
    unsafe {
        libc::setsid();
        if let Some(layer) = plan.terms.layer {
            let entered = libc::syscall(libc::SYS_landlock_restrict_self, layer.as_raw_fd(), 0);
            check(if entered < 0 { -1 } else { 0 }, Step::Layer)?;
        }
        descriptors(plan.fds).map_err(|()| Step::Descriptors)?;
        check(libc::chdir(plan.cwd.as_ptr()), Step::Cwd)?;
        if let Some(seconds) = plan.terms.cpu_seconds {
            // The soft limit kills with a signal that names the limit; the hard one is for those who ignore it.
            let limit = libc::rlimit {
                rlim_cur: seconds,
                rlim_max: seconds + 1,
            };
            check(libc::setrlimit(libc::RLIMIT_CPU, &limit), Step::Limits)?;
        }
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, ptr::null_mut());
    }
    Ok(())
}

/// Makes the given descriptors 0, 1, 2, … and closes all others.
///
/// # Safety
/// Only for the child of a clone that does not share its descriptor table.
unsafe fn descriptors(fds: &mut [RawFd]) -> Result<(), ()> {
    let count = RawFd::try_from(fds.len()).map_err(|_| ())?;
    // SAFETY: system calls on descriptor numbers of this child's own table.
    unsafe {
        // Those in the way are moved above first, or a later dup would overwrite them.
        for fd in fds.iter_mut().filter(|it| **it < count) {
            *fd = libc::fcntl(*fd, libc::F_DUPFD_CLOEXEC, count);
            if *fd < 0 {
                return Err(());
            }
        }
        for (target, fd) in (0..count).zip(fds.iter()) {
            if libc::dup2(*fd, target) < 0 {
                return Err(());
            }
        }
        let first = libc::c_uint::try_from(count).map_err(|_| ())?;
        if libc::syscall(
            libc::SYS_close_range,
            first,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        ) < 0
        {
            return Err(());
        }
    }
    Ok(())
}

/// Executes the first of the programs that exists; returns only when none could be.
fn execute(plan: &Plan<'_>) -> Step {
    let mut denied = false;
    for program in &plan.programs {
        // SAFETY: all pointers lead to texts that end with NUL and to arrays that end with null.
        unsafe { libc::execve(program.as_ptr(), plan.argv.as_ptr(), plan.env.as_ptr()) };
        match errno() {
            libc::ENOENT | libc::ENOTDIR => {}
            libc::EACCES => denied = true,
            _ => return Step::Exec,
        }
    }
    if denied {
        // SAFETY: errno of this thread; the last failed attempt may have been a plain absence.
        unsafe { *libc::__errno_location() = libc::EACCES };
    }
    Step::Exec
}

/// Executes the file that was checked, and no other: by its descriptor.
fn execute_checked(plan: &Plan<'_>, program: &Program) -> Step {
    // SAFETY: all pointers lead to texts that end with NUL and to arrays that end with null. This child has descriptors of
    // its own.
    unsafe {
        libc::execveat(
            program.descriptor(),
            c"".as_ptr(),
            plan.argv.as_ptr().cast(),
            plan.env.as_ptr().cast(),
            libc::AT_EMPTY_PATH,
        );
        // A script: its interpreter opens it by name, and no descriptor has a name that the script would know its own
        // directory by.
        if errno() == libc::ENOENT {
            match &plan.script {
                Some(it) => {
                    script::hand_over(it.script.line());
                    let interpreter = it.script.interpreter.as_ptr();
                    libc::execve(interpreter, it.argv.as_ptr(), plan.env.as_ptr());
                }
                None => {
                    libc::execve(program.path.as_ptr(), plan.argv.as_ptr(), plan.env.as_ptr());
                }
            }
        }
    }
    Step::Exec
}

fn errno() -> i32 {
    // SAFETY: reads this thread's errno.
    unsafe { *libc::__errno_location() }
}
