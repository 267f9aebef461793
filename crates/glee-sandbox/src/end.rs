//! How a child ended.

use std::time::Duration;

/// How a child ended, told when its whole tree is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    pub exit: Exit,
    /// Processor time of the child and of the descendants that were waited for.
    pub cpu: Duration,
    /// Bytes: of the whole tree where a control group counts them, else of its largest process.
    pub peak_memory: u64,
    /// The limit that was hit, if one was.
    pub limit: Option<Limit>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    Cpu,
    Memory,
    Processes,
    FileSize,
    Scratch,
}

impl Limit {
    pub(crate) const ALL: [Limit; 5] = [
        Limit::Cpu,
        Limit::Memory,
        Limit::Processes,
        Limit::FileSize,
        Limit::Scratch,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Limit::Cpu => "cpu",
            Limit::Memory => "memory",
            Limit::Processes => "processes",
            Limit::FileSize => "file_size",
            Limit::Scratch => "scratch_size",
        }
    }
}
