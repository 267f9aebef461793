//! The seccomp layer: system calls that a tool does not need and an escape does.
//!
//! The filter is a balanced tree over system call numbers, so that a call passes a handful of comparisons and not a
//! hundred. It is attached once to the warden and inherited by every payload.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use libc::{c_long, sock_filter};

use crate::Network;

/// What happens to a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    Refuse(i32),
    /// Refused unless the argument is one of these.
    OnlyIf {
        argument: u32,
        values: &'static [u32],
    },
    /// Refused unless the first two arguments are these.
    OnlyIfBoth {
        first: u32,
        second: u32,
    },
    /// Refused when the argument is one of these.
    Unless {
        argument: u32,
        values: &'static [u32],
    },
    /// Refused when the argument has one of these bits.
    WithoutBits {
        argument: u32,
        bits: u32,
    },
    /// Answered by the gatekeeper.
    Ask,
    /// Answered by the gatekeeper when the argument is a pointer, and allowed without.
    AskIfGiven {
        argument: u32,
    },
    /// Opens and creates: refused when it would create with one of these bits in its mode.
    CreatesWithout {
        flags: u32,
        mode: u32,
        bits: u32,
        cuts: Cuts,
    },
    /// Sends a signal: refused to everybody at once, and to this process and its group.
    Spares(u32),
    /// `socketpair`: unix sockets, and none that can still be told another destination.
    Pairs,
    /// `socket`: these families, streams and datagrams only.
    Sockets {
        families: &'static [u32],
    },
}

/// Whether a file can be cut by who opens it without writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cuts {
    HeldElsewhere,
    OnlyToWrite,
}

/// Who else holds: without namespaces and read-only mounts the filter must also keep what they would.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Helped {
    ByNamespaces,
    ByLandlock {
        /// Of its rules; 0 where there are none. What an older one does not know, the filter holds as far as it can.
        version: u32,
        /// The process that sees to the end of the tree.
        warden: u32,
    },
}

/// From this version on Landlock holds back who would cut a file.
const HOLDS_CUTS: u32 = 3;
/// From this version on it holds back signals.
const HOLDS_SIGNALS: u32 = 6;

/// Whether somebody is there to be asked about destinations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gatekeeper {
    Present,
    Absent,
}

const EPERM: i32 = libc::EPERM;
const ENOSYS: i32 = libc::ENOSYS;

/// Newer than the libc crate's tables, or missing in them.
const SYS_OPEN_TREE_ATTR: c_long = 467;
const SYS_FILE_SETATTR: c_long = 469;
const SYS_SETXATTRAT: c_long = 463;
const SYS_REMOVEXATTRAT: c_long = 466;

/// All flags of clone(2) that make a namespace.
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET)
    .cast_unsigned();

const REFUSED: &[(c_long, i32)] = &[
    // Sockets and files past the filter.
    (libc::SYS_io_uring_setup, ENOSYS),
    (libc::SYS_io_uring_enter, ENOSYS),
    (libc::SYS_io_uring_register, ENOSYS),
    // Other processes.
    (libc::SYS_ptrace, EPERM),
    (libc::SYS_process_vm_readv, EPERM),
    (libc::SYS_process_vm_writev, EPERM),
    (libc::SYS_process_madvise, EPERM),
    (libc::SYS_process_mrelease, EPERM),
    (libc::SYS_pidfd_getfd, EPERM),
    (libc::SYS_kcmp, EPERM),
    (libc::SYS_move_pages, EPERM),
    (libc::SYS_migrate_pages, EPERM),
    // Namespaces and mounts. The flags of clone3 are in memory where a filter cannot look; without it the C library
    // uses clone.
    (libc::SYS_clone3, ENOSYS),
    (libc::SYS_unshare, EPERM),
    (libc::SYS_setns, EPERM),
    (libc::SYS_mount, EPERM),
    (libc::SYS_umount2, EPERM),
    (libc::SYS_pivot_root, EPERM),
    (libc::SYS_chroot, EPERM),
    (libc::SYS_open_tree, EPERM),
    (SYS_OPEN_TREE_ATTR, EPERM),
    (libc::SYS_move_mount, EPERM),
    (libc::SYS_fsopen, EPERM),
    (libc::SYS_fsconfig, EPERM),
    (libc::SYS_fsmount, EPERM),
    (libc::SYS_fspick, EPERM),
    (libc::SYS_mount_setattr, EPERM),
    // Kernel interfaces with a history.
    (libc::SYS_bpf, EPERM),
    (libc::SYS_perf_event_open, EPERM),
    (libc::SYS_userfaultfd, EPERM),
    (libc::SYS_fanotify_init, EPERM),
    (libc::SYS_open_by_handle_at, EPERM),
    (libc::SYS_name_to_handle_at, EPERM),
    (libc::SYS_add_key, EPERM),
    (libc::SYS_request_key, EPERM),
    (libc::SYS_keyctl, EPERM),
    (libc::SYS_memfd_secret, ENOSYS),
    // Its mode is in memory where a filter cannot look; without it programs use openat.
    (libc::SYS_openat2, ENOSYS),
    // They outlive their maker and cannot be listed.
    (libc::SYS_mq_open, ENOSYS),
    (libc::SYS_mq_unlink, ENOSYS),
    // The machine itself.
    (libc::SYS_reboot, EPERM),
    (libc::SYS_kexec_load, EPERM),
    (libc::SYS_kexec_file_load, EPERM),
    (libc::SYS_init_module, EPERM),
    (libc::SYS_finit_module, EPERM),
    (libc::SYS_delete_module, EPERM),
    (libc::SYS_swapon, EPERM),
    (libc::SYS_swapoff, EPERM),
    (libc::SYS_acct, EPERM),
    (libc::SYS_quotactl, EPERM),
    (libc::SYS_quotactl_fd, EPERM),
    (libc::SYS_settimeofday, EPERM),
    (libc::SYS_clock_settime, EPERM),
    (libc::SYS_adjtimex, EPERM),
    (libc::SYS_clock_adjtime, EPERM),
    (libc::SYS_sethostname, EPERM),
    (libc::SYS_setdomainname, EPERM),
    (libc::SYS_syslog, EPERM),
    (libc::SYS_vhangup, EPERM),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_iopl, EPERM),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_ioperm, EPERM),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_modify_ldt, EPERM),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_uselib, EPERM),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_sysfs, EPERM),
];

/// Calls whose first argument names a process: only the caller itself, or the warden could be slowed and its
/// limits changed for all calls to come.
const ONLY_SELF: &[c_long] = &[
    libc::SYS_prlimit64,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
];

/// Objects and events that are the whole machine's where there is no namespace.
const SHARED: &[c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_inotify_add_watch,
];

/// What Landlock lets anybody change who can open a file to read.
const METADATA: &[c_long] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    SYS_SETXATTRAT,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SYS_REMOVEXATTRAT,
    SYS_FILE_SETATTR,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// A file with one of these, left in a grant, gives its maker's powers to whoever runs it on the host.
const SET_ID: u32 = libc::S_ISUID | libc::S_ISGID;

/// Calls that set a mode, and the argument in which.
const MODES: &[(c_long, u32)] = &[
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (libc::SYS_fchmodat2, 2),
    (libc::SYS_mknodat, 2),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
];

/// Calls that send a signal to the process that their first argument names. Programs need them for their own children,
/// and a filter does not know whose child a number is.
const SIGNALS: &[c_long] = &[
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
];

/// As the first argument of kill: whomever the caller may reach.
const EVERYBODY: u32 = u32::MAX;

/// These name the process that a descriptor signals later, one of them in memory where a filter cannot look.
const OWNERS: &[u32] = &[libc::F_SETOWN.cast_unsigned(), F_SETOWN_EX];

const TRUNCATE: u32 = libc::O_TRUNC.cast_unsigned();
const ACCESS: u32 = libc::O_ACCMODE.cast_unsigned();
const TO_WRITE: u32 = libc::O_WRONLY.cast_unsigned();
const TO_READ_AND_WRITE: u32 = libc::O_RDWR.cast_unsigned();

/// O_CREAT and the bit that makes O_TMPFILE; without them a mode means nothing and may be anything.
const CREATE: u32 = (libc::O_CREAT | (libc::O_TMPFILE & !libc::O_DIRECTORY)).cast_unsigned();

/// Calls that may create, and the arguments of flags and mode.
const OPENS: &[(c_long, u32, u32)] = &[
    (libc::SYS_openat, 2, 3),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 1, 2),
];

const IOPRIO_WHO_PROCESS: u32 = 1;
const TIOCSTI: u32 = 0x5412;
const TIOCLINUX: u32 = 0x541c;
const FS_IOC_SETFLAGS: u32 = 0x4008_6602;
const FS_IOC_FSSETXATTR: u32 = 0x401c_5820;
const FIOSETOWN: u32 = 0x8901;
const SIOCSPGRP: u32 = 0x8902;
const F_SETOWN_EX: u32 = 15;

const INET: u32 = libc::AF_INET.cast_unsigned();
const INET6: u32 = libc::AF_INET6.cast_unsigned();
const UNIX: u32 = libc::AF_UNIX.cast_unsigned();

fn rules(network: &Network, helped: Helped, gatekeeper: Gatekeeper) -> BTreeMap<u32, Rule> {
    let mut rules: BTreeMap<c_long, Rule> = REFUSED
        .iter()
        .map(|(call, errno)| (*call, Rule::Refuse(*errno)))
        .collect();
    rules.extend(ONLY_SELF.iter().map(|call| {
        (
            *call,
            Rule::OnlyIf {
                argument: 0,
                values: &[0],
            },
        )
    }));
    rules.insert(
        libc::SYS_clone,
        Rule::WithoutBits {
            argument: 0,
            bits: NAMESPACES,
        },
    );
    for (call, argument) in MODES {
        rules.insert(
            *call,
            Rule::WithoutBits {
                argument: *argument,
                bits: SET_ID,
            },
        );
    }
    let cuts = match helped {
        Helped::ByLandlock {
            version: ..HOLDS_CUTS,
            ..
        } => Cuts::OnlyToWrite,
        Helped::ByLandlock { .. } | Helped::ByNamespaces => Cuts::HeldElsewhere,
    };
    if cuts == Cuts::OnlyToWrite {
        // By a name, which a filter cannot judge. By a descriptor is another call, and takes one that writes.
        rules.insert(libc::SYS_truncate, Rule::Refuse(EPERM));
    }
    for (call, flags, mode) in OPENS {
        rules.insert(
            *call,
            Rule::CreatesWithout {
                flags: *flags,
                mode: *mode,
                bits: SET_ID,
                cuts,
            },
        );
    }
    // One process, the caller: a whole user would include the warden.
    rules.insert(
        libc::SYS_setpriority,
        Rule::OnlyIfBoth {
            first: libc::PRIO_PROCESS,
            second: 0,
        },
    );
    rules.insert(
        libc::SYS_ioprio_set,
        Rule::OnlyIfBoth {
            first: IOPRIO_WHO_PROCESS,
            second: 0,
        },
    );
    rules.insert(libc::SYS_socketpair, Rule::Pairs);
    let families: &[u32] = match network {
        Network::None => &[],
        Network::Proxy { .. } => &[INET, INET6],
        Network::Outbound { .. } => &[INET, INET6],
    };
    if gatekeeper == Gatekeeper::Present {
        for call in [libc::SYS_connect, libc::SYS_sendmsg, libc::SYS_sendmmsg] {
            rules.insert(call, Rule::Ask);
        }
        rules.insert(libc::SYS_sendto, Rule::AskIfGiven { argument: 4 });
    }
    if let Network::Outbound { .. } = network {
        // Outbound is not inbound.
        rules.insert(libc::SYS_listen, Rule::Refuse(EPERM));
    }
    rules.insert(libc::SYS_socket, Rule::Sockets { families });
    let mut ioctls: &[u32] = &[TIOCSTI, TIOCLINUX];
    if let Helped::ByLandlock { version, warden } = helped {
        rules.extend(
            METADATA
                .iter()
                .chain(SHARED)
                .map(|call| (*call, Rule::Refuse(EPERM))),
        );
        ioctls = &[TIOCSTI, TIOCLINUX, FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR];
        if version < HOLDS_SIGNALS {
            rules.extend(SIGNALS.iter().map(|call| (*call, Rule::Spares(warden))));
            // It names a descriptor, behind which the warden could be; without it programs use kill.
            rules.insert(libc::SYS_pidfd_send_signal, Rule::Refuse(ENOSYS));
            rules.insert(
                libc::SYS_fcntl,
                Rule::Unless {
                    argument: 1,
                    values: OWNERS,
                },
            );
            ioctls = &[
                TIOCSTI,
                TIOCLINUX,
                FS_IOC_SETFLAGS,
                FS_IOC_FSSETXATTR,
                FIOSETOWN,
                SIOCSPGRP,
            ];
        }
    }
    rules.insert(
        libc::SYS_ioctl,
        Rule::Unless {
            argument: 1,
            values: ioctls,
        },
    );
    rules
        .into_iter()
        .filter_map(|(call, rule)| Some((u32::try_from(call).ok()?, rule)))
        .collect()
}

/// Restricts this process and all that it starts. Needs no_new_privs. When the filter asks somebody, that is whoever
/// holds the descriptor it returns.
pub(super) fn restrict(
    network: &Network,
    helped: Helped,
    gatekeeper: Gatekeeper,
) -> io::Result<Option<OwnedFd>> {
    let filter = assemble(&rules(network, helped, gatekeeper));
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).map_err(io::Error::other)?,
        filter: filter.as_ptr().cast_mut(),
    };
    let attach = |flags: libc::c_ulong| {
        // SAFETY: the program points to a filter that lives until the call has copied it.
        let attached = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                &raw const program,
            )
        };
        if attached < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(attached)
        }
    };
    if gatekeeper == Gatekeeper::Absent {
        return attach(0).map(|_| None);
    }
    // A signal must not interrupt a call that the gatekeeper is already making, or it would be made twice.
    let listener = attach(
        libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
    )
    .or_else(|_| attach(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER))?;
    let listener = libc::c_int::try_from(listener).map_err(io::Error::other)?;
    // SAFETY: the kernel made this descriptor for us a moment ago.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(listener) }))
}

/// Hands whoever opens a file to read to the one who listens.
#[cfg(target_arch = "x86_64")]
pub(super) const READS: &[sock_filter] = &[
    load(ARCH),
    jump(libc::BPF_JEQ, ARCHITECTURE, 0, 8),
    load(NUMBER),
    jump(libc::BPF_JEQ, libc::SYS_openat as u32, 1, 0),
    jump(libc::BPF_JEQ, libc::SYS_open as u32, 2, 5),
    load(argument(2)),
    jump(libc::BPF_JA, 1, 0, 0),
    load(argument(1)),
    jump(libc::BPF_JSET, NOT_TO_READ, 1, 0),
    give(libc::SECCOMP_RET_USER_NOTIF),
    give(libc::SECCOMP_RET_ALLOW),
];
#[cfg(not(target_arch = "x86_64"))]
pub(super) const READS: &[sock_filter] = &[
    load(ARCH),
    jump(libc::BPF_JEQ, ARCHITECTURE, 0, 5),
    load(NUMBER),
    jump(libc::BPF_JEQ, libc::SYS_openat as u32, 0, 3),
    load(argument(2)),
    jump(libc::BPF_JSET, NOT_TO_READ, 1, 0),
    give(libc::SECCOMP_RET_USER_NOTIF),
    give(libc::SECCOMP_RET_ALLOW),
];

/// Flags of who opens something to write or make it, or a directory.
const NOT_TO_READ: u32 =
    (libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_PATH | libc::O_DIRECTORY)
        .cast_unsigned();

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7;

/// Numbers from here on belong to the x32 interface, which has its own table.
const X32: u32 = 0x4000_0000;

const NUMBER: u32 = 0;
const ARCH: u32 = 4;

const fn argument(index: u32) -> u32 {
    // The lower half; both architectures are little-endian. The upper half of an int is ignored by the kernel, too.
    16 + 8 * index
}

fn assemble(rules: &BTreeMap<u32, Rule>) -> Vec<sock_filter> {
    let mut code = vec![
        load(ARCH),
        jump(libc::BPF_JEQ, ARCHITECTURE, 1, 0),
        give(libc::SECCOMP_RET_KILL_PROCESS),
        load(NUMBER),
        jump(libc::BPF_JGE, X32, 0, 1),
        give(libc::SECCOMP_RET_KILL_PROCESS),
    ];
    let rules: Vec<(u32, Rule)> = rules.iter().map(|(call, rule)| (*call, *rule)).collect();
    code.extend(branch(&rules));
    code
}

/// A search in the ordered rules. Every path through the code returns.
fn branch(rules: &[(u32, Rule)]) -> Vec<sock_filter> {
    match rules {
        [] => vec![give(libc::SECCOMP_RET_ALLOW)],
        [(call, rule)] => {
            let mut code = vec![
                jump(libc::BPF_JEQ, *call, 1, 0),
                give(libc::SECCOMP_RET_ALLOW),
            ];
            code.extend(leaf(*rule));
            code
        }
        _ => {
            let (low, high) = rules.split_at(rules.len() / 2);
            let (first, low, high) = (high[0].0, branch(low), branch(high));
            // The way to the upper half can be longer than a conditional jump reaches.
            let mut code = vec![jump(libc::BPF_JGE, first, 0, 1), far(low.len())];
            code.extend(low);
            code.extend(high);
            code
        }
    }
}

fn leaf(rule: Rule) -> Vec<sock_filter> {
    let refuse = give(errno(EPERM));
    let allow = give(libc::SECCOMP_RET_ALLOW);
    match rule {
        Rule::Refuse(it) => vec![give(errno(it))],
        Rule::OnlyIf {
            argument: index,
            values,
        } => one_of(index, values, allow, refuse),
        Rule::Ask => vec![give(libc::SECCOMP_RET_USER_NOTIF)],
        Rule::AskIfGiven { argument: index } => vec![
            load(argument(index)),
            jump(libc::BPF_JEQ, 0, 0, 2),
            load(argument(index) + 4),
            jump(libc::BPF_JEQ, 0, 1, 0),
            give(libc::SECCOMP_RET_USER_NOTIF),
            allow,
        ],
        Rule::CreatesWithout {
            flags,
            mode,
            bits,
            cuts,
        } => {
            let mut code = match cuts {
                Cuts::HeldElsewhere => vec![],
                // The fourth kind of access neither reads nor writes, asks nothing of Landlock, and cuts all the same.
                Cuts::OnlyToWrite => vec![
                    load(argument(flags)),
                    jump(libc::BPF_JSET, TRUNCATE, 0, 4),
                    and(ACCESS),
                    jump(libc::BPF_JEQ, TO_WRITE, 2, 0),
                    jump(libc::BPF_JEQ, TO_READ_AND_WRITE, 1, 0),
                    refuse,
                ],
            };
            code.extend([
                load(argument(flags)),
                jump(libc::BPF_JSET, CREATE, 1, 0),
                allow,
                load(argument(mode)),
                jump(libc::BPF_JSET, bits, 0, 1),
                refuse,
                allow,
            ]);
            code
        }
        Rule::Spares(process) => one_of(
            0,
            &[EVERYBODY, process, process.wrapping_neg()],
            refuse,
            allow,
        ),
        // A datagram pair would take any path as the destination of a message.
        Rule::Pairs => vec![
            load(argument(0)),
            jump(libc::BPF_JEQ, UNIX, 1, 0),
            refuse,
            load(argument(1)),
            and(0xf),
            jump(libc::BPF_JEQ, libc::SOCK_STREAM.cast_unsigned(), 2, 0),
            jump(libc::BPF_JEQ, libc::SOCK_SEQPACKET.cast_unsigned(), 1, 0),
            refuse,
            allow,
        ],
        Rule::OnlyIfBoth { first, second } => vec![
            load(argument(0)),
            jump(libc::BPF_JEQ, first, 0, 3),
            load(argument(1)),
            jump(libc::BPF_JEQ, second, 0, 1),
            allow,
            refuse,
        ],
        Rule::Unless {
            argument: index,
            values,
        } => one_of(index, values, refuse, allow),
        Rule::WithoutBits {
            argument: index,
            bits,
        } => {
            vec![
                load(argument(index)),
                jump(libc::BPF_JSET, bits, 0, 1),
                refuse,
                allow,
            ]
        }
        Rule::Sockets { families } => {
            let mut code = one_of(0, families, jump(libc::BPF_JA, 0, 0, 0), refuse);
            // Past the family: raw sockets, SCTP and the like stay out.
            code.extend([
                load(argument(1)),
                and(0xf),
                jump(libc::BPF_JEQ, libc::SOCK_STREAM.cast_unsigned(), 2, 0),
                jump(libc::BPF_JEQ, libc::SOCK_DGRAM.cast_unsigned(), 1, 0),
                refuse,
                load(argument(2)),
                jump(libc::BPF_JEQ, 0, 3, 0),
                jump(libc::BPF_JEQ, libc::IPPROTO_TCP.cast_unsigned(), 2, 0),
                jump(libc::BPF_JEQ, libc::IPPROTO_UDP.cast_unsigned(), 1, 0),
                refuse,
                allow,
            ]);
            code
        }
    }
}

/// Runs `yes` when the argument is one of the values, else `no`. A `yes` that does not return goes on behind.
fn one_of(index: u32, values: &[u32], yes: sock_filter, no: sock_filter) -> Vec<sock_filter> {
    let mut code = vec![load(argument(index))];
    for (passed, value) in values.iter().enumerate() {
        let left = u8::try_from(values.len() - passed).unwrap_or(u8::MAX);
        code.push(jump(libc::BPF_JEQ, *value, left, 0));
    }
    code.extend([no, yes]);
    code
}

fn errno(it: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | it.cast_unsigned()
}

const fn load(offset: u32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0)
}

const fn give(action: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, action, 0, 0)
}

fn and(mask: u32) -> sock_filter {
    instruction(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, mask, 0, 0)
}

const fn jump(test: u32, value: u32, yes: u8, no: u8) -> sock_filter {
    instruction(libc::BPF_JMP | test | libc::BPF_K, value, yes, no)
}

fn far(distance: usize) -> sock_filter {
    jump(
        libc::BPF_JA,
        u32::try_from(distance).unwrap_or(u32::MAX),
        0,
        0,
    )
}

const fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter {
        // All that are used here fit.
        code: code as u16,
        jt,
        jf,
        k,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{File, OpenOptions};
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::Path;

    use rustix::io::Errno;
    use rustix::process::{Pid, PidfdFlags, Signal};

    use super::*;
    use crate::linux::privileges;

    /// Attaches a filter to a thread of its own, lets it act there, and tells how each act ended: 0 or its error.
    fn under<const ACTS: usize>(
        helped: Helped,
        acts: impl FnOnce() -> [io::Result<()>; ACTS] + Send,
    ) -> [i32; ACTS] {
        let confined = || {
            privileges::no_new_privileges().unwrap();
            restrict(&Network::None, helped, Gatekeeper::Absent).unwrap();
            acts().map(|it| it.err().map_or(0, |it| it.raw_os_error().unwrap()))
        };
        std::thread::scope(|scope| scope.spawn(confined).join().unwrap())
    }

    fn by_landlock(version: u32) -> Helped {
        Helped::ByLandlock {
            version,
            warden: std::process::id(),
        }
    }

    fn truncate(path: &Path) -> io::Result<()> {
        let path = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())?;
        // SAFETY: the path ends with NUL.
        match unsafe { libc::truncate(path.as_ptr(), 1) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    #[test]
    fn what_an_old_landlock_lets_cut_the_filter_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let open = |access: i32| {
            use rustix::fs::{Mode, OFlags, open};
            let flags = OFlags::from_bits_retain((access | libc::O_TRUNC).cast_unsigned());
            Ok(open(&path, flags, Mode::empty()).map(drop)?)
        };
        let cut = || {
            [
                truncate(&path),
                open(libc::O_RDONLY),
                open(libc::O_ACCMODE),
                open(libc::O_WRONLY),
                open(libc::O_RDWR),
                File::create(&path).and_then(|it| it.set_len(1)),
                OpenOptions::new()
                    .read(true)
                    .custom_flags(libc::O_CREAT)
                    .open(&path)
                    .map(drop),
            ]
        };
        std::fs::write(&path, "content").unwrap();
        for version in 0..HOLDS_CUTS {
            assert_eq!(
                under(by_landlock(version), cut),
                [EPERM, EPERM, EPERM, 0, 0, 0, 0]
            );
        }
        for held in [by_landlock(HOLDS_CUTS), Helped::ByNamespaces] {
            assert_eq!(under(held, cut), [0; 7], "{held:?}");
        }
    }

    #[test]
    fn what_an_old_landlock_lets_signal_does_not_reach_the_warden() {
        let me = rustix::process::getpid();
        let mut other = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let child = Pid::from_child(&other);
        let call = |number: c_long, first: i32, second: c_long| {
            // SAFETY: asks whether a signal could be sent, which is what signal 0 is for, or with a null in the place
            // of what is sent; the calls take no other memory.
            match unsafe { libc::syscall(number, first, second, 0, 0) } {
                -1 => Err(io::Error::last_os_error()),
                _ => Ok(()),
            }
        };
        let own = me.as_raw_pid();
        let signal = || {
            [
                call(libc::SYS_kill, -1, 0),
                call(libc::SYS_kill, own, 0),
                call(libc::SYS_kill, -own, 0),
                call(libc::SYS_tkill, own, 0),
                call(libc::SYS_tgkill, own, own.into()),
                call(libc::SYS_rt_sigqueueinfo, own, 0),
                call(libc::SYS_rt_tgsigqueueinfo, own, own.into()),
                rustix::process::pidfd_open(child, PidfdFlags::empty())
                    .and_then(|it| rustix::process::pidfd_send_signal(it, Signal::CONT))
                    .map_err(Into::into),
                call(libc::SYS_kill, child.as_raw_pid(), 0),
                call(libc::SYS_kill, 0, 0),
            ]
        };
        let (file, socket) = (
            File::open("/dev/null").unwrap(),
            std::net::UdpSocket::bind("127.0.0.1:0").unwrap(),
        );
        let own_it = || {
            use std::os::fd::AsRawFd as _;
            let (file, socket) = (file.as_raw_fd(), socket.as_raw_fd());
            [
                call(libc::SYS_fcntl, file, libc::F_SETOWN.into()),
                call(libc::SYS_fcntl, file, F_SETOWN_EX.into()),
                call(libc::SYS_ioctl, socket, FIOSETOWN.into()),
                call(libc::SYS_ioctl, socket, SIOCSPGRP.into()),
                call(libc::SYS_fcntl, file, libc::F_GETFD.into()),
            ]
        };
        // What is asked with a null in the place of memory gets so far.
        let (fault, nobody) = (libc::EFAULT, Errno::SRCH.raw_os_error());
        for version in 0..HOLDS_SIGNALS {
            let helped = by_landlock(version);
            assert_eq!(
                under(helped, signal),
                [
                    EPERM, EPERM, EPERM, EPERM, EPERM, EPERM, EPERM, ENOSYS, 0, 0
                ]
            );
            assert_eq!(under(helped, own_it), [EPERM, EPERM, EPERM, EPERM, 0]);
        }
        for held in [by_landlock(HOLDS_SIGNALS), Helped::ByNamespaces] {
            let answers = under(held, signal);
            assert_eq!(answers[..2], [0, 0], "{held:?}");
            // Whether the process leads its group depends on who runs the tests.
            assert!([0, nobody].contains(&answers[2]), "{held:?}");
            assert_eq!(answers[3..], [0, 0, fault, fault, 0, 0, 0], "{held:?}");
            assert_eq!(under(held, own_it), [0, fault, fault, fault, 0], "{held:?}");
        }
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
