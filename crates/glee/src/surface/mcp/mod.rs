//! MCP: the tools of a project for any client, in both eras of the protocol.

#![expect(
    deprecated,
    reason = "clients of the handshake era still ask for logs, and are asked for samples and roots"
)]

mod approval;
mod definition;
mod line;
mod meta;
mod result;
mod seal;
mod shown;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use futures_util::FutureExt;
use glee_core::outcome::{Failure, FailureKind};
use glee_core::port::{Caller, Cancel};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, Implementation, InputRequiredResult, InputResponses,
    ListToolsResult, LoggingLevel, PaginatedRequestParams, ProtocolVersion, ServerCapabilities,
    ServerConfig, SetLevelRequestParams, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

use crate::app::{App, Call};
use crate::store::results::Results;
use line::Line;
use result::Shelf;
use seal::Seals;
use shown::Shown;

/// Calls that run at once; more wait.
const MOST_CALLS: usize = 256;

const VERSIONS: &[ProtocolVersion] = &[
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2026_07_28,
];

/// Who is at the other end of a connection. Set by the surface that let them in, never by themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal(pub String);

/// One connection's, or one request's, view of the server.
#[derive(Clone)]
pub struct Server {
    shared: Arc<Shared>,
    /// What a client of the handshake era wants to hear.
    level: Arc<Mutex<Option<LoggingLevel>>>,
    /// Whoever no surface has named: the one process at the other end of a pipe.
    otherwise: Principal,
}

struct Shared {
    app: Arc<App>,
    results: Results,
    seals: Seals,
    shown: ArcSwap<Shown>,
    calls: Semaphore,
}

impl Server {
    pub fn new(app: Arc<App>, otherwise: Principal) -> Server {
        let shown = Shown::new(&app, app.tools());
        Server {
            shared: Arc::new(Shared {
                app,
                results: Results::default(),
                seals: Seals::new(),
                shown: ArcSwap::from_pointee(shown),
                calls: Semaphore::new(MOST_CALLS),
            }),
            level: Arc::default(),
            otherwise,
        }
    }

    /// For another connection to the same server.
    pub fn connection(&self) -> Server {
        Server {
            level: Arc::default(),
            ..self.clone()
        }
    }

    /// What clients are shown of the tools there are now.
    fn shown(&self) -> Arc<Shown> {
        let now = self.shared.app.tools();
        let shown = self.shared.shown.load_full();
        if Arc::ptr_eq(&shown.snapshot, &now) {
            return shown;
        }
        let shown = Arc::new(Shown::new(&self.shared.app, now));
        self.shared.shown.store(shown.clone());
        shown
    }

    fn caller(&self, context: &RequestContext<RoleServer>) -> Caller {
        let named = context
            .extensions
            .get::<axum::http::request::Parts>()
            .and_then(|it| it.extensions.get::<Principal>());
        Caller {
            name: named.unwrap_or(&self.otherwise).0.clone(),
        }
    }

    fn shelf<'a>(&'a self, caller: &'a Caller) -> Shelf<'a> {
        Shelf {
            results: &self.shared.results,
            owner: &caller.name,
            largest: self.shared.app.mcp().result_bytes,
        }
    }

    async fn call(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = self.caller(&context);
        let shown = self.shown();
        let args = params.arguments.unwrap_or_default();
        if !meta::is_one(&params.name) {
            let asked = Asked {
                tool: params.name.into_owned(),
                args,
                responses: params.input_responses,
                state: params.request_state,
            };
            return self.invoke(asked, caller, &shown, context).await;
        }
        let mut args = match meta::check(&params.name, args) {
            Ok(args) => args,
            Err(failure) => return Ok(result::error(&failure, &self.shelf(&caller)).into()),
        };
        if params.name != meta::CALL {
            return Ok(meta::answer(&params.name, &args, &shown, &self.shelf(&caller)).into());
        }
        let asked = Asked {
            tool: args["name"].as_str().unwrap_or_default().to_owned(),
            args: match args.remove("params") {
                Some(Value::Object(inner)) => inner,
                _ => Map::new(),
            },
            responses: params.input_responses,
            state: params.request_state,
        };
        self.invoke(asked, caller, &shown, context).await
    }

    /// One call of one tool, whichever way it was named.
    async fn invoke(
        &self,
        asked: Asked,
        caller: Caller,
        shown: &Shown,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let entry = shown.find(&asked.tool);
        let tool = entry.map_or(asked.tool, |it| it.spec.name.clone());
        let purpose = seal::purpose(&caller.name, &tool, &Value::Object(asked.args.clone()));
        let (answers, approved) = self.answers(&purpose, asked.responses, asked.state)?;
        let level = *self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let line = Arc::new(Line::new(&context, level, answers, approved));
        let outcome = {
            let _running = self.shared.calls.acquire().await;
            let call = Call {
                tool,
                args: asked.args,
                caller: caller.clone(),
                timeout: None,
                cancel: Cancel::when(context.ct.clone().cancelled_owned()),
                party: line.clone(),
            };
            self.shared.app.call(call).await
        };
        line.finish().await;
        let unanswered = line.take_unanswered();
        if let Some(needed) = unanswered.lacking {
            return Err(ErrorData::missing_required_client_capability(needed));
        }
        if !unanswered.requests.is_empty() {
            let answers = line.answers().clone();
            let state = self
                .shared
                .seals
                .seal(&purpose, answers, unanswered.approval)?;
            return Ok(InputRequiredResult::new(Some(unanswered.requests), Some(state)).into());
        }
        let spec = entry.map(|it| &*it.spec);
        Ok(result::render(&outcome, spec, &self.shelf(&caller)).into())
    }

    /// What a client has answered in this round and those before, and the call that a person was asked
    /// about. An answer without the seal is as good as an argument; it approves nothing.
    fn answers(
        &self,
        purpose: &str,
        responses: Option<InputResponses>,
        state: Option<String>,
    ) -> Result<(BTreeMap<String, Value>, Option<String>), ErrorData> {
        let mut answers = BTreeMap::new();
        let mut approved = None;
        if let Some(state) = state {
            let carried = self.shared.seals.open(purpose, &state)?;
            answers = carried.answers;
            approved = carried.approval;
        }
        answers.extend(responses.unwrap_or_default());
        Ok((answers, approved))
    }
}

/// A call of a tool, as a client makes it.
struct Asked {
    tool: String,
    args: Map<String, Value>,
    responses: Option<InputResponses>,
    state: Option<String>,
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
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("glee", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(VERSIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.shown().listed.clone()))
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
        answered(self.call(params, context), || {
            Ok(result::error(&broken(), &self.shelf(&caller)).into())
        })
        .await
    }

    async fn set_level(
        &self,
        params: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(params.level);
        Ok(())
    }
}

/// All that a client which loads tools on demand shows its model at first.
const INSTRUCTIONS: &str = "glee runs this project's tools, each held to its declared permissions. \
Find a tool with glee_tools_search(query), or list all with glee_tools_list(); run it with \
glee_tool(name, params). Tools that are listed can also be called directly. A result that is too large \
comes in part, with a handle for glee_result_read.";
