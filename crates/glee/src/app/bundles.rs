//! What changes in bundles, and what may: judged under the store's lock, by what is on disk at that moment.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use glee_core::bundle::{Bundle, Keeper, Key, Member};
use glee_core::catalog::Snapshot;
use glee_core::event::What;
use glee_core::outcome::{Failure, FailureKind};
use glee_core::port::{Boot, Caller};
use glee_core::search::{Hit, Index, Rank};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{App, Surroundings, around, shelves};
use crate::config::Config;
use crate::dialect::bundle::archive::MOST_ENTRIES;
use crate::dialect::bundle::wire::{PutBundle, PutTool, StoredBundle, StoredTool, Uptime};
use crate::dialect::bundle::{self, MOST_WRONG, Wrong, sentence, written};
use crate::store;
use crate::store::bundles::{Alone, Found};
use crate::store::usage::Count;

/// How long a deleted bundle can be had back.
pub const REAP_AFTER: Duration = Duration::from_secs(48 * 3600);

/// Whether something was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    Created,
    Replaced,
}

/// Which tools somebody wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    Usable,
    /// Also those that cannot be called now.
    All,
}

/// The index of one snapshot.
#[derive(Default)]
pub(super) struct Indexed {
    index: Index,
    of: Option<Arc<Snapshot>>,
}

impl App {
    /// The tools that a query means, for every surface the same.
    pub fn search(
        &self,
        query: &str,
        after: Option<&Rank>,
        limit: usize,
        listed: Listed,
    ) -> Vec<Hit> {
        let now = self.tools();
        let is_current = |it: &Indexed| it.of.as_ref().is_some_and(|it| Arc::ptr_eq(it, &now));
        let wanted = |it: &Member| listed == Listed::All || now.shows(it).is_ok();
        let indexed = self.index.read().unwrap_or_else(PoisonError::into_inner);
        if is_current(&indexed) {
            return indexed.index.search(query, after, limit, wanted);
        }
        drop(indexed);
        let mut indexed = self.index.write().unwrap_or_else(PoisonError::into_inner);
        if !is_current(&indexed) {
            indexed.index.update(&now);
            indexed.of = Some(now.clone());
        }
        indexed.index.search(query, after, limit, wanted)
    }

    /// How often these tools were called, as far as that is known. One that is kept here may have the name of
    /// another that was there before it.
    pub fn usage<'a>(&self, tools: impl Iterator<Item = &'a Member>) -> HashMap<&'a str, Count> {
        self.usage.of(tools.map(|it| {
            let is_kept = it.keeper != Keeper::Given;
            (it.name.as_str(), is_kept.then(|| bundle::document_of(it)))
        }))
    }

    pub(super) fn changing(&self) -> MutexGuard<'_, ()> {
        // It guards nothing that could be half done.
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a bundle, or says anew what it is. A deleted one is there again.
    pub fn put_bundle(
        &self,
        id: Uuid,
        put: PutBundle,
        by: &Caller,
    ) -> Result<(Bundle, Put), Failure> {
        refused("bundle", &bundle::check_bundle(&put, id))?;
        if let Some(given) = self.given_bundle(id) {
            given.may_change()?;
        }
        let put = self.alone(|store| {
            let now = self.runtime.clock.now();
            let mut has_slug = false;
            let (created_at, modified_at, done) = match store.bundle(id).map_err(failed)? {
                Found::Nothing => {
                    self.has_room(1, 0, &self.usable_config())?;
                    (written(now), written(now), Put::Created)
                }
                Found::Stray(why) => return Err(stray("bundle", &why)),
                Found::Good((stored, before), _) => {
                    before.may_change()?;
                    if stored.slug != put.slug && store.tools(id).map_err(failed)? > 0 {
                        return Err(full(&stored.slug));
                    }
                    has_slug = stored.slug == put.slug;
                    let is_same = stored.slug == put.slug
                        && stored.display_name == put.display_name
                        && stored.description == put.description;
                    let modified_at = match is_same {
                        true => stored.modified_at,
                        false => written(now.max(before.created_at)),
                    };
                    (stored.created_at, modified_at, Put::Replaced)
                }
            };
            if !has_slug {
                slug_is_free(store, &put.slug, id)?;
            }
            let stored = StoredBundle {
                created_at,
                modified_at,
                ..bundle::stored_bundle(&put, id, now)
            };
            self.note_change(&put.slug, &format!("put bundle {id}"), by)?;
            Ok((self.write_bundle(store, id, stored)?, done))
        })?;
        self.take_in_bundles();
        Ok(put)
    }

    pub fn switch_bundle(&self, id: Uuid, enabled: bool, by: &Caller) -> Result<Bundle, Failure> {
        let given = self.given_bundle(id);
        let bundle = self.alone(|store| {
            let change = switching("bundle", &id.to_string(), enabled);
            if let Some(given) = &given {
                let mut switches = store.switches().map_err(failed)?;
                switches.set_bundle(id, enabled);
                self.note_change(&given.slug, &change, by)?;
                store.put_switches(&switches).map_err(failed)?;
                let mut bundle = Bundle::clone(given);
                bundle.enabled = enabled;
                self.show_bundle(&bundle);
                return Ok(bundle);
            }
            let (mut stored, bundle) = existing_bundle(store, id)?;
            bundle.may_switch()?;
            if bundle.deleted_at.is_some() {
                bundle.is_open()?;
            }
            stored.is_enabled = enabled;
            self.note_change(&bundle.slug, &change, by)?;
            self.write_bundle(store, id, stored)
        })?;
        self.take_in_bundles();
        Ok(bundle)
    }

    /// Nothing goes yet: the bundle can be had back for a while, and what is in it stays.
    pub fn delete_bundle(&self, id: Uuid, by: &Caller) -> Result<(), Failure> {
        if let Some(given) = self.given_bundle(id) {
            given.may_change()?;
        }
        self.alone(|store| {
            let (mut stored, bundle) = existing_bundle(store, id)?;
            bundle.may_change()?;
            if bundle.deleted_at.is_some() {
                return Ok(());
            }
            stored.soft_deleted_at = Some(written(self.runtime.clock.now()));
            stored.soft_deleted_boot = self.runtime.clock.boot().map(|it| Uptime {
                boot: it.id,
                seconds: it.up.as_secs(),
            });
            self.note_change(&bundle.slug, &format!("delete bundle {id}"), by)?;
            self.write_bundle(store, id, stored).map(|_| ())
        })?;
        self.take_in_bundles();
        Ok(())
    }

    /// Makes a tool. One that is there is left as it is.
    pub fn put_tool(&self, key: &Key, put: PutTool, by: &Caller) -> Result<Arc<Member>, Failure> {
        key.check()?;
        if let Some(given) = self.given_bundle(key.bundle) {
            given.may_change()?;
        }
        let config = self.usable_config();
        let around = around(&self.natives, &config);
        let stored = bundle::stored(put, key, self.runtime.clock.now());
        let stored = stored.map_err(|it| invalid("tool", &it))?;
        check_tool(&stored, &around).map_err(|it| invalid("tool", &it))?;
        self.change_tool(key, &around, by, "put", |store| {
            match store.tool(key).map_err(failed)? {
                Found::Nothing => {}
                Found::Stray(why) => return Err(stray("tool", &why)),
                Found::Good(..) => return Err(conflict(key)),
            }
            self.has_room(0, 1, &config)?;
            // Beside them an archive holds what is said of the bundle.
            let there = store.tools(key.bundle).map_err(failed)?;
            if there + 1 >= MOST_ENTRIES {
                let why = format!(
                    "there are {there} tools in the bundle, and an archive of it would hold no more"
                );
                return Err(Failure::new(FailureKind::RateLimited, why).hint("take another bundle"));
            }
            Ok((stored.clone(), Write::Create))
        })
    }

    pub fn switch_tool(
        &self,
        key: &Key,
        enabled: bool,
        by: &Caller,
    ) -> Result<Arc<Member>, Failure> {
        key.check()?;
        if let Some(given) = self.given_bundle(key.bundle) {
            return self.switch_given(&given, key, enabled, by);
        }
        let around = around(&self.natives, &self.usable_config());
        let word = if enabled { "enable" } else { "disable" };
        self.change_tool(key, &around, by, word, |store| {
            let mut stored = existing_tool(store, key)?;
            stored.is_enabled = enabled;
            Ok((stored, Write::Replace))
        })
    }

    fn switch_given(
        &self,
        given: &Bundle,
        key: &Key,
        enabled: bool,
        by: &Caller,
    ) -> Result<Arc<Member>, Failure> {
        self.alone(|store| {
            let member = self.member(key)?;
            let mut switches = store.switches().map_err(failed)?;
            if !switches.has_bundle(given.id) {
                given.is_open()?;
            }
            switches.set_tool(key, enabled);
            self.note_change(&member.name, &switching("tool", &path(key), enabled), by)?;
            store.put_switches(&switches).map_err(failed)?;
            self.runtime.catalog.change(|snapshot| {
                snapshot.insert_member(Arc::new(Member {
                    enabled,
                    ..Member::clone(&member)
                }));
            });
            Ok(())
        })?;
        self.member(key)
    }

    /// Removes a tool for good, also from a bundle that is disabled or deleted: that is how it gets empty.
    pub fn delete_tool(&self, key: &Key, by: &Caller) -> Result<(), Failure> {
        key.check()?;
        if let Some(given) = self.given_bundle(key.bundle) {
            self.member(key)?;
            given.may_change()?;
        }
        self.alone(|store| {
            existing_bundle(store, key.bundle)?;
            existing_tool(store, key)?;
            self.note_change(&key.slug, &format!("delete tool {}", path(key)), by)?;
            store.remove_tool(key).map_err(failed)?;
            self.runtime.catalog.change(|it| it.remove_member(key));
            Ok(())
        })
    }

    /// Removes bundles for good that were deleted long ago and hold nothing. Gives how many.
    pub fn reap(&self, by: &Caller) -> Result<usize, Failure> {
        let now = self.tools();
        let deleted = now.bundles().filter(|it| it.deleted_at.is_some());
        let mut count = 0;
        for id in deleted.map(|it| it.id) {
            count += usize::from(self.alone(|store| {
                let Found::Good((stored, bundle), Keeper::Store) =
                    store.bundle(id).map_err(failed)?
                else {
                    return Ok(false);
                };
                if !is_due(
                    &stored,
                    &bundle,
                    self.runtime.clock.now(),
                    self.runtime.clock.boot(),
                ) {
                    return Ok(false);
                }
                if !store.is_empty(id).map_err(failed)? {
                    return Ok(false);
                }
                // That one would get other names.
                if store.holder_of(&bundle.slug, id).map_err(failed)?.is_some() {
                    return Ok(false);
                }
                self.note_change(&bundle.slug, &format!("reap bundle {id}"), by)?;
                store.remove_if_empty(id).map_err(failed)
            })?);
        }
        if count > 0 {
            self.take_in_bundles();
        }
        Ok(count)
    }

    /// A tool, wherever it is from.
    pub fn member(&self, key: &Key) -> Result<Arc<Member>, Failure> {
        let tools = self.tools();
        if let Some(found) = tools.member(key) {
            return Ok(found.clone());
        }
        let home = format!(".glee/bundles/{}", key.bundle);
        let own = store::bundles::file_name(key);
        // Neither its file nor its bundle's may be one that nothing can be made of.
        for (what, file) in [("tool", own.as_str()), ("bundle", "bundle.json")] {
            if let Some(why) = tools.stray(&format!("{home}/{file}")) {
                return Err(stray(what, why));
            }
        }
        Err(no_tool(key))
    }

    /// Does something to the document of one tool, in a bundle that is open.
    fn change_tool(
        &self,
        key: &Key,
        around: &Surroundings,
        by: &Caller,
        word: &str,
        change: impl Fn(&Alone<'_>) -> Result<(StoredTool, Write), Failure>,
    ) -> Result<Arc<Member>, Failure> {
        self.alone(|store| {
            let (_, bundle) = existing_bundle(store, key.bundle)?;
            bundle.may_change()?;
            bundle.is_open()?;
            let (stored, write) = change(store)?;
            self.note_change(&key.slug, &format!("{word} tool {}", path(key)), by)?;
            match write {
                Write::Create => store
                    .create_tool(key, &stored)
                    .map_err(|err| match err.kind() {
                        io::ErrorKind::AlreadyExists => conflict(key),
                        _ => failed(err),
                    }),
                Write::Replace => store.replace_tool(key, &stored).map_err(failed),
            }?;
            let now = self.tools();
            let others = now.bundles().filter(|it| it.keeper != Keeper::Given);
            let others: Vec<Bundle> = others.map(|it| Bundle::clone(it)).collect();
            let member = self.bundles.member(&stored, &bundle, &others, around);
            let member = member.map_err(|why| Failure::new(FailureKind::Internal, why))?;
            self.runtime.catalog.change(|snapshot| {
                // Another process may have made the bundle a moment ago.
                snapshot.insert_bundle(bundle);
                snapshot.insert_member(Arc::new(member));
            });
            Ok(())
        })?;
        self.member(key)
    }

    /// Runs with everybody else kept out, in this process and in others.
    pub(super) fn alone<T>(
        &self,
        change: impl FnOnce(&Alone<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        // In this order, so that nobody who waits for another process keeps others of this one waiting.
        let store = self.bundles.alone().map_err(failed)?;
        let _changing = self.changing();
        match change(&store) {
            // A disk that is full takes no record of the change either, and that is where it is noticed.
            Err(failure) if failure.kind == FailureKind::AuditUnavailable => {
                let room = store.has_room();
                Err(room.err().filter(is_full).map_or(failure, failed))
            }
            done => done,
        }
    }

    /// Whether there may be so many more bundles and tools.
    pub(super) fn has_room(
        &self,
        bundles: usize,
        tools: usize,
        config: &Config,
    ) -> Result<(), Failure> {
        let there = self.bundles.count().map_err(failed)?;
        let most = &config.bundles;
        for (what, key, there, more, most) in [
            (
                "bundles",
                "most_bundles",
                there.0,
                bundles,
                most.most_bundles,
            ),
            ("tools", "most_tools", there.1, tools, most.most_tools),
        ] {
            if more > 0 && there + more > most {
                let why = format!("there are {there} {what}, and {most} are the most");
                let hint = format!("delete some, or raise bundles.{key} in .glee/config.yml");
                return Err(Failure::new(FailureKind::RateLimited, why).hint(hint));
            }
        }
        Ok(())
    }

    pub(super) fn note_change(&self, name: &str, change: &str, by: &Caller) -> Result<(), Failure> {
        let change = change.to_owned();
        self.note(name, None, by, What::Changed { change })
    }

    /// Keeps a bundle, and holds everybody to it at once: what was switched off is off even when nothing
    /// else on disk can be read.
    fn write_bundle(
        &self,
        store: &Alone<'_>,
        id: Uuid,
        stored: StoredBundle,
    ) -> Result<Bundle, Failure> {
        let bundle = bundle::bundle(&stored, Keeper::Store);
        let bundle = bundle.map_err(|why| Failure::new(FailureKind::Internal, why))?;
        store.put_bundle(id, &stored).map_err(failed)?;
        self.show_bundle(&bundle);
        Ok(bundle)
    }

    fn show_bundle(&self, bundle: &Bundle) {
        let change = |it: &mut Snapshot| it.insert_bundle(bundle.clone());
        self.runtime.catalog.change(change);
    }

    /// Reads anew all that depends on a bundle that changed. The change is done, so what else is wrong on
    /// disk is only told.
    pub(super) fn take_in_bundles(&self) {
        if let Err(err) = self.reload() {
            self.warn(&err.to_string());
        }
    }

    pub(super) fn given_bundle(&self, id: Uuid) -> Option<Arc<Bundle>> {
        let tools = self.tools();
        let bundle = tools.bundle(id)?;
        (bundle.keeper == Keeper::Given).then(|| bundle.clone())
    }

    /// Under a config that cannot be read tools of bundles may use nothing.
    pub(super) fn usable_config(&self) -> Config {
        self.config().unwrap_or_default()
    }
}

enum Write {
    Create,
    Replace,
}

/// By both clocks: one that jumps ahead takes nothing away.
fn is_due(stored: &StoredBundle, bundle: &Bundle, now: SystemTime, boot: Option<Boot>) -> bool {
    let Some(deleted_at) = bundle.deleted_at else {
        return false;
    };
    let by_wall = now
        .duration_since(deleted_at)
        .is_ok_and(|it| it >= REAP_AFTER);
    let by_uptime = match (&stored.soft_deleted_boot, boot) {
        (Some(then), Some(now)) if then.boot == now.id => {
            now.up.as_secs().saturating_sub(then.seconds) >= REAP_AFTER.as_secs()
        }
        _ => true,
    };
    by_wall && by_uptime
}

/// Everything that can be known of a tool before it is kept. A function that is not there now may be
/// there in another program that opens the project.
pub(super) fn check_tool(stored: &StoredTool, around: &Surroundings) -> Result<(), Vec<Wrong>> {
    let mut wrong = match bundle::spec(stored, &stored.slug, "".as_ref(), around) {
        Ok(spec) => bundle::compile(&spec),
        Err(wrong) => wrong,
    };
    wrong.retain(|it| it.pointer != "/impl/goFunc");
    if !store::bundles::fits(stored) {
        wrong.push(Wrong::new(
            "",
            "as it is kept it would be larger than 1024 KiB",
        ));
    }
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong),
    }
}

fn refused(what: &str, wrong: &[Wrong]) -> Result<(), Failure> {
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(invalid(what, wrong)),
    }
}

pub(super) fn invalid(what: &str, wrong: &[Wrong]) -> Failure {
    let mut violations: Vec<Value> = wrong
        .iter()
        .take(MOST_WRONG)
        .map(|it| json!({"pointer": it.pointer, "message": it.message}))
        .collect();
    if wrong.len() > MOST_WRONG {
        violations.push(json!({"pointer": "", "message": "and more"}));
    }
    let why = format!("the {what} is not valid: {}", sentence(wrong));
    Failure::new(FailureKind::InvalidInput, why).with("violations", violations)
}

fn existing_bundle(store: &Alone<'_>, id: Uuid) -> Result<(StoredBundle, Bundle), Failure> {
    match store.bundle(id).map_err(failed)? {
        Found::Nothing => Err(no_bundle(id)),
        Found::Stray(why) => Err(stray("bundle", &why)),
        Found::Good(found, _) => Ok(found),
    }
}

fn existing_tool(store: &Alone<'_>, key: &Key) -> Result<StoredTool, Failure> {
    match store.tool(key).map_err(failed)? {
        Found::Nothing => Err(no_tool(key)),
        Found::Stray(why) => Err(stray("tool", &why)),
        Found::Good(_, Keeper::Newer) => Err(Failure::new(
            FailureKind::Conflict,
            "the tool was written by a newer glee, and is left as it is",
        )),
        Found::Good(stored, _) => Ok(stored),
    }
}

/// Names of tools begin with it, and rules hold by names: nobody takes over somebody else's.
fn slug_is_free(store: &Alone<'_>, slug: &str, id: Uuid) -> Result<(), Failure> {
    if shelves::is_given(slug) {
        let why = format!("`{slug}` is the slug of a bundle that is always there");
        return Err(Failure::new(FailureKind::Conflict, why).hint("take another slug"));
    }
    let Some(holder) = store.holder_of(slug, id).map_err(failed)? else {
        return Ok(());
    };
    let id = holder.id;
    let (which, hint) = match holder.deleted_at {
        None => ("", "take another slug".to_owned()),
        Some(_) => (
            ", which is deleted and can still be had back,",
            format!(
                "take another slug, or PUT {id}; it is gone for good two days after it was deleted, once it is empty"
            ),
        ),
    };
    let why = format!("the bundle {id}{which} has the slug `{slug}` already");
    Err(Failure::new(FailureKind::Conflict, why).hint(hint))
}

fn full(slug: &str) -> Failure {
    let why = format!("the slug `{slug}` cannot change while there are tools in the bundle");
    Failure::new(FailureKind::Conflict, why).hint("delete its tools first, or make another bundle")
}

pub(super) fn no_bundle(id: Uuid) -> Failure {
    Failure::new(FailureKind::NotFound, format!("there is no bundle {id}"))
        .hint("PUT it first; GET /tools/bundles lists those there are")
}

fn no_tool(key: &Key) -> Failure {
    let why = format!("there is no tool {}", path(key));
    Failure::new(FailureKind::NotFound, why).hint("GET /tools lists those there are")
}

fn conflict(key: &Key) -> Failure {
    let why = format!(
        "there is a tool {} already, and it stays as it is",
        path(key)
    );
    Failure::new(FailureKind::Conflict, why).hint("take another version, or delete it first")
}

fn stray(what: &str, why: &str) -> Failure {
    let why = format!("the {what}'s file cannot be used, and is left as it is: {why}");
    Failure::new(FailureKind::Conflict, why)
        .hint("a person repairs or removes the file below .glee/bundles")
}

fn path(key: &Key) -> String {
    format!("{}/{}/{}", key.bundle, key.slug, key.version)
}

fn switching(what: &str, path: &str, enabled: bool) -> String {
    let word = if enabled { "enable" } else { "disable" };
    format!("{word} {what} {path}")
}

fn is_full(err: &io::Error) -> bool {
    matches!(
        err.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

pub(super) fn failed(err: io::Error) -> Failure {
    match err.kind() {
        io::ErrorKind::TimedOut => Failure::new(
            FailureKind::LockTimeout,
            "another process has been changing the bundles for five seconds",
        )
        .hint("try again; if it stays so, look for a glee that hangs")
        .retryable(),
        _ if is_full(&err) => Failure::new(
            FailureKind::StorageFull,
            "the disk is full, so nothing was changed",
        )
        .hint("free some space")
        .retryable(),
        _ => Failure::new(
            FailureKind::Internal,
            format!("the store of bundles: {err}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 48 hours, by both clocks where both are known.
    #[test]
    fn st_07_a_clock_that_jumps_takes_nothing_away() {
        const HOUR: u64 = 3600;
        let at = |hours: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(hours * HOUR);
        let text = |boot: &str| {
            format!(
                r#"{{"schemaVersion":"1","bundleID":"018faf50-b7b6-7a01-9a05-a22a6e0af101","slug":"a","isEnabled":true,
                "createdAt":"1970-01-01T00:00:00Z","modifiedAt":"1970-01-01T00:00:00Z",
                "softDeletedAt":"1970-01-01T10:00:00Z"{boot}}}"#
            )
        };
        let known = text(r#","softDeletedBoot":{"boot":"b","seconds":3600}"#);
        let unknown = text("");
        let up = |id: &str, hours: u64| {
            Some(Boot {
                id: id.to_owned(),
                up: Duration::from_secs(hours * HOUR),
            })
        };
        for (text, now, boot, due) in [
            (&known, 57, up("b", 48), false),
            (&known, 58, up("b", 49), true),
            // The wall clock was set ahead, or back.
            (&known, 500, up("b", 2), false),
            (&known, 1, up("b", 500), false),
            // After a restart there is only the wall clock.
            (&known, 58, up("c", 1), true),
            (&known, 9, up("c", 1), false),
            (&unknown, 58, None, true),
            (&unknown, 57, None, false),
        ] {
            let (stored, bundle) = bundle::read_bundle(text).unwrap();
            assert_eq!(
                is_due(&stored, &bundle, at(now), boot.clone()),
                due,
                "{now} {boot:?}"
            );
        }
    }
}
