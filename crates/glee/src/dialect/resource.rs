//! Resources: `.glee/resources/<name>.yml` to the model, with every problem at its place.

use std::sync::LazyLock;

use glee_core::resource::{Holds, Resource, UriPattern};
use glee_core::schema::Schema;
use glee_core::template::Names;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::document::Read;
use super::reader::{self, Reader, Words};

/// The published JSON Schema of resources.
pub fn schema() -> Value {
    schemars::schema_for!(Wire).to_value()
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| match Schema::new(schema()) {
    Ok(schema) => schema,
    Err(err) => unreachable!("the resource schema is generated, and bounded: {err:?}"),
});

const STAND_INS: &[(&str, &str)] = &[
    ("name", "\"\""),
    ("title", "null"),
    ("description", "\"\""),
    ("mime_type", "null"),
];

const WORDS: Words = Words {
    thing: "resource",
    home: "file",
    undeclared: "not a hole of `uri`",
    declare: "as a hole of `uri`",
};

/// A resource of glee: `.glee/resources/<name>.yml`. It holds exactly one of `text`, `file`, `base64`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "glee resource")]
struct Wire {
    /// The resource's name: the same as its file's, without `.yml`.
    name: String,
    /// A name for people.
    #[serde(default)]
    title: Option<String>,
    /// What is to be read there.
    description: String,
    /// Where it is read. With holes, as in `notes://{year}/{title}`, it stands for many; a hole takes
    /// one or more characters other than `/`.
    uri: String,
    #[serde(default)]
    mime_type: Option<String>,
    /// `${name}` takes what fills the hole `{name}`.
    #[serde(default)]
    text: Option<String>,
    /// A path from the project's root; what it leads to must be inside.
    #[serde(default)]
    file: Option<String>,
    #[serde(default)]
    base64: Option<String>,
}

/// Reads a resource that stands in a file called `<stem>.yml`.
pub fn read(text: &str, stem: &str) -> Read<Resource> {
    reader::read(text, &SCHEMA, STAND_INS, &WORDS, |reader, wire| {
        reader.resource(wire, stem)
    })
}

impl Reader<'_> {
    fn resource(&mut self, wire: Wire, stem: &str) -> Option<Resource> {
        self.name(&wire.name, stem);
        // Without its holes nothing can be said about the text.
        let uri = match UriPattern::parse(&wire.uri) {
            Ok(uri) => uri,
            Err(err) => {
                self.error("uri", "/uri", err.to_string());
                return None;
            }
        };
        self.names = Names {
            inputs: uri.holes().map(str::to_owned).collect(),
            ..Names::default()
        };
        let holds = match (wire.text, wire.file, wire.base64) {
            (Some(text), None, None) => Holds::Text(self.plain_template(&text, "/text")?),
            (None, Some(path), None) => Holds::File(self.file(path)?),
            (None, None, Some(data)) => Holds::Base64(self.base64(&data, "/base64")?),
            _ => {
                let message = "a resource holds exactly one of text, file, base64";
                self.error("holds", "", message);
                return None;
            }
        };
        Some(Resource {
            name: wire.name,
            title: wire.title,
            description: wire.description,
            uri,
            mime_type: wire.mime_type,
            holds,
        })
    }

    /// The file is the author's choice: a caller who could name it could read what nobody offered.
    fn file(&mut self, path: String) -> Option<String> {
        let why = match path.as_str() {
            it if it.is_empty() || it.contains('\0') => "a path cannot be empty or hold NUL",
            it if it.contains("${") => "a path is not a template; arguments cannot choose the file",
            _ => return Some(path),
        };
        self.error("path", "/file", why);
        None
    }
}
