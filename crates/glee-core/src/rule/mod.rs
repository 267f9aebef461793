//! The rules that come with glee, and what they look at.

pub mod autonomy;
pub mod condition;
pub mod custom;
pub mod danger;
mod download;
mod overview;
pub mod permit;
pub mod place;
pub mod reach;
mod secrets;
pub mod sensitive;
mod system;

use crate::policy::{Case, Decision, Rule};

/// The rules every project has.
pub fn defaults() -> Vec<Box<dyn Rule>> {
    let mut rules: Vec<Box<dyn Rule>> = vec![Box::new(Readable)];
    rules.extend(
        danger::RULES
            .iter()
            .map(|it| Box::new(*it) as Box<dyn Rule>),
    );
    rules.push(Box::new(sensitive::SensitiveFiles));
    rules
}

/// What cannot be read cannot be judged.
struct Readable;

impl Rule for Readable {
    fn name(&self) -> &str {
        "readable"
    }

    fn about(&self) -> &str {
        "never runs a command that cannot be read as a shell would read it"
    }

    fn remedy(&self) -> &str {
        "a command that a shell accepts, of less than a megabyte and not nested beyond reason"
    }

    fn judge(&self, case: &Case<'_>) -> Result<Decision, String> {
        let reach = case.reach();
        if let Some(why) = &reach.unreadable {
            let reason = why.to_string();
            return Ok(Decision::Deny { reason });
        }
        // A script may be in another language; who runs it may know.
        Ok(match &reach.doubtful {
            None => Decision::Allow,
            Some(why) => Decision::Ask {
                reason: format!("{why}, and its language is not named"),
            },
        })
    }
}

#[cfg(test)]
mod tests;
