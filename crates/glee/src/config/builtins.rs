//! `builtins:` of the config: which of the tools that come with glee a project has.

use std::borrow::Cow;
use std::path::PathBuf;

use glee_core::permission::Network;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;
use url::Url;

use super::hosts;
use crate::builtin::{BUNDLES, Model, Provider, Search, Settings, TABLE};
use crate::dialect::network::WireNetwork;
use crate::dialect::problem::Problem;
use crate::dialect::yaml::Node;

pub(super) fn settings(wire: WireBuiltins, node: &Node, problems: &mut Vec<Problem>) -> Settings {
    let search = wire.search.and_then(|it| search(it, node, problems));
    let model = wire.model.and_then(|it| model(it, node, problems));
    let names = |list: Vec<Name>| list.into_iter().map(|it| it.0).collect();
    let mut hosts = |list: Vec<String>, pointer: &str| hosts(&list, pointer, node, problems);
    Settings {
        enable: names(wire.enable),
        disable: names(wire.disable),
        network: match wire.network {
            None | Some(WireNetwork::All(false)) => Network::None,
            Some(WireNetwork::All(true)) => Network::Public,
            Some(WireNetwork::Hosts(list)) => {
                Network::Hosts(hosts(list.hosts, "/builtins/network/hosts"))
            }
        },
        allowed_hosts: hosts(wire.allowed_hosts, "/builtins/allowed_hosts"),
        search,
        model,
        docker: wire.docker,
        registries: wire.registries.map(|it| hosts(it, "/builtins/registries")),
        programs: programs(wire.programs, node, problems),
    }
}

/// Whole paths, or from the person's home.
fn programs(given: Vec<String>, node: &Node, problems: &mut Vec<Problem>) -> Vec<PathBuf> {
    let mut directories = Vec::new();
    for (at, text) in given.iter().enumerate() {
        let path = match (text.strip_prefix("~/"), std::env::home_dir()) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(text),
        };
        // A home holds more than programs, and the root everything.
        let is_too_much = std::env::home_dir().is_some_and(|home| home.starts_with(&path));
        if path.is_absolute() && !is_too_much {
            directories.push(path);
            continue;
        }
        let message = match is_too_much {
            true => format!(
                "`{text}` holds more than programs; name the directory they were installed to"
            ),
            false => format!("`{text}` is no directory: it begins with `/` or `~/`"),
        };
        let place = node.place_of(&format!("/builtins/programs/{at}"));
        problems.push(Problem::error("programs", place, message));
    }
    directories
}

fn search(wire: WireSearch, node: &Node, problems: &mut Vec<Problem>) -> Option<Search> {
    let provider = match wire.provider {
        WireProvider::Brave => Provider::Brave,
        WireProvider::Searxng => Provider::Searxng,
    };
    let pointer = "/builtins/search";
    match (provider, wire.url) {
        (Provider::Searxng, None) => {
            let message = "there is no SearXNG for everybody; say where yours is, under `url`";
            problems.push(Problem::error("search", node.place_of(pointer), message));
            None
        }
        (_, given) => {
            let given = given.as_deref().unwrap_or(BRAVE);
            let url = service(given, &format!("{pointer}/url"), node, problems)?;
            Some(Search { provider, url })
        }
    }
}

const BRAVE: &str = "https://api.search.brave.com/res/v1/web/search";

fn model(wire: WireModel, node: &Node, problems: &mut Vec<Problem>) -> Option<Model> {
    Some(Model {
        url: service(&wire.url, "/builtins/model/url", node, problems)?,
        name: wire.name,
        key: wire.key,
    })
}

/// Where a service of the project's choice is.
fn service(text: &str, pointer: &str, node: &Node, problems: &mut Vec<Problem>) -> Option<Url> {
    match text.parse::<Url>() {
        Ok(url) if matches!(url.scheme(), "http" | "https") => Some(url),
        _ => {
            let message = format!("`{text}` is no http or https URL");
            problems.push(Problem::error("url", node.place_of(pointer), message));
            None
        }
    }
}

/// The tools that come with glee; a project has none of them unless it says so.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WireBuiltins {
    /// Bundles, or single tools, that the project has.
    #[serde(default)]
    enable: Vec<Name>,
    /// Bundles, or single tools, that it does not have, whatever is enabled.
    #[serde(default)]
    disable: Vec<Name>,
    /// Where the programs may connect to that run_code, shell, tool_exec, run_tests and format_code start; nowhere unless given.
    #[serde(default)]
    network: Option<WireNetwork>,
    /// Hosts that web_fetch and http_request may ask without a question, and the private addresses that web tools may ask at all.
    #[serde(default)]
    allowed_hosts: Vec<String>,
    #[serde(default)]
    search: Option<WireSearch>,
    #[serde(default)]
    model: Option<WireModel>,
    /// The socket of the engine of containers, when it is not where Docker or Podman have it.
    #[serde(default)]
    docker: Option<PathBuf>,
    /// Hosts that packages come from, for install_package; those of PyPI, npm, crates.io and Go unless given.
    #[serde(default)]
    registries: Option<Vec<String>>,
    /// Directories with programs beside the system's, such as `~/.rustup/toolchains/stable-x86_64-unknown-linux-gnu`. Programs are looked for in their `bin`, or in themselves, and may read what is in them.
    #[serde(default)]
    programs: Vec<String>,
}

/// Who searches the web for web_search; nobody unless given.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WireSearch {
    provider: WireProvider,
    /// Where it is; Brave's own address unless given.
    #[serde(default)]
    url: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum WireProvider {
    /// With the secret BRAVE_API_KEY.
    Brave,
    /// At your own `url`.
    Searxng,
}

/// The model that tool_codegen asks, behind an interface like OpenAI's; none unless given.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WireModel {
    /// Such as `https://api.openai.com/v1`.
    url: String,
    /// How the model is called there.
    name: String,
    /// The name of the secret that opens it.
    #[serde(default)]
    key: Option<String>,
}

/// A bundle or a tool.
#[derive(Debug, Deserialize)]
#[serde(try_from = "String")]
struct Name(String);

fn names() -> impl Iterator<Item = &'static str> {
    let bundles = BUNDLES.iter().map(|it| it.0);
    bundles.chain(TABLE.iter().map(|it| it.name))
}

impl TryFrom<String> for Name {
    type Error = String;

    fn try_from(name: String) -> Result<Name, String> {
        match names().any(|it| it == name) {
            true => Ok(Name(name)),
            false => Err(format!(
                "`{name}` is neither a bundle nor a tool that comes with glee"
            )),
        }
    }
}

impl JsonSchema for Name {
    fn schema_name() -> Cow<'static, str> {
        "Builtin".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = names().collect();
        json_schema!({"type": "string", "enum": names})
    }
}
