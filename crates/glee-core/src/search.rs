//! Finding tools by words. One index over names, titles, tags, inputs and descriptions; the same query
//! over the same tools always gives the same answer.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::model::ToolSpec;

/// Where a word stands, and how much that says about a tool.
const NAME: f64 = 8.0;
const TITLE: f64 = 5.0;
const TAG: f64 = 4.0;
const INPUT: f64 = 3.0;
const DESCRIPTION: f64 = 1.0;

/// How well a word of the query meets a word of a tool.
const WHOLE: f64 = 3.0;
const PREFIX: f64 = 2.0;
const FUZZY: f64 = 1.0;
/// A name that begins like the whole query stands before all others.
const NAME_BEGINS: f64 = 1e6;

/// Longest query, in words; a query is typed, not pasted.
const MOST_WORDS: usize = 32;

#[derive(Debug, Default)]
pub struct Index {
    names: Vec<String>,
    /// For each word, the tools that hold it, each with the weight of the best place.
    words: BTreeMap<String, Vec<(u32, f64)>>,
}

impl Index {
    pub fn new<'a>(tools: impl IntoIterator<Item = &'a Arc<ToolSpec>>) -> Index {
        let mut index = Index::default();
        for spec in tools {
            let at = index.names.len() as u32;
            index.names.push(spec.name.clone());
            let mut best: HashMap<String, f64> = HashMap::new();
            let mut note = |text: &str, weight: f64| {
                for word in words(text) {
                    let known = best.entry(word).or_insert(0.0);
                    *known = known.max(weight);
                }
            };
            note(&spec.name, NAME);
            note(spec.title.as_deref().unwrap_or_default(), TITLE);
            spec.tags.iter().for_each(|it| note(it, TAG));
            for (name, schema) in spec.inputs.properties() {
                note(name, INPUT);
                note(
                    schema["description"].as_str().unwrap_or_default(),
                    DESCRIPTION,
                );
            }
            note(&spec.description, DESCRIPTION);
            for (word, weight) in best {
                index.words.entry(word).or_default().push((at, weight));
            }
        }
        index
    }

    /// The names of the tools that the query means, the likeliest first.
    pub fn search(&self, query: &str, limit: usize) -> Vec<&str> {
        let mut scores: HashMap<u32, f64> = HashMap::new();
        for word in words(query).into_iter().take(MOST_WORDS) {
            for (at, score) in self.meet(&word) {
                *scores.entry(at).or_default() += score;
            }
        }
        let begins = fold(query.trim());
        let mut found: Vec<(f64, &str)> = scores
            .into_iter()
            .map(|(at, score)| (score, self.names[at as usize].as_str()))
            .map(|(score, name)| match fold(name).starts_with(&begins) {
                true => (score + NAME_BEGINS, name),
                false => (score, name),
            })
            .collect();
        found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        found.into_iter().take(limit).map(|it| it.1).collect()
    }

    /// The tools one word of a query speaks of: those that hold it, or a longer word that begins with
    /// it, or, when there are none, one that is spelled nearly so.
    fn meet(&self, word: &str) -> HashMap<u32, f64> {
        let mut met = HashMap::new();
        for (held, tools) in self
            .words
            .range(word.to_owned()..)
            .take_while(|(held, _)| held.starts_with(word))
        {
            let how = if held == word { WHOLE } else { PREFIX };
            self.take(&mut met, tools, how);
        }
        if met.is_empty() {
            for (held, tools) in &self.words {
                if is_near(word, held) {
                    self.take(&mut met, tools, FUZZY);
                }
            }
        }
        met
    }

    fn take(&self, met: &mut HashMap<u32, f64>, tools: &[(u32, f64)], how: f64) {
        // A word that many tools hold says little about each of them.
        let rarity = (1.0 + self.names.len() as f64 / tools.len() as f64).ln();
        for (at, weight) in tools {
            let score = met.entry(*at).or_insert(0.0);
            *score = f64::max(*score, how * weight * rarity);
        }
    }
}

fn fold(text: &str) -> String {
    text.to_lowercase().replace(['-', '.', ' '], "_")
}

/// The words of a text, folded, a little of their grammar taken off.
fn words(text: &str) -> Vec<String> {
    text.to_lowercase()
        .split(|c: char| !c.is_alphanumeric())
        .filter(|it| !it.is_empty())
        .map(|it| match it.strip_suffix('s') {
            Some(stem) if stem.len() > 2 && !stem.ends_with('s') => stem.to_owned(),
            _ => it.to_owned(),
        })
        .collect()
}

/// One slip of the finger in a short word, two in a long one.
fn is_near(word: &str, held: &str) -> bool {
    let allowed = match word.chars().count() {
        0..=3 => return false,
        4..=7 => 1,
        _ => 2,
    };
    held.len().abs_diff(word.len()) <= allowed && strsim::osa_distance(word, held) <= allowed
}
