//! Bundles on disk: `.glee/bundles/<bundleID>/bundle.json`, and beside it one document for each tool.
//!
//! Whoever writes holds the lock of the directory, which the kernel gives back when its holder dies, and
//! writes whole files only. What somebody else put there and nothing can be made of is never touched.

mod file;
mod import;
mod load;
pub mod parcel;
mod switches;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use glee_core::bundle::{Bundle, Keeper, Key};
use uuid::Uuid;

use super::durable::{self, Latch, Lock};
use crate::dialect::bundle;
use crate::dialect::bundle::wire::{StoredBundle, StoredTool};

pub use file::file_name;
pub use load::Loaded;
pub use switches::Switches;

/// How long others may hold the lock.
const PATIENCE: Duration = Duration::from_secs(5);
const BUNDLE: &str = "bundle.json";
const SWITCHES: &str = "given.json";

pub struct Bundles {
    directory: PathBuf,
    /// What was read before, as long as its file is the same.
    known: Mutex<load::Known>,
    is_tidy: AtomicBool,
}

/// What stands under a name.
pub enum Found<T> {
    Nothing,
    /// Something that is not to be overwritten, and why it cannot be used.
    Stray(String),
    Good(T, Keeper),
}

/// The store while nobody else changes it.
pub struct Alone<'a> {
    bundles: &'a Bundles,
    _lock: Lock,
}

impl Bundles {
    pub fn new(directory: PathBuf) -> Bundles {
        Bundles {
            directory,
            known: Mutex::default(),
            is_tidy: AtomicBool::new(false),
        }
    }

    /// Keeps all others out, of this process and of others. `TimedOut` when somebody has held it for too
    /// long.
    pub fn alone(&self) -> io::Result<Alone<'_>> {
        if !self.directory.is_dir() {
            durable::directory(&self.directory)?;
            sync(self.directory.parent())?;
        }
        let began = Instant::now();
        let lock = loop {
            let latch = Latch::at(&self.directory.join(".lock"))?;
            let lock = latch.hold(PATIENCE.saturating_sub(began.elapsed()))?;
            // One that was replaced meanwhile keeps nobody out.
            if latch.is_in_place() {
                break lock;
            }
        };
        let alone = Alone {
            bundles: self,
            _lock: lock,
        };
        // Whoever changes something sees all of what others have imported, also of those who died meanwhile.
        alone.finish_import()?;
        if !self.is_tidy.load(Ordering::Relaxed) {
            alone.tidy()?;
            self.is_tidy.store(true, Ordering::Relaxed);
        }
        Ok(alone)
    }

    /// Every bundle that can be read, whoever may be writing meanwhile.
    pub fn all(&self) -> io::Result<impl Iterator<Item = Bundle>> {
        let homes = load::homes(&self.directory)?;
        Ok(homes
            .into_iter()
            .filter_map(|it| load::read_bundle(&it).ok()?))
    }

    /// Whether nothing has the place of a bundle.
    pub fn is_free(&self, id: Uuid) -> io::Result<bool> {
        match fs::symlink_metadata(self.home(id)) {
            Ok(_) => Ok(false),
            Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(err) => Err(err),
        }
    }

    /// How many bundles there are, and how many tools in all of them, good or not.
    pub fn count(&self) -> io::Result<(usize, usize)> {
        let homes = load::homes(&self.directory)?;
        let mut tools = 0;
        for home in &homes {
            tools += load::names(home)?.len();
        }
        Ok((homes.len(), tools))
    }

    fn home(&self, bundle: Uuid) -> PathBuf {
        self.directory.join(bundle.to_string())
    }

    pub fn path(&self, key: &Key) -> PathBuf {
        self.home(key.bundle).join(file_name(key))
    }
}

impl Alone<'_> {
    pub fn bundle(&self, id: Uuid) -> io::Result<Found<(StoredBundle, Bundle)>> {
        if !has_place(&self.bundles.home(id))? {
            return Ok(Found::Stray(NO_DIRECTORY.to_owned()));
        }
        let found = match file::read(&self.bundles.home(id).join(BUNDLE)) {
            Ok((text, _)) => bundle::read_bundle(&text),
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(err) if err.kind() == io::ErrorKind::InvalidData => Err(err.to_string()),
            Err(err) => return Err(err),
        };
        Ok(match found {
            Ok((_, bundle)) if bundle.id != id => Found::Stray("it says another bundleID".into()),
            Ok((stored, bundle)) => {
                let keeper = bundle.keeper;
                Found::Good((stored, bundle), keeper)
            }
            Err(why) => Found::Stray(why),
        })
    }

    pub fn put_bundle(&self, id: Uuid, stored: &StoredBundle) -> io::Result<()> {
        let home = self.bundles.home(id);
        if !has_place(&home)? {
            return Err(io::Error::other(NO_DIRECTORY));
        }
        if home.is_dir() {
            return durable::replace(&home.join(BUNDLE), &bundle::text(stored));
        }
        durable::directory(&home)?;
        sync(home.parent())
            .and_then(|()| durable::replace(&home.join(BUNDLE), &bundle::text(stored)))
            // Only when nothing is in it.
            .inspect_err(|_| drop(fs::remove_dir(&home)))
    }

    pub fn tool(&self, key: &Key) -> io::Result<Found<StoredTool>> {
        if !has_place(&self.bundles.home(key.bundle))? {
            return Ok(Found::Stray(NO_DIRECTORY.to_owned()));
        }
        let found = match file::read(&self.bundles.path(key)) {
            Ok((text, _)) => bundle::read_tool(&text),
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(err) if err.kind() == io::ErrorKind::InvalidData => Err(err.to_string()),
            Err(err) => return Err(err),
        };
        Ok(match found {
            Ok((stored, keeper)) => match bundle::key(&stored) {
                Ok(said) if said == *key => Found::Good(stored, keeper),
                _ => Found::Stray("it says another bundleID, slug or version".into()),
            },
            Err(why) => Found::Stray(why),
        })
    }

    /// `AlreadyExists` when anything has its name.
    pub fn create_tool(&self, key: &Key, stored: &StoredTool) -> io::Result<()> {
        if !has_place(&self.bundles.home(key.bundle))? {
            return Err(io::Error::other(NO_DIRECTORY));
        }
        durable::create(&self.bundles.path(key), &bundle::text(stored))
    }

    pub fn replace_tool(&self, key: &Key, stored: &StoredTool) -> io::Result<()> {
        durable::replace(&self.bundles.path(key), &bundle::text(stored))
    }

    pub fn remove_tool(&self, key: &Key) -> io::Result<()> {
        let path = self.bundles.path(key);
        fs::remove_file(&path)?;
        durable::settle(&self.bundles.home(key.bundle))
    }

    pub fn switches(&self) -> io::Result<Switches> {
        switches::read(&self.bundles.directory.join(SWITCHES))
    }

    pub fn put_switches(&self, switches: &Switches) -> io::Result<()> {
        let path = self.bundles.directory.join(SWITCHES);
        durable::replace(&path, &bundle::text(switches))
    }

    pub fn has_room(&self) -> io::Result<()> {
        durable::has_room(&self.bundles.directory)
    }

    /// Another bundle that has this slug. One that is deleted has it, too: what tools are called must not change
    /// on the day that it goes.
    pub fn holder_of(&self, slug: &str, except: Uuid) -> io::Result<Option<Bundle>> {
        let mut all = self.bundles.all()?;
        Ok(all.find(|it| it.id != except && it.slug == slug))
    }

    /// How many tools there are in a bundle, good or not.
    pub fn tools(&self, id: Uuid) -> io::Result<usize> {
        Ok(load::names(&self.bundles.home(id))?.len())
    }

    /// Whether there is nothing in a bundle's directory, not even what nothing can be made of.
    pub fn is_empty(&self, id: Uuid) -> io::Result<bool> {
        for entry in fs::read_dir(self.bundles.home(id))? {
            if entry?.file_name() != BUNDLE {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes a bundle in whose directory nothing else is. What somebody puts there meanwhile stays, and
    /// the bundle with it.
    pub fn remove_if_empty(&self, id: Uuid) -> io::Result<bool> {
        let home = self.bundles.home(id);
        let path = home.join(BUNDLE);
        if !self.is_empty(id)? {
            return Ok(false);
        }
        let (text, _) = file::read(&path)?;
        fs::remove_file(&path)?;
        if fs::remove_dir(&home).is_err() {
            durable::replace(&path, text.as_bytes())?;
            return Ok(false);
        }
        durable::settle(&self.bundles.directory)?;
        Ok(true)
    }

    /// Takes away what those who died while they wrote have left: nobody else writes now.
    fn tidy(&self) -> io::Result<()> {
        remove_leftovers(&self.bundles.directory)?;
        import::remove_staged(&self.bundles.directory)?;
        for home in load::homes(&self.bundles.directory)? {
            remove_leftovers(&home)?;
            // Only one that is empty goes.
            let _ = fs::remove_dir(&home);
        }
        Ok(())
    }
}

/// Whether a tool can be read again once it is written, also when it is switched off.
pub fn fits(stored: &StoredTool) -> bool {
    let switched = StoredTool {
        is_enabled: false,
        ..stored.clone()
    };
    bundle::text(&switched).len() as u64 <= file::MOST_BYTES
}

const NO_DIRECTORY: &str = "its directory is a link, or something else that is no directory";

/// Whether a bundle's directory is a real one, or can be made. By a link others would say where glee writes.
fn has_place(home: &Path) -> io::Result<bool> {
    match fs::symlink_metadata(home) {
        Ok(found) => Ok(found.is_dir()),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(err) => Err(err),
    }
}

fn remove_leftovers(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let is_leftover = entry.file_name().to_string_lossy().starts_with(".new-");
        if is_leftover && entry.file_type()?.is_file() {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn sync(directory: Option<&Path>) -> io::Result<()> {
    directory.map_or(Ok(()), |it| File::open(it)?.sync_all())
}
