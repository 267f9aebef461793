//! `glee token`: who may use `glee serve`.

use anyhow::bail;
use serde_json::{Value, json};

use super::status::Status;
use super::{Session, print};
use crate::store::tokens::{OWNER, RESERVED, Scope, Token, Tokens};

/// Make, list and revoke the tokens that `glee serve` asks for.
///
/// Each token stands for one principal; what it does is recorded under that name. What a token is good
/// for is said by its scopes: read_registry (see the tools), invoke_tool (run them), write_registry
/// (change them), approve (answer for a person), admin (everything).
#[derive(clap::Args)]
#[command(
    after_help = "Examples:\n  glee token create claude\n  glee token create inbox --scope read_registry --scope approve"
)]
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

        /// What it is good for, may be given often [default: read_registry and invoke_tool]
        #[arg(long, value_name = "SCOPE", value_parser = scope)]
        scope: Vec<Scope>,
    },
    /// List the principals that have a token, and their scopes
    List,
    /// Make a principal's token useless, within a second
    Revoke {
        /// Whose token it is
        name: String,
    },
}

fn scope(name: &str) -> Result<Scope, String> {
    Scope::named(name).ok_or_else(|| {
        let known: Vec<&str> = Scope::ALL.iter().map(|it| it.name()).collect();
        format!("the scopes are {}", known.join(", "))
    })
}

pub(super) fn run(session: &Session, args: Args) -> anyhow::Result<Status> {
    let tokens = Tokens::of(session.project()?.root())?;
    match args.command {
        Command::Create { name, mut scope } => {
            if name.is_empty() || name.contains(char::is_control) {
                bail!("a principal needs a name of one line");
            }
            if RESERVED.contains(&name.as_str()) {
                bail!("`{name}` is what callers without a token are called; take another name");
            }
            if scope.is_empty() {
                scope = match name == OWNER {
                    true => Scope::ALL.to_vec(),
                    false => Scope::USUAL.to_vec(),
                };
            }
            let token = tokens.create(&name, &scope)?;
            match session.json {
                true => print::json(&json!({
                    "name": name, "token": token, "scopes": names(&scope),
                }))?,
                false => print::out(&token)?,
            }
        }
        Command::List => {
            let all = tokens.list()?;
            match session.json {
                true => print::json(&all.iter().map(as_json).collect())?,
                false => all.iter().try_for_each(|it| {
                    print::out(&format!("{}  {}", it.name, names(&it.scopes).join(", ")))
                })?,
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

fn as_json(token: &Token) -> Value {
    json!({"name": token.name, "scopes": names(&token.scopes)})
}

fn names(scopes: &[Scope]) -> Vec<&'static str> {
    scopes.iter().map(|it| it.name()).collect()
}
