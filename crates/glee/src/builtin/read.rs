//! Reading a file of the project: `read_file`, `tool_file_read`.

use std::fs::File;
use std::os::unix::fs::FileExt;

use data_encoding::BASE64;
use glee_core::outcome::{Failure, FailureKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::workspace::{Ground, Workspace, errno, failure, shown};
use super::{blocking, time};
use crate::native::{About, Context, NativeTool};

/// What is read at once.
const MOST: u64 = 1 << 20;

pub(super) struct ReadFile(pub(super) Ground);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// The file, from the project's root
    path: String,
    /// How the content is given; base64 for files that are not text
    #[serde(default)]
    encoding: Encoding,
    /// Where to begin, in bytes
    #[serde(default)]
    offset: u64,
    /// How many bytes to read, 1 MiB at most
    #[serde(default = "most")]
    #[schemars(range(min = 1, max = 1048576))]
    limit: u64,
}

fn most() -> u64 {
    MOST
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Encoding {
    #[default]
    #[serde(rename = "utf-8")]
    Utf8,
    Base64,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Output {
    content: String,
    /// Of the whole file, in bytes
    size: u64,
    /// When it was last written
    modified: String,
    /// Where to go on, when this was not all of it
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
}

impl NativeTool for ReadFile {
    type Input = Input;
    type Output = Output;

    fn about(&self) -> About {
        About::new(
            "read_file",
            "Read a file of the project, as text or as base64; at most 1 MiB at once.",
        )
        .reads(&["."])
        .tags(&["files"])
        .read_only()
    }

    async fn run(&self, input: Input, context: Context<'_>) -> Result<Output, Failure> {
        let (root, ground) = (context.workspace().to_owned(), self.0.clone());
        blocking(move |_| read(&Workspace::open(&root, &ground)?, &input)).await
    }
}

/// The same for those who want the text and nothing else.
pub(super) struct ToolFileRead(pub(super) Ground);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Path {
    /// The file, from the project's root
    path: String,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Content {
    content: String,
}

impl NativeTool for ToolFileRead {
    type Input = Path;
    type Output = Content;

    fn about(&self) -> About {
        About::new(
            "tool_file_read",
            "Read a text file of the project, of 1 MiB at most.",
        )
        .reads(&["."])
        .tags(&["files"])
        .read_only()
    }

    async fn run(&self, input: Path, context: Context<'_>) -> Result<Content, Failure> {
        let (root, ground) = (context.workspace().to_owned(), self.0.clone());
        let whole = Input {
            path: input.path,
            encoding: Encoding::Utf8,
            offset: 0,
            limit: MOST,
        };
        let read = blocking(move |_| read(&Workspace::open(&root, &ground)?, &whole)).await?;
        match read.next_offset {
            None => Ok(Content {
                content: read.content,
            }),
            Some(_) => Err(Failure::new(
                FailureKind::InvalidInput,
                format!(
                    "the file has {} bytes, and {MOST} are read at most",
                    read.size
                ),
            )
            .with("size", read.size)
            .hint("`read_file` reads it in parts")),
        }
    }
}

pub(super) fn read(workspace: &Workspace, input: &Input) -> Result<Output, Failure> {
    let path = workspace.inside(&input.path)?;
    let (file, found) = workspace.file(&path)?;
    let size = found.st_size as u64;
    let bytes = section(&File::from(file), input.offset, input.limit.min(MOST))
        .map_err(|err| failure(&path, errno(&err)))?;
    let end = input.offset + bytes.len() as u64;
    let (content, end) = match input.encoding {
        Encoding::Base64 => (BASE64.encode(&bytes), end),
        Encoding::Utf8 => {
            let (text, cut) = text(bytes, end < size).ok_or_else(|| {
                let message = format!("`{}` is not UTF-8 text", shown(&path));
                Failure::new(FailureKind::InvalidInput, message)
                    .hint("`read_file` reads it with encoding base64")
            })?;
            (text, end - cut)
        }
    };
    Ok(Output {
        content,
        size,
        modified: time(&found),
        next_offset: (end < size && end > input.offset).then_some(end),
    })
}

fn section(file: &File, offset: u64, limit: u64) -> std::io::Result<Vec<u8>> {
    let length = file.metadata()?.len().saturating_sub(offset).min(limit);
    let mut bytes = vec![0; length as usize];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], offset + filled as u64)? {
            0 => break,
            count => filled += count,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// The bytes as text, and how many at the end are the beginning of a character that was cut off. What
/// holds a NUL is no text, whatever else it holds.
fn text(mut bytes: Vec<u8>, goes_on: bool) -> Option<(String, u64)> {
    let valid = match std::str::from_utf8(&bytes) {
        Ok(_) => bytes.len(),
        Err(err) if goes_on && err.error_len().is_none() && err.valid_up_to() > 0 => {
            err.valid_up_to()
        }
        Err(_) => return None,
    };
    let cut = bytes.len() - valid;
    bytes.truncate(valid);
    match bytes.contains(&0) {
        true => None,
        false => Some((String::from_utf8(bytes).ok()?, cut as u64)),
    }
}
