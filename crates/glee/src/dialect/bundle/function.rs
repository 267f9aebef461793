//! Tools that are functions of the program, under another name and with a schema of their own.

use std::sync::Arc;

use glee_core::admit::{Admitted, check_arguments};
use glee_core::model::{Exec, Limits, Native, OnMismatch, ToolSpec};
use glee_core::outcome::Failure;
use glee_core::port::{Function, Later, Ready};

use super::wire::{self, StoredTool};
use super::{Run, Surroundings, Wrong, calls, how};

/// A function may do what it may do under its own name, and asks when it asks there.
pub(super) fn read(
    stored: &StoredTool,
    around: &Surroundings,
    wrong: &mut Vec<Wrong>,
) -> Option<Run> {
    let wire: wire::Go = how(&stored.how, wrong)?;
    let found = around.functions.get(&wire.go_func);
    let native = found.and_then(|it| Some((it, function(it)?)));
    let Some((spec, native)) = native else {
        let why = format!("this program has no function `{}`", wire.go_func);
        wrong.push(Wrong::new("/impl/goFunc", why));
        return None;
    };
    Some(Run {
        exec: Exec::Native(Native {
            function: Arc::new(Lent(spec.clone())),
            needs: native.needs,
        }),
        format: spec.outputs.format,
        extract: None,
        on_mismatch: OnMismatch::Fail,
        permissions: spec.permissions.clone(),
        approval: spec.approval.clone(),
        annotations: spec.annotations,
        limits: Limits {
            calls: calls(wire.max_calls_per_minute, wire.max_concurrent_calls),
            ..spec.limits
        },
    })
}

fn function(spec: &ToolSpec) -> Option<&Native> {
    match &spec.exec {
        Exec::Native(native) => Some(native),
        Exec::Http(_) | Exec::Command(_) | Exec::Python(_) => None,
    }
}

/// A function that is called by a tool of a bundle. It relies on its own schema, which that tool's need not
/// be as strict as.
struct Lent(Arc<ToolSpec>);

impl Function for Lent {
    fn hold<'a>(&'a self, call: &'a Admitted) -> Later<'a, Result<Ready<'a>, Failure>> {
        Box::pin(async move {
            check_arguments(&self.0.name, &self.0.inputs, &mut call.args().clone())?;
            match function(&self.0) {
                Some(native) => native.function.hold(call).await,
                None => unreachable!("only functions are lent"),
            }
        })
    }
}
