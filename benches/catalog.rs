//! What finding and changing tools costs, at 10, 1 000 and 10 000 of them. `cargo bench --bench catalog` prints
//! a table.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot go on should stop where it stands"
)]

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use glee_core::bundle::{Keeper, Key, Member};
use glee_core::catalog::Catalog;
use glee_core::search::Index;
use serde_json::json;
use uuid::Uuid;

const VERBS: &[&str] = &[
    "send", "read", "list", "create", "delete", "update", "find", "archive",
];
const THINGS: &[&str] = &[
    "message",
    "channel",
    "invoice",
    "customer",
    "repository",
    "calendar",
    "weather",
    "document",
    "ticket",
    "deployment",
];

/// Tools as many as real ones are: a verb, a thing, and words of their own.
fn member(at: usize) -> Member {
    let (verb, thing) = (VERBS[at % 8], THINGS[at / 8 % 10]);
    Member {
        id: Uuid::nil(),
        key: Key {
            bundle: Uuid::nil(),
            slug: format!("{verb}-{thing}-{at}"),
            version: "1".to_owned(),
        },
        name: format!("b.{verb}-{thing}-{at}.1"),
        title: format!("{verb} a {thing}"),
        description: format!(
            "Will {verb} one {thing} of the service number{at}, with word{}",
            at % 977
        ),
        tags: vec![thing.to_owned()],
        kind: "http",
        enabled: true,
        keeper: Keeper::Store,
        schema_version: "1".to_owned(),
        inputs: json!({"properties": {"id": {"description": "which"}, format!("field{}", at % 50): {}}}),
        outputs: None,
        how: json!({}),
        created_at: SystemTime::UNIX_EPOCH,
        modified_at: SystemTime::UNIX_EPOCH + Duration::from_secs(at as u64),
        spec: Err(String::new()),
    }
}

fn percentile(mut times: Vec<Duration>, part: usize) -> Duration {
    times.sort();
    times[(times.len() * part / 100).min(times.len() - 1)]
}

fn main() {
    println!("{:>7} {:34} {:>10} {:>10}", "tools", "what", "p50", "p99");
    for count in [10, 1_000, 10_000] {
        let catalog = Catalog::default();
        catalog.change(|snapshot| {
            (0..count).for_each(|at| snapshot.insert_member(Arc::new(member(at))));
        });
        let mut index = Index::default();
        let began = Instant::now();
        index.update(&catalog.snapshot());
        let cold = began.elapsed();
        let row = |what: &str, times: Vec<Duration>| {
            let (p50, p99) = (percentile(times.clone(), 50), percentile(times, 99));
            println!("{count:>7} {what:34} {p50:>10.1?} {p99:>10.1?}");
        };
        row("index made anew", vec![cold]);
        for (what, query) in [
            ("search, a name begins so", "send-mess"),
            ("search, a word that many hold", "weather"),
            ("search, three words", "send message channel"),
            ("search, misspelled", "wether reposittory"),
            ("search, nothing there", "zzzzzzzz qqqqqqqq"),
        ] {
            let times = (0..300).map(|_| {
                let began = Instant::now();
                std::hint::black_box(index.search(query, None, 25, |_| true));
                began.elapsed()
            });
            row(what, times.collect());
        }
        // One tool more, or another one in its place: the catalog, then the index.
        let times = (0..100).map(|at| {
            let new = Arc::new(member(count + at % 3));
            let began = Instant::now();
            catalog.change(|snapshot| snapshot.insert_member(new));
            index.update(&catalog.snapshot());
            began.elapsed()
        });
        row("one tool changes", times.collect());
        let times = (0..300).map(|at| {
            let snapshot = catalog.snapshot();
            let after = snapshot.members().nth(at % count).unwrap().key.clone();
            let began = Instant::now();
            std::hint::black_box(snapshot.members_after(Some(&after)).take(25).count());
            began.elapsed()
        });
        row("a page of the list", times.collect());
    }
}
