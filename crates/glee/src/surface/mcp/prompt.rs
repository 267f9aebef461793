//! Prompts: messages that a person picks and a client fills in.

use std::sync::Arc;

use glee_core::name::visible;
use glee_core::prompt::{Prompt, Role};
use rmcp::model::{
    GetPromptRequestParams, GetPromptResponse, GetPromptResult, Prompt as Definition,
    PromptArgument, PromptMessage, Role as Speaker,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};

use super::{Server, knows_links, protocol, result, seal};

pub(super) fn definition(prompt: &Prompt) -> Definition {
    let arguments = prompt.arguments.iter().map(|it| {
        PromptArgument::new(&it.name)
            .with_description(visible(&it.description))
            .with_required(it.required && !is_asked_for(prompt, &it.name))
    });
    let mut shown = Definition::new(
        &prompt.name,
        Some(visible(&prompt.description)),
        Some(arguments.collect()),
    );
    shown.title = prompt.title.as_deref().map(visible);
    shown
}

fn is_asked_for(prompt: &Prompt, name: &str) -> bool {
    let requests = prompt.elicit.iter().flat_map(|it| &it.0);
    requests
        .flat_map(|it| it.1.fills())
        .any(|filled| filled == name)
}

impl Server {
    pub(super) async fn prompt(
        &self,
        params: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let (caller, knows_links) = (self.caller(&context), knows_links(&context));
        let snapshot = self.shared.app.tools();
        let prompt = snapshot.find_prompt(&params.name).map_err(protocol)?;
        let args = params.arguments.unwrap_or_default();
        let named = format!("prompt {}", prompt.name);
        let purpose = seal::purpose(&caller.name, &named, &args);
        let (answers, _) = self.answers(&purpose, params.input_responses, params.request_state)?;
        let line = Arc::new(self.line(&context, answers, None));
        let rendered = line.attend(prompt.render(args, &*line)).await;
        if let Some(round) = self.next_round(&purpose, &line)? {
            return Ok(round.into());
        }
        let messages = rendered
            .map_err(protocol)?
            .into_iter()
            .map(|(role, block)| {
                let speaker = match role {
                    Role::User => Speaker::User,
                    Role::Assistant => Speaker::Assistant,
                };
                let mut block = result::block(block);
                if !knows_links {
                    result::spell_link(&mut block);
                }
                PromptMessage::new(speaker, block)
            });
        let description = visible(&prompt.description);
        Ok(GetPromptResult::new(messages.collect())
            .with_description(description)
            .into())
    }
}
