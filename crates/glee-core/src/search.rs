//! Finding tools by words. One index over names, titles, tags, inputs and descriptions, for every surface;
//! the same query over the same tools always gives the same answer, however the index came to be.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::SystemTime;

use crate::bundle::{Key, Member};
use crate::catalog::Snapshot;

/// Where a word stands, and how much that says about a tool.
const NAME: f64 = 8.0;
const TITLE: f64 = 5.0;
const TAG: f64 = 4.0;
const INPUT: f64 = 3.0;
const DESCRIPTION: f64 = 1.0;

/// How well a word of the query meets a word of a tool. What is better in kind is better however much
/// there is of the other: a query has few words, and no field weighs a hundred times another.
const WHOLE: f64 = 1e6;
const BEGINS: f64 = 1e3;
const FUZZY: f64 = 1.0;
/// A name or a title that begins like the whole query stands before all others.
const NAME_BEGINS: f64 = 1e12;

/// Longest query, in words; a query is typed, not pasted.
const MOST_WORDS: usize = 32;

/// Words that say nothing about a tool, when there are others.
const SMALL: &[&str] = &[
    "a", "an", "and", "by", "for", "from", "i", "in", "is", "it", "of", "on", "or", "that", "the",
    "to", "with",
];

#[derive(Debug, Default)]
pub struct Index {
    /// Free places are taken again.
    tools: Vec<Option<Entry>>,
    free: Vec<u32>,
    places: BTreeMap<Key, u32>,
    words: BTreeMap<String, Word>,
}

#[derive(Debug)]
struct Entry {
    member: Arc<Member>,
    /// What may begin like a query, folded.
    beginnings: [String; 3],
}

#[derive(Debug)]
struct Word {
    letters: u64,
    /// The tools that hold it, each with the weight of the best place.
    tools: Vec<(u32, f64)>,
}

/// A tool that was found, and where it stands among all that were.
#[derive(Clone, Debug)]
pub struct Hit {
    pub rank: Rank,
    pub member: Arc<Member>,
}

/// The best comes first, then the newest. It depends on the tool and on the query alone, so whoever goes on
/// from a rank neither misses nor repeats a tool that has not changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Rank {
    pub score: f64,
    pub modified_at: SystemTime,
    pub key: Key,
}

/// A tool that the query means, before anybody asked for it.
struct Candidate<'a> {
    score: f64,
    member: &'a Arc<Member>,
}

impl Candidate<'_> {
    /// Where it stands beside a rank: what comes first is greater.
    fn beside(&self, score: f64, modified_at: SystemTime, key: &Key) -> Ordering {
        let by_score = self.score.total_cmp(&score);
        by_score
            .then_with(|| self.member.modified_at.cmp(&modified_at))
            .then_with(|| key.cmp(&self.member.key))
    }

    fn comes_after(&self, rank: &Rank) -> bool {
        self.beside(rank.score, rank.modified_at, &rank.key) == Ordering::Less
    }

    fn hit(self) -> Hit {
        Hit {
            rank: Rank {
                score: self.score,
                modified_at: self.member.modified_at,
                key: self.member.key.clone(),
            },
            member: self.member.clone(),
        }
    }
}

impl Ord for Candidate<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.beside(other.score, other.member.modified_at, &other.member.key)
    }
}

impl PartialOrd for Candidate<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate<'_> {}

impl Index {
    /// Takes in what is other in a snapshot than what was seen before.
    pub fn update(&mut self, snapshot: &Snapshot) {
        let (mut gone, mut new) = (Vec::new(), Vec::new());
        let is_same = |at: u32, member: &Arc<Member>| {
            let entry = self.tools[at as usize].as_ref();
            entry.is_some_and(|it| Arc::ptr_eq(&it.member, member))
        };
        // Both are in the order of their keys, so they are walked through side by side.
        let mut known = self.places.iter().peekable();
        for member in snapshot.members() {
            if known.next_if(|it| is_same(*it.1, member)).is_some() {
                continue;
            }
            while let Some((key, _)) = known.next_if(|it| *it.0 < member.key) {
                gone.push(key.clone());
            }
            match known.next_if(|it| *it.0 == member.key) {
                Some((_, at)) if is_same(*at, member) => {}
                Some((key, _)) => {
                    gone.push(key.clone());
                    new.push(member.clone());
                }
                None => new.push(member.clone()),
            }
        }
        gone.extend(known.map(|it| it.0.clone()));
        gone.iter().for_each(|it| self.remove(it));
        new.into_iter().for_each(|it| self.insert(it));
    }

    fn insert(&mut self, member: Arc<Member>) {
        let at = self.free.pop().unwrap_or_else(|| {
            self.tools.push(None);
            (self.tools.len() - 1) as u32
        });
        for (word, weight) in words_of(&member) {
            let entry = self.words.entry(word);
            let word = entry.or_insert_with_key(|word| Word {
                letters: letters(word),
                tools: Vec::new(),
            });
            word.tools.push((at, weight));
        }
        self.places.insert(member.key.clone(), at);
        self.tools[at as usize] = Some(Entry {
            beginnings: [&member.key.slug, &member.name, &member.title].map(|it| fold(it)),
            member,
        });
    }

    fn remove(&mut self, key: &Key) {
        let Some(at) = self.places.remove(key) else {
            return;
        };
        let Some(entry) = self.tools[at as usize].take() else {
            return;
        };
        for word in words_of(&entry.member).into_keys() {
            if let Some(held) = self.words.get_mut(&word) {
                held.tools.retain(|it| it.0 != at);
                if held.tools.is_empty() {
                    self.words.remove(&word);
                }
            }
        }
        self.free.push(at);
    }

    /// The tools that the query means, the likeliest first, after a rank if one is given.
    pub fn search(
        &self,
        query: &str,
        after: Option<&Rank>,
        limit: usize,
        wanted: impl Fn(&Member) -> bool,
    ) -> Vec<Hit> {
        let mut scores = vec![0.0; self.tools.len()];
        for word in asked(query) {
            self.meet(&word, &mut scores);
        }
        let begins = fold(query.trim());
        let found = scores
            .into_iter()
            .zip(&self.tools)
            .filter(|(score, _)| *score > 0.0)
            .filter_map(|(score, entry)| Some((score, entry.as_ref()?)))
            .map(|(score, entry)| {
                let is_first = entry.beginnings.iter().any(|it| it.starts_with(&begins));
                Candidate {
                    score: score + if is_first { NAME_BEGINS } else { 0.0 },
                    member: &entry.member,
                }
            })
            .filter(|it| after.is_none_or(|rank| it.comes_after(rank)));
        // Only the first few are wanted, so the others are not put in order, and not even looked at.
        let mut found: BinaryHeap<Candidate<'_>> = found.collect();
        std::iter::from_fn(|| found.pop())
            .filter(|it| wanted(it.member))
            .take(limit)
            .map(Candidate::hit)
            .collect()
    }

    /// Adds what one word of a query says: of tools that hold it, or a longer word that begins with it, or
    /// one that is spelled nearly so. What a tool holds says nothing about the others.
    fn meet(&self, word: &str, scores: &mut [f64]) {
        let mut best = vec![0.0; scores.len()];
        let mut take = |tools: &[(u32, f64)], how: f64| {
            for (at, weight) in tools {
                let score = &mut best[*at as usize];
                *score = f64::max(*score, how * weight);
            }
        };
        for (held, entry) in self
            .words
            .range(word.to_owned()..)
            .take_while(|(held, _)| held.starts_with(word))
        {
            take(&entry.tools, if held == word { WHOLE } else { BEGINS });
        }
        let letters = letters(word);
        for (held, entry) in &self.words {
            if is_near(word, letters, held, entry.letters) {
                take(&entry.tools, FUZZY);
            }
        }
        for (score, best) in scores.iter_mut().zip(best) {
            *score += best;
        }
    }
}

/// The words of a tool, each with the weight of the best place.
fn words_of(member: &Member) -> HashMap<String, f64> {
    let mut best: HashMap<String, f64> = HashMap::new();
    let mut note = |text: &str, weight: f64| {
        for word in words(text) {
            let known = best.entry(word).or_insert(0.0);
            *known = known.max(weight);
        }
    };
    note(&member.name, NAME);
    note(&member.key.slug, NAME);
    note(&member.title, TITLE);
    member.tags.iter().for_each(|it| note(it, TAG));
    for (name, schema) in member.inputs["properties"]
        .as_object()
        .into_iter()
        .flatten()
    {
        note(name, INPUT);
        let description = schema["description"].as_str();
        note(description.unwrap_or_default(), DESCRIPTION);
    }
    note(&member.description, DESCRIPTION);
    best
}

fn asked(query: &str) -> Vec<String> {
    let all = words(query);
    let telling: Vec<String> = all
        .iter()
        .filter(|it| !SMALL.contains(&it.as_str()))
        .cloned()
        .collect();
    let mut asked = if telling.is_empty() { all } else { telling };
    asked.truncate(MOST_WORDS);
    asked
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

/// Which letters a word holds, roughly: words that are near share nearly all.
fn letters(word: &str) -> u64 {
    word.chars().fold(0, |all, c| all | 1 << (c as u32 % 64))
}

/// One slip of the finger in a short word, two in a long one.
fn is_near(word: &str, letters: u64, held: &str, held_letters: u64) -> bool {
    let allowed = match word.len() {
        0..=3 => return false,
        4..=7 => 1,
        _ => 2,
    };
    held.len().abs_diff(word.len()) <= 4 * allowed
        && (letters ^ held_letters).count_ones() as usize <= 2 * allowed
        && held.chars().count().abs_diff(word.chars().count()) <= allowed
        && strsim::osa_distance(word, held) <= allowed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bundle::Keeper;
    use proptest::prelude::*;
    use serde_json::json;
    use std::time::Duration;
    use uuid::Uuid;

    fn member(slug: &str, title: &str, description: &str, age: u64) -> Member {
        Member {
            id: Uuid::nil(),
            key: Key {
                bundle: Uuid::nil(),
                slug: slug.to_owned(),
                version: "1".to_owned(),
            },
            name: format!("b.{slug}.1"),
            title: title.to_owned(),
            description: description.to_owned(),
            tags: Vec::new(),
            kind: "http",
            enabled: true,
            keeper: Keeper::Store,
            schema_version: "1".to_owned(),
            inputs: json!({"properties": {"city": {"description": "where"}}}),
            outputs: None,
            how: json!({}),
            created_at: SystemTime::UNIX_EPOCH,
            modified_at: SystemTime::UNIX_EPOCH + Duration::from_secs(1000 - age),
            spec: Err(String::new()),
        }
    }

    fn index(members: impl IntoIterator<Item = Member>) -> Index {
        let mut snapshot = Snapshot::default();
        for member in members {
            snapshot.insert_member(Arc::new(member));
        }
        let mut index = Index::default();
        index.update(&snapshot);
        index
    }

    fn found(index: &Index, query: &str) -> Vec<String> {
        let hits = index.search(query, None, 100, |_| true);
        hits.into_iter()
            .map(|it| it.member.key.slug.clone())
            .collect()
    }

    #[test]
    fn prefix_then_whole_word_then_fuzzy_then_recency() {
        let index = index([
            member("mail", "M", "of mail", 3),
            member("mailer", "M", "", 2),
            member("post", "Post", "sends mail", 1),
            member("letters", "Mailing of letters", "", 9),
            member("later", "Post", "sends mail", 0),
            member("other", "X", "nothing", 0),
        ]);
        // Names and titles that begin so, the whole word first; then the word elsewhere, the newest first.
        assert_eq!(
            found(&index, "mail"),
            ["mail", "mailer", "letters", "later", "post"]
        );
        assert_eq!(found(&index, "mial"), ["mail", "later", "post"]);
        assert_eq!(found(&index, "the city of mail")[0], "mail");
        assert!(found(&index, "zzzz").is_empty());
        assert!(found(&index, "").is_empty());
    }

    /// What nobody is shown changes nothing of what they are.
    #[test]
    fn a_tool_says_nothing_about_the_others() {
        let mut off = member("off", "Kubrnetes", "", 0);
        off.enabled = false;
        let index = index([member("on", "Kubernetes", "", 0), off]);
        let hits = index.search("kubrnetes", None, 10, |it| it.enabled);
        let hits: Vec<_> = hits.iter().map(|it| it.member.key.slug.as_str()).collect();
        assert_eq!(hits, ["on"]);
    }

    #[test]
    fn pages_hold_all_and_each_once() {
        let index = index((0..50).map(|it| member(&format!("a{it}"), "same", "words", it % 7)));
        let all = found(&index, "same");
        let mut pages = Vec::new();
        let mut after = None;
        loop {
            let hits = index.search("same", after.as_ref(), 7, |_| true);
            let Some(last) = hits.last() else { break };
            after = Some(last.rank.clone());
            pages.extend(hits.into_iter().map(|it| it.member.key.slug.clone()));
        }
        assert_eq!((pages.len(), pages), (50, all));
    }

    proptest! {
        /// However the index came to be, it answers as one that was made at once.
        #[test]
        fn a_cold_index_says_the_same(
            steps in proptest::collection::vec((0..12_u8, 0..4_u8, any::<bool>()), 1..40),
            query in "(send|mail|weather|wether|repo) ?(city|the|m)?",
        ) {
            let texts = ["send mail", "weather report", "repository of mails", "city"];
            let mut snapshot = Snapshot::default();
            let mut warm = Index::default();
            for (slug, text, stays) in steps {
                let member = member(&format!("t{slug}"), texts[text as usize], "", slug.into());
                match stays {
                    true => snapshot.insert_member(Arc::new(member)),
                    false => snapshot.remove_member(&member.key),
                }
                warm.update(&snapshot);
            }
            let mut cold = Index::default();
            cold.update(&snapshot);
            prop_assert_eq!(found(&warm, &query), found(&cold, &query));
            prop_assert_eq!(warm.words.len(), cold.words.len());
        }
    }
}
