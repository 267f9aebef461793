//! Completions: values of prompt arguments, names of tools.

use rmcp::model::{CompleteRequestParams, CompleteResult, CompletionInfo, Reference};

use super::Server;
use super::resource::TOOLS;

impl Server {
    pub(super) fn completions(&self, params: &CompleteRequestParams) -> CompleteResult {
        let typed = params.argument.value.to_lowercase();
        let mut values: Vec<String> = match &params.r#ref {
            Reference::Prompt(prompt) => {
                let found = self.shared.app.tools().find_prompt(&prompt.name).ok();
                found
                    .iter()
                    .flat_map(|it| &it.arguments)
                    .filter(|it| it.name == params.argument.name)
                    .flat_map(|it| it.values.clone())
                    .collect()
            }
            Reference::Resource(template) if template.uri == TOOLS => {
                let shown = self.shown();
                shown
                    .entries
                    .iter()
                    .map(|it| it.spec.name.clone())
                    .collect()
            }
            _ => Vec::new(),
        };
        values.retain(|it| it.to_lowercase().starts_with(&typed));
        let total = values.len();
        values.truncate(CompletionInfo::MAX_VALUES);
        let mut info = CompletionInfo::default();
        info.has_more = Some(values.len() < total);
        info.total = u32::try_from(total).ok();
        info.values = values;
        CompleteResult::new(info)
    }
}
