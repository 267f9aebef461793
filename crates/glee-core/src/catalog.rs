//! All tools, prompts and resources at one moment. A call takes the snapshot once and never locks; a
//! change makes a new one.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::bundle::{Bundle, Key, Member};
use crate::model::{Origin, Standing, ToolSpec};
use crate::name;
use crate::outcome::{Failure, FailureKind};
use crate::prompt::Prompt;
use crate::resource::Resource;

#[derive(Default)]
pub struct Catalog(ArcSwap<Snapshot>);

#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    tools: Shelf<ToolSpec>,
    /// Tools among the broken whose document somebody took away: nothing of them is to be kept.
    gone: BTreeSet<String>,
    /// Tools that there could be, and what to do to have them.
    absent: BTreeMap<String, String>,
    prompts: Shelf<Prompt>,
    resources: Shelf<Resource>,
    bundles: BTreeMap<Uuid, Arc<Bundle>>,
    /// Names and keys are shared: a change copies the maps, and there may be ten thousand of each.
    members: BTreeMap<Arc<Key>, Arc<Member>>,
    /// The place of each tool, by name.
    places: BTreeMap<Arc<str>, Arc<Key>>,
    /// Files that nothing could be made of, with the reason.
    strays: BTreeMap<String, String>,
}

/// Documents of one kind, by name.
#[derive(Clone, Debug)]
struct Shelf<T> {
    good: BTreeMap<Arc<str>, Arc<T>>,
    /// Those that cannot be used, with the reason.
    broken: BTreeMap<String, String>,
}

impl Catalog {
    pub fn new(snapshot: Snapshot) -> Catalog {
        Catalog(ArcSwap::from_pointee(snapshot))
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.load_full()
    }

    /// Replaces everything at once. What has a broken document now keeps its last good version, unless
    /// an agent made it: what people approved is no longer what is there. What has none any more is gone.
    pub fn replace(&self, mut next: Snapshot) {
        let before = self.snapshot();
        let gone = &next.gone;
        let may_be_kept = |it: &ToolSpec| !it.origin.is_agent() && !gone.contains(&it.name);
        next.tools.keep_last_good(&before.tools, may_be_kept);
        // Also its switch.
        let broken: Vec<String> = next.tools.broken.keys().cloned().collect();
        for member in broken.iter().filter_map(|it| before.place(it)) {
            if next.tools.good.contains_key(member.name.as_str())
                && next.place(&member.name).is_none()
            {
                let key = Arc::new(member.key.clone());
                next.places.insert(member.name.as_str().into(), key.clone());
                next.members.insert(key, member.clone());
            }
        }
        next.prompts.keep_last_good(&before.prompts, |_| true);
        next.resources.keep_last_good(&before.resources, |_| true);
        self.0.store(Arc::new(next));
    }

    /// Replaces a part. One at a time: what two change at once is lost for one of them.
    pub fn change(&self, change: impl FnOnce(&mut Snapshot)) {
        let mut next = Snapshot::clone(&self.snapshot());
        change(&mut next);
        self.0.store(Arc::new(next));
    }
}

impl Snapshot {
    pub fn insert(&mut self, spec: ToolSpec) {
        let name = spec.name.as_str().into();
        self.tools.good.insert(name, Arc::new(spec));
    }

    /// For a tool that gives way to others of its name, be they good or broken.
    pub fn insert_unless_there(&mut self, spec: Arc<ToolSpec>) {
        if !self.tools.broken.contains_key(&spec.name) {
            let name = spec.name.as_str().into();
            self.tools.good.entry(name).or_insert(spec);
        }
    }

    /// For a tool whose name is nobody else's. Where a document has it too, nobody could tell which of them
    /// is called, and neither is.
    pub fn insert_built_in(&mut self, spec: Arc<ToolSpec>) {
        let name = spec.name.clone();
        let taken = self.tools.good.remove(name.as_str()).is_some();
        match taken || self.tools.broken.contains_key(&name) {
            false => drop(self.tools.good.insert(name.into(), spec)),
            true => {
                let why = "a tool that comes with glee has this name; give it another one, or list the name under `builtins.disable`";
                self.tools.broken.insert(name, why.to_owned());
            }
        }
    }

    /// For a tool that is not there, to tell whoever looks for it what to do.
    pub fn mention(&mut self, name: &str, what_to_do: String) {
        self.absent.insert(name.to_owned(), what_to_do);
    }

    pub fn insert_broken(&mut self, name: String, reason: String) {
        self.tools.broken.insert(name, reason);
    }

    /// For a tool that has a place, and no document in it.
    pub fn insert_gone(&mut self, name: String, reason: String) {
        self.gone.insert(name.clone());
        self.insert_broken(name, reason);
    }

    pub fn insert_prompt(&mut self, prompt: Prompt) {
        let name = prompt.name.as_str().into();
        self.prompts.good.insert(name, Arc::new(prompt));
    }

    pub fn insert_broken_prompt(&mut self, name: String, reason: String) {
        self.prompts.broken.insert(name, reason);
    }

    pub fn insert_resource(&mut self, resource: Resource) {
        let name = resource.name.as_str().into();
        self.resources.good.insert(name, Arc::new(resource));
    }

    pub fn insert_broken_resource(&mut self, name: String, reason: String) {
        self.resources.broken.insert(name, reason);
    }

    pub fn tools(&self) -> impl Iterator<Item = &Arc<ToolSpec>> {
        self.tools.good.values()
    }

    /// The tools that agents are shown.
    pub fn offered(&self) -> impl Iterator<Item = &Arc<ToolSpec>> {
        self.tools()
            .filter(|it| offer(&it.name, &it.origin).is_ok() && self.is_on(&it.name).is_ok())
    }

    pub fn insert_bundle(&mut self, bundle: Bundle) {
        self.bundles.insert(bundle.id, Arc::new(bundle));
    }

    /// A tool of a bundle. One whose name somebody else has cannot be used.
    pub fn insert_member(&mut self, mut member: Arc<Member>) {
        self.remove_member(&member.key);
        let key = Arc::new(member.key.clone());
        if let Ok(spec) = &member.spec {
            let good = &self.tools.good;
            let is_free = !self.tools.broken.contains_key(&member.name)
                && good
                    .get(member.name.as_str())
                    .is_none_or(|it| Arc::ptr_eq(it, spec))
                && !self.places.contains_key(member.name.as_str());
            match is_free {
                true => {
                    let name: Arc<str> = member.name.as_str().into();
                    self.tools.good.insert(name.clone(), spec.clone());
                    self.places.insert(name, key.clone());
                }
                false => {
                    let taken = format!("another tool is called `{}`", member.name);
                    Arc::make_mut(&mut member).spec = Err(taken);
                }
            }
        }
        self.members.insert(key, member);
    }

    pub fn remove_member(&mut self, key: &Key) {
        let Some(member) = self.members.remove(key) else {
            return;
        };
        let name = member.name.as_str();
        if self.places.get(name).is_some_and(|it| **it == *key) {
            self.places.remove(name);
            self.tools.good.remove(name);
        }
    }

    pub fn insert_stray(&mut self, file: String, reason: String) {
        self.strays.insert(file, reason);
    }

    pub fn bundles(&self) -> impl Iterator<Item = &Arc<Bundle>> {
        self.bundles.values()
    }

    pub fn bundle(&self, id: Uuid) -> Option<&Arc<Bundle>> {
        self.bundles.get(&id)
    }

    /// In the order of their keys.
    pub fn members(&self) -> impl Iterator<Item = &Arc<Member>> {
        self.members.values()
    }

    pub fn members_after(&self, key: Option<&Key>) -> impl Iterator<Item = &Arc<Member>> {
        let from = match key {
            Some(key) => Bound::Excluded(key),
            None => Bound::Unbounded,
        };
        let after = (from, Bound::Unbounded);
        self.members.range::<Key, _>(after).map(|it| it.1)
    }

    pub fn member(&self, key: &Key) -> Option<&Arc<Member>> {
        self.members.get(key)
    }

    /// Where the tool of a name stands.
    pub fn place(&self, name: &str) -> Option<&Arc<Member>> {
        self.members.get(self.places.get(name)?)
    }

    /// Files among the bundles that nothing could be made of, with the reason.
    pub fn strays(&self) -> impl Iterator<Item = (&str, &str)> {
        self.strays
            .iter()
            .map(|(file, why)| (file.as_str(), why.as_str()))
    }

    /// Why nothing could be made of a file among the bundles, if that is so.
    pub fn stray(&self, file: &str) -> Option<&str> {
        self.strays.get(file).map(String::as_str)
    }

    /// Whether a tool of a bundle is shown and can be called; an `Err` says why not.
    pub fn shows(&self, member: &Member) -> Result<(), Failure> {
        self.is_switched_on(member)?;
        match &member.spec {
            Ok(spec) => offer(&spec.name, &spec.origin),
            Err(reason) => Err(Failure::new(
                FailureKind::Disabled,
                format!("`{}` cannot be used: {reason}", member.name),
            )),
        }
    }

    fn is_on(&self, name: &str) -> Result<(), Failure> {
        self.place(name)
            .map_or(Ok(()), |it| self.is_switched_on(it))
    }

    fn is_switched_on(&self, member: &Member) -> Result<(), Failure> {
        if let Some(bundle) = self.bundles.get(&member.key.bundle) {
            bundle.is_open()?;
        }
        match member.enabled {
            true => Ok(()),
            false => Err(Failure::new(
                FailureKind::Disabled,
                format!("`{}` is disabled", member.name),
            )
            .hint("a person enables it: PATCH it with {\"isEnabled\": true}")),
        }
    }

    pub fn prompts(&self) -> impl Iterator<Item = &Arc<Prompt>> {
        self.prompts.good.values()
    }

    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.good.values()
    }

    /// Tools whose documents cannot be used, with the reason.
    pub fn broken(&self) -> impl Iterator<Item = (&str, &str)> {
        self.tools.broken()
    }

    pub fn broken_prompts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.prompts.broken()
    }

    pub fn broken_resources(&self) -> impl Iterator<Item = (&str, &str)> {
        self.resources.broken()
    }

    pub fn find(&self, name: &str) -> Result<Arc<ToolSpec>, Failure> {
        self.is_on(name)?;
        let usual = "run `glee list` to see the tools of this project";
        self.tools.find(name, "tool", usual).map_err(|failure| {
            let is_absent = failure.kind == FailureKind::NotFound;
            match self.absent.get(name).filter(|_| is_absent) {
                Some(what_to_do) => failure.hint(what_to_do),
                None => failure,
            }
        })
    }

    pub fn find_prompt(&self, name: &str) -> Result<Arc<Prompt>, Failure> {
        self.prompts.find(
            name,
            "prompt",
            "the prompts of this project are in .glee/prompts",
        )
    }

    /// The resource of a URI, and what fills the holes of its pattern. A resource of just this URI
    /// comes before patterns, and these in the order of their names.
    pub fn find_resource(&self, uri: &str) -> Result<(Arc<Resource>, Map<String, Value>), Failure> {
        let exact = self.resources().filter(|it| !it.uri.is_template());
        let patterns = self.resources().filter(|it| it.uri.is_template());
        exact
            .chain(patterns)
            .find_map(|it| Some((it.clone(), it.uri.fit(uri)?)))
            .ok_or_else(|| {
                Failure::new(
                    FailureKind::NotFound,
                    format!("there is no resource `{uri}`"),
                )
                .hint("the resources of this project are in .glee/resources")
            })
    }
}

/// The one rule of which tools are shown to agents and can be called at all; an `Err` says why not.
pub fn offer(name: &str, origin: &Origin) -> Result<(), Failure> {
    let Origin::Agent { creator, standing } = origin else {
        return Ok(());
    };
    match standing {
        Standing::Approved => Ok(()),
        Standing::Pending => Err(Failure::new(
            FailureKind::ApprovalRequired,
            format!("`{name}` was made by the agent `{creator}`, and waits for a person's review"),
        )
        .hint(format!(
            "a person looks at it with `glee tools review {name}`"
        ))),
        Standing::Denied { reason } => Err(Failure::new(
            FailureKind::ApprovalDenied,
            format!("a person refused the tool `{name}`: {reason}"),
        )),
    }
}

impl<T> Default for Shelf<T> {
    fn default() -> Shelf<T> {
        Shelf {
            good: BTreeMap::new(),
            broken: BTreeMap::new(),
        }
    }
}

impl<T> Shelf<T> {
    fn keep_last_good(&mut self, before: &Shelf<T>, may_be_kept: impl Fn(&T) -> bool) {
        for name in self.broken.keys() {
            let last_good = before.good.get(name.as_str());
            if let Some(last_good) = last_good.filter(|it| may_be_kept(it)) {
                self.good.insert(name.as_str().into(), last_good.clone());
            }
        }
    }

    fn broken(&self) -> impl Iterator<Item = (&str, &str)> {
        self.broken
            .iter()
            .map(|(name, reason)| (name.as_str(), reason.as_str()))
    }

    fn find(&self, name: &str, kind: &str, hint: &str) -> Result<Arc<T>, Failure> {
        if let Some(found) = self.good.get(name) {
            return Ok(found.clone());
        }
        if let Some(reason) = self.broken.get(name) {
            return Err(Failure::new(
                FailureKind::Disabled,
                format!("`{name}` cannot be used: {reason}"),
            )
            .hint("run `glee lint` to see every problem"));
        }
        let failure = Failure::new(
            FailureKind::NotFound,
            format!("there is no {kind} `{}`", name::shorten(name)),
        );
        let broken = self.broken.keys().map(String::as_str);
        let known = self.good.keys().map(|it| &**it).chain(broken);
        Err(match name::nearest(name, known) {
            Some(near) => failure
                .with("nearest", near)
                .hint(format!("did you mean `{near}`?")),
            None => failure.hint(hint),
        })
    }
}
