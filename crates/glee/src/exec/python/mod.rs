//! A Python function in a process of its own. Its result comes over its own channel.

mod interpreter;
mod warm;

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use glee_core::admit::Admitted;
use glee_core::model::{Format, Python};
use glee_core::outcome::{Failure, FailureKind};
use glee_core::permission::absolute;
use glee_core::shape::{Body, Raw};
use serde_json::{Map, Value, json};

use super::cage::Cage;
use super::entrypoint::Entrypoint;
use super::place::{self, Place};
use super::process::{self, Finished, Job, too_large};
use super::streams::{Captured, NOTES_AFTER_EXCHANGE};

pub(super) use interpreter::{environment, module_files};
pub use interpreter::{find_interpreter, search_path};
pub(super) use warm::Warm;

/// Serves one request, then ends.
const ONCE: &str = concat!(include_str!("runner.py"), "\nsys.exit(serve(3, 4))\n");
/// Serves one call after another.
const KEEPER: &str = concat!(include_str!("runner.py"), include_str!("keeper.py"));

/// What stays between calls, of which no call is asked to give up one of its own processes: the interpreter, and
/// the fork that stands by.
pub(super) const KEEPERS: u32 = 2;

/// Runs the function: by an interpreter that stays where there is one, else by one of its own.
pub(super) async fn run(
    python: &Python,
    call: &Admitted,
    place: Place,
    cage: &Cage,
    warm: Option<&Arc<Warm>>,
) -> Result<Raw, Failure> {
    let interpreter = find_interpreter(call.root(), python.venv.as_deref())
        .map_err(|why| Failure::new(FailureKind::ExecutionError, why))?;
    let cwd = place.cwd(absolute(call.root(), &python.cwd))?;
    let env = place::environment(
        call,
        &python.env,
        place.surroundings(),
        NOTES_AFTER_EXCHANGE,
    )?;
    let request = request(python, call)?;
    // A limit on processor time counts for the whole life of a process, which must then be the call's.
    if let Some(warm) = warm.filter(|_| place.is_private() && call.spec().limits.cpu.is_none()) {
        let start = warm::Start {
            interpreter: &interpreter,
            module: &python.module,
            cwd: &cwd,
            env: place::bare_environment(call, place.surroundings(), NOTES_AFTER_EXCHANGE),
        };
        let mut request = request.clone();
        request["env"] = env
            .iter()
            .map(|(name, value)| {
                (
                    name.to_string_lossy().into_owned(),
                    value.to_string_lossy().into(),
                )
            })
            .collect::<Map<_, _>>()
            .into();
        let request = request.to_string().into_bytes();
        if let Some(finished) = warm.run(start, request, &place, call, cage).await? {
            return answer(call, &finished);
        }
    }
    let job = Job {
        entrypoint: open_interpreter(interpreter)?,
        args: ["-I", "-B", "-c", ONCE].map(OsString::from).into(),
        env,
        cwd,
        stdin: Vec::new(),
        request: Some(request.to_string().into_bytes()),
        timeout: call.timeout(),
    };
    let finished = process::run(job, &place, call, cage).await?;
    answer(call, &finished)
}

fn open_interpreter(interpreter: PathBuf) -> Result<Entrypoint, Failure> {
    let path = interpreter.display().to_string();
    Entrypoint::open(interpreter)
        .map_err(|err| Failure::new(FailureKind::ExecutionError, format!("{path}: {err}")))
}

pub(super) fn preview(python: &Python, call: &Admitted) -> Result<Value, Failure> {
    let interpreter = find_interpreter(call.root(), python.venv.as_deref())
        .map_err(|why| Failure::new(FailureKind::ExecutionError, why))?;
    let mut shown = request(python, call)?;
    if let Value::Object(map) = &mut shown {
        map.insert("python".into(), interpreter.display().to_string().into());
    }
    Ok(shown)
}

fn request(python: &Python, call: &Admitted) -> Result<Value, Failure> {
    let scope = call.scope();
    let mut args = Vec::new();
    for template in &python.args {
        args.extend(template.fill(&scope).map_err(too_large)?);
    }
    let mut kwargs = Map::new();
    for (name, template) in &python.kwargs {
        if let Some(value) = template.fill(&scope).map_err(too_large)? {
            kwargs.insert(name.clone(), value);
        }
    }
    Ok(json!({
        "module": python.module,
        "function": python.function,
        "args": args,
        "kwargs": kwargs,
        "cwd": absolute(call.root(), &python.cwd).display().to_string(),
        "return": match call.spec().outputs.format { Format::Json | Format::Content => "json", Format::Text => "text" },
    }))
}

/// The answer is a line of JSON that says how it went, then the result itself.
fn answer(call: &Admitted, finished: &Finished) -> Result<Raw, Failure> {
    let bytes = &finished.answer.bytes;
    let split = bytes.iter().position(|&b| b == b'\n');
    let head = split.and_then(|at| serde_json::from_slice::<Value>(&bytes[..at]).ok());
    let (Some(at), Some(head)) = (split, head) else {
        return Err(process::bad_exit(call, finished).with("reason", "the function gave no result"));
    };
    if head["ok"] == true {
        let kept = bytes.len().min(at + 1 + call.spec().limits.output_bytes);
        let answer = Captured {
            bytes: bytes[at + 1..kept].to_vec(),
            total: finished.answer.total - at as u64 - 1,
        };
        let truncated = answer.truncated();
        return Ok(Raw {
            truncated,
            ..Raw::from(Body::Bytes(answer.bytes))
        });
    }
    let text = |key: &str| head[key].as_str().unwrap_or_default().to_owned();
    let (kind, message) = (text("type"), text("message"));
    let said = if message.is_empty() {
        kind.clone()
    } else {
        format!("{kind}: {message}")
    };
    let failure = Failure::new(
        FailureKind::ExecutionError,
        format!("`{}` raised {said}", call.spec().name),
    );
    Err(process::teach(failure, call, finished, &said)
        .with("type", kind)
        .with("message", message)
        .with("traceback", text("traceback"))
        .with("stdout", finished.stdout.shown(call))
        .with("stderr", finished.stderr.shown(call)))
}
