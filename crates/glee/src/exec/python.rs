//! A Python function in a process of its own. Its result comes over its own channel.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use glee_core::admit::Admitted;
use glee_core::model::{Format, Python};
use glee_core::outcome::{Failure, FailureKind};
use glee_core::permission::absolute;
use glee_core::shape::{Body, Raw};
use serde_json::{Map, Value, json};

use super::cage::Cage;
use super::process::{self, Captured, Finished, Job, Place, too_large};

const RUNNER: &str = include_str!("runner.py");

pub(super) async fn run(python: &Python, call: &Admitted, cage: &Cage) -> Result<Raw, Failure> {
    let interpreter = find_interpreter(call.root(), python.venv.as_deref())
        .map_err(|why| Failure::new(FailureKind::ExecutionError, why))?;
    let place = Place::make(call, cage).await?;
    let job = Job {
        program: interpreter,
        args: ["-I", "-B", "-c", RUNNER].map(OsString::from).into(),
        env: process::environment(call, &python.env, place.scratch())?,
        cwd: place.cwd(absolute(call.root(), &python.cwd))?,
        stdin: Vec::new(),
        request: Some(request(python, call)?.to_string().into_bytes()),
    };
    let finished = process::run(job, &place, call, cage).await?;
    answer(call, &finished)
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
        "return": match call.spec().outputs.format { Format::Json => "json", Format::Text => "text" },
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
            body: Body::Bytes(answer.bytes),
            truncated,
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
    Err(process::teach(failure, call, &said)
        .with("type", kind)
        .with("message", message)
        .with("traceback", text("traceback"))
        .with("stdout", finished.stdout.shown(call))
        .with("stderr", finished.stderr.shown(call)))
}

/// The interpreter of a virtual environment, or the system's python3.
pub fn find_interpreter(root: &Path, venv: Option<&str>) -> Result<PathBuf, String> {
    static SYSTEM: OnceLock<Option<PathBuf>> = OnceLock::new();
    match venv {
        Some(venv) => {
            let python = absolute(root, venv).join("bin/python");
            match python.is_file() {
                true => Ok(python),
                false => Err(format!(
                    "there is no virtual environment at `{venv}`; run `python3 -m venv {venv}`"
                )),
            }
        }
        None => SYSTEM
            .get_or_init(system_python)
            .clone()
            .ok_or_else(|| "python3 is not installed".to_owned()),
    }
}

/// What the module is read from, below its `cwd`: one file, or the directory of its package. Any
/// directory can be imported from, so outside the project it must say that it is a package: with
/// `cwd: /`, a module `etc.x` would grant all of /etc.
pub(super) fn module_files(root: &Path, python: &Python) -> Option<PathBuf> {
    let first = python.module.split('.').next()?;
    let place = absolute(root, &python.cwd).join(first);
    let file = place.with_extension("py");
    if file.is_file() {
        return Some(file);
    }
    (place.join("__init__.py").is_file() || place.starts_with(root) && place.is_dir())
        .then_some(place)
}

/// Directories in which a module can be, besides `cwd`.
pub fn search_path(interpreter: &Path) -> Vec<PathBuf> {
    let below = |prefix: &Path| -> Vec<PathBuf> {
        let Ok(entries) = std::fs::read_dir(prefix.join("lib")) else {
            return Vec::new();
        };
        let versions = entries.flatten().map(|it| it.path());
        versions
            .filter(|it| {
                it.file_name()
                    .is_some_and(|name| name.to_string_lossy().starts_with("python3"))
            })
            .flat_map(|it| {
                [
                    it.clone(),
                    it.join("lib-dynload"),
                    it.join("site-packages"),
                    it.join("dist-packages"),
                ]
            })
            .collect()
    };
    let prefix = |python: &Path| python.parent().and_then(Path::parent).map(Path::to_owned);
    let own = prefix(interpreter);
    let base = interpreter.canonicalize().ok().and_then(|it| prefix(&it));
    own.into_iter()
        .chain(base)
        .flat_map(|it| below(&it))
        .collect()
}

/// The first python3 on the PATH of glee itself. A version manager's shim is a script that costs
/// more than the interpreter, so it is asked once for what it stands for.
fn system_python() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path)
        .map(|it| it.join("python3"))
        .find(|it| it.is_file())?;
    let mut start = [0; 2];
    let script = File::open(&found)
        .and_then(|mut it| it.read_exact(&mut start))
        .is_ok()
        && start == *b"#!";
    if !script {
        // Only an environment is found by its link; the sandbox shows what is behind any other.
        let environment = found
            .parent()
            .and_then(Path::parent)
            .is_some_and(|it| it.join("pyvenv.cfg").is_file());
        return if environment {
            Some(found)
        } else {
            found.canonicalize().ok()
        };
    }
    let asked = std::process::Command::new(&found)
        .args(["-I", "-c", "import sys; print(sys.executable)"])
        .output()
        .ok()?;
    let real = PathBuf::from(String::from_utf8(asked.stdout).ok()?.trim());
    real.is_file().then_some(real)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_elsewhere_is_no_module() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("scripts")).unwrap();
        let module = |module: &str, cwd: &str| {
            let python = Python {
                module: module.into(),
                function: "run".into(),
                args: Vec::new(),
                kwargs: Vec::new(),
                venv: None,
                cwd: cwd.into(),
                env: Vec::new(),
            };
            module_files(root.path(), &python)
        };
        assert_eq!(module("etc.x", "/"), None);
        assert_eq!(module("scripts.x", "."), Some(root.path().join("scripts")));
    }
}
