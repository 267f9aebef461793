//! `glee token`: who may use `glee serve`.

use anyhow::bail;
use serde_json::json;

use super::status::Status;
use super::{Session, print};
use crate::store::tokens::Tokens;

/// Make, list and revoke the tokens that `glee serve` asks for.
///
/// Each token stands for one principal; what it does is recorded under that name.
#[derive(clap::Args)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Make a token for a principal, in place of the one it had, and print it once
    Create {
        /// Whose token it is
        name: String,
    },
    /// List the principals that have a token
    List,
    /// Make a principal's token useless, within a second
    Revoke {
        /// Whose token it is
        name: String,
    },
}

pub(super) fn run(session: &Session, args: Args) -> anyhow::Result<Status> {
    let tokens = Tokens::of(session.project()?.root())?;
    match args.command {
        Command::Create { name } => {
            if name.is_empty() || name.contains(char::is_control) {
                bail!("a principal needs a name of one line");
            }
            let token = tokens.create(&name)?;
            match session.json {
                true => print::json(&json!({"name": name, "token": token}))?,
                false => print::out(&token)?,
            }
        }
        Command::List => {
            let names: Vec<String> = tokens.list()?.into_iter().map(|it| it.0).collect();
            match session.json {
                true => print::json(&json!(names))?,
                false => names.iter().try_for_each(|it| print::out(it))?,
            }
        }
        Command::Revoke { name } => {
            if !tokens.revoke(&name)? {
                bail!("`{name}` has no token; `glee token list` shows who has");
            }
            if !session.json {
                print::out(&format!("{name} has no token any more"))?;
            }
        }
    }
    Ok(Status::Ok)
}
