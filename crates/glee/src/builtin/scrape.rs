//! The elements of a page, by CSS selectors: `tool_html_scraper`.

use std::collections::BTreeMap;

use dom_query::{Document, Matcher};
use glee_core::outcome::{Failure, FailureKind};
use glee_core::permission::Network;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::blocking;
use super::web::{Web, text};
use crate::native::{About, Context, NativeTool};

/// Read of a page.
const MOST_BYTES: usize = 2 << 20;
const MOST_ITEMS: usize = 1000;
/// Letters of one element's text.
const LONGEST_TEXT: usize = 10_000;
/// Elements inside one another. What reads a page goes through them again and again.
const DEEPEST: usize = 512;
/// What a page says, when nothing is asked for.
const USUAL: &str = "title, h1, h2, h3, h4, h5, h6, p, li, a";

pub(super) struct ToolHtmlScraper(pub(super) Web);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// The page
    url: String,
    /// CSS selectors of the elements to give; headings, paragraphs, list items and links unless given
    #[serde(default)]
    #[schemars(length(max = 100))]
    selectors: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct Output {
    items: Vec<Item>,
}

#[derive(Serialize, JsonSchema)]
struct Item {
    tag: String,
    text: String,
    attributes: BTreeMap<String, String>,
}

impl NativeTool for ToolHtmlScraper {
    type Input = Input;
    type Output = Output;

    fn about(&self) -> About {
        About::new(
            "tool_html_scraper",
            "Fetch a public page and give its elements: tag, text and attributes, by CSS selectors.",
        )
        .network(Network::Public)
        .needs(&["net:read"])
        .tags(&["web"])
        .read_only()
        .timeout(std::time::Duration::from_secs(40))
    }

    async fn run(&self, input: Input, _: Context<'_>) -> Result<Output, Failure> {
        let matcher = matcher(&input.selectors)?;
        let fetched = self.0.get(&input.url, MOST_BYTES).await?;
        if !(200..300).contains(&fetched.status) {
            let message = format!("the page answered {}", fetched.status);
            return Err(
                Failure::new(FailureKind::HttpError, message).with("status", fetched.status)
            );
        }
        let page = text(fetched.bytes, fetched.is_cut)
            .unwrap_or_else(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        blocking(move || items(&page, &matcher)).await
    }
}

fn matcher(selectors: &[String]) -> Result<Matcher, Failure> {
    let all = match selectors {
        [] => USUAL.to_owned(),
        some => some.join(", "),
    };
    if all.len() > 4096 {
        let message = "the selectors are too long";
        return Err(Failure::new(FailureKind::InvalidInput, message));
    }
    Matcher::new(&all).map_err(|_| {
        let message = format!("`{all}` is no list of CSS selectors");
        Failure::new(FailureKind::InvalidInput, message)
    })
}

fn items(page: &str, matcher: &Matcher) -> Result<Output, Failure> {
    if depth(page) > DEEPEST {
        let message = format!("the page has more than {DEEPEST} elements inside one another");
        return Err(Failure::new(FailureKind::ExecutionError, message));
    }
    let document = Document::from(page);
    let found = document.select_matcher(matcher);
    let items = found.nodes().iter().take(MOST_ITEMS).map(|node| Item {
        tag: node
            .node_name()
            .map(|it| it.to_string())
            .unwrap_or_default(),
        text: shortened(&node.text()),
        attributes: node
            .attrs()
            .into_iter()
            .map(|it| (it.name.local.to_string(), it.value.to_string()))
            .collect(),
    });
    Ok(Output {
        items: items.collect(),
    })
}

/// About how deep the elements of a page stand in one another, told before anything is built of it.
fn depth(page: &str) -> usize {
    let (mut now, mut deepest) = (0usize, 0);
    let bytes = page.as_bytes();
    for at in memchr::memchr_iter(b'<', bytes) {
        match bytes.get(at + 1) {
            Some(b'/') => now = now.saturating_sub(1),
            Some(c) if c.is_ascii_alphabetic() => {
                let rest = &page[at + 1..];
                let name = rest.split(|c: char| !c.is_ascii_alphanumeric()).next();
                if !NEVER_CLOSED.contains(&name.unwrap_or_default().to_ascii_lowercase().as_str()) {
                    now += 1;
                }
            }
            _ => {}
        }
        deepest = deepest.max(now);
    }
    deepest
}

/// Elements whose end is often not written.
const NEVER_CLOSED: &[&str] = &[
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track",
    "wbr", "p", "li", "dt", "dd", "td", "th", "tr", "option", "path", "use", "rect", "circle",
    "line",
];

/// In one line, and not too long.
fn shortened(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(LONGEST_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_of_a_page() {
        let page = r#"<html><head><title>T</title></head><body><a class="x" href="/y">go  <b>on</b></a><p>P<p>Q</body>"#;
        let found = items(page, &matcher(&["a.x".into(), "p".into()]).unwrap()).unwrap();
        let found = serde_json::json!(found.items);
        assert_eq!(
            found,
            serde_json::json!([
                {"tag": "a", "text": "go on", "attributes": {"class": "x", "href": "/y"}},
                {"tag": "p", "text": "P", "attributes": {}},
                {"tag": "p", "text": "Q", "attributes": {}},
            ])
        );
        assert!(matcher(&["a[".into()]).is_err());
    }

    #[test]
    fn what_is_nested_without_end_is_not_read() {
        let began = std::time::Instant::now();
        let usual = matcher(&[]).unwrap();
        for page in [
            "<div>",
            "<b>",
            "<a><b>",
            "<table><tr><td>",
            "<p>",
            "<li>",
            "<svg><g>",
        ] {
            let page = page.repeat(MOST_BYTES / page.len());
            let _ = items(&page, &usual);
        }
        assert!(began.elapsed() < std::time::Duration::from_secs(60));
    }
}
