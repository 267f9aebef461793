//! What the files of tools are called, and how they are read.

use std::fmt::Write as _;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use data_encoding::HEXLOWER;
use glee_core::bundle::Key;
use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

/// Largest document, in bytes.
pub(super) const MOST_BYTES: u64 = 1 << 20;
/// Longest name of a file, less what it takes to write one.
const LONGEST_NAME: usize = 200;

/// `weather@v2.json`. Other characters than small letters, digits, `-` and `.` are written as their bytes, so
/// that no two tools meet in one file, also not where case or the form of letters makes no difference. A
/// name that gets too long by that is a hash.
pub fn file_name(key: &Key) -> String {
    let name = format!("{}@{}", encoded(&key.slug), encoded(&key.version));
    match name.len() <= LONGEST_NAME {
        true => format!("{name}.json"),
        false => {
            let whole = format!("{}@{}", key.slug, key.version);
            format!("~{}.json", HEXLOWER.encode(&Sha256::digest(whole)))
        }
    }
}

fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' => out.push(byte as char),
            other => {
                let _ = write!(out, "%{other:02x}");
            }
        }
    }
    out
}

/// Tells a file from every other one that could stand in its place, or be made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    file: (u64, u64),
    length: u64,
    /// Nobody can set it.
    changed: (i64, i64),
}

impl Stamp {
    pub(super) fn of(found: &Metadata) -> Stamp {
        Stamp {
            file: (found.dev(), found.ino()),
            length: found.len(),
            changed: (found.ctime(), found.ctime_nsec()),
        }
    }

    /// Two changes within one tick of the file system's clock look like one.
    pub(super) fn is_settled(&self) -> bool {
        let now = std::time::SystemTime::now();
        let now = now.duration_since(std::time::SystemTime::UNIX_EPOCH);
        now.is_ok_and(|it| it.as_secs() as i64 > self.changed.0 + 1)
    }
}

/// A regular file of bounded size, in UTF-8; `InvalidData` when it is something else.
pub(super) fn read(path: &Path) -> io::Result<(String, Stamp)> {
    let foreign = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
    let opened = File::options()
        .read(true)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32)
        .open(path);
    let file = match opened {
        Err(err) if err.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(foreign("it is a symbolic link"));
        }
        opened => opened?,
    };
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(foreign("it is not a regular file"));
    }
    let mut bytes = Vec::with_capacity(found.len().min(MOST_BYTES) as usize + 1);
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(foreign("it is larger than 1024 KiB"));
    }
    let text = String::from_utf8(bytes).map_err(|_| foreign("it is not UTF-8"))?;
    Ok((text, Stamp::of(&found)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use uuid::Uuid;

    fn name(slug: &str, version: &str) -> String {
        file_name(&Key {
            bundle: Uuid::nil(),
            slug: slug.to_owned(),
            version: version.to_owned(),
        })
    }

    #[test]
    fn names_can_be_read() {
        assert_eq!(name("weather", "v2"), "weather@v2.json");
        assert_eq!(name("weather", "1.2"), "weather@1.2.json");
        assert_eq!(name("Weather", "V"), "%57eather@%56.json");
        assert_eq!(name("ä", "1"), "%c3%a4@1.json");
        assert!(name(&"天".repeat(64), "1").len() < 80);
    }

    proptest! {
        /// Whatever tools are called, their files are harmless, and others than those of other tools, also
        /// where case makes no difference.
        #[test]
        fn st_05_names_never_meet(a in "[\\p{L}\\p{Nd}-]{1,64}", b in "[\\p{L}\\p{Nd}-]{1,64}", v in "[\\p{L}.]{1,64}") {
            let (one, other) = (name(&a, &v), name(&b, &v));
            prop_assert_eq!(one.to_lowercase() == other.to_lowercase(), a == b);
            for it in [one, other] {
                prop_assert!(it.len() <= 255 && it.ends_with(".json") && !it.starts_with('.'));
                prop_assert!(!it.contains('/') && it.is_ascii());
            }
        }
    }
}
