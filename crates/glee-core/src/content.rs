//! Typed content: what a tool shows besides plain values. The envelope is
//! `{"content": [blocks], "structured": {…}}`, its blocks spelled as in MCP.

use data_encoding::BASE64;
use serde_json::{Map, Value};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Content {
    pub blocks: Vec<Block>,
    /// The same for programs, if the tool says it.
    pub structured: Option<Map<String, Value>>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Block {
    Text(String),
    /// Base64.
    Image {
        data: String,
        mime_type: String,
    },
    Audio {
        data: String,
        mime_type: String,
    },
    Resource {
        uri: String,
        mime_type: Option<String>,
        body: Body,
    },
    Link {
        uri: String,
        name: String,
        description: Option<String>,
        mime_type: Option<String>,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    Text(String),
    /// Base64.
    Blob(String),
}

impl Content {
    pub fn parse(value: &Value) -> Result<Content, String> {
        let envelope = value.as_object().ok_or("it is no object")?;
        if let Some(other) = envelope
            .keys()
            .find(|it| !["content", "structured"].contains(&it.as_str()))
        {
            return Err(format!("`{other}` is not known there"));
        }
        let blocks = envelope
            .get("content")
            .and_then(Value::as_array)
            .ok_or("`content` must be a list of blocks")?
            .iter()
            .enumerate()
            .map(|(at, it)| block(it).map_err(|why| format!("content[{at}]: {why}")))
            .collect::<Result<_, _>>()?;
        let structured = match envelope.get("structured") {
            None => None,
            Some(Value::Object(map)) => Some(map.clone()),
            Some(_) => return Err("`structured` must be an object".into()),
        };
        Ok(Content { blocks, structured })
    }

    /// The text blocks, for those who can show nothing else; what was left out is named.
    pub fn as_text(&self) -> String {
        let line = |block: &Block| match block {
            Block::Text(text) => text.clone(),
            Block::Image { mime_type, data } => {
                format!("[image {mime_type}, {} bytes]", size(data))
            }
            Block::Audio { mime_type, data } => {
                format!("[audio {mime_type}, {} bytes]", size(data))
            }
            Block::Resource { uri, body, .. } => match body {
                Body::Text(text) => text.clone(),
                Body::Blob(data) => format!("[{uri}, {} bytes]", size(data)),
            },
            Block::Link { uri, .. } => uri.clone(),
        };
        self.blocks.iter().map(line).collect::<Vec<_>>().join("\n")
    }
}

fn size(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

fn block(value: &Value) -> Result<Block, String> {
    let it = value.as_object().ok_or("a block is an object")?;
    match word(it, "type")?.as_str() {
        "text" => Ok(Block::Text(word(it, "text")?)),
        "image" => Ok(Block::Image {
            data: base64(it, "data")?,
            mime_type: word(it, "mimeType")?,
        }),
        "audio" => Ok(Block::Audio {
            data: base64(it, "data")?,
            mime_type: word(it, "mimeType")?,
        }),
        "resource" => {
            let inner = it
                .get("resource")
                .and_then(Value::as_object)
                .ok_or("`resource` must be an object")?;
            Ok(Block::Resource {
                uri: word(inner, "uri")?,
                mime_type: word(inner, "mimeType").ok(),
                body: match inner.contains_key("blob") {
                    true => Body::Blob(base64(inner, "blob")?),
                    false => Body::Text(word(inner, "text")?),
                },
            })
        }
        "resource_link" => Ok(Block::Link {
            uri: word(it, "uri")?,
            name: word(it, "name")?,
            description: word(it, "description").ok(),
            mime_type: word(it, "mimeType").ok(),
        }),
        other => Err(format!(
            "`{other}` is no type of block; there are text, image, audio, resource, resource_link"
        )),
    }
}

fn word(map: &Map<String, Value>, key: &str) -> Result<String, String> {
    let text = map.get(key).and_then(Value::as_str);
    text.map(str::to_owned)
        .ok_or_else(|| format!("`{key}` must be a text"))
}

fn base64(map: &Map<String, Value>, key: &str) -> Result<String, String> {
    let text = word(map, key)?;
    match BASE64.decode_len(text.len()) {
        Ok(_) if BASE64.decode(text.as_bytes()).is_ok() => Ok(text),
        _ => Err(format!("`{key}` must be base64")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_kind_of_block() {
        let content = Content::parse(&json!({"content": [
            {"type": "text", "text": "hello"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "audio", "data": "AAA=", "mimeType": "audio/wav"},
            {"type": "resource", "resource": {"uri": "x://y", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "x://z", "blob": "AA=="}},
            {"type": "resource_link", "uri": "x://w", "name": "w"},
        ], "structured": {"n": 1}}))
        .unwrap();
        assert_eq!(content.blocks.len(), 6);
        assert_eq!(
            content.as_text(),
            "hello\n[image image/png, 3 bytes]\n[audio audio/wav, 2 bytes]\ninside\n[x://z, 1 bytes]\nx://w"
        );
        assert_eq!(content.structured.unwrap()["n"], 1);
    }

    #[test]
    fn what_is_no_content() {
        for (value, why) in [
            (json!([]), "it is no object"),
            (json!({}), "`content` must be a list of blocks"),
            (json!({"content": [], "x": 1}), "`x` is not known there"),
            (json!({"content": [1]}), "content[0]: a block is an object"),
            (
                json!({"content": [{"type": "image", "data": "!", "mimeType": "image/png"}]}),
                "content[0]: `data` must be base64",
            ),
            (
                json!({"content": [], "structured": []}),
                "`structured` must be an object",
            ),
        ] {
            assert_eq!(Content::parse(&value).unwrap_err(), why);
        }
    }
}
