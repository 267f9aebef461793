//! Resources: what the project shares, the manifests, the end of the audit, and kept results.

use glee_core::content::Body;
use glee_core::name::visible;
use glee_core::port::Caller;
use rmcp::ErrorData;
use rmcp::model::{
    ReadResourceResult, Resource as Definition, ResourceContents, ResourceTemplate as Template,
};
use serde_json::json;

use super::{Server, protocol, result};

/// Under which a tool's manifest can be read.
pub(super) const TOOLS: &str = "glee://tools/{name}";
const AUDIT: &str = "glee://audit/tail";

impl Server {
    pub(super) fn resources(&self, caller: &Caller) -> Vec<Definition> {
        let snapshot = self.shared.app.tools();
        let shared = snapshot.resources().filter(|it| !it.uri.is_template());
        let mut all: Vec<Definition> = shared
            .map(|it| {
                let mut shown = Definition::new(it.uri.as_str(), &it.name)
                    .with_description(visible(&it.description));
                shown.title = it.title.as_deref().map(visible);
                shown.mime_type.clone_from(&it.mime_type);
                shown
            })
            .collect();
        all.push(
            Definition::new(AUDIT, "audit")
                .with_description("What you ran here lately, and how it ended")
                .with_mime_type("text/plain"),
        );
        let kept = self.shared.app.results().of(&caller.name).into_iter();
        all.extend(kept.map(|(handle, bytes)| {
            Definition::new(format!("{}{handle}", result::SCHEME), handle)
                .with_description("A result that was too large to be given whole")
                .with_mime_type("text/plain")
                .with_size(bytes as u64)
        }));
        all
    }

    pub(super) fn resource_templates(&self) -> Vec<Template> {
        let snapshot = self.shared.app.tools();
        let shared = snapshot.resources().filter(|it| it.uri.is_template());
        let mut all: Vec<Template> = shared
            .map(|it| {
                let mut shown = Template::new(it.uri.as_str(), &it.name)
                    .with_description(visible(&it.description));
                shown.title = it.title.as_deref().map(visible);
                shown.mime_type.clone_from(&it.mime_type);
                shown
            })
            .collect();
        all.push(
            Template::new(TOOLS, "tool")
                .with_description("The manifest of a tool")
                .with_mime_type("application/yaml"),
        );
        all.push(
            Template::new(format!("{}{{handle}}", result::SCHEME), "result")
                .with_description("A result that was too large to be given whole")
                .with_mime_type("text/plain"),
        );
        all
    }

    pub(super) fn read(&self, uri: &str, caller: &Caller) -> Result<ReadResourceResult, ErrorData> {
        let missing = || {
            let data = json!({"uri": uri});
            ErrorData::resource_not_found(format!("there is no resource {uri}"), Some(data))
        };
        let text = |text: String, mime_type: &str| {
            ResourceContents::text(text, uri).with_mime_type(mime_type)
        };
        let app = &self.shared.app;
        let contents = if let Some(handle) = uri.strip_prefix(result::SCHEME) {
            let kept = self.shared.app.results().get(&caller.name, handle);
            text(kept.ok_or_else(missing)?.to_string(), "text/plain")
        } else if let Some(name) = uri.strip_prefix("glee://tools/") {
            let shown = self.shown();
            let spec = &shown.find(name).ok_or_else(missing)?.spec;
            text(app.manifest(spec).map_err(protocol)?, "application/yaml")
        } else if uri == AUDIT {
            text(app.audit_tail(caller).map_err(protocol)?, "text/plain")
        } else {
            let found = app.read_resource(uri).map_err(|it| match it.kind {
                glee_core::outcome::FailureKind::NotFound => missing(),
                _ => protocol(it),
            })?;
            let contents = match found.body {
                Body::Text(text) => ResourceContents::text(text, uri),
                Body::Blob(data) => ResourceContents::blob(data, uri),
            };
            match found.mime_type {
                Some(mime_type) => contents.with_mime_type(mime_type),
                None => contents,
            }
        };
        Ok(ReadResourceResult::new(vec![contents]))
    }
}
