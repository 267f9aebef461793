//! Requests whose parameters are not what their method takes. rmcp takes these for requests of a method that it does
//! not know; whoever made one is told what is wrong with it instead.

use glee_core::name::shorten;
use glee_core::outcome::{Failure, FailureKind};
use glee_core::schema::{Schema, sentence};
use rmcp::model::{
    CallToolRequestParams, CancelTaskParams, CompleteRequestParams, CustomRequest, CustomResult,
    ErrorCode, GetPromptRequestParams, GetTaskParams, ReadResourceRequestParams, ServerResult,
    SetLevelRequestParams, SubscribeRequestParams, SubscriptionsListenRequestParams,
    UnsubscribeRequestParams, UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::line::is_stateless;
use super::{Server, message, result};

type Why = fn(&Value) -> Option<String>;

const TAKE: &[(&str, Era, Why)] = &[
    (message::CALL, Era::Both, why::<CallToolRequestParams>),
    ("prompts/get", Era::Both, why::<GetPromptRequestParams>),
    (
        "resources/read",
        Era::Both,
        why::<ReadResourceRequestParams>,
    ),
    (
        "completion/complete",
        Era::Both,
        why::<CompleteRequestParams>,
    ),
    ("tasks/get", Era::Both, why::<GetTaskParams>),
    ("tasks/update", Era::Both, why::<UpdateTaskParams>),
    ("tasks/cancel", Era::Both, why::<CancelTaskParams>),
    (
        "logging/setLevel",
        Era::Handshake,
        why::<SetLevelRequestParams>,
    ),
    (
        "resources/subscribe",
        Era::Handshake,
        why::<SubscribeRequestParams>,
    ),
    (
        "resources/unsubscribe",
        Era::Handshake,
        why::<UnsubscribeRequestParams>,
    ),
    (
        "subscriptions/listen",
        Era::Stateless,
        why::<SubscriptionsListenRequestParams>,
    ),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Era {
    Both,
    Handshake,
    Stateless,
}

fn why<T: DeserializeOwned>(params: &Value) -> Option<String> {
    T::deserialize(params).err().map(|it| it.to_string())
}

impl Server {
    pub(super) fn malformed(
        &self,
        request: &CustomRequest,
        context: &RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let nothing = Value::Object(Map::new());
        let params = request.params.as_ref().unwrap_or(&nothing);
        if request.method == message::CALL
            && let Some(failure) = no_arguments(params)
        {
            let caller = self.caller(context);
            let result = result::error(&failure, &self.shelf(&caller));
            let mut result = ServerResult::CallToolResult(result);
            if !is_stateless(context) {
                result.strip_result_type_for_legacy_peer();
            }
            let result = serde_json::to_value(result).unwrap_or_default();
            return Ok(CustomResult(result));
        }
        let era = match is_stateless(context) {
            true => Era::Stateless,
            false => Era::Handshake,
        };
        let mut known = TAKE.iter().filter(|it| [Era::Both, era].contains(&it.1));
        Err(match known.find(|it| it.0 == request.method) {
            Some((name, _, why)) => {
                // What stands there twice is read once here.
                let why = why(params).unwrap_or_else(|| "something stands there twice".into());
                let message = format!("these are no parameters of {name}: {why}");
                ErrorData::invalid_params(message, None)
            }
            None => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method.clone(), None),
        })
    }
}

/// Models see what is wrong with arguments, also with those that are no object: some write JSON into a text.
fn no_arguments(params: &Value) -> Option<Failure> {
    let name = params.get("name")?.as_str()?;
    let given = params.get("arguments").filter(|it| !it.is_null())?;
    let violations = Schema::new(json!({"type": "object"}))
        .ok()?
        .violations(given);
    let message = format!(
        "the arguments of `{}` are not valid: {}",
        shorten(name),
        sentence(&violations)
    );
    (!violations.is_empty()).then(|| Failure::new(FailureKind::InvalidInput, message))
}
