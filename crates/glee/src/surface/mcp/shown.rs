//! What clients are shown of one snapshot of the catalog: made once, however often they list.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use glee_core::catalog::Snapshot;
use glee_core::model::ToolSpec;
use glee_core::name;
use rmcp::model::Tool;

use super::{definition, listed, meta};
use crate::app::App;
use crate::config::{Exposure, Mcp};
use crate::dialect::signature;

pub(super) struct Shown {
    pub(super) snapshot: Arc<Snapshot>,
    /// In a stable order: by name.
    pub(super) entries: Vec<Entry>,
    /// What `tools/list` answers, in bytes.
    pub(super) listed: Bytes,
    by_name: HashMap<String, usize>,
}

/// A tool, as it is and as it is shown.
pub(super) struct Entry {
    pub(super) spec: Arc<ToolSpec>,
    pub(super) tool: Tool,
}

impl Shown {
    pub(super) fn new(app: &App, snapshot: Arc<Snapshot>) -> Shown {
        let settings = app.mcp();
        let names = name::for_models(snapshot.offered().map(|it| it.name.as_str()));
        let tools: Vec<(&ToolSpec, String)> =
            snapshot.offered().map(|it| &**it).zip(names).collect();
        let entries: Vec<Entry> = snapshot
            .offered()
            .zip(definition::all(app, &tools))
            .map(|(spec, tool)| Entry {
                spec: spec.clone(),
                tool,
            })
            .collect();
        // A tool is found by the name it is shown under and by its own.
        let mut by_name: HashMap<String, usize> = HashMap::new();
        for (at, entry) in entries.iter().enumerate() {
            by_name.insert(entry.tool.name.to_string(), at);
        }
        for (at, entry) in entries.iter().enumerate() {
            by_name.entry(entry.spec.name.clone()).or_insert(at);
        }
        let mut listed = meta::definitions();
        if is_direct(settings, &entries) {
            listed.extend(entries.iter().map(|it| it.tool.clone()));
        }
        Shown {
            snapshot,
            entries,
            listed: listed::text(&listed),
            by_name,
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<&Entry> {
        self.by_name.get(name).map(|at| &self.entries[*at])
    }
}

fn is_direct(settings: &Mcp, entries: &[Entry]) -> bool {
    match settings.exposure {
        Exposure::Direct => true,
        Exposure::Search => false,
        Exposure::Auto => {
            let mut left = settings.budget_tokens;
            entries.iter().all(|it| {
                let text = serde_json::to_string(&it.tool).unwrap_or_default();
                let fits = left.checked_sub(signature::tokens(&text));
                left = fits.unwrap_or(0);
                fits.is_some()
            })
        }
    }
}
