//! Tools of bundles: JSON documents to the model, and back.

pub mod archive;
mod function;
mod http;
pub mod wire;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use data_encoding::HEXLOWER;
use glee_core::bundle::{Bundle, Keeper, Key, Member};
use glee_core::host::HostPattern;
use glee_core::json;
use glee_core::model::{
    Annotations, Approval, Exec, Extract, Format, Limits, OnMismatch, Origin, Outputs, Tasks,
    ToolSpec,
};
use glee_core::name;
use glee_core::permission::Permissions;
use glee_core::schema::Schema;
use glee_core::slug;
use glee_core::turn::Calls;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use uuid::{Uuid, Variant};

use wire::{Kind, MOST_TAGS, PutBundle, PutTool, StoredBundle, StoredTool};

/// What documents say that are written now.
pub const SCHEMA_VERSION: u32 = 1;

/// What the tools of bundles find around them.
#[derive(Clone, Default)]
pub struct Surroundings {
    /// The functions of this program, by name.
    pub functions: Arc<BTreeMap<String, Arc<ToolSpec>>>,
    /// The only hosts that tools of bundles may call.
    pub allowed_hosts: Vec<HostPattern>,
    /// The secrets that tools of bundles may use.
    pub secrets: BTreeSet<String>,
}

/// Something that is wrong with a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// A JSON pointer into it.
    pub pointer: String,
    pub message: String,
}

/// What is told of what is wrong with what somebody sent: so many things, and of each so many bytes. More would
/// be many times as large as what was sent.
pub const MOST_WRONG: usize = 100;
const LONGEST_WRONG: usize = 256;

impl Wrong {
    pub fn new(pointer: impl Into<String>, message: impl Into<String>) -> Wrong {
        Wrong {
            pointer: shortened(pointer.into()),
            message: shortened(message.into()),
        }
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > LONGEST_WRONG {
        text.truncate(text.floor_char_boundary(LONGEST_WRONG));
        text.push('…');
    }
    text
}

/// All that is wrong, in one sentence.
pub fn sentence(wrong: &[Wrong]) -> String {
    let mut told: Vec<String> = wrong
        .iter()
        .take(MOST_WRONG)
        .map(|it| match it.pointer.as_str() {
            "" => it.message.clone(),
            pointer => format!("{pointer}: {}", it.message),
        })
        .collect();
    if wrong.len() > MOST_WRONG {
        told.push("and more".to_owned());
    }
    told.join("; ")
}

/// A UUIDv7, in the one form that stands in paths.
pub fn id(text: &str) -> Option<Uuid> {
    let id: Uuid = text.parse().ok()?;
    let is_plain = id.to_string().eq_ignore_ascii_case(text);
    (is_plain && id.get_version_num() == 7 && id.get_variant() == Variant::RFC4122).then_some(id)
}

/// What a document was written by.
fn keeper(document: &Value) -> Result<Keeper, String> {
    let said = document["schemaVersion"].as_str();
    let numbers: Option<Vec<u32>> =
        said.and_then(|it| it.split('.').map(|it| it.parse().ok()).collect());
    match numbers.as_deref() {
        None | Some([0, ..]) => Err("it has no schemaVersion that glee knows".to_owned()),
        Some([1..=SCHEMA_VERSION]) => Ok(Keeper::Store),
        _ => Ok(Keeper::Newer),
    }
}

/// Reads a document of either kind. One that a newer glee has written may say more than is known here.
fn document<T: DeserializeOwned>(text: &str, known: &[&str]) -> Result<(T, Keeper), String> {
    let mut document = json::parse(text).map_err(|err| err.to_string())?;
    let keeper = keeper(&document)?;
    if let (Keeper::Newer, Value::Object(map)) = (keeper, &mut document) {
        map.retain(|key, _| known.contains(&key.as_str()));
    }
    let read = serde_json::from_value(document).map_err(|err| err.to_string())?;
    Ok((read, keeper))
}

const OF_BUNDLE: &[&str] = &[
    "schemaVersion",
    "bundleID",
    "slug",
    "displayName",
    "description",
    "isEnabled",
    "createdAt",
    "modifiedAt",
    "softDeletedAt",
    "softDeletedBoot",
];

const OF_TOOL: &[&str] = &[
    "schemaVersion",
    "toolID",
    "bundleID",
    "slug",
    "version",
    "displayName",
    "description",
    "tags",
    "type",
    "isEnabled",
    "isBuiltIn",
    "argSchema",
    "outputSchema",
    "impl",
    "createdAt",
    "modifiedAt",
];

/// A bundle's document, as it stands on disk.
pub fn read_bundle(text: &str) -> Result<(StoredBundle, Bundle), String> {
    let (stored, keeper) = document::<StoredBundle>(text, OF_BUNDLE)?;
    let bundle = bundle(&stored, keeper)?;
    Ok((stored, bundle))
}

/// A document that was kept elsewhere, read as if a client sent it.
pub fn sent<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let document = json::parse(text).map_err(|err| err.to_string())?;
    match keeper(&document)? {
        Keeper::Store => serde_json::from_value(document).map_err(|err| err.to_string()),
        _ => Err("a newer glee has written it".to_owned()),
    }
}

pub fn bundle(stored: &StoredBundle, keeper: Keeper) -> Result<Bundle, String> {
    Ok(Bundle {
        id: id(&stored.bundle_id).ok_or("its bundleID is no UUIDv7")?,
        slug: good_slug(&stored.slug)?,
        title: stored.display_name.clone(),
        description: stored.description.clone(),
        enabled: stored.is_enabled,
        keeper,
        created_at: time(&stored.created_at)?,
        modified_at: time(&stored.modified_at)?,
        deleted_at: stored.soft_deleted_at.as_deref().map(time).transpose()?,
    })
}

fn good_slug(slug: &str) -> Result<String, String> {
    match slug::check_slug(slug) {
        Ok(()) => Ok(slug.to_owned()),
        Err(err) => Err(format!("`{}` is no slug: {err}", name::shorten(slug))),
    }
}

/// The document of a new bundle.
pub fn stored_bundle(put: &PutBundle, id: Uuid, now: SystemTime) -> StoredBundle {
    StoredBundle {
        schema_version: SCHEMA_VERSION.to_string(),
        bundle_id: id.to_string(),
        slug: put.slug.clone(),
        display_name: put.display_name.clone(),
        description: put.description.clone(),
        is_enabled: put.is_enabled,
        created_at: written(now),
        modified_at: written(now),
        soft_deleted_at: None,
        soft_deleted_boot: None,
    }
}

/// What is wrong with what a client says of a bundle.
pub fn check_bundle(put: &PutBundle, id: Uuid) -> Vec<Wrong> {
    let mut wrong = Vec::new();
    let said = put.bundle_id.as_deref();
    if said.is_some_and(|it| self::id(it) != Some(id)) {
        wrong.push(Wrong::new(
            "/bundleID",
            "it is another one than in the path",
        ));
    }
    if let Err(why) = good_slug(&put.slug) {
        wrong.push(Wrong::new("/slug", why));
    }
    // As the names of its tools would be shown to models.
    if name::is_reserved(&format!("{}_", put.slug)) {
        wrong.push(Wrong::new("/slug", "names that begin so are glee's own"));
    }
    too_long(&mut wrong, "/displayName", &put.display_name, 256);
    too_long(&mut wrong, "/description", &put.description, 4096);
    wrong
}

fn too_long(wrong: &mut Vec<Wrong>, pointer: &str, text: &str, most: usize) {
    if text.chars().count() > most {
        wrong.push(Wrong::new(
            pointer,
            format!("it has more than {most} characters"),
        ));
    }
}

/// The document of a new tool.
pub fn stored(put: PutTool, key: &Key, now: SystemTime) -> Result<StoredTool, Vec<Wrong>> {
    let mut wrong = Vec::new();
    let bundle = put
        .bundle_id
        .as_deref()
        .map(|it| id(it) == Some(key.bundle));
    let slug = put.slug.as_ref().map(|it| *it == key.slug);
    let version = put.version.as_ref().map(|it| *it == key.version);
    for (pointer, is_same) in [
        ("/bundleID", bundle),
        ("/slug", slug),
        ("/version", version),
    ] {
        if is_same == Some(false) {
            wrong.push(Wrong::new(pointer, "it is another one than in the path"));
        }
    }
    too_long(&mut wrong, "/displayName", &put.display_name, 256);
    too_long(&mut wrong, "/description", &put.description, 16384);
    if put.tags.len() > MOST_TAGS {
        wrong.push(Wrong::new("/tags", "there are more than 32"));
    }
    for (at, tag) in put.tags.iter().take(MOST_TAGS).enumerate() {
        too_long(&mut wrong, &format!("/tags/{at}"), tag, 64);
        if tag.is_empty() || tag.contains([',', '\n']) {
            let why = "a tag is a word, without commas";
            wrong.push(Wrong::new(format!("/tags/{at}"), why));
        }
    }
    match wrong.is_empty() {
        true => Ok(StoredTool {
            schema_version: SCHEMA_VERSION.to_string(),
            tool_id: Uuid::now_v7().to_string(),
            bundle_id: key.bundle.to_string(),
            slug: key.slug.clone(),
            version: key.version.clone(),
            display_name: put.display_name,
            description: put.description,
            tags: put.tags,
            kind: put.kind,
            is_enabled: put.is_enabled,
            is_built_in: None,
            arg_schema: put.arg_schema,
            output_schema: put.output_schema.filter(|it| !it.is_null()),
            how: put.how,
            created_at: written(now),
            modified_at: written(now),
        }),
        false => Err(wrong),
    }
}

/// A tool's document, as it stands on disk.
pub fn read_tool(text: &str) -> Result<(StoredTool, Keeper), String> {
    let (stored, keeper) = document::<StoredTool>(text, OF_TOOL)?;
    if stored.is_built_in == Some(true) {
        return Err("it says isBuiltIn, and what comes with glee is not kept here".to_owned());
    }
    id(&stored.tool_id).ok_or("its toolID is no UUIDv7")?;
    key(&stored)?;
    time(&stored.created_at)?;
    time(&stored.modified_at)?;
    Ok((stored, keeper))
}

/// Where a document says that its tool stands.
pub fn key(stored: &StoredTool) -> Result<Key, String> {
    slug::check_version(&stored.version).map_err(|err| format!("its version: {err}"))?;
    Ok(Key {
        bundle: id(&stored.bundle_id).ok_or("its bundleID is no UUIDv7")?,
        slug: good_slug(&stored.slug)?,
        version: stored.version.clone(),
    })
}

/// The tool of a document, called `name` by everybody else. What nothing can be made of here is a member
/// all the same, and its document stays as it is.
pub fn member(
    stored: &StoredTool,
    keeper: Keeper,
    name: String,
    source: &Path,
    around: &Surroundings,
) -> Result<Member, String> {
    let spec = spec(stored, &name, source, around);
    Ok(Member {
        id: id(&stored.tool_id).ok_or("its toolID is no UUIDv7")?,
        key: key(stored)?,
        name,
        title: stored.display_name.clone(),
        description: stored.description.clone(),
        tags: stored.tags.clone(),
        kind: match stored.kind {
            Kind::Go => "go",
            Kind::Http => "http",
        },
        enabled: stored.is_enabled,
        keeper,
        schema_version: stored.schema_version.clone(),
        inputs: stored.arg_schema.clone(),
        outputs: stored.output_schema.clone(),
        how: stored.how.clone().into(),
        created_at: time(&stored.created_at)?,
        modified_at: time(&stored.modified_at)?,
        spec: spec.map(Arc::new).map_err(|it| sentence(&it)),
    })
}

/// What the tool is, or everything that is wrong with it.
pub fn spec(
    stored: &StoredTool,
    name: &str,
    source: &Path,
    around: &Surroundings,
) -> Result<ToolSpec, Vec<Wrong>> {
    let mut wrong = Vec::new();
    if stored.arg_schema["type"] != "object" {
        wrong.push(Wrong::new(
            "/argSchema",
            "its root must be `\"type\": \"object\"`",
        ));
    }
    let inputs = schema(&stored.arg_schema, "/argSchema", &mut wrong);
    let outputs = stored.output_schema.as_ref();
    let outputs = outputs.map(|it| schema(it, "/outputSchema", &mut wrong));
    let Some(inputs) = inputs else {
        return Err(wrong);
    };
    let read = match stored.kind {
        Kind::Http => http::read(stored, &inputs, around, &mut wrong),
        Kind::Go => function::read(stored, around, &mut wrong),
    };
    let (Some(read), true) = (read, wrong.is_empty()) else {
        return Err(wrong);
    };
    Ok(ToolSpec {
        name: name.to_owned(),
        version: stored.version.clone(),
        title: Some(stored.display_name.clone()).filter(|it| !it.is_empty()),
        description: stored.description.clone(),
        tags: stored.tags.clone(),
        inputs,
        elicit: Vec::new(),
        outputs: Outputs {
            format: read.format,
            extract: read.extract,
            fields: Vec::new(),
            schema: outputs.flatten(),
            on_mismatch: read.on_mismatch,
        },
        exec: read.exec,
        permissions: read.permissions,
        approval: read.approval,
        annotations: read.annotations,
        limits: read.limits,
        tasks: Tasks::Never,
        examples: Vec::new(),
        origin: Origin::User,
        source: source.to_owned(),
        document: digest(stored),
    })
}

/// What the two kinds of tools differ in.
struct Run {
    exec: Exec,
    format: Format,
    extract: Option<Extract>,
    on_mismatch: OnMismatch,
    permissions: Permissions,
    approval: Approval,
    annotations: Annotations,
    limits: Limits,
}

fn calls(per_minute: Option<NonZeroU32>, at_once: Option<NonZeroU32>) -> Calls {
    Calls {
        per_minute: per_minute.map(NonZeroU32::get),
        at_once: at_once.map(NonZeroU32::get),
    }
}

fn how<T: DeserializeOwned>(how: &Map<String, Value>, wrong: &mut Vec<Wrong>) -> Option<T> {
    let mut how = Value::Object(how.clone());
    write_whole(&mut how);
    match serde_json::from_value(how) {
        Ok(read) => Some(read),
        Err(err) => {
            wrong.push(Wrong::new("/impl", err.to_string()));
            None
        }
    }
}

/// Up to here every whole number is one that a double can tell from its neighbours.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// All numbers of an `impl` are integers, and `5.0` is one as JSON and the published schema have it. It is kept as its
/// author wrote it, and read as one.
fn write_whole(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|it| it.fract() == 0.0);
            if let Some(whole) = whole.filter(|it| it.abs() <= EXACT) {
                *value = (whole as i64).into();
            }
        }
        Value::Array(items) => items.iter_mut().for_each(write_whole),
        Value::Object(map) => map.values_mut().for_each(write_whole),
        _ => {}
    }
}

fn schema(source: &Value, pointer: &str, wrong: &mut Vec<Wrong>) -> Option<Schema> {
    match Schema::new(source.clone()) {
        Ok(schema) => Some(schema),
        Err(errors) => {
            let told = errors
                .into_iter()
                .take(MOST_WRONG + 1)
                .map(|it| Wrong::new(format!("{pointer}{}", it.pointer), it.reason));
            wrong.extend(told);
            None
        }
    }
}

/// Compiles the schemas, so that one that cannot be used is found before it is kept.
pub fn compile(spec: &ToolSpec) -> Vec<Wrong> {
    let of = |schema: Option<&Schema>, pointer: &str| {
        let err = schema?.compile().err()?;
        Some(Wrong::new(format!("{pointer}{}", err.pointer), err.reason))
    };
    let inputs = of(Some(&spec.inputs), "/argSchema");
    let outputs = of(spec.outputs.schema.as_ref(), "/outputSchema");
    inputs.into_iter().chain(outputs).collect()
}

/// Of what a tool is, whether or not it is switched on.
fn digest(stored: &StoredTool) -> [u8; 32] {
    let whole = json!({
        "id": stored.tool_id, "bundle": stored.bundle_id,
        "slug": stored.slug, "version": stored.version,
        "title": stored.display_name, "description": stored.description,
        "go": stored.kind == Kind::Go,
        "inputs": stored.arg_schema, "outputs": stored.output_schema, "how": stored.how,
    });
    Sha256::digest(json::canonical(&whole)).into()
}

/// By what the audit tells the tool from others of its name.
pub fn document_of(member: &Member) -> String {
    HEXLOWER.encode(&digest(&tool_document(member)))
}

/// The documents that a bundle and a tool are kept in, written anew.
pub fn bundle_document(bundle: &Bundle) -> StoredBundle {
    StoredBundle {
        schema_version: SCHEMA_VERSION.to_string(),
        bundle_id: bundle.id.to_string(),
        slug: bundle.slug.clone(),
        display_name: bundle.title.clone(),
        description: bundle.description.clone(),
        is_enabled: bundle.enabled,
        created_at: written(bundle.created_at),
        modified_at: written(bundle.modified_at),
        soft_deleted_at: None,
        soft_deleted_boot: None,
    }
}

pub fn tool_document(member: &Member) -> StoredTool {
    StoredTool {
        schema_version: SCHEMA_VERSION.to_string(),
        tool_id: member.id.to_string(),
        bundle_id: member.key.bundle.to_string(),
        slug: member.key.slug.clone(),
        version: member.key.version.clone(),
        display_name: member.title.clone(),
        description: member.description.clone(),
        tags: member.tags.clone(),
        kind: match member.kind {
            "go" => Kind::Go,
            _ => Kind::Http,
        },
        is_enabled: member.enabled,
        is_built_in: None,
        arg_schema: member.inputs.clone(),
        output_schema: member.outputs.clone(),
        how: member.how.as_object().cloned().unwrap_or_default(),
        created_at: written(member.created_at),
        modified_at: written(member.modified_at),
    }
}

/// How a document is kept: for people, too.
pub fn text(document: &impl serde::Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec_pretty(document).unwrap_or_default();
    text.push(b'\n');
    text
}

/// In UTC, as RFC 3339 writes it.
pub fn written(time: SystemTime) -> String {
    let time = Timestamp::try_from(time).unwrap_or_default();
    time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

pub fn time(text: &str) -> Result<SystemTime, String> {
    let time: Timestamp = text.parse().map_err(|_| format!("`{text}` is no time"))?;
    Ok(time.into())
}

/// A bundle, as clients are told of it.
pub fn render_bundle(bundle: &Bundle) -> Value {
    let mut out = json!({
        "bundleID": bundle.id.to_string(),
        "slug": bundle.slug,
        "displayName": bundle.title,
        "description": bundle.description,
        "isEnabled": bundle.enabled,
        "isBuiltIn": bundle.keeper == Keeper::Given,
        "createdAt": written(bundle.created_at),
        "modifiedAt": written(bundle.modified_at),
    });
    if let Some(deleted_at) = bundle.deleted_at {
        out["softDeletedAt"] = written(deleted_at).into();
    }
    out
}

/// A tool, as clients are told of it. `unusable` is why it cannot be called now.
pub fn render_member(member: &Member, unusable: Option<&str>) -> Value {
    let mut out = json!({
        "schemaVersion": member.schema_version,
        "toolID": member.id.to_string(),
        "bundleID": member.key.bundle.to_string(),
        "slug": member.key.slug,
        "version": member.key.version,
        "name": member.name,
        "displayName": member.title,
        "description": member.description,
        "tags": member.tags,
        "type": member.kind,
        "isEnabled": member.enabled,
        "isBuiltIn": member.keeper == Keeper::Given,
        "argSchema": member.inputs,
        "outputSchema": member.outputs,
        "impl": member.how,
        "createdAt": written(member.created_at),
        "modifiedAt": written(member.modified_at),
    });
    if let Some(why) = unusable {
        out["disabledReason"] = why.into();
    }
    out
}
