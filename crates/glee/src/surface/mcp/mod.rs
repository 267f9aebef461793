//! MCP: the tools of a project for any client, in both eras of the protocol.

#![expect(
    deprecated,
    reason = "clients of the handshake era still ask for logs, and are asked for samples and roots"
)]

mod approval;
mod call;
mod change;
mod complete;
mod create;
mod definition;
mod direct;
mod inlet;
mod line;
mod listed;
mod malformed;
mod message;
mod meta;
mod opening;
mod outlet;
mod prompt;
mod resource;
mod result;
mod seal;
pub(super) mod session;
mod shown;
pub mod stdio;
mod task;

use std::borrow::Cow;
use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwapOption;
use futures_util::FutureExt;
use glee_core::outcome::{Failure, FailureKind};
use glee_core::port::Caller;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams,
    CompleteResult, CustomRequest, CustomResult, GetPromptRequestParams, GetPromptResponse,
    GetTaskParams, GetTaskResult, Implementation, ListPromptsResult, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, LoggingLevel, PaginatedRequestParams, ProtocolVersion,
    ReadResourceRequestParams, ReadResourceResponse, ServerCapabilities, ServerConfig,
    SetLevelRequestMethod, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool,
    UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::sync::broadcast;

use crate::app::App;
use crate::config::Elicitation;
use crate::store::tokens::Scope;
use crate::surface::principal::Principal;
use crate::surface::turnstile::Turnstile;
use crate::watch::Change;
pub(super) use definition::all as definitions;
use line::is_stateless;
use listed::StandIn;
use result::Shelf;
use seal::Seals;
use session::Sessions;
use shown::Shown;
use task::Desks;

/// Calls that are under way, of all and of one caller; the executors let only some of them run at once.
const MOST_CALLS: (usize, usize) = (4096, 2048);
/// Streams on which clients are told of changes, of all and of one.
const MOST_LISTENERS: (usize, usize) = (256, 64);

/// How keys begin by which a request tells of the protocol itself.
const OF_PROTOCOL: &str = "io.modelcontextprotocol/";

const VERSIONS: &[ProtocolVersion] = &[
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2026_07_28,
];

/// One connection's, or one request's, view of the server.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
    /// What a client of the handshake era wants to hear.
    level: Arc<Mutex<Option<LoggingLevel>>>,
    /// Resources that a client of the handshake era wants to hear about.
    subscribed: Arc<Mutex<HashSet<String>>>,
    /// Whether a client of the handshake era is told of changes; it may say more than once that hands were shaken.
    is_told: Arc<AtomicBool>,
    /// Whoever no surface has named: the one process at the other end of a pipe.
    otherwise: Principal,
}

struct Shared {
    app: Arc<App>,
    seals: Seals,
    /// Made when it is first asked for.
    shown: ArcSwapOption<Shown>,
    stand_in: StandIn,
    calls: Turnstile,
    listeners: Turnstile,
    changes: broadcast::Sender<Change>,
    desks: Desks,
    sessions: Sessions,
}

impl Server {
    pub fn new(app: Arc<App>, otherwise: Principal) -> Server {
        Server {
            shared: Arc::new(Shared {
                app,
                seals: Seals::new(),
                shown: ArcSwapOption::empty(),
                stand_in: StandIn::new(),
                calls: Turnstile::new(MOST_CALLS.0, MOST_CALLS.1),
                listeners: Turnstile::new(MOST_LISTENERS.0, MOST_LISTENERS.1),
                changes: broadcast::Sender::new(64),
                desks: Desks::default(),
                sessions: Sessions::default(),
            }),
            level: Arc::default(),
            subscribed: Arc::default(),
            is_told: Arc::default(),
            otherwise,
        }
    }

    /// For another connection to the same server.
    pub fn connection(&self) -> Server {
        Server {
            level: Arc::default(),
            subscribed: Arc::default(),
            is_told: Arc::default(),
            ..self.clone()
        }
    }

    pub fn app(&self) -> &Arc<App> {
        &self.shared.app
    }

    /// Tells every client that listens.
    pub fn announce(&self, change: &Change) {
        // Nobody may be listening.
        let _ = self.shared.changes.send(change.clone());
    }

    /// What clients are shown of the tools there are now.
    fn shown(&self) -> Arc<Shown> {
        let now = self.shared.app.tools();
        if let Some(shown) = self.shared.shown.load_full()
            && Arc::ptr_eq(&shown.snapshot, &now)
        {
            return shown;
        }
        let shown = Arc::new(Shown::new(&self.shared.app, now));
        self.shared.shown.store(Some(shown.clone()));
        shown
    }

    fn principal<'a>(&'a self, context: &'a RequestContext<RoleServer>) -> &'a Principal {
        let named = context
            .extensions
            .get::<axum::http::request::Parts>()
            .and_then(|it| it.extensions.get::<Principal>());
        named.unwrap_or(&self.otherwise)
    }

    /// Whether the client may put the question whether a call is made to its own user.
    fn is_trusted_to_ask(&self, context: &RequestContext<RoleServer>) -> bool {
        let over_http = context
            .extensions
            .get::<axum::http::request::Parts>()
            .is_some();
        match self.shared.app.elicitation() {
            Elicitation::Allow => true,
            Elicitation::Stdio => !over_http,
            Elicitation::Off => false,
        }
    }

    fn caller(&self, context: &RequestContext<RoleServer>) -> Caller {
        Caller {
            name: self.principal(context).name.clone(),
        }
    }

    fn shelf<'a>(&'a self, caller: &'a Caller) -> Shelf<'a> {
        self.shared.shelf(caller)
    }
}

impl Shared {
    fn shelf<'a>(&'a self, caller: &'a Caller) -> Shelf<'a> {
        Shelf {
            results: self.app.results(),
            owner: &caller.name,
            largest: self.app.mcp().result_bytes,
        }
    }
}

/// Nobody may wait for ever because something of ours broke.
async fn answered<T>(
    work: impl Future<Output = Result<T, ErrorData>>,
    otherwise: impl FnOnce() -> Result<T, ErrorData>,
) -> Result<T, ErrorData> {
    AssertUnwindSafe(work)
        .catch_unwind()
        .await
        .unwrap_or_else(|_| otherwise())
}

fn broken() -> Failure {
    Failure::new(FailureKind::Internal, "glee itself failed; this is a bug")
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_completions()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_tasks()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("glee", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(VERSIONS)
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.shared.sessions.begin(self, &context);
        if !self.is_told.swap(true, Ordering::Relaxed) {
            tokio::spawn(change::tell(
                self.shared.changes.subscribe(),
                context.peer,
                self.subscribed.clone(),
            ));
        }
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        first_page(page)?;
        let all = vec![self.shared.stand_in.tool.clone()];
        Ok(ListToolsResult::with_all_items(all))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        let shown = self.shown();
        shown.find(name).map(|it| it.tool.clone())
    }

    async fn call_tool(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = self.caller(&context);
        if let Err(failure) = self.principal(&context).need(Scope::InvokeTool) {
            return Ok(result::error(&failure, &self.shelf(&caller)).into());
        }
        let knows_links = knows_links(&context);
        // Whatever a request may come to is moved about, and copied, at its full size.
        let call = Box::pin(self.call(params, context));
        let mut answer = answered(call, || {
            Ok(result::error(&broken(), &self.shelf(&caller)).into())
        })
        .await;
        if let (false, Ok(CallToolResponse::Complete(result))) = (knows_links, &mut answer) {
            result.content.iter_mut().for_each(result::spell_link);
        }
        answer
    }

    async fn list_prompts(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        first_page(page)?;
        let snapshot = self.shared.app.tools();
        let prompts = snapshot.prompts().map(|it| prompt::definition(it));
        Ok(ListPromptsResult::with_all_items(prompts.collect()))
    }

    async fn get_prompt(
        &self,
        params: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let prompt = Box::pin(self.prompt(params, context));
        answered(prompt, || Err(protocol(broken()))).await
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        first_page(page)?;
        Ok(ListResourcesResult::with_all_items(
            self.resources(&self.caller(&context)),
        ))
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        first_page(page)?;
        Ok(ListResourceTemplatesResult::with_all_items(
            self.resource_templates(),
        ))
    }

    async fn read_resource(
        &self,
        params: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let caller = self.caller(&context);
        answered(async { self.read(&params.uri, &caller) }, || {
            Err(protocol(broken()))
        })
        .await
        .map(Into::into)
    }

    async fn subscribe(
        &self,
        params: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let mut subscribed = change::lock(&self.subscribed);
        if params.uri.len() > change::LONGEST_URI {
            return Err(ErrorData::invalid_params("the uri is too long", None));
        }
        if subscribed.len() >= change::MOST_SUBSCRIBED {
            return Err(ErrorData::invalid_params("too many subscriptions", None));
        }
        subscribed.insert(params.uri);
        Ok(())
    }

    async fn unsubscribe(
        &self,
        params: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        change::lock(&self.subscribed).remove(&params.uri);
        Ok(())
    }

    fn accepted_subscription_filter(
        &self,
        requested: &SubscriptionFilter,
    ) -> Option<SubscriptionFilter> {
        let mut accepted = requested.clone();
        if let Some(uris) = &mut accepted.resource_subscriptions {
            uris.retain(|it| it.len() <= change::LONGEST_URI);
            uris.truncate(change::MOST_SUBSCRIBED);
        }
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let caller = self.caller(context.request_context());
        let Some(_listening) = self.shared.listeners.enter(&caller.name) else {
            return Err(ErrorData::internal_error("too many listen already", None));
        };
        change::stream(self.shared.changes.subscribe(), &context).await;
        Ok(())
    }

    async fn complete(
        &self,
        params: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Ok(self.completions(&params))
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        self.malformed(&request, &context)
    }

    async fn set_level(
        &self,
        params: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // Stateless clients say with each request what they want to hear.
        if is_stateless(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(params.level);
        Ok(())
    }

    async fn get_task(
        &self,
        params: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let desk = self.shared.desks.of(&self.caller(&context));
        desk.get_task(&params.task_id).map(GetTaskResult::new)
    }

    async fn update_task(
        &self,
        params: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let desk = self.shared.desks.of(&self.caller(&context));
        desk.update_task(&params.task_id, params.input_responses)
    }

    async fn cancel_task(
        &self,
        params: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let desk = self.shared.desks.of(&self.caller(&context));
        desk.cancel_task(&params.task_id)
    }
}

/// Clients of the first revisions refuse an answer as a whole for a block that they do not know.
fn knows_links(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_none_or(|it| it.as_str() >= ProtocolVersion::V_2025_06_18.as_str())
}

/// Lists come whole, so no cursor was ever given out.
fn first_page(page: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match page.and_then(|it| it.cursor) {
        None => Ok(()),
        Some(_) => Err(ErrorData::invalid_params("there is no such page", None)),
    }
}

/// A failure where the protocol has no place for one but its own errors.
fn protocol(failure: Failure) -> ErrorData {
    let message = match failure.hint {
        Some(hint) => format!("{}; {hint}", failure.message),
        None => failure.message,
    };
    match failure.kind {
        FailureKind::Internal | FailureKind::AuditUnavailable => {
            ErrorData::internal_error(message, None)
        }
        _ => ErrorData::invalid_params(message, None),
    }
}

/// All that a client which loads tools on demand shows its model at first.
const INSTRUCTIONS: &str = "glee runs this project's tools, each held to its declared permissions. \
Find a tool with glee_tools_search(query), or list all with glee_tools_list(); run it with \
glee_tool(name, params). Tools that are listed can also be called directly. A result that is too large \
comes in part, with a handle for glee_result_read.";

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_breaks_is_answered_all_the_same() {
        let breaks = async { panic!("a bug") };
        let answer = answered(breaks, || Ok("an error")).await;
        assert_eq!(answer.unwrap(), "an error");
    }
}
