//! `/tools`: all tools of all bundles, listed and found.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use axum::Json;
use axum::extract::State;
use glee_core::bundle::{Key, Member};
use glee_core::search::Rank;
use serde_json::{Value, json};

use super::answer::Answer;
use super::bundles::{Desk, ids, rendered};
use super::operation::Operation;
use super::page;
use super::params::{Kind, Param, Query};
use crate::app::Listed;
use crate::store::tokens::Scope;

const INCLUDE: Param = Param {
    name: "includeDisabled",
    about: "Also tools that cannot be called now",
    kind: Kind::Flag,
};
const TOKEN: Param = Param {
    name: "pageToken",
    about: "`nextPageToken` of the page before",
    kind: Kind::Text,
};

const LIST: &[Param] = &[
    Param {
        name: "tags",
        about: "Only tools that have all of these tags",
        kind: Kind::List,
    },
    Param {
        name: "bundleIDs",
        about: "Only tools of these bundles",
        kind: Kind::Bundles,
    },
    INCLUDE,
    Param {
        name: "recommendedPageSize",
        about: "About how many tools a page should hold; 256 are the most",
        kind: Kind::Size,
    },
    TOKEN,
];

const SEARCH: &[Param] = &[
    Param {
        name: "q",
        about: "A few words",
        kind: Kind::Needed,
    },
    INCLUDE,
    Param {
        name: "pageSize",
        about: "Tools on a page; 256 are the most",
        kind: Kind::Size,
    },
    TOKEN,
];

/// Each list has two addresses.
pub(super) fn operations(desk: &Desk) -> Vec<Operation> {
    let listed = |path, id| {
        Operation::new("GET", path, id, "List tools", list, desk.clone())
            .scope(Scope::ReadRegistry)
            .query(LIST)
            .gives(200, "A page of tools", "Tools")
            .fails(&[400])
    };
    let searched = |path, id| {
        Operation::new(
            "GET",
            path,
            id,
            "Find tools by words, the likeliest first",
            search,
            desk.clone(),
        )
        .scope(Scope::ReadRegistry)
        .query(SEARCH)
        .gives(200, "A page of tools", "Tools")
        .fails(&[400])
    };
    vec![
        listed("/tools", "listTools"),
        listed("/tools/tools", "listAllTools"),
        searched("/tools/search", "searchTools"),
        searched("/tools/tools/search", "searchAllTools"),
    ]
}

async fn list(State(desk): State<Desk>, query: Query) -> Answer {
    let query = query.check(LIST)?;
    let (ids, tags) = (ids(&query)?, query.list("tags"));
    let all = query.flag("includeDisabled")?;
    let size = query.size("recommendedPageSize")?;
    let filter = json!(["tools", tags, query.list("bundleIDs"), all]);
    let after = match query.text("pageToken") {
        Some(token) => {
            let cursor = desk.pages.open(&filter, token)?;
            Some(key_of(&cursor).ok_or_else(page::foreign)?)
        }
        None => None,
    };
    let tools = desk.app.tools();
    let mut wanted = tools
        .members_after(after.as_ref())
        .filter(|it| ids.as_ref().is_none_or(|ids| ids.contains(&it.key.bundle)))
        .filter(|it| tags.iter().all(|tag| it.tags.iter().any(|has| has == tag)))
        .filter(|it| all || tools.shows(it).is_ok());
    let page: Vec<Arc<Member>> = wanted.by_ref().take(size).cloned().collect();
    let more = match (page.last(), wanted.next()) {
        (Some(last), Some(_)) => Some(desk.pages.seal(&filter, &as_value(&last.key))),
        _ => None,
    };
    let mut out = json!({"tools": rendered(page, &desk.app).await});
    if let Some(token) = more {
        out["nextPageToken"] = token.into();
    }
    Ok(Json(out))
}

async fn search(State(desk): State<Desk>, query: Query) -> Answer {
    let query = query.check(SEARCH)?;
    let words = query.needed("q")?;
    let all = query.flag("includeDisabled")?;
    let size = query.size("pageSize")?;
    let filter = json!(["search", words, all]);
    let after = match query.text("pageToken") {
        Some(token) => {
            let cursor = desk.pages.open(&filter, token)?;
            Some(rank_of(&cursor).ok_or_else(page::foreign)?)
        }
        None => None,
    };
    let listed = if all { Listed::All } else { Listed::Usable };
    // One more than wanted tells whether there are more.
    let mut hits = desk.app.search(words, after.as_ref(), size + 1, listed);
    let more = hits.len() > size;
    hits.truncate(size);
    let found = hits.iter().map(|it| it.member.clone()).collect();
    let mut out = json!({"tools": rendered(found, &desk.app).await});
    if let (Some(last), true) = (hits.last(), more) {
        let rank = &last.rank;
        let nanoseconds = nanoseconds(rank.modified_at).to_string();
        let cursor = json!([rank.score, nanoseconds, as_value(&rank.key)]);
        out["nextPageToken"] = desk.pages.seal(&filter, &cursor).into();
    }
    Ok(Json(out))
}

fn as_value(key: &Key) -> Value {
    json!([key.bundle.to_string(), key.slug, key.version])
}

fn key_of(value: &Value) -> Option<Key> {
    Some(Key {
        bundle: value[0].as_str()?.parse().ok()?,
        slug: value[1].as_str()?.to_owned(),
        version: value[2].as_str()?.to_owned(),
    })
}

/// Since 1970, or before it.
fn nanoseconds(time: SystemTime) -> i128 {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => since.as_nanos() as i128,
        Err(before) => -(before.duration().as_nanos() as i128),
    }
}

fn rank_of(value: &Value) -> Option<Rank> {
    let nanoseconds: i128 = value[1].as_str()?.parse().ok()?;
    let distance = nanoseconds.unsigned_abs();
    let seconds = u64::try_from(distance / 1_000_000_000).ok()?;
    let distance = Duration::new(seconds, (distance % 1_000_000_000) as u32);
    Some(Rank {
        score: value[0].as_f64()?,
        modified_at: match nanoseconds < 0 {
            true => SystemTime::UNIX_EPOCH.checked_sub(distance)?,
            false => SystemTime::UNIX_EPOCH.checked_add(distance)?,
        },
        key: key_of(&value[2])?,
    })
}
