//! Which python runs a function, and where its modules are.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use glee_core::model::Python;
use glee_core::permission::absolute;

/// The interpreter of a virtual environment, or the system's python3.
pub fn find_interpreter(root: &Path, venv: Option<&str>) -> Result<PathBuf, String> {
    static SYSTEM: OnceLock<Option<PathBuf>> = OnceLock::new();
    match venv {
        Some(venv) => {
            let [python, _] = environment(root, venv);
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

/// What makes a virtual environment run the python that it does.
pub(in crate::exec) fn environment(root: &Path, venv: &str) -> [PathBuf; 2] {
    let venv = absolute(root, venv);
    [venv.join("bin/python"), venv.join("pyvenv.cfg")]
}

/// What the module is read from, below its `cwd`: one file, or the directory of its package. Any
/// directory can be imported from, so outside the project it must say that it is a package: with
/// `cwd: /`, a module `etc.x` would grant all of /etc.
pub(in crate::exec) fn module_files(root: &Path, python: &Python) -> Option<PathBuf> {
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
