//! Tools that are functions of the program: a Rust program embeds glee and adds its own.
//!
//! ```
//! use glee::native::{About, Context, Failure, NativeTool};
//!
//! struct Greet;
//!
//! #[derive(serde::Deserialize, schemars::JsonSchema)]
//! struct Whom {
//!     /// Who is greeted
//!     name: String,
//! }
//!
//! #[derive(serde::Serialize, schemars::JsonSchema)]
//! struct Greeting {
//!     text: String,
//! }
//!
//! impl NativeTool for Greet {
//!     type Input = Whom;
//!     type Output = Greeting;
//!
//!     fn about(&self) -> About {
//!         About::new("greet", "Greet somebody")
//!     }
//!
//!     async fn run(&self, whom: Whom, _: Context<'_>) -> Result<Greeting, Failure> {
//!         Ok(Greeting { text: format!("Hello, {}!", whom.name) })
//!     }
//! }
//!
//! let tool = glee::native::tool(Greet).unwrap();
//! assert_eq!(tool.name, "greet");
//! ```

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use glee_core::admit::Admitted;
use glee_core::model::{
    Annotations, Approval, Depends, Exec, Format, Limits, Native, Needs, OnMismatch, Origin,
    Outputs, Tasks, ToolSpec,
};
use glee_core::name;
use glee_core::outcome::Held;
use glee_core::permission::{Network, Permissions, SecretNeed};
use glee_core::port::{Function, Later, Ready};
use glee_core::schema::Schema;
use glee_core::secret::Secret;
use glee_core::shape::{Body, Raw};
use schemars::JsonSchema;
use schemars::generate::{Contract, SchemaSettings};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use thiserror::Error;

pub use glee_core::outcome::{Failure, FailureKind};
pub use glee_core::port::{Level, Note};

/// A tool that is a function of this program. Its schemas are those of its types.
pub trait NativeTool: Send + Sync + 'static {
    /// What it takes: a struct, whose fields have comments that say what they are.
    type Input: DeserializeOwned + JsonSchema + Send;
    type Output: Serialize + JsonSchema + Send;

    fn about(&self) -> About;

    /// Why this call cannot be made, whoever agrees to it: nobody is asked then.
    fn refuses(&self, _input: &Self::Input, _workspace: &Path) -> Result<(), Failure> {
        Ok(())
    }

    /// Why a person must agree to this call; nothing when nobody must. It is asked before the call, and
    /// what it looks at may have changed when the call is made: `run` must not do then what nobody agreed
    /// to, see [`Context::is_agreed`].
    fn asks(&self, _input: &Self::Input, _workspace: &Path) -> Option<String> {
        None
    }

    /// What goes wrong is a value too. It is dropped at the tool's deadline and when its caller is gone,
    /// so work that blocks belongs on a thread of its own.
    fn run(
        &self,
        input: Self::Input,
        context: Context<'_>,
    ) -> impl Future<Output = Result<Self::Output, Failure>> + Send;
}

/// What a tool is called, and what it may do. glee shows it, judges by it and records it; it is the
/// function itself that keeps to it.
#[derive(Clone, Debug)]
pub struct About {
    pub name: String,
    pub description: String,
    pub title: Option<String>,
    pub version: String,
    pub tags: Vec<String>,
    pub permissions: Permissions,
    pub annotations: Annotations,
    pub timeout: Duration,
    /// In the words of `ALLOWED_TOOL_PERMS`.
    pub needs: Needs,
}

impl About {
    pub fn new(name: &str, description: &str) -> About {
        About {
            name: name.to_owned(),
            description: description.to_owned(),
            title: None,
            version: "1".to_owned(),
            tags: Vec::new(),
            permissions: Permissions::default(),
            annotations: Annotations::default(),
            timeout: Limits::default().timeout,
            needs: Needs::More(&[]),
        }
    }

    /// May read below these paths, from the project's root.
    pub fn reads(mut self, paths: &[&str]) -> About {
        self.permissions.read = paths.iter().map(|&it| it.to_owned()).collect();
        self
    }

    /// May write below these paths, from the project's root.
    pub fn writes(mut self, paths: &[&str]) -> About {
        self.permissions.write = paths.iter().map(|&it| it.to_owned()).collect();
        self
    }

    pub fn network(mut self, network: Network) -> About {
        self.permissions.network = network;
        self
    }

    /// Is given a secret, by the name of its environment variable.
    pub fn secret(mut self, name: &str, need: SecretNeed) -> About {
        self.permissions.secrets.insert(name.to_owned(), need);
        self
    }

    pub fn tags(mut self, tags: &[&str]) -> About {
        self.tags = tags.iter().map(|&it| it.to_owned()).collect();
        self
    }

    /// Changes nothing.
    pub fn read_only(mut self) -> About {
        self.annotations.read_only = Some(true);
        self
    }

    /// What it needs that its permissions do not tell.
    pub fn needs(mut self, words: &'static [&'static str]) -> About {
        self.needs = Needs::More(words);
        self
    }

    /// All that it needs, whatever its permissions tell.
    pub fn needs_exactly(mut self, words: &'static [&'static str]) -> About {
        self.needs = Needs::Exactly(words);
        self
    }

    pub fn destructive(mut self) -> About {
        self.annotations.destructive = Some(true);
        self
    }

    pub fn timeout(mut self, timeout: Duration) -> About {
        self.timeout = timeout;
        self
    }
}

/// The call a function is run for.
pub struct Context<'a>(&'a Admitted);

impl<'a> Context<'a> {
    /// The project's root.
    pub fn workspace(&self) -> &'a Path {
        self.0.root()
    }

    /// A secret that the tool has declared and that is there.
    pub fn secret(&self, name: &str) -> Option<&'a Secret> {
        self.0.secrets().get(name)
    }

    /// Tells the caller how far the work is.
    pub fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        self.0.party().hear(Note::Progress {
            done,
            total,
            message: message.map(str::to_owned),
        });
    }

    /// Tells the caller something meanwhile.
    pub fn log(&self, level: Level, text: &str) {
        self.0.party().hear(Note::Log {
            level,
            text: text.to_owned(),
        });
    }

    /// Resolves when nobody waits for the answer any more.
    pub async fn cancelled(&self) {
        self.0.cancel().cancelled().await;
    }

    /// Whether a person has agreed to what [`NativeTool::asks`] would say, or nobody need be asked here. When
    /// it said nothing, nobody has.
    pub fn is_agreed(&self) -> bool {
        self.0.is_agreed()
    }

    /// How long the call may take in all.
    pub fn timeout(&self) -> Duration {
        self.0.timeout()
    }
}

/// Why a function cannot be a tool.
#[derive(Debug, Error)]
pub enum Unfit {
    #[error("`{name}` cannot be a tool: {why}")]
    Name { name: String, why: String },
    #[error("the {which} of `{tool}` cannot be used: {why}")]
    Schema {
        tool: String,
        which: &'static str,
        why: String,
    },
    #[error("`{property}` of `{tool}` has no {lacks}; models need both a type and a description")]
    Property {
        tool: String,
        property: String,
        lacks: &'static str,
    },
}

/// Makes a tool of a function, to be handed to [`crate::app::Wiring`].
pub fn tool<T: NativeTool>(function: T) -> Result<ToolSpec, Unfit> {
    let spec = uncompiled(function)?;
    let schemas = [
        ("input", Some(&spec.inputs)),
        ("output", spec.outputs.schema.as_ref()),
    ];
    for (which, schema) in schemas {
        if let Some(Err(err)) = schema.map(Schema::compile) {
            return Err(Unfit::Schema {
                tool: spec.name.clone(),
                which,
                why: err.reason.clone(),
            });
        }
    }
    Ok(spec)
}

/// The same, for functions whose schemas are compiled by a test: to do it at every start takes its time.
pub(crate) fn uncompiled<T: NativeTool>(function: T) -> Result<ToolSpec, Unfit> {
    let function = Arc::new(function);
    let asked = function.clone();
    let asks = move |input: &T::Input, workspace: &Path| {
        asked.refuses(input, workspace)?;
        Ok(asked.asks(input, workspace))
    };
    spec::<T::Input, T::Output>(function.about(), asks, Arc::new(Typed(function)))
}

/// A tool of these types, whatever runs it.
pub(crate) fn spec<I: DeserializeOwned + JsonSchema, O: JsonSchema>(
    about: About,
    asks: impl Fn(&I, &Path) -> Result<Option<String>, Failure> + Send + Sync + 'static,
    function: Arc<dyn Function>,
) -> Result<ToolSpec, Unfit> {
    let name = about.name.clone();
    let asks = Depends(Arc::new(move |args, workspace| {
        asks(&typed(&name, args)?, workspace)
    }));
    let taken = schema_of::<I>(Contract::Deserialize);
    let given = schema_of::<O>(Contract::Serialize);
    of_schemas(about, taken, given, asks, function)
}

/// What needs no types is not made anew for each of them.
fn of_schemas(
    about: About,
    taken: Value,
    given: Value,
    asks: Depends,
    function: Arc<dyn Function>,
) -> Result<ToolSpec, Unfit> {
    let unfit = |which, why: String| Unfit::Schema {
        tool: about.name.clone(),
        which,
        why,
    };
    name::check(&about.name).map_err(|err| Unfit::Name {
        name: about.name.clone(),
        why: err.to_string(),
    })?;
    check_inputs(&about.name, &taken)?;
    let bounded = |which, source: &Value| {
        Schema::new(source.clone()).map_err(|err| unfit(which, format!("{err:?}")))
    };
    let inputs = bounded("input", &taken)?;
    let outputs = bounded("output", &given)?;
    let document = json!({
        "name": about.name,
        "version": about.version,
        "description": about.description,
        "inputs": taken,
        "outputs": given,
        "program": env!("CARGO_PKG_VERSION"),
    });
    Ok(ToolSpec {
        name: about.name,
        version: about.version,
        title: about.title,
        description: about.description,
        tags: about.tags,
        inputs,
        elicit: Vec::new(),
        outputs: Outputs {
            format: Format::Json,
            extract: None,
            fields: Vec::new(),
            schema: Some(outputs),
            on_mismatch: OnMismatch::Fail,
        },
        exec: Exec::Native(Native {
            function,
            needs: about.needs,
        }),
        permissions: about.permissions,
        approval: Approval::Depends(asks),
        annotations: about.annotations,
        limits: Limits {
            timeout: about.timeout,
            output_bytes: 64 << 20,
            ..Limits::default()
        },
        tasks: Tasks::Never,
        examples: Vec::new(),
        origin: Origin::BuiltIn,
        source: Default::default(),
        document: Sha256::digest(document.to_string()).into(),
    })
}

/// In one piece: clients and providers are not good at references.
fn schema_of<T: JsonSchema>(contract: Contract) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.contract = contract;
    settings.inline_subschemas = true;
    settings.meta_schema = None;
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    schema.remove("title");
    let mut schema = schema.to_value();
    drop_widths(&mut schema);
    schema
}

/// How wide a number is in this program is nobody else's business, and its range says it already.
fn drop_widths(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            let is_number = |it: &Value| match it {
                Value::Array(kinds) => kinds.iter().any(|it| it == "integer" || it == "number"),
                kind => kind == "integer" || kind == "number",
            };
            if map.get("type").is_some_and(is_number) {
                map.shift_remove("format");
            }
            map.values_mut().for_each(drop_widths);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_widths),
        _ => {}
    }
}

/// The root is an object, and every property says what it is.
fn check_inputs(tool: &str, schema: &Value) -> Result<(), Unfit> {
    if schema["type"] != "object" {
        return Err(Unfit::Schema {
            tool: tool.to_owned(),
            which: "input",
            why: "its root is not an object".to_owned(),
        });
    }
    for (property, schema) in schema["properties"].as_object().into_iter().flatten() {
        let lacks = |what: &'static str| Unfit::Property {
            tool: tool.to_owned(),
            property: property.clone(),
            lacks: what,
        };
        let typed = ["type", "enum", "anyOf", "oneOf", "const"];
        if !typed.iter().any(|it| schema.get(it).is_some()) {
            return Err(lacks("type"));
        }
        if schema["description"].as_str().is_none_or(str::is_empty) {
            return Err(lacks("description"));
        }
    }
    Ok(())
}

/// A function whose types are known only here.
struct Typed<T>(Arc<T>);

impl<T: NativeTool> Function for Typed<T> {
    fn hold<'a>(&'a self, call: &'a Admitted) -> Later<'a, Result<Ready<'a>, Failure>> {
        Box::pin(async move {
            Ok(Ready {
                held: Held {
                    by: "glee itself".to_owned(),
                    missing: Vec::new(),
                },
                run: Box::pin(in_time(self.run(call), call)),
            })
        })
    }
}

impl<T: NativeTool> Typed<T> {
    async fn run(&self, call: &Admitted) -> Result<Raw, Failure> {
        let output = self.0.run(input(call)?, Context(call)).await?;
        Ok(Body::Value(json_of(output, call)?).into())
    }
}

async fn in_time(
    run: impl Future<Output = Result<Raw, Failure>>,
    call: &Admitted,
) -> Result<Raw, Failure> {
    let name = &call.spec().name;
    tokio::select! {
        // What is done at once needs no clock.
        biased;
        done = run => done,
        () = tokio::time::sleep(call.timeout()) => {
            let after = call.timeout().as_millis() as u64;
            let message = format!("`{name}` was stopped after {after} ms");
            Err(Failure::new(FailureKind::Timeout, message)
                .with("timeout_ms", after)
                .hint("give it less to do at once"))
        }
        () = call.cancel().cancelled() => Err(Failure::new(
            FailureKind::Cancelled,
            format!("`{name}` was cancelled and stopped"),
        )),
    }
}

/// The arguments as their type. The schema is the type's own, so this says what no schema can.
pub(crate) fn input<I: DeserializeOwned>(call: &Admitted) -> Result<I, Failure> {
    typed(&call.spec().name, call.args())
}

fn typed<I: DeserializeOwned>(name: &str, args: &Map<String, Value>) -> Result<I, Failure> {
    I::deserialize(Value::Object(args.clone())).map_err(|err| {
        let message = format!("the arguments of `{name}` are not valid: {err}");
        Failure::new(FailureKind::InvalidInput, message)
    })
}

pub(crate) fn json_of<O: Serialize>(output: O, call: &Admitted) -> Result<Value, Failure> {
    serde_json::to_value(output).map_err(|err| {
        let message = format!("the output of `{}` is no JSON: {err}", call.spec().name);
        Failure::new(FailureKind::OutputInvalid, message)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Named {
        text: String,
    }

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Wrapped(Named);

    #[test]
    fn arguments_become_any_type_that_an_object_can() {
        let args = json!({"text": "x"});
        let args = args.as_object().unwrap();
        let named = || Named { text: "x".into() };
        assert_eq!(typed::<Named>("say", args).unwrap(), named());
        assert_eq!(typed::<Wrapped>("say", args).unwrap(), Wrapped(named()));
        assert_eq!(typed::<Option<Named>>("say", args).unwrap(), Some(named()));
    }
}
