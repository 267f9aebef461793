//! A function that does nothing: what is measured is the way to it.

use glee::native::{About, Context, Failure, NativeTool};

pub(crate) struct Echo;

#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Said {
    /// What is said
    text: String,
}

impl NativeTool for Echo {
    type Input = Said;
    type Output = Said;

    fn about(&self) -> About {
        About::new("echo", "Says what it hears")
    }

    async fn run(&self, said: Said, _: Context<'_>) -> Result<Said, Failure> {
        Ok(said)
    }
}
