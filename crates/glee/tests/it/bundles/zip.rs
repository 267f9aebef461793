//! ZIP archives as no honest program writes them.

use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use serde_json::{Value, json};
use uuid::Uuid;

/// One entry, and every lie that can be told about it.
#[derive(Clone)]
pub(crate) struct Raw {
    pub(crate) name: Vec<u8>,
    pub(crate) packed: Vec<u8>,
    pub(crate) length: u32,
    pub(crate) crc: u32,
    pub(crate) method: u16,
    pub(crate) flags: u16,
    pub(crate) needs: u16,
    pub(crate) attributes: u32,
    pub(crate) extra: Vec<u8>,
    /// In the directory, the only place for it.
    pub(crate) comment: Vec<u8>,
    /// At the entry itself, where that says something else.
    pub(crate) own_name: Option<Vec<u8>>,
    pub(crate) own_length: Option<u32>,
    /// Where the directory says that it is.
    pub(crate) at: Option<u32>,
    /// What follows it.
    pub(crate) after: Vec<u8>,
}

impl Raw {
    pub(crate) fn stored(name: &str, bytes: &[u8]) -> Raw {
        let mut crc = flate2::Crc::new();
        crc.update(bytes);
        Raw {
            name: name.as_bytes().to_vec(),
            packed: bytes.to_vec(),
            length: bytes.len() as u32,
            crc: crc.sum(),
            method: 0,
            flags: 0,
            needs: 20,
            attributes: 0o100_644 << 16,
            extra: Vec::new(),
            comment: Vec::new(),
            own_name: None,
            own_length: None,
            at: None,
            after: Vec::new(),
        }
    }

    pub(crate) fn deflated(name: &str, bytes: &[u8]) -> Raw {
        let mut packer = DeflateEncoder::new(Vec::new(), Compression::best());
        packer.write_all(bytes).unwrap();
        Raw {
            packed: packer.finish().unwrap(),
            method: 8,
            ..Raw::stored(name, bytes)
        }
    }
}

fn put(out: &mut Vec<u8>, shorts: &[u16], longs: &[u32]) {
    shorts.iter().for_each(|it| out.extend(it.to_le_bytes()));
    longs.iter().for_each(|it| out.extend(it.to_le_bytes()));
}

pub(crate) fn zip(entries: &[Raw]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for it in entries {
        let at = it.at.unwrap_or(out.len() as u32);
        let packed = it.packed.len() as u32;
        let (own, extra) = (
            it.own_name.as_ref().unwrap_or(&it.name),
            it.extra.len() as u16,
        );
        put(&mut out, &[], &[0x0403_4b50]);
        put(
            &mut out,
            &[it.needs, it.flags, it.method],
            &[0, it.crc, packed],
        );
        put(&mut out, &[], &[it.own_length.unwrap_or(it.length)]);
        put(&mut out, &[own.len() as u16, extra], &[]);
        out.extend(
            own.iter()
                .chain(&it.extra)
                .chain(&it.packed)
                .chain(&it.after),
        );
        put(&mut directory, &[], &[0x0201_4b50]);
        put(
            &mut directory,
            &[3 << 8 | 20, it.needs, it.flags, it.method],
            &[],
        );
        put(&mut directory, &[], &[0, it.crc, packed, it.length]);
        let comment = it.comment.len() as u16;
        put(
            &mut directory,
            &[it.name.len() as u16, extra, comment, 0, 0],
            &[],
        );
        put(&mut directory, &[], &[it.attributes, at]);
        directory.extend(it.name.iter().chain(&it.extra).chain(&it.comment));
    }
    let (at, count) = (out.len() as u32, entries.len() as u16);
    out.extend(&directory);
    put(&mut out, &[], &[0x0605_4b50]);
    put(
        &mut out,
        &[0, 0, count, count],
        &[directory.len() as u32, at],
    );
    put(&mut out, &[0], &[]);
    out
}

pub(crate) fn bundle(id: Uuid, slug: &str) -> (String, Vec<u8>) {
    let document = json!({"schemaVersion": "1", "slug": slug, "displayName": slug});
    (format!("{id}/bundle.json"), document.to_string().into())
}

pub(crate) fn tool(bundle: Uuid, slug: &str, more: Value) -> (String, Vec<u8>) {
    let mut document = json!({"schemaVersion": "1", "slug": slug, "version": "1", "type": "go",
        "impl": {"goFunc": "example.com/tools.Absent"}});
    for (key, value) in more.as_object().into_iter().flatten() {
        document[key] = value.clone();
    }
    (
        format!("{bundle}/{slug}@1.json"),
        document.to_string().into(),
    )
}

/// An archive that is as it should be.
pub(crate) fn good(bundles: &[(Uuid, &str)]) -> Vec<u8> {
    let mut files = Vec::new();
    for (id, slug) in bundles {
        files.push(bundle(*id, slug));
        files.push(tool(*id, "a", json!({})));
        files.push(tool(*id, "b", json!({})));
    }
    let entries: Vec<Raw> = files.iter().map(|it| Raw::deflated(&it.0, &it.1)).collect();
    zip(&entries)
}
