//! What a tool made by an agent has beyond the project's ceiling: by its permissions, and by what it
//! runs, which it can always read.

use std::path::Path;

use crate::model::{Exec, ToolSpec};
use crate::permission::{Ceiling, absolute};
use crate::port::Files;

/// Where programs are for every tool; these need no grant.
pub const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt"];

/// Each in the words of a manifest.
pub fn beyond(spec: &ToolSpec, ceiling: &Ceiling, root: &Path, files: &dyn Files) -> Vec<String> {
    let mut excess = spec.permissions.beyond(ceiling, root, files);
    let own = spec.source.parent().unwrap_or(root);
    let is_inside = |path: &str| {
        let path = absolute(root, path);
        let real = files.resolve(&path);
        let within =
            |place: &Path| path.starts_with(place) && real.starts_with(files.resolve(place));
        within(own)
            || ceiling.read.iter().any(|it| within(&absolute(root, it)))
            || SYSTEM.iter().any(|it| real.starts_with(it))
    };
    let outside = run(&spec.exec).into_iter().filter(|it| !is_inside(it));
    excess.extend(outside.map(|it| format!("run {it}")));
    excess
}

/// The paths that a tool runs something from. A name alone is a program of the system.
fn run(exec: &Exec) -> Vec<String> {
    match exec {
        Exec::Http(_) | Exec::Native(_) => Vec::new(),
        Exec::Command(it) if it.entrypoint.contains('/') => vec![it.entrypoint.clone()],
        Exec::Command(_) => Vec::new(),
        Exec::Python(it) => {
            let first = it.module.split('.').next().unwrap_or_default();
            let module = format!("{}/{first}", it.cwd.trim_end_matches('/'));
            let mut paths = vec![format!("{module}.py"), module];
            paths.extend(it.venv.clone());
            paths
        }
    }
}
