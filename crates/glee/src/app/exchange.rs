//! Bundles that leave as an archive, and bundles that come in one: all of them or none, and none of their tools
//! can be called before somebody enables it.

use std::collections::{HashMap, HashSet};

use glee_core::bundle::{Bundle, Keeper, Key};
use glee_core::outcome::{Failure, FailureKind};
use glee_core::port::Caller;
use glee_core::redact::Redactor;
use glee_core::secret::SecretValues;
use glee_core::slug;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::bundles::{check_tool, failed, invalid};
use super::{App, Surroundings, around, shelves};
use crate::config::Config;
use crate::dialect::bundle::archive::MOST_TOTAL;
use crate::dialect::bundle::wire::{PutTool, StoredTool};
use crate::dialect::bundle::{self, MOST_WRONG, Wrong};
use crate::store::bundles::Alone;
use crate::store::bundles::parcel::{self, Parcel};

/// What becomes of a bundle whose id or slug is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// Nothing is imported at all.
    Fail,
    /// It is left out.
    Skip,
    /// It gets an id or a slug that is free.
    Rename,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    Real,
    /// Nothing is written.
    Dry,
}

/// A bundle of an archive, and what became of it.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// What the archive calls it.
    pub was: (Uuid, String),
    /// What it is called here; a reason when it was left out.
    pub now: Result<(Uuid, String), String>,
    /// Slugs and versions.
    pub tools: Vec<(String, String)>,
}

impl App {
    /// These bundles, or all that are kept here, as an archive. No secret leaves with them.
    pub fn export(&self, wanted: &[Uuid]) -> Result<Vec<u8>, Failure> {
        let tools = self.tools();
        let kept = |it: &Bundle| it.keeper != Keeper::Given && it.deleted_at.is_none();
        let mut bundles = Vec::new();
        for id in wanted {
            let bundle = tools
                .bundle(*id)
                .ok_or_else(|| super::bundles::no_bundle(*id))?;
            if !kept(bundle) {
                let why = format!("the bundle `{}` is not kept here, or deleted", bundle.slug);
                return Err(Failure::new(FailureKind::Conflict, why)
                    .hint("only bundles that were made through the API can be exported"));
            }
            bundles.push(bundle);
        }
        if wanted.is_empty() {
            bundles.extend(tools.bundles().filter(|it| kept(it)));
        }
        bundles.sort_by_key(|it| it.id);
        bundles.dedup_by_key(|it| it.id);
        let redactor = Redactor::new(&self.secrets_of_bundles());
        let mut packed = Vec::new();
        for bundle in bundles {
            bundle.may_change()?;
            // An archive that lacks something must not pass for one that has all.
            let home = format!(".glee/bundles/{}/", bundle.id);
            if let Some((file, why)) = tools.strays().find(|it| it.0.starts_with(&home)) {
                let why = format!("{file} cannot be used: {why}");
                return Err(Failure::new(FailureKind::Conflict, why)
                    .hint("repair the file, or move it away"));
            }
            let members = tools.members().filter(|it| it.key.bundle == bundle.id);
            let mut documents = Vec::new();
            for member in members {
                member.may_change()?;
                let document = bundle::tool_document(member);
                holds_no_secret(&document, &member.name, &redactor)?;
                documents.push((member.key.clone(), document));
            }
            let document = bundle::bundle_document(bundle);
            holds_no_secret(&document, &bundle.slug, &redactor)?;
            packed.push((document, documents));
        }
        parcel::pack(&packed).map_err(|why| {
            let why = format!("the archive would be too large: {why}");
            Failure::new(FailureKind::Conflict, why).hint(match packed.len() {
                1 => "move some of its tools to another bundle",
                _ => "export fewer bundles at once",
            })
        })
    }

    fn secrets_of_bundles(&self) -> SecretValues {
        let names = self.usable_config().bundles.secrets;
        let get = |name: String| Some((name.clone(), self.runtime.gate.secrets.get(&name)?));
        names.into_iter().filter_map(get).collect()
    }

    /// Makes the bundles of an archive. Its tools are new ones, whatever it says of them, and disabled.
    pub fn import(
        &self,
        archive: &[u8],
        on_conflict: OnConflict,
        run: Run,
        by: &Caller,
    ) -> Result<Vec<Arrival>, Failure> {
        let parcels = parcel::unpack(archive).map_err(|why| {
            let why = format!("the archive is refused as a whole: {why}");
            Failure::new(FailureKind::InvalidInput, why)
                .hint("import what `glee bundle export` or GET /tools/bundles/export gave")
        })?;
        let config = self.usable_config();
        self.check_parcels(&parcels, &around(&self.natives, &config))?;
        // Whoever only asks keeps nobody out.
        if run == Run::Dry {
            return self.arrivals(&parcels, on_conflict, &config);
        }
        let arrivals = self.alone(|store| {
            let arrivals = self.arrivals(&parcels, on_conflict, &config)?;
            self.bring_in(store, &parcels, &arrivals, by)?;
            Ok(arrivals)
        })?;
        self.take_in_bundles();
        Ok(arrivals)
    }

    /// What becomes of each bundle, by what is on disk now.
    fn arrivals(
        &self,
        parcels: &[Parcel],
        on_conflict: OnConflict,
        config: &Config,
    ) -> Result<Vec<Arrival>, Failure> {
        let mut slugs = Slugs {
            taken: self
                .bundles
                .all()
                .map_err(failed)?
                .map(|it| it.slug)
                .collect(),
            next: HashMap::new(),
        };
        let mut arrivals = Vec::new();
        for parcel in parcels {
            let now = self.settle(parcel, on_conflict, &mut slugs)?;
            if let Ok((_, slug)) = &now {
                slugs.taken.insert(slug.clone());
            }
            let tools = parcel.tools.iter().map(|it| &it.0);
            arrivals.push(Arrival {
                was: (parcel.id, parcel.bundle.slug.clone()),
                now,
                tools: tools
                    .map(|it| (it.slug.clone(), it.version.clone()))
                    .collect(),
            });
        }
        let coming = arrivals.iter().filter(|it| it.now.is_ok());
        let tools = coming.clone().map(|it| it.tools.len()).sum();
        self.has_room(coming.count(), tools, config)?;
        Ok(arrivals)
    }

    /// Each bundle and each tool is held to what a client that PUTs it is held to.
    fn check_parcels(&self, parcels: &[Parcel], around: &Surroundings) -> Result<(), Failure> {
        let mut wrong = Vec::new();
        let mut total = 0;
        for parcel in parcels {
            let slug = &parcel.bundle.slug;
            let found = bundle::check_bundle(&parcel.bundle, parcel.id);
            wrong.extend(found.into_iter().map(|it| below(slug, "", it)));
            for (key, text) in &parcel.tools {
                // Nobody is told of more.
                if wrong.len() > MOST_WRONG {
                    break;
                }
                let found = match self.arriving(key, text) {
                    Ok(stored) => {
                        total += bundle::text(&stored).len();
                        check_tool(&stored, around).err().unwrap_or_default()
                    }
                    Err(wrong) => wrong,
                };
                let tool = format!("/{}/{}", key.slug, key.version);
                wrong.extend(found.into_iter().map(|it| below(slug, &tool, it)));
            }
        }
        if total > MOST_TOTAL {
            let why = "as they are kept the tools would have more than 32 MiB";
            wrong.push(Wrong::new("", why));
        }
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(invalid("archive", &wrong).hint("nothing was imported")),
        }
    }

    /// The document of a tool that comes in: with an id of its own, so that no yes to another one is a yes to
    /// it, and disabled.
    fn arriving(&self, key: &Key, text: &str) -> Result<StoredTool, Vec<Wrong>> {
        let said = bundle::sent::<PutTool>(text).map_err(|why| vec![Wrong::new("", why)])?;
        let said = PutTool {
            bundle_id: None,
            is_enabled: false,
            ..said
        };
        bundle::stored(said, key, self.runtime.clock.now())
    }

    /// What a bundle is called here, or why it is left out.
    fn settle(
        &self,
        parcel: &Parcel,
        on_conflict: OnConflict,
        slugs: &mut Slugs,
    ) -> Result<Result<(Uuid, String), String>, Failure> {
        let slug = &parcel.bundle.slug;
        let has_id = self.given_bundle(parcel.id).is_none()
            && self.bundles.is_free(parcel.id).map_err(failed)?;
        let has_slug = slugs.is_free(slug);
        let why = match (has_id, has_slug) {
            (true, true) => return Ok(Ok((parcel.id, slug.clone()))),
            (false, _) => format!("there is a bundle {} already", parcel.id),
            (true, false) => format!("there is a bundle with the slug `{slug}` already"),
        };
        match on_conflict {
            OnConflict::Fail => Err(Failure::new(FailureKind::Conflict, why).hint(
                "nothing was imported; leave it out (skip), or give it another name (rename)",
            )),
            OnConflict::Skip => Ok(Err(why)),
            OnConflict::Rename => {
                let id = match has_id {
                    true => parcel.id,
                    false => Uuid::now_v7(),
                };
                Ok(Ok((id, slugs.free(slug))))
            }
        }
    }

    fn bring_in(
        &self,
        store: &Alone<'_>,
        parcels: &[Parcel],
        arrivals: &[Arrival],
        by: &Caller,
    ) -> Result<(), Failure> {
        let coming: Vec<(&Parcel, &(Uuid, String))> = parcels
            .iter()
            .zip(arrivals)
            .filter_map(|(parcel, it)| Some((parcel, it.now.as_ref().ok()?)))
            .collect();
        let mut staged = store.stage().map_err(failed)?;
        for (parcel, (id, slug)) in &coming {
            let now = self.runtime.clock.now();
            let mut stored = bundle::stored_bundle(&parcel.bundle, *id, now);
            stored.slug = slug.clone();
            staged.bundle(*id, &stored).map_err(failed)?;
            for (key, text) in &parcel.tools {
                let key = Key {
                    bundle: *id,
                    ..key.clone()
                };
                let stored = self
                    .arriving(&key, text)
                    .map_err(|it| invalid("tool", &it))?;
                staged.tool(&key, &stored).map_err(failed)?;
            }
        }
        // What could not be written did not come.
        for (parcel, (id, slug)) in &coming {
            let change = format!("import bundle {id} with {} tools", parcel.tools.len());
            self.note_change(slug, &change, by)?;
        }
        staged.commit().map_err(failed)
    }
}

/// The slugs that are taken, here and by bundles of the archive.
struct Slugs {
    taken: HashSet<String>,
    /// The first number that may be free behind a slug.
    next: HashMap<String, usize>,
}

impl Slugs {
    fn is_free(&self, slug: &str) -> bool {
        !self.taken.contains(slug) && !shelves::is_given(slug)
    }

    /// The slug, or one with a number behind it.
    fn free(&mut self, slug: &str) -> String {
        let mut free = slug.to_owned();
        let mut count = self.next.get(slug).copied().unwrap_or(2);
        while !self.is_free(&free) {
            let number = format!("-{count}");
            let begin: String = slug.chars().take(slug::MOST - number.len()).collect();
            free = begin + &number;
            count += 1;
        }
        self.next.insert(slug.to_owned(), count);
        free
    }
}

fn below(bundle: &str, tool: &str, wrong: Wrong) -> Wrong {
    Wrong::new(format!("/{bundle}{tool}{}", wrong.pointer), wrong.message)
}

/// Somebody may have written a value where its name belongs.
fn holds_no_secret(
    document: &impl Serialize,
    name: &str,
    secrets: &Redactor,
) -> Result<(), Failure> {
    let whole = serde_json::to_value(document).unwrap_or(Value::Null);
    if secrets.is_idle() || secrets.value(whole.clone()) == whole {
        return Ok(());
    }
    let why = format!("`{name}` holds the value of a secret, which must not leave");
    Err(Failure::new(FailureKind::PermissionDenied, why)
        .hint("write ${NAME} in its place; the value is filled in by each call"))
}
