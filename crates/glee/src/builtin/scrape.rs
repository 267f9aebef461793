//! The elements of a page, by CSS selectors: `tool_html_scraper`.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use dom_query::{Document, Matcher};
use glee_core::outcome::{Failure, FailureKind};
use glee_core::permission::Network;
use html5ever::tendril::TendrilSink;
use html5ever::tree_builder::TreeBuilderOpts;
use html5ever::{ParseOpts, parse_document};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::web::{Web, lossy};
use super::{Stop, blocking};
use crate::native::{About, Context, NativeTool};

/// Read of a page.
const MOST_BYTES: usize = 2 << 20;
const MOST_ITEMS: usize = 1000;
/// Letters of one element's text.
const LONGEST_TEXT: usize = 10_000;
/// Elements inside one another. What looks through a page goes through them again and again.
const DEEPEST: usize = 512;
/// Elements and texts of a page.
const MOST_NODES: usize = 200_000;
/// How long it may take to read one.
const PATIENCE: Duration = Duration::from_secs(2);
/// Bytes that are read without a look at the clock.
const LONGEST_PIECE: usize = 1 << 10;
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
        .timeout(Duration::from_secs(40))
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
        let page = lossy(&fetched);
        blocking(move |stop| items(&page, &matcher, stop)).await
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

fn items(page: &str, matcher: &Matcher, stop: &Stop) -> Result<Output, Failure> {
    let document = document(page, stop)?;
    let mut items = Vec::new();
    for node in document.tree.root().descendants_it() {
        if items.len() == MOST_ITEMS {
            break;
        }
        stop.check()?;
        if !node.is_element() || !node.is_match(matcher) {
            continue;
        }
        let name = node.node_name().map(|it| it.to_string());
        let attributes = node.attrs().into_iter();
        items.push(Item {
            tag: name.unwrap_or_default(),
            text: shortened(&node.text()),
            attributes: attributes
                .map(|it| (it.name.local.to_string(), it.value.to_string()))
                .collect(),
        });
    }
    Ok(Output { items })
}

/// Reads a page piece by piece, and no further than is good: there are pages of which every piece takes
/// longer than the one before, or makes more of it.
fn document(page: &str, stop: &Stop) -> Result<Document, Failure> {
    let refuse = |why: String| {
        Failure::new(FailureKind::ExecutionError, why)
            .hint("fetch it with `fetch` and read it as text")
    };
    let options = ParseOpts {
        tree_builder: TreeBuilderOpts {
            scripting_enabled: false,
            ..TreeBuilderOpts::default()
        },
        ..ParseOpts::default()
    };
    let mut parser = parse_document(Document::default(), options);
    let until = Instant::now() + PATIENCE;
    let mut rest = page;
    while !rest.is_empty() {
        stop.check()?;
        if Instant::now() > until {
            let seconds = PATIENCE.as_secs();
            return Err(refuse(format!(
                "the page cannot be read within {seconds} seconds"
            )));
        }
        let (piece, after) = rest.split_at(piece(rest));
        parser.process(piece.into());
        if parser.tokenizer.sink.sink.tree.len() > MOST_NODES {
            return Err(refuse(format!("the page has more than {MOST_NODES} parts")));
        }
        rest = after;
    }
    let document = parser.finish();
    if is_deep(&document) {
        return Err(refuse(format!(
            "the page has more than {DEEPEST} elements inside one another"
        )));
    }
    Ok(document)
}

/// How long the next piece is: no more than one tag, because one alone can make many elements.
fn piece(rest: &str) -> usize {
    let most = rest.floor_char_boundary(LONGEST_PIECE);
    let tag = memchr::memchr(b'>', &rest.as_bytes()[..most]);
    tag.map_or(most, |at| at + 1)
}

fn is_deep(document: &Document) -> bool {
    let (mut at, mut depth) = (document.tree.root(), 0usize);
    loop {
        if let Some(child) = at.first_child() {
            depth += 1;
            if depth > DEEPEST {
                return true;
            }
            at = child;
            continue;
        }
        // Back to the nearest that has somebody beside it.
        at = loop {
            if let Some(next) = at.next_sibling() {
                break next;
            }
            let Some(parent) = at.parent() else {
                return false;
            };
            depth -= 1;
            at = parent;
        };
    }
}

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
        let wanted = matcher(&["a.x".into(), "p".into()]).unwrap();
        let found = items(page, &wanted, &Stop::default()).unwrap();
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
    fn what_is_too_much_is_not_read() {
        let usual = matcher(&[]).unwrap();
        let stop = Stop::default();
        let many = |each: &dyn Fn(usize) -> String| {
            let mut page = String::new();
            while page.len() < MOST_BYTES {
                page += &each(page.len());
            }
            page
        };
        let repeated = |it: &str| many(&|_| it.to_owned());
        for (what, page) in [
            ("divs", repeated("<div>")),
            ("ends of others", repeated("<div></x>")),
            ("formatting", repeated("<a><b>")),
            ("tables", repeated("<table><tr><td>")),
            ("drawings", format!("<svg>{}", repeated("<path>"))),
            ("groups", repeated("<svg><g>")),
            (
                "attributes",
                format!("<p {}>", many(&|at| format!("a{at} "))),
            ),
            // Each paragraph holds all that is open before it again.
            (
                "what is opened again",
                many(&|at| match at < MOST_BYTES / 2 {
                    true => format!("<b a{at}>"),
                    false => "<p>x".to_owned(),
                }),
            ),
        ] {
            let began = Instant::now();
            assert!(items(&page, &usual, &stop).is_err(), "{what}");
            // A build for tests is slower than others, and so is a machine that runs many.
            assert!(
                began.elapsed() < 10 * PATIENCE,
                "{what}: {:?}",
                began.elapsed()
            );
        }
        // Who is stopped stops.
        stop.0.store(true, std::sync::atomic::Ordering::SeqCst);
        let stopped = items("<p>x", &usual, &stop).err().unwrap();
        assert_eq!(stopped.kind, FailureKind::Cancelled);
    }

    #[test]
    fn a_page_like_others_is_read() {
        let row = "<div class='r'><p>a<b>b</b><svg><path d='M0 0'/><path/></svg><ul><li>x<li>y</ul></div>\n";
        let page = row.repeat(1000);
        let found = items(&page, &matcher(&["p".into()]).unwrap(), &Stop::default());
        assert_eq!(found.unwrap().items.len(), MOST_ITEMS);
    }
}
