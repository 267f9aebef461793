//! When something was asked for, as told by one process and judged by another.

/// Nanoseconds of the clock that all processes of a machine share. Of a time that nobody knows it is told that it was
/// before any other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// As many bytes it has.
    pub const SIZE: usize = size_of::<u64>();

    pub fn from_bytes(bytes: [u8; Moment::SIZE]) -> Moment {
        Moment(u64::from_le_bytes(bytes))
    }

    pub fn to_bytes(self) -> [u8; Moment::SIZE] {
        self.0.to_le_bytes()
    }

    #[cfg(target_os = "linux")]
    pub(crate) fn now() -> Moment {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let part = |it: i64| u64::try_from(it).unwrap_or(0);
        Moment(part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec))
    }
}
