//! One call of one tool, from a client's request to its answer.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, PoisonError};

use glee_core::elicit::elicit;
use glee_core::model::{Tasks, ToolSpec};
use glee_core::outcome::{Failure, FailureKind, Outcome};
use glee_core::port::{Caller, Cancel, Party};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientRequest,
    CreateTaskResult, InputRequiredResult, InputResponses, ServerJsonRpcMessage, ServerResult,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, Service};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::direct::Ticket;
use super::line::{Line, Unanswered, is_stateless};
use super::shown::Shown;
use super::{OF_PROTOCOL, Server, approval, broken, meta, protocol, result, seal};
use crate::app::{Call, Tell};
use crate::surface::turnstile::Pass;

/// What a client wants to be run.
pub(super) struct Chosen {
    tool: String,
    args: Map<String, Value>,
    /// What a person approved, by its id.
    approval: Option<Uuid>,
}

/// A call of a tool, as a client makes it.
pub(super) struct Asked {
    chosen: Chosen,
    responses: Option<InputResponses>,
    state: Option<String>,
}

impl Chosen {
    pub(super) fn call(self, caller: Caller, cancel: Cancel, party: Arc<dyn Party>) -> Call {
        Call {
            tool: self.tool,
            args: self.args,
            approval: self.approval,
            caller,
            timeout: None,
            cancel,
            party,
        }
    }
}

impl Server {
    /// The answer to a call that goes round rmcp's loop, as rmcp would give it.
    pub(super) async fn answer(
        &self,
        mut params: CallToolRequestParams,
        mut context: RequestContext<RoleServer>,
    ) -> ServerJsonRpcMessage {
        let id = context.id.clone();
        context.meta = params.meta.take().unwrap_or_default();
        // Of what has nothing to be judged rmcp only moves all parts about.
        let answer = match has_shaken_hands(&context) {
            true => self.call_tool(params, context).await.map(|response| {
                let mut result = ServerResult::from(response);
                result.strip_result_type_for_legacy_peer();
                result
            }),
            false => {
                let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
                Box::pin(self.handle_request(request, context)).await
            }
        };
        match answer {
            Ok(result) => ServerJsonRpcMessage::response(result, id),
            Err(error) => ServerJsonRpcMessage::error(error, Some(id)),
        }
    }

    pub(super) async fn call(
        &self,
        params: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = self.caller(&context);
        let shown = self.shown();
        let mut args = params.arguments.unwrap_or_default();
        let mut tool = params.name;
        let mut approval = None;
        if meta::is_one(&tool) {
            args = match meta::check(&tool, args) {
                Ok(args) => args,
                Err(failure) => return Ok(result::error(&failure, &self.shelf(&caller)).into()),
            };
            if tool == meta::CREATE {
                // Boxed, as all that is seldom: what a call may come to is copied at its full size.
                let created = Box::pin(self.create(&args, &caller, &context));
                return Ok(created.await.into());
            }
            if tool != meta::CALL {
                let (app, shelf) = (&self.shared.app, self.shelf(&caller));
                return Ok(meta::answer(&tool, &args, app, &shown, &shelf).into());
            }
            tool = args["name"].as_str().unwrap_or_default().to_owned().into();
            approval = args
                .get("approval_id")
                .and_then(Value::as_str)
                .map(|it| it.parse().unwrap_or_default());
            args = match args.remove("params") {
                Some(Value::Object(inner)) => inner,
                _ => Map::new(),
            };
        }
        let asked = Asked {
            chosen: Chosen {
                tool: tool.into_owned(),
                args,
                approval,
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
        let mut chosen = asked.chosen;
        let spec = shown.find(&chosen.tool).map(|it| it.spec.clone());
        if let Some(spec) = &spec {
            chosen.tool.clone_from(&spec.name);
        }
        let is_task = is_task(spec.as_deref(), &context)?;
        // Only who has no other way to be asked carries anything under seal. Without a purpose none is ever opened.
        let is_stateless = is_stateless(&context);
        let purpose = match is_stateless || asked.state.is_some() {
            true => seal::purpose(&caller.name, &chosen.tool, &chosen.args),
            false => String::new(),
        };
        let (answers, approved) = self.answers(&purpose, asked.responses, asked.state)?;
        let line = Arc::new(self.line(&context, answers, approved));
        if is_task {
            let asked = self.ask_first(spec.as_deref(), &mut chosen, &purpose, &line);
            if let Some(round) = Box::pin(asked).await? {
                return Ok(round.into());
            }
            let capabilities = context.client_capabilities().unwrap_or_default();
            let is_trusted = self.is_trusted_to_ask(&context);
            let task = self.spawn(chosen, caller, spec, capabilities, is_trusted);
            return Ok(CreateTaskResult::new(task?).into());
        }
        let cancel = Cancel::when(context.ct.clone().cancelled_owned());
        let call = chosen.call(caller.clone(), cancel, line.clone());
        let ticket = context.extensions.get::<Arc<Ticket>>().cloned();
        // Pinned here: what is handed on is copied at its full size, and kept twice.
        let run = pin!(async {
            match ticket {
                Some(ticket) => self.run_here(call, ticket, is_stateless).await,
                None => Some(Box::pin(self.run(call)).await),
            }
        });
        let Some(outcome) = line.attend(run).await else {
            // Its ticket is used, so nobody hears this.
            return Err(protocol(broken()));
        };
        line.finish().await;
        if let Some(round) = self.next_round(&purpose, &line)? {
            return Ok(round.into());
        }
        Ok(result::render(outcome, spec.as_deref(), &self.shelf(&caller)).into())
    }

    /// A tool that only runs as a task asks before the task begins; one that merely may, asks when its
    /// caller comes back.
    async fn ask_first(
        &self,
        spec: Option<&ToolSpec>,
        chosen: &mut Chosen,
        purpose: &str,
        line: &Line,
    ) -> Result<Option<InputRequiredResult>, ErrorData> {
        let asks = |it: &&ToolSpec| it.tasks == Tasks::Required && chosen.approval.is_none();
        let Some(spec) = spec.filter(asks) else {
            return Ok(None);
        };
        let asked = elicit(&spec.elicit, &spec.inputs, &mut chosen.args, line);
        let asked = line.attend(asked).await;
        match self.next_round(purpose, line)? {
            Some(round) => Ok(Some(round)),
            None => asked.map(|()| None).map_err(protocol),
        }
    }

    /// Takes its turn and runs.
    pub(super) async fn run(&self, call: Call) -> Outcome {
        let app = &self.shared.app;
        match self.enter(&call) {
            Ok(_inside) => app.call(call).await,
            Err(failure) => app.turn_away(call, failure).await,
        }
    }

    /// The same in the task of the request, whose client can be told in another way should that hang.
    async fn run_here(
        &self,
        call: Call,
        ticket: Arc<Ticket>,
        is_stateless: bool,
    ) -> Option<Outcome> {
        let app = &self.shared.app;
        let inside = match ticket.is_behind() {
            true => Err(busy("too many answers wait to be read already")),
            false => self.enter(&call),
        };
        match inside {
            Ok(_inside) => {
                let tell = self.tell(ticket, call.caller.clone(), is_stateless);
                app.call_here(call, tell).await
            }
            Err(failure) => Some(app.turn_away(call, failure).await),
        }
    }

    fn enter(&self, call: &Call) -> Result<Pass, Failure> {
        let inside = self.shared.calls.enter(&call.caller.name);
        inside.ok_or_else(|| busy("too many calls are under way already"))
    }

    /// The answer to a request whose own task hangs.
    fn tell(&self, ticket: Arc<Ticket>, caller: Caller, is_stateless: bool) -> Tell {
        let shared = self.shared.clone();
        Box::new(move |outcome| {
            let result = result::render(outcome, None, &shared.shelf(&caller));
            let mut result = ServerResult::CallToolResult(result);
            if !is_stateless {
                result.strip_result_type_for_legacy_peer();
            }
            ticket.answer(&ServerJsonRpcMessage::response(result, ticket.id().clone()));
        })
    }

    pub(super) fn line(
        &self,
        context: &RequestContext<RoleServer>,
        answers: BTreeMap<String, Value>,
        approved: Option<String>,
    ) -> Line {
        let level = *self.level.lock().unwrap_or_else(PoisonError::into_inner);
        let is_trusted = self.is_trusted_to_ask(context);
        Line::new(context, is_trusted, level, answers, approved)
    }

    /// What a client has answered in this round and those before, and the call that a person was asked
    /// about. An answer without the seal is as good as an argument; it approves nothing. What was
    /// answered under seal stays: a later answer cannot change what a person has seen.
    pub(super) fn answers(
        &self,
        purpose: &str,
        responses: Option<InputResponses>,
        state: Option<String>,
    ) -> Result<(BTreeMap<String, Value>, Option<String>), ErrorData> {
        let mut answers = responses.unwrap_or_default();
        let Some(state) = state else {
            answers.remove(approval::KEY);
            return Ok((answers, None));
        };
        let carried = self.shared.seals.open(purpose, &state)?;
        answers.extend(carried.answers);
        Ok((answers, carried.approval))
    }

    /// What a stateless client must be asked before it calls again, if anything.
    pub(super) fn next_round(
        &self,
        purpose: &str,
        line: &Line,
    ) -> Result<Option<InputRequiredResult>, ErrorData> {
        let Unanswered {
            requests,
            lacking,
            approval,
        } = line.take_unanswered();
        if let Some(needed) = lacking {
            return Err(ErrorData::missing_required_client_capability(needed));
        }
        if requests.is_empty() {
            return Ok(None);
        }
        // A yes is good for the question it answers, and no other: it is never carried on.
        let mut answers = line.answers().clone();
        answers.remove(approval::KEY);
        let state = self.shared.seals.seal(purpose, answers, approval)?;
        Ok(Some(InputRequiredResult::new(Some(requests), Some(state))))
    }
}

fn busy(why: &str) -> Failure {
    Failure::new(FailureKind::RateLimited, why).retryable()
}

/// Whether the client has shaken hands, and its request says nothing of the protocol itself. Who began without a
/// handshake has no name between its requests, whatever it sent later.
fn has_shaken_hands(context: &RequestContext<RoleServer>) -> bool {
    let mut said = context.meta.keys();
    !said.any(|it| it.starts_with(OF_PROTOCOL))
        && !is_stateless(context)
        && context.client_info().is_some()
}

/// Whether the call goes on in the background. A tool that only works so refuses clients that could
/// come back for the answer and do not; those of the handshake era know no tasks, and wait.
fn is_task(
    spec: Option<&ToolSpec>,
    context: &RequestContext<RoleServer>,
) -> Result<bool, ErrorData> {
    let can = || {
        let capabilities = context.client_capabilities();
        capabilities.is_some_and(|it| it.supports_tasks())
    };
    match spec.map_or(Tasks::Never, |it| it.tasks) {
        Tasks::Never => Ok(false),
        Tasks::Supported => Ok(can()),
        Tasks::Required if can() => Ok(true),
        Tasks::Required if !is_stateless(context) => Ok(false),
        Tasks::Required => Err(ErrorData::missing_required_client_capability(
            ClientCapabilities::builder().enable_tasks().build(),
        )),
    }
}
