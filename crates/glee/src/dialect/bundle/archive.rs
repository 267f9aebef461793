//! ZIP archives, held to the little of the format that an export needs. Entries stand one after the other from
//! the first byte on, then the directory, then the end; what it says of an entry is what stands at the entry.
//! Every byte is accounted for, so no two programs can find different things in one archive.

use flate2::{Crc, Decompress, FlushDecompress, Status};
use glee_core::name::{shorten, spelled_out};

pub const MOST_ENTRIES: usize = 1000;
/// In one file, in bytes.
pub const MOST_FILE: usize = 8 << 20;
/// In all files together.
pub const MOST_TOTAL: usize = 32 << 20;
/// How many times as large as in the archive a file may be.
const MOST_RATIO: usize = 100;
/// Largest archive: nothing need be compressed in it.
pub const MOST_BYTES: usize = MOST_TOTAL + (1 << 20);

const ENTRY: u32 = 0x0403_4b50;
const LISTED: u32 = 0x0201_4b50;
const DESCRIPTOR: u32 = 0x0807_4b50;
const END: u32 = 0x0605_4b50;
const END_LENGTH: usize = 22;

const STORED: u16 = 0;
const DEFLATED: u16 = 8;
/// The only flags that change nothing: how hard it was compressed, sizes that follow, names in UTF-8.
const FLAGS: u16 = 0b110 | SIZES_FOLLOW | 1 << 11;
const SIZES_FOLLOW: u16 = 1 << 3;
/// Times and owners, of Unix and of NTFS. Others say where a link leads, or another name, or larger sizes.
const EXTRAS: &[u16] = &[0x5455, 0x7875, 0x5855, 0x000a];

/// One file, still packed; or a directory, whose name ends with `/`.
#[derive(Debug)]
pub struct Entry<'a> {
    pub name: &'a str,
    /// Once it is unpacked.
    pub length: usize,
    packed: &'a [u8],
    method: u16,
    crc: u32,
}

/// The files and directories of an archive, of which nothing is unpacked yet; or why it is none that could be taken in.
pub fn read(bytes: &[u8]) -> Result<Vec<Entry<'_>>, String> {
    if bytes.len() > MOST_BYTES {
        return Err(format!("it is larger than {} MiB", MOST_BYTES >> 20));
    }
    let (count, directory) = directory(bytes)?;
    let mut listed = Fields(directory);
    let mut files: Vec<Entry> = Vec::with_capacity(count);
    let (mut at, mut total) = (0, 0);
    for _ in 0..count {
        let entry = Listed::read(&mut listed)?;
        let name = name(entry.name)?;
        let told = |why: &str| format!("`{name}`: {why}");
        entry.check().map_err(told)?;
        if entry.at != at {
            return Err(told(
                "it overlaps another entry, or something hides between them",
            ));
        }
        let (packed, next) = entry.find(bytes, at).map_err(told)?;
        at = next;
        if files.iter().any(|it| it.name == name) {
            return Err(told("it is there twice"));
        }
        total += entry.length;
        if total > MOST_TOTAL {
            return Err(format!("its files have more than {} MiB", MOST_TOTAL >> 20));
        }
        files.push(Entry {
            name,
            length: entry.length,
            packed,
            method: entry.method,
            crc: entry.crc,
        });
    }
    let is_all = listed.0.is_empty() && at + directory.len() + END_LENGTH == bytes.len();
    match is_all {
        true => Ok(files),
        false => Err("something stands in it that its directory does not tell of".to_owned()),
    }
}

/// How many entries there are, and what is said of them.
fn directory(bytes: &[u8]) -> Result<(usize, &[u8]), String> {
    let none = || "it does not end as a ZIP archive ends, where nothing may follow".to_owned();
    let start = bytes.len().checked_sub(END_LENGTH).ok_or_else(none)?;
    let (before, end) = bytes.split_at(start);
    let mut end = Fields(end);
    if end.u32()? != END {
        return Err(none());
    }
    let disks = (end.u16()?, end.u16()?);
    let (here, count) = (end.u16()?, usize::from(end.u16()?));
    let (length, at) = (end.u32()? as usize, end.u32()? as usize);
    if end.u16()? != 0 {
        return Err(none());
    }
    if disks != (0, 0) || usize::from(here) != count {
        return Err("it is one part of several".to_owned());
    }
    if count > MOST_ENTRIES {
        return Err(format!("it has more than {MOST_ENTRIES} entries"));
    }
    // In larger archives these numbers stand elsewhere (ZIP64).
    match before.get(at..).filter(|it| it.len() == length) {
        Some(directory) => Ok((count, directory)),
        None => Err("its directory is not where it says".to_owned()),
    }
}

/// What the directory says of an entry.
struct Listed<'a> {
    needs: u16,
    flags: u16,
    method: u16,
    crc: u32,
    packed: usize,
    length: usize,
    name: &'a [u8],
    extra: &'a [u8],
    comment: &'a [u8],
    disk: u16,
    attributes: u32,
    at: usize,
}

impl<'a> Listed<'a> {
    fn read(from: &mut Fields<'a>) -> Result<Listed<'a>, String> {
        if from.u32()? != LISTED {
            return Err("its directory is broken".to_owned());
        }
        let _made_by = from.u16()?;
        let (needs, flags, method) = (from.u16()?, from.u16()?, from.u16()?);
        let _when = from.u32()?;
        let (crc, packed, length) = (from.u32()?, from.u32()? as usize, from.u32()? as usize);
        let lengths = (from.u16()?, from.u16()?, from.u16()?);
        let (disk, _internal, attributes) = (from.u16()?, from.u16()?, from.u32()?);
        let at = from.u32()? as usize;
        Ok(Listed {
            needs,
            flags,
            method,
            crc,
            packed,
            length,
            name: from.take(lengths.0.into())?,
            extra: from.take(lengths.1.into())?,
            comment: from.take(lengths.2.into())?,
            disk,
            attributes,
            at,
        })
    }

    fn check(&self) -> Result<(), &'static str> {
        if self.flags & 1 != 0 {
            return Err("it is encrypted");
        }
        if self.flags & !FLAGS != 0 || self.needs > 20 {
            return Err("it uses a part of the format that is not read here");
        }
        if self.disk != 0 || !self.comment.is_empty() {
            return Err("it is on another disk, or has a comment");
        }
        has_only_known(self.extra)?;
        self.check_kind()?;
        match (self.method, self.packed == self.length) {
            (STORED, true) | (DEFLATED, _) => {}
            (STORED, false) => return Err("it says two sizes"),
            _ => return Err("it is compressed by something else than deflate"),
        }
        if self.length > MOST_FILE {
            return Err("it is larger than 8 MiB");
        }
        if self.length > self.packed.saturating_mul(MOST_RATIO) {
            return Err("it is more than 100 times as large as in the archive");
        }
        Ok(())
    }

    /// By what Unix says of it, and by what DOS says.
    fn check_kind(&self) -> Result<(), &'static str> {
        let is_directory = self.name.ends_with(b"/");
        let (mode, dos) = (self.attributes >> 16, self.attributes & 0xff);
        let is_plain = match mode & 0o170_000 {
            0 => true,
            0o100_000 => !is_directory,
            0o040_000 => is_directory,
            _ => false,
        };
        let is_plain_in_dos = match is_directory {
            true => dos & !0x37 == 0,
            false => dos & !0x27 == 0,
        };
        if !is_plain || !is_plain_in_dos {
            return Err("it is neither a file nor a directory");
        }
        if mode & 0o7000 != 0 {
            return Err("it has a set-user-ID, set-group-ID or sticky bit");
        }
        match is_directory && self.length + self.packed > 0 {
            true => Err("it is a directory with a content"),
            false => Ok(()),
        }
    }

    /// Its bytes, and where the next entry begins.
    fn find(&self, bytes: &'a [u8], at: usize) -> Result<(&'a [u8], usize), &'static str> {
        const LIES: &str = "the archive says one thing at the entry and another in its directory";
        let read = || -> Result<_, String> {
            let mut from = Fields(bytes.get(at..).unwrap_or_default());
            let head = (from.u32()?, from.u16()?, from.u16()?, from.u16()?);
            let _when = from.u32()?;
            let sizes = (from.u32()?, from.u32()? as usize, from.u32()? as usize);
            let lengths = (from.u16()?, from.u16()?);
            let name = from.take(lengths.0.into())?;
            let extra = from.take(lengths.1.into())?;
            Ok((head, sizes, name, extra, from))
        };
        let (head, sizes, name, extra, mut from) = read().map_err(|_| LIES)?;
        has_only_known(extra)?;
        let own = (self.crc, self.packed, self.length);
        let is_later = self.flags & SIZES_FOLLOW != 0 && sizes == (0, 0, 0);
        if head != (ENTRY, self.needs, self.flags, self.method)
            || name != self.name
            || (sizes != own && !is_later)
        {
            return Err(LIES);
        }
        let packed = from.take(self.packed).map_err(|_| LIES)?;
        if self.flags & SIZES_FOLLOW != 0 {
            let numbers = [DESCRIPTOR, self.crc, self.packed as u32, self.length as u32];
            let told: Vec<u8> = numbers.iter().flat_map(|it| it.to_le_bytes()).collect();
            // Its mark may be left out.
            let rest = from.0.strip_prefix(told.as_slice());
            from.0 = rest
                .or_else(|| from.0.strip_prefix(&told[4..]))
                .ok_or(LIES)?;
        }
        Ok((packed, bytes.len() - from.0.len()))
    }
}

/// Names as exports have them: none of them means another place, another file elsewhere, or nothing.
fn name(bytes: &[u8]) -> Result<&str, String> {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('.')
            && part.bytes().all(
                |it| matches!(it, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'@' | b'%' | b'~'),
            )
    };
    let name = std::str::from_utf8(bytes).unwrap_or_default();
    match name
        .strip_suffix('/')
        .unwrap_or(name)
        .split('/')
        .all(is_part)
    {
        true => Ok(name),
        false => {
            let shown = String::from_utf8_lossy(bytes);
            Err(format!(
                "`{}` is no name that an export has",
                spelled_out(&shorten(&shown))
            ))
        }
    }
}

fn has_only_known(extra: &[u8]) -> Result<(), &'static str> {
    const UNKNOWN: &str = "it says more than a file needs";
    let mut from = Fields(extra);
    while !from.0.is_empty() {
        let id = from.u16().map_err(|_| UNKNOWN)?;
        let length = from.u16().map_err(|_| UNKNOWN)?;
        from.take(length.into()).map_err(|_| UNKNOWN)?;
        if !EXTRAS.contains(&id) {
            return Err(UNKNOWN);
        }
    }
    Ok(())
}

impl Entry<'_> {
    pub fn unpack(&self) -> Result<Vec<u8>, String> {
        let told = |why: &str| Err(format!("`{}`: {why}", self.name));
        let bytes = match self.method {
            STORED => self.packed.to_vec(),
            _ => {
                // One more than it should need, so that more is seen.
                let mut out = vec![0; self.length + 1];
                let mut inflate = Decompress::new(false);
                let done = inflate.decompress(self.packed, &mut out, FlushDecompress::Finish);
                let is_whole = inflate.total_in() == self.packed.len() as u64
                    && inflate.total_out() == self.length as u64;
                match done {
                    Ok(Status::StreamEnd) if is_whole => {}
                    Ok(_) => return told("it is not as large as it says"),
                    Err(_) => return told("it cannot be decompressed"),
                }
                out.truncate(self.length);
                out
            }
        };
        let mut crc = Crc::new();
        crc.update(&bytes);
        match crc.sum() == self.crc {
            true => Ok(bytes),
            false => told("its checksum is another one"),
        }
    }
}

/// Bytes, taken off the front.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("it is cut off")?;
        self.0 = rest;
        Ok(taken)
    }

    fn u16(&mut self) -> Result<u16, String> {
        let taken = self.take(2)?;
        Ok(u16::from_le_bytes([taken[0], taken[1]]))
    }

    fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from(self.u16()?) | u32::from(self.u16()?) << 16)
    }
}

/// An archive of these files, in this order. The same files give the same bytes, whatever the time, the machine
/// and the release: nothing is compressed.
pub fn write(files: &[(String, Vec<u8>)]) -> Result<Vec<u8>, String> {
    let total: usize = files.iter().map(|it| it.1.len()).sum();
    if files.len() > MOST_ENTRIES || total > MOST_TOTAL {
        return Err(format!(
            "it would have {} files and {} bytes; {MOST_ENTRIES} and {MOST_TOTAL} are the most",
            files.len(),
            total
        ));
    }
    let (mut out, mut directory) = (Vec::with_capacity(total), Vec::new());
    for (name, bytes) in files {
        let mut crc = Crc::new();
        crc.update(bytes);
        let at = out.len() as u32;
        // Version 2.0, no flags, stored, on the first day that there is.
        let mut head = Vec::new();
        [20, 0, STORED, 0, 0x21]
            .iter()
            .for_each(|it| put16(&mut head, *it));
        put32(&mut head, crc.sum());
        put32(&mut head, bytes.len() as u32);
        put32(&mut head, bytes.len() as u32);
        put16(&mut head, name.len() as u16);
        put16(&mut head, 0);
        put32(&mut out, ENTRY);
        out.extend(&head);
        out.extend(name.as_bytes());
        out.extend(bytes);
        put32(&mut directory, LISTED);
        put16(&mut directory, 3 << 8 | 20);
        directory.extend(head);
        [0, 0, 0].iter().for_each(|it| put16(&mut directory, *it));
        put32(&mut directory, 0o100_644 << 16);
        put32(&mut directory, at);
        directory.extend(name.as_bytes());
    }
    let at = out.len() as u32;
    out.extend(&directory);
    put32(&mut out, END);
    put32(&mut out, 0);
    put16(&mut out, files.len() as u16);
    put16(&mut out, files.len() as u16);
    put32(&mut out, directory.len() as u32);
    put32(&mut out, at);
    put16(&mut out, 0);
    Ok(out)
}

fn put16(out: &mut Vec<u8>, number: u16) {
    out.extend(number.to_le_bytes());
}

fn put32(out: &mut Vec<u8>, number: u32) {
    out.extend(number.to_le_bytes());
}
