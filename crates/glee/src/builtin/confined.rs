//! A built-in tool that starts programs: in the sandbox that holds commands, and never without one.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use glee_core::admit::Admitted;
use glee_core::model::ToolSpec;
use glee_core::outcome::{Failure, FailureKind, Truncated};
use glee_core::permission::Network;
use glee_core::port::{Function, Later, Ready};
use glee_core::shape::{Body, Raw};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Means;
use super::workspace::{Ground, Workspace};
use crate::exec::{Cage, Cell, Ended, Program, add_denied};
use crate::native::{self, About, Unfit};

/// The longest that any program may take.
pub(super) const LONGEST: Duration = Duration::from_secs(3600);

pub(super) trait Confined: Send + Sync + 'static {
    type Input: DeserializeOwned + JsonSchema + Send;
    type Output: Serialize + JsonSchema + Send;

    fn about(&self) -> About;

    /// Why this call cannot be made, whoever agrees to it: nobody is asked then.
    fn refuses(&self, _input: &Self::Input, _workspace: &Path) -> Result<(), Failure> {
        Ok(())
    }

    /// Why a person must agree to this call; nothing when nobody must.
    fn asks(&self, _input: &Self::Input, _workspace: &Path) -> Option<String> {
        None
    }

    /// Makes what its permissions name and is not there yet: what is not there is not granted.
    fn make_ready(&self, _workspace: &Path) -> Result<(), Failure> {
        Ok(())
    }

    fn run(
        &self,
        input: Self::Input,
        site: Site<'_>,
    ) -> impl Future<Output = Result<Told<Self::Output>, Failure>> + Send;
}

/// What a tool answers, what was cut of it, and what there is to say of it.
pub(super) struct Told<T> {
    pub(super) output: T,
    pub(super) truncated: Option<Truncated>,
    pub(super) warnings: Vec<String>,
}

impl<T> From<T> for Told<T> {
    fn from(output: T) -> Told<T> {
        Told {
            output,
            truncated: None,
            warnings: Vec::new(),
        }
    }
}

/// Where the programs of one call run.
pub(super) struct Site<'a> {
    cell: Cell<'a>,
    call: &'a Admitted,
    ground: &'a Ground,
}

impl Site<'_> {
    pub(super) fn root(&self) -> &Path {
        self.call.root()
    }

    /// The person's.
    pub(super) fn home(&self) -> Option<&Path> {
        self.ground.home.as_deref()
    }

    pub(super) fn workspace(&self) -> Result<Workspace, Failure> {
        Workspace::open(self.call.root(), self.ground)
    }

    /// A directory of the project, or the project itself.
    pub(super) fn directory(&self, path: Option<&str>) -> Result<PathBuf, Failure> {
        let Some(path) = path else {
            return Ok(self.root().to_owned());
        };
        let workspace = self.workspace()?;
        let path = workspace.inside(path)?;
        workspace.directory(&path)?;
        Ok(self.root().join(path))
    }

    pub(super) async fn run(&self, program: Program) -> Result<Ended, Failure> {
        self.cell.run(program).await
    }

    /// Whether a program that stands here can be started: what its links lead to may be nobody's here.
    pub(super) fn can_start(&self, program: &Path) -> bool {
        self.cell.can_start(program)
    }

    /// Runs a program where nothing can be written but what is gone afterwards.
    pub(super) async fn run_reading(&self, program: Program) -> Result<Ended, Failure> {
        self.cell.reading().await?.run(program).await
    }

    /// Runs a program of the project to its end, in the project's root.
    pub(super) async fn run_words(
        &self,
        words: Vec<String>,
        timeout: Duration,
    ) -> Result<Ended, Failure> {
        let program = Program {
            words,
            cwd: self.root().to_owned(),
            env: Vec::new(),
            stdin: String::new(),
            timeout,
        };
        self.run(program).await
    }
}

/// What a tool of this kind may do, before it says more.
pub(super) fn about(name: &str, description: &str, network: &Network) -> About {
    About::new(name, description)
        .reads(&["."])
        .writes(&["."])
        .network(network.clone())
        .timeout(LONGEST)
        .needs(&["proc:exec"])
}

pub(super) fn confined<T: Confined>(tool: T, means: &Means) -> Result<ToolSpec, Unfit> {
    let tool = Arc::new(tool);
    let asked = tool.clone();
    let asks = move |input: &T::Input, workspace: &Path| {
        asked.refuses(input, workspace)?;
        Ok(asked.asks(input, workspace))
    };
    let held = Held {
        tool: tool.clone(),
        cage: means.cage.clone(),
        ground: means.ground(),
    };
    let mut spec = native::spec::<T::Input, T::Output>(tool.about(), asks, Arc::new(held))?;
    spec.limits.output_bytes = 1 << 20;
    spec.limits.cpu = Some(LONGEST);
    Ok(spec)
}

struct Held<T> {
    tool: Arc<T>,
    cage: Cage,
    ground: Ground,
}

impl<T: Confined> Function for Held<T> {
    fn hold<'a>(&'a self, call: &'a Admitted) -> Later<'a, Result<Ready<'a>, Failure>> {
        Box::pin(async move {
            self.tool.make_ready(call.root())?;
            let (held, cell) = self.cage.cell(call).await?;
            let site = Site {
                cell,
                call,
                ground: &self.ground,
            };
            let run = async move {
                let told = self.tool.run(native::input(call)?, site).await?;
                Ok(Raw {
                    body: Body::Value(native::json_of(told.output, call)?),
                    truncated: told.truncated,
                    warnings: told.warnings,
                })
            };
            Ok(Ready {
                held,
                run: Box::pin(run),
            })
        })
    }
}

/// A program that had to succeed.
pub(super) fn succeeded(what: &str, ended: Ended) -> Result<Ended, Failure> {
    match ended.code {
        0 => Ok(ended),
        code => {
            let message = format!("{what} ended with code {code}");
            let failure = Failure::new(FailureKind::ExecutionError, message)
                .with("exit_code", code)
                .with("stdout", end_of(&ended.stdout))
                .with("stderr", end_of(&ended.stderr));
            Err(add_denied(failure, &ended.denied))
        }
    }
}

/// The end of a long text, where programs say what went wrong.
fn end_of(text: &str) -> &str {
    let start = text.len().saturating_sub(16 << 10);
    &text[text.ceil_char_boundary(start)..]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::exec::Denied;

    #[test]
    fn a_program_that_failed_tells_what_it_was_refused() {
        let ended = Ended {
            code: 1,
            stdout: String::new(),
            stderr: String::new(),
            duration: Duration::ZERO,
            truncated: None,
            denied: vec![Denied {
                details: json!({"what": "x.test:443"}),
                sentence: "the proxy refused x.test:443".to_owned(),
            }],
        };
        let failure = succeeded("x", ended).unwrap_err();
        assert_eq!(failure.details["denied"], json!([{"what": "x.test:443"}]));
        assert_eq!(
            failure.hint.as_deref(),
            Some("the proxy refused x.test:443")
        );
    }
}
