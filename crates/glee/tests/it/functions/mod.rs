//! Tools as functions of a model's provider: listed, called and answered in its words.

mod corpus;
mod rules;
mod types;

use std::sync::Arc;

use glee::dialect::function::{Export, Format, Remark, export, names};
use glee::dialect::manifest;
use glee::store::manifests;
use glee_core::model::ToolSpec;
use serde_json::{Value, json};

use crate::builtins;
use crate::mcp::server::{Served, eventually, glee};
use crate::support::{Scene, json as output_json, repository, stderr, stdout};

/// A tool that takes what the schema says.
fn tool(name: &str, schema: &Value) -> String {
    json!({
        "name": name,
        "description": "Print its arguments",
        "kind": "command",
        "version": 1,
        "inputs": {"schema": schema},
        "outputs": {"format": "json"},
        "exec": {"command": {"entrypoint": "cat", "stdin": "${args}"}},
        "permissions": {"network": false},
        "approval": {"required": false},
    })
    .to_string()
}

/// The same, printing these arguments.
fn echo(name: &str, schema: &Value) -> String {
    let properties = schema["properties"].as_object();
    let names = properties.into_iter().flatten().map(|it| it.0);
    let stdin: Value = names
        .map(|it| (it.clone(), json!(format!("${{{it}}}"))))
        .collect::<serde_json::Map<_, _>>()
        .into();
    tool(name, schema).replace("\"${args}\"", &stdin.to_string())
}

fn spec(name: &str, schema: &Value) -> ToolSpec {
    let text = tool(name, schema).replace("\"${args}\"", "{}");
    let read = manifest::read(&text, name, "tool.yml".as_ref());
    let problems = read.problems;
    read.model
        .unwrap_or_else(|| panic!("{schema}: {problems:?}"))
}

/// One function out of an export: its name, its schema, and whether it is strict.
struct Function {
    name: String,
    schema: Option<Value>,
    strict: bool,
}

fn functions(format: Format, export: &Export) -> Vec<Function> {
    let list = match format {
        Format::Gemini => &export.tools[0]["functionDeclarations"],
        _ => &export.tools,
    };
    let all = list.as_array().unwrap().iter();
    all.map(|it| {
        let (function, schema) = match format {
            Format::OpenAi | Format::ToolResult => (&it["function"], "parameters"),
            Format::OpenAiResponses | Format::Gemini => (it, "parameters"),
            Format::Anthropic => (it, "input_schema"),
        };
        assert!(function["description"].is_string(), "{it}");
        Function {
            name: function["name"].as_str().unwrap().to_owned(),
            schema: function.get(schema).cloned(),
            strict: function["strict"] == true,
        }
    })
    .collect()
}

/// Tools with every schema there may be: those of the corpus, and all that come with glee and with the examples.
struct Everything {
    corpus: Vec<Arc<ToolSpec>>,
    real: Vec<Arc<ToolSpec>>,
}

impl Everything {
    fn new() -> Everything {
        let corpus = corpus::schemas();
        assert!(corpus.len() >= 200, "{}", corpus.len());
        let named = corpus.iter().enumerate();
        let corpus = named.map(|(at, it)| Arc::new(spec(&format!("t{at}"), it)));
        let examples = repository().join("examples/.glee/tools");
        let examples = manifests::load(&examples).unwrap().into_iter();
        // One of them has the name of a built-in tool.
        let examples = examples.map(|it| {
            let model = it.read.model.unwrap();
            let name = format!("example_{}", model.name);
            Arc::new(ToolSpec { name, ..model })
        });
        let builtins = builtins::means().tools().unwrap();
        Everything {
            corpus: corpus.collect(),
            real: builtins.into_iter().chain(examples).collect(),
        }
    }

    fn all(&self) -> Vec<&ToolSpec> {
        self.corpus
            .iter()
            .chain(&self.real)
            .map(|it| &**it)
            .collect()
    }

    /// All of them, as a provider is told them.
    fn exported(&self, format: Format, strict: bool) -> Export {
        let all = self.all();
        let names = names(format, &all);
        let tools: Vec<(&ToolSpec, String)> = all.into_iter().zip(names).collect();
        export(format, strict, &tools)
    }
}

const PROVIDERS: [Format; 4] = [
    Format::OpenAi,
    Format::OpenAiResponses,
    Format::Anthropic,
    Format::Gemini,
];

/// Every provider takes every tool that it is given, and every tool is given or told to be left out.
#[test]
fn one_tool_never_breaks_the_list() {
    let everything = Everything::new();
    for format in PROVIDERS {
        for strict in [false, true] {
            let export = everything.exported(format, strict);
            let listed = functions(format, &export);
            let mut left_out = Vec::new();
            for (spec, name) in everything
                .all()
                .iter()
                .zip(names(format, &everything.all()))
            {
                let source = spec.inputs.source();
                let said = |what: &str| {
                    let of = |it: &&Remark| it.tool.as_ref() == Some(&spec.name);
                    export
                        .report
                        .iter()
                        .filter(of)
                        .any(|it| it.what.contains(what))
                };
                let Some(found) = listed.iter().find(|it| it.name == name) else {
                    assert!(said("left out"), "{name} is missing: {source}");
                    left_out.push(name);
                    continue;
                };
                if strict && format != Format::Gemini {
                    assert_ne!(found.strict, said("not strict"), "{name}");
                }
                let problems = rules::problems(format, found.strict, found.schema.as_ref());
                assert!(
                    problems.is_empty(),
                    "{format:?} {strict} {name}: {problems:?}\nfrom {source}\nto {:?}",
                    found.schema
                );
            }
            assert!(left_out.len() <= 4, "{format:?} {strict}: {left_out:?}");
            let is_real = |it: &&String| everything.real.iter().any(|real| real.name == **it);
            assert_eq!(left_out.iter().find(is_real), None, "{format:?} {strict}");
        }
    }
}

/// All that comes with glee can be called within OpenAI's strict schemas.
#[test]
fn every_builtin_is_strict() {
    let tools = builtins::means().tools().unwrap();
    let tools: Vec<(&ToolSpec, String)> = tools.iter().map(|it| (&**it, it.name.clone())).collect();
    let export = export(Format::OpenAi, true, &tools);
    let listed = functions(Format::OpenAi, &export);
    assert_eq!(listed.len(), tools.len());
    let loose: Vec<&String> = listed
        .iter()
        .filter(|it| !it.strict)
        .map(|it| &it.name)
        .collect();
    assert!(loose.is_empty(), "{loose:?}");
}

/// What is told of a tool does not depend on how many others there are: a call is read by it.
#[test]
fn a_tool_beyond_the_room_is_told_the_same() {
    let schema = json!({"type": "object", "additionalProperties": false, "properties": {"v": {"description": "d"}}});
    let one = spec("last", &schema);
    let builtins = builtins::means().tools().unwrap();
    let many: Vec<&ToolSpec> = builtins.iter().map(|it| &**it).chain([&one]).collect();
    let told = |tools: &[&ToolSpec]| {
        let tools: Vec<(&ToolSpec, String)> =
            tools.iter().map(|it| (*it, it.name.clone())).collect();
        let export = export(Format::Anthropic, true, &tools);
        let last = functions(Format::Anthropic, &export).pop().unwrap();
        (last.schema, last.strict, export.report)
    };
    let (alone, strict, _) = told(&[&one]);
    assert!(strict);
    let (among_many, strict, report) = told(&many);
    assert_eq!((among_many, strict), (alone, false));
    assert!(
        report
            .iter()
            .any(|it| it.tool.as_deref() == Some("last") && it.what.contains("not strict"))
    );
}

/// It could not be called, and for a provider that does not know its pattern nor could the others.
#[test]
fn a_tool_that_cannot_be_used_is_not_told() {
    let scene = Scene::new();
    let schema = |pattern: &str| {
        json!({
            "type": "object", "additionalProperties": false,
            "properties": {"v": {"type": "string", "description": "d", "pattern": pattern}}
        })
    };
    scene.write(
        ".glee/tools/bad/tool.yml",
        &tool("bad", &schema("^(?!.*[.][.])[a-z]+$")).replace("\"${args}\"", "{}"),
    );
    scene.write(
        ".glee/tools/good/tool.yml",
        &tool("good", &schema("^[a-z]+$")).replace("\"${args}\"", "{}"),
    );
    for format in ["openai", "openai-responses", "anthropic", "gemini"] {
        for strict in [true, false] {
            let mut words = vec!["export", format];
            words.extend(strict.then_some("--strict"));
            let output = scene.glee(&words);
            let listed = stdout(&output);
            assert!(
                listed.contains("good") && !listed.contains("bad"),
                "{format}: {listed}"
            );
            assert!(
                stderr(&output).contains("left out"),
                "{format}: {}",
                stderr(&output)
            );
        }
    }
}

/// By a pointer that is escaped as URLs are, and by an anchor.
#[test]
fn references_are_followed_however_they_are_written() {
    for (to, shared) in [
        ("#/$defs/a%20b", json!({"a b": {"type": "integer"}})),
        ("#/%24defs/%C3%A4~1", json!({"ä/": {"type": "integer"}})),
        (
            "#here",
            json!({"x": {"$anchor": "here", "type": "integer"}}),
        ),
    ] {
        let property = json!({"$ref": to, "description": "d"});
        let schema = json!({"type": "object", "required": ["a"], "properties": {"a": property}, "$defs": shared});
        let spec = spec("t", &schema);
        for (format, strict) in [
            (Format::OpenAi, true),
            (Format::Anthropic, true),
            (Format::Gemini, false),
        ] {
            let export = export(format, strict, &[(&spec, "t".to_owned())]);
            let told = functions(format, &export).remove(0).schema.unwrap();
            let kind = told["properties"]["a"]["type"]
                .as_str()
                .unwrap()
                .to_lowercase();
            assert_eq!(kind, "integer", "{format:?} {to}: {told}");
            assert!(export.report.is_empty(), "{format:?} {to}");
        }
        // Told as it is, it still leads there.
        let export = export(Format::Anthropic, false, &[(&spec, "t".to_owned())]);
        let told = functions(Format::Anthropic, &export)
            .remove(0)
            .schema
            .unwrap();
        assert_eq!(
            rules::problems(Format::Anthropic, false, Some(&told)),
            [""; 0]
        );
    }
}

/// What the rules are for: each of these would break a whole list.
#[test]
fn the_rules_find_what_providers_refuse() {
    let object = |properties: Value| json!({"type": "object", "properties": properties});
    for (format, strict, schema) in [
        (
            Format::OpenAi,
            true,
            object(json!({"a": {"type": "string"}})),
        ),
        (
            Format::OpenAi,
            false,
            json!({"type": "object", "anyOf": [{"required": ["a"]}]}),
        ),
        (
            Format::OpenAi,
            false,
            object(json!({"a": {"type": "array"}})),
        ),
        (
            Format::Anthropic,
            false,
            object(json!({"a b": {"type": "string"}})),
        ),
        (
            Format::Gemini,
            false,
            object(json!({"a": {"type": "string"}})),
        ),
        (
            Format::Gemini,
            false,
            json!({"type": "OBJECT", "properties": {"a": {"$ref": "#"}}}),
        ),
    ] {
        let found = rules::problems(format, strict, Some(&schema));
        assert!(!found.is_empty(), "{format:?} {strict} {schema}");
    }
}

#[test]
fn names_are_mapped_and_back() {
    let scene = Scene::new();
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "string", "description": "a"}}});
    for name in ["größe", "7up", "plain"] {
        let path = format!(".glee/tools/{name}/tool.yml");
        scene.write(&path, &echo(name, &schema));
    }
    for (format, expected) in [
        ("openai", ["7up", "gr_f6__df_e_d353a267", "plain"]),
        ("gemini", ["_7up_be39b1e7", "gr_f6__df_e_d353a267", "plain"]),
    ] {
        let exported = output_json(&scene.glee(&["export", format]));
        let format = Format::named(format).unwrap();
        let export = Export {
            tools: exported,
            report: Vec::new(),
        };
        let mut names: Vec<String> = functions(format, &export)
            .into_iter()
            .map(|it| it.name)
            .collect();
        names.sort();
        assert_eq!(names, expected);
        for name in expected {
            let call = match format {
                Format::Gemini => json!({"functionCall": {"name": name, "args": {"a": "x"}}}),
                _ => json!({"id": "1", "function": {"name": name, "arguments": "{\"a\": \"x\"}"}}),
            };
            let call = call.to_string();
            let output = scene.glee(&["call", "--format", format.name(), &call]);
            assert_eq!(output.status.code(), Some(0), "{name}: {}", stderr(&output));
            assert!(stdout(&output).contains('x'), "{name}: {}", stdout(&output));
        }
    }
}

/// A tool has one name, whoever is listed beside it.
#[test]
fn a_tool_that_is_listed_alone_has_its_own_name() {
    let scene = Scene::new();
    let nothing = json!({"type": "object", "additionalProperties": false});
    for name in ["a.b", "a_b"] {
        let text =
            tool(name, &nothing).replace("\"${args}\"", &format!("{{\"I am\": \"{name}\"}}"));
        scene.write(&format!(".glee/tools/{name}/tool.yml"), &text);
    }
    let listed = output_json(&scene.glee(&["export", "openai", "--only", "a.b"]));
    let name = listed[0]["function"]["name"].as_str().unwrap();
    let call = json!({"id": "c", "function": {"name": name, "arguments": "{}"}}).to_string();
    let answer = output_json(&scene.glee(&["call", "--format", "openai", &call]));
    assert!(
        answer["content"].as_str().unwrap().contains("a.b"),
        "{name}: {answer}"
    );
}

/// References that multiply are given up, and no other tool suffers.
#[test]
fn a_schema_without_end_is_left_out() {
    let wide: serde_json::Map<String, Value> = (0..1000)
        .map(|it| (format!("p{it}"), json!({"$ref": "#"})))
        .collect();
    let mut doubling = serde_json::Map::from_iter([("d0".to_owned(), json!({"type": "string"}))]);
    for it in 1..=12 {
        let one = json!({"$ref": format!("#/$defs/d{}", it - 1)});
        doubling.insert(format!("d{it}"), json!({"allOf": [one, one]}));
    }
    let many: serde_json::Map<String, Value> = (0..500)
        .map(|it| (format!("p{it}"), json!({"$ref": "#/$defs/d12"})))
        .collect();
    let schemas = [
        json!({"type": "object", "properties": wide}),
        json!({"type": "object", "properties": many, "$defs": doubling}),
    ];
    let small = spec(
        "small",
        &json!({"type": "object", "additionalProperties": false}),
    );
    for schema in schemas {
        let large = spec("large", &schema);
        let tools = [(&large, "large".to_owned()), (&small, "small".to_owned())];
        for (format, what) in [(Format::OpenAi, "not strict"), (Format::Gemini, "left out")] {
            let export = export(format, true, &tools);
            let listed = functions(format, &export);
            assert!(listed.iter().any(|it| it.name == "small"));
            let told = export.report.iter().map(|it| it.what.as_str());
            assert!(
                told.clone().any(|it| it.contains(what)),
                "{format:?}: {:?}",
                told.collect::<Vec<_>>()
            );
        }
    }
}

/// However little there is to choose from.
#[test]
fn names_for_gemini_are_found_for_all() {
    let schema = json!({"type": "object"});
    let specs: Vec<ToolSpec> = (0..64)
        .map(|it| spec(&("_".repeat(it) + &"1".repeat(64 - it)), &schema))
        .collect();
    let specs: Vec<&ToolSpec> = specs.iter().collect();
    let names = names(Format::Gemini, &specs);
    let different: std::collections::BTreeSet<&String> = names.iter().collect();
    assert_eq!(different.len(), 64);
    assert!(names.iter().all(|it| it.len() <= 64 && it.starts_with('_')));
}

/// Of several forms, the one that the arguments have.
#[test]
fn a_union_finds_its_way_back() {
    let schema = json!({"type": "object", "required": ["body"], "properties": {
        "body": {"anyOf": [{"type": "string"}, {"type": "object"}], "description": "d"},
        "pick": {"description": "d", "type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}, "c": {"type": "string"}},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
        "kind": {"description": "d", "anyOf": [
            {"type": "object", "required": ["k"], "properties": {"k": {"const": "a"}, "x": {"type": "string"}}},
            {"type": "object", "required": ["k", "x"], "properties": {"k": {"const": "b"}, "x": {"type": ["string", "null"]}}},
        ]},
    }});
    let spec = spec("t", &schema);
    for (said, meant) in [
        (json!({"body": "123"}), json!({"body": "123"})),
        (json!({"body": "\"q\""}), json!({"body": "\"q\""})),
        (
            json!({"body": "", "pick": {"a": null, "b": "x", "c": null}}),
            json!({"body": "", "pick": {"b": "x"}}),
        ),
        (
            json!({"body": "", "kind": {"k": "b", "x": null}}),
            json!({"body": "", "kind": {"k": "b", "x": null}}),
        ),
        (
            json!({"body": "", "kind": {"k": "a", "x": null}}),
            json!({"body": "", "kind": {"k": "a"}}),
        ),
    ] {
        let args = said.as_object().unwrap().clone();
        let restored = glee::dialect::function::restore(Format::OpenAi, true, &spec, args);
        assert_eq!(Value::Object(restored), meant, "{said}");
    }
}

/// A form that is not the first can be called too.
#[test]
fn every_form_can_be_called() {
    let form = |kind: &str| json!({"type": "object", "required": ["kind"], "properties": {"kind": {"const": kind}, kind: {"type": "string"}}});
    let schema = json!({"type": "object", "oneOf": [form("a"), form("b")]});
    let spec = spec("t", &schema);
    for (format, strict) in [
        (Format::OpenAi, true),
        (Format::OpenAi, false),
        (Format::Gemini, true),
    ] {
        let export = export(format, strict, &[(&spec, "t".to_owned())]);
        let told = functions(format, &export).remove(0).schema.unwrap();
        let kind = told["properties"]["kind"].to_string();
        assert!(
            kind.contains("\"a\"") && kind.contains("\"b\""),
            "{format:?}: {told}"
        );
    }
}

/// What a model says within a strict schema arrives as the tool's own schema wants it.
#[test]
fn strict_arguments_find_their_way_back() {
    let scene = Scene::new();
    let schema = json!({
        "type": "object",
        "required": ["must"],
        "additionalProperties": false,
        "properties": {
            "must": {"type": "string", "description": "d"},
            "may": {"type": "integer", "description": "d"},
            "null_too": {"type": ["string", "null"], "description": "d"},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}, "description": "d"},
            "list": {"type": "array", "description": "d", "items": {
                "type": "object", "additionalProperties": false,
                "properties": {"x": {"type": "integer"}, "y": {"type": "object"}},
            }},
        },
    });
    scene.write(".glee/tools/t/tool.yml", &echo("t", &schema));
    let said = json!({
        "must": "m", "may": null, "null_too": null, "map": "{\"a\": 1}",
        "list": [{"x": null, "y": "{\"z\": []}"}],
    });
    let expected = json!({
        "must": "m", "null_too": null, "map": {"a": 1}, "list": [{"y": {"z": []}}],
    });
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "t", "input": said});
    let answer = |format: &str, call: &Value| {
        let output = scene.glee(&["call", "--format", format, "--strict", &call.to_string()]);
        assert_eq!(
            output.status.code(),
            Some(0),
            "{}{}",
            stderr(&output),
            stdout(&output)
        );
        output_json(&output)
    };
    let openai = json!({"id": "c", "type": "function", "function": {"name": "t", "arguments": said.to_string()}});
    let answered = answer("openai", &openai);
    let value: Value = serde_json::from_str(answered["content"].as_str().unwrap()).unwrap();
    assert_eq!(value, expected);
    assert_eq!(answered["role"], "tool");
    assert_eq!(answered["tool_call_id"], "c");
    // Anthropic leaves out what is absent.
    let mut call = call;
    call["input"] = json!({"must": "m", "map": "{\"a\": 1}"});
    let answered = answer("anthropic", &call);
    assert_eq!(answered["tool_use_id"], "toolu_1");
    assert_eq!(answered["is_error"], false);
    let value: Value = serde_json::from_str(answered["content"].as_str().unwrap()).unwrap();
    assert_eq!(value, json!({"must": "m", "map": {"a": 1}}));
}

/// Every form of a call and of its answer; a failure is an answer too.
#[test]
fn calls_are_answered_in_their_own_words() {
    let scene = Scene::new();
    let schema = json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "description": "a"}}});
    scene.write(".glee/tools/t/tool.yml", &echo("t", &schema));
    let call = |format: &str, call: Value, code: i32| {
        let output = scene.glee(&["call", "--format", format, &call.to_string()]);
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        output_json(&output)
    };
    let value = json!({"a": "x"}).to_string();
    let chat =
        json!({"id": "c1", "type": "function", "function": {"name": "t", "arguments": value}});
    assert_eq!(
        call("openai", chat.clone(), 0),
        json!({"role": "tool", "tool_call_id": "c1", "content": value})
    );
    let message = json!({"role": "assistant", "tool_calls": [chat, chat]});
    assert_eq!(call("openai", message, 0).as_array().unwrap().len(), 2);
    assert_eq!(
        call("tool-result", chat.clone(), 0),
        json!({"tool_call_id": "c1", "output": value, "success": true})
    );
    let responses =
        json!({"type": "function_call", "call_id": "c2", "name": "t", "arguments": value});
    let list = json!([{"type": "reasoning"}, responses]);
    assert_eq!(
        call("openai-responses", list, 0),
        json!([{"type": "function_call_output", "call_id": "c2", "output": value}])
    );
    let anthropic = json!({"content": [
        {"type": "text", "text": "I call it."},
        {"type": "tool_use", "id": "u", "name": "t", "input": {"a": "x"}},
    ]});
    assert_eq!(
        call("anthropic", anthropic, 0),
        json!([{"type": "tool_result", "tool_use_id": "u", "content": value, "is_error": false}])
    );
    let gemini = json!({"functionCall": {"id": "g", "name": "t", "args": {"a": "x"}}});
    let answered = call("gemini", gemini, 0);
    assert_eq!(
        answered["functionResponse"]["response"]["output"],
        json!({"a": "x"})
    );
    assert_eq!(answered["functionResponse"]["id"], "g");
    // What is wrong is for the model to know.
    for (arguments, code, what) in [
        ("{}", 2, "INVALID_INPUT"),
        ("{\"a\": 1}", 2, "INVALID_INPUT"),
        ("{\"a\": \"x\", \"a\": \"y\"}", 2, "INVALID_INPUT"),
        ("[]", 2, "INVALID_INPUT"),
        ("{", 2, "INVALID_INPUT"),
    ] {
        let wrong = json!({"id": "c", "function": {"name": "t", "arguments": arguments}});
        let answered = call("tool-result", wrong, code);
        assert_eq!(answered["success"], false, "{arguments}");
        assert!(
            answered["error"].as_str().unwrap().starts_with(what),
            "{answered}"
        );
    }
    // Every call of a list is answered, or the provider refuses the whole conversation.
    let list = json!([chat, {"id": "c2", "type": "function", "function": {"arguments": "{}"}}, {"id": 3, "type": "custom"}]);
    let answered = call("openai", list, 2);
    let ids: Vec<&Value> = answered
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["tool_call_id"])
        .collect();
    assert_eq!(ids, ["c1", "c2", "3"], "{answered}");
    let unknown = json!({"id": "c", "function": {"name": "nope", "arguments": "{}"}});
    let answered = call("openai", unknown, 2);
    assert!(
        answered["content"]
            .as_str()
            .unwrap()
            .starts_with("NOT_FOUND"),
        "{answered}"
    );
    let nothing = scene.glee(&["call", "--format", "openai", "{\"a\": 1}"]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(
        stderr(&nothing).contains("there is no call in it"),
        "{}",
        stderr(&nothing)
    );
}

/// The same over HTTP, for those who may.
#[test]
fn exports_and_calls_over_rest() {
    let scene = Scene::new();
    let schema =
        json!({"type": "object", "properties": {"a": {"type": "string", "description": "a"}}});
    scene.write(".glee/tools/t/tool.yml", &echo("t", &schema));
    let served = Served::guarded(&scene);
    let agent = glee(&scene, &["token", "create", "agent"]);
    let reader = glee(
        &scene,
        &["token", "create", "reader", "--scope", "read_registry"],
    );
    eventually("both are let in", || {
        served.admits(&agent) && served.admits(&reader)
    });
    let send = |line: &str, token: &str, body: &Value| {
        let reply = served.rest(line, token, &[], body);
        let answer: Value =
            serde_json::from_str(&reply.body).unwrap_or_else(|_| panic!("{reply:?}"));
        (reply.status, answer)
    };
    for format in [
        "openai",
        "openai-responses",
        "anthropic",
        "gemini",
        "mcp",
        "openapi",
    ] {
        let line = format!("GET /export/{format}?strict=true");
        let (status, answer) = send(&line, &reader, &Value::Null);
        assert_eq!(status, 200, "{answer}");
        assert!(
            answer["value"]["tools"]
                .to_string()
                .contains("Print its arguments"),
            "{answer}"
        );
    }
    let (status, answer) = send("GET /export/nope", &reader, &Value::Null);
    assert_eq!(
        (status, &answer["error"]["code"]),
        (400, &json!("INVALID_INPUT"))
    );
    let (status, _) = send("GET /export/openai?only=nope", &reader, &Value::Null);
    assert_eq!(status, 404);
    let call = json!({"type": "tool_use", "id": "u", "name": "t", "input": {"a": "x"}});
    let (status, answer) = send("POST /call/anthropic", &agent, &call);
    assert_eq!(
        (status, &answer["tool_use_id"]),
        (200, &json!("u")),
        "{answer}"
    );
    let (status, answer) = send("POST /run/t", &agent, &json!({"a": "x"}));
    assert_eq!(
        (status, &answer["value"]),
        (200, &json!({"a": "x"})),
        "{answer}"
    );
    let (status, answer) = send("POST /run/t", &agent, &json!({"a": 1}));
    assert_eq!(
        (status, &answer["error"]["code"]),
        (400, &json!("INVALID_INPUT")),
        "{answer}"
    );
    // A list is no object whose fields have an order.
    let (status, answer) = send("POST /run/t", &agent, &json!([{"a": "x"}]));
    assert_eq!(
        (status, &answer["error"]["code"]),
        (400, &json!("INVALID_INPUT")),
        "{answer}"
    );
    // Who may only look calls nothing.
    let log = || std::fs::read_to_string(scene.root.join(".glee/audit/tools.log")).unwrap();
    let before = log();
    for (line, body) in [
        ("POST /call/anthropic", call),
        ("POST /run/t", json!({"a": "x"})),
    ] {
        let (status, answer) = send(line, &reader, &body);
        assert_eq!(
            (status, &answer["error"]["code"]),
            (403, &json!("PERMISSION_DENIED"))
        );
    }
    assert_eq!(log(), before);
    let reply = served.rest("GET /export/openai", "nobody's", &[], &Value::Null);
    assert_eq!(reply.status, 401);
}

/// What a tool may not do, it may not do as a function either.
#[test]
fn a_function_passes_the_same_gate() {
    let scene = Scene::new();
    let text = tool("t", &json!({"type": "object"})).replace("\"${args}\"", "{}");
    let asks = text.replace(
        "{\"required\":false}",
        "{\"required\":true,\"reason\":\"it matters\"}",
    );
    assert_ne!(text, asks);
    scene.write(".glee/tools/t/tool.yml", &asks);
    let call = json!({"id": "c", "function": {"name": "t", "arguments": "{}"}}).to_string();
    let output = scene.glee(&["call", "--format", "openai", &call]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let answer = output_json(&output);
    let content = answer["content"].as_str().unwrap();
    assert!(content.starts_with("APPROVAL_REQUIRED"), "{content}");
    assert!(content.contains("approval_id"), "{content}");
}

/// A call that is stopped is over, and recorded so.
#[test]
fn a_call_that_is_stopped_is_recorded() {
    let scene = Scene::new();
    let text = tool("t", &json!({"type": "object"}))
        .replace("\"${args}\"", "{}")
        .replace("\"cat\"", "\"sleep\"")
        .replace("\"entrypoint\"", "\"args\":[\"600\"],\"entrypoint\"");
    scene.write(".glee/tools/t/tool.yml", &text);
    let call = json!({"id": "c", "function": {"name": "t", "arguments": "{}"}}).to_string();
    let mut running = std::process::Command::new(crate::support::GLEE)
        .args(["call", "--format", "openai", &call])
        .current_dir(&scene.root)
        .env("XDG_STATE_HOME", scene.root.with_file_name("state"))
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let log =
        || std::fs::read_to_string(scene.root.join(".glee/audit/tools.log")).unwrap_or_default();
    eventually("it runs", || log().contains("TOOL_STARTED"));
    let pid = rustix::process::Pid::from_child(&running);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(130));
    assert!(log().contains("code=CANCELLED"), "{}", log());
}
