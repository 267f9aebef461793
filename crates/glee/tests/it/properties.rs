//! What must hold for any input, however strange: no panic, no escape, nothing lost.

use std::path::Path;
use std::sync::LazyLock;

use glee::dialect::{document, manifest, prompt, resource};
use glee_core::json_path::JsonPath;
use glee_core::permission::absolute;
use glee_core::secret::SecretValues;
use glee_core::template::{Names, Scope, Template};
use glee_core::url_template::UrlTemplate;
use proptest::prelude::*;
use serde_json::{Value, json};

fn many(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

fn names() -> Names {
    Names {
        inputs: ["a", "b"].map(str::to_owned).into(),
        secrets: ["KEY".to_owned()].into(),
    }
}

/// Text in which templates' own characters are common.
fn template_like() -> impl Strategy<Value = String> {
    proptest::collection::vec(
        prop_oneof![
            Just("${".to_owned()),
            Just("}".to_owned()),
            Just("$".to_owned()),
            Just("$${".to_owned()),
            Just("${a}".to_owned()),
            Just("${b.c[0]}".to_owned()),
            Just("${KEY}".to_owned()),
            Just("[".to_owned()),
            Just(".".to_owned()),
            ".{0,4}",
        ],
        0..12,
    )
    .prop_map(|parts| parts.concat())
}

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter_map("finite", |it| serde_json::Number::from_f64(it)
            .map(Value::Number)),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-c]{1,2}", inner, 0..4)
                .prop_map(|it| Value::Object(it.into_iter().collect())),
        ]
    })
}

static SCHEMA: LazyLock<jsonschema::Validator> =
    LazyLock::new(|| jsonschema::validator_for(&manifest::schema()).unwrap());

const MANIFEST: &str = include_str!("../../../../examples/.glee/tools/web_search/tool.yml");

const PROMPT: &str = include_str!("../cases/prompts/a-sound-prompt/root/.glee/prompts/explain.yml");
const RESOURCE: &str =
    include_str!("../cases/resources/sound-resources/root/.glee/resources/note.yml");

/// A real document with a few places damaged.
fn damaged(document: &'static str) -> impl Strategy<Value = String> {
    let damage = prop_oneof![
        Just(String::new()),
        Just("\t".to_owned()),
        Just("- ".to_owned()),
        Just("{".to_owned()),
        Just("&a ".to_owned()),
        Just("*a".to_owned()),
        Just("!!x ".to_owned()),
        Just("${".to_owned()),
        Just("\"".to_owned()),
        Just(": ".to_owned()),
        Just("null".to_owned()),
        Just("|\n".to_owned()),
        Just("$ref: '#'".to_owned()),
        Just("\u{feff}".to_owned()),
        Just("---\n".to_owned()),
        ".{0,6}",
    ];
    proptest::collection::vec((any::<prop::sample::Index>(), 0..12_usize, damage), 1..6).prop_map(
        move |edits| {
            let mut text: Vec<char> = document.chars().collect();
            for (at, cut, insert) in edits {
                let at = at.index(text.len() + 1);
                let end = (at + cut).min(text.len());
                text.splice(at..end, insert.chars());
            }
            text.into_iter().collect()
        },
    )
}

proptest! {
    #![proptest_config(many(60_000))]

    #[test]
    fn templates_never_panic(text in template_like(), a in json_value()) {
        if let Ok(template) = Template::parse(&text, &names()) {
            let args = json!({"a": a}).as_object().unwrap().clone();
            let secrets = SecretValues::new();
            let _ = template.value(&Scope::new(&args, &secrets));
        }
        if let Ok(url) = UrlTemplate::parse(&format!("https://x.test/{text}"), &names()) {
            let args = json!({"a": text}).as_object().unwrap().clone();
            let secrets = SecretValues::new();
            if let Ok(filled) = url.fill(&Scope::new(&args, &secrets)) {
                prop_assert_eq!(filled.host_str(), Some("x.test"));
            }
        }
    }
}

proptest! {
    #![proptest_config(many(40_000))]

    #[test]
    fn manifests_never_panic(text in damaged(MANIFEST)) {
        let read = manifest::read(&text, "web_search", Path::new("tool.yml"));
        // What serde takes, the published schema takes, and the other way round.
        let (tree, _) = glee::dialect::yaml::parse(&text);
        if let Some(tree) = tree {
            let shape = ["schema", "unknown-key"];
            let taken = !read.problems.iter().any(|it| shape.contains(&it.rule));
            prop_assert_eq!(taken, SCHEMA.is_valid(&tree.to_value()), "{:?}", read.problems);
        }
        for problem in &read.problems {
            prop_assert!(problem.place.start <= problem.place.end && problem.place.end <= text.len());
        }
        if let (Some(spec), Some(node)) = (&read.model, &read.node) {
            manifest::check::schemas(spec, node);
            manifest::check::check(spec, node);
        }
    }
}

/// What serde takes, the published schema takes, and the other way round.
fn agree<T>(text: &str, read: &document::Read<T>, schema: &jsonschema::Validator) {
    if let (Some(tree), _) = glee::dialect::yaml::parse(text) {
        let shape = ["schema", "unknown-key"];
        let taken = !read.problems.iter().any(|it| shape.contains(&it.rule));
        assert_eq!(
            taken,
            schema.is_valid(&tree.to_value()),
            "{:?}",
            read.problems
        );
    }
    for problem in &read.problems {
        assert!(problem.place.start <= problem.place.end && problem.place.end <= text.len());
    }
}

proptest! {
    #![proptest_config(many(5_000))]

    #[test]
    fn prompts_never_panic(text in damaged(PROMPT)) {
        static SCHEMA: LazyLock<jsonschema::Validator> =
            LazyLock::new(|| jsonschema::validator_for(&prompt::schema()).unwrap());
        agree(&text, &prompt::read(&text, "explain"), &SCHEMA);
    }

    #[test]
    fn resources_never_panic(text in damaged(RESOURCE)) {
        static SCHEMA: LazyLock<jsonschema::Validator> =
            LazyLock::new(|| jsonschema::validator_for(&resource::schema()).unwrap());
        agree(&text, &resource::read(&text, "note"), &SCHEMA);
    }
}

proptest! {
    #![proptest_config(many(5_000))]

    #[test]
    fn random_text_is_never_a_manifest(text in "\\PC{0,200}") {
        let read = manifest::read(&text, "x", Path::new("tool.yml"));
        prop_assert!(!read.problems.is_empty());
    }

    #[test]
    fn a_whole_placeholder_gives_back_its_argument(value in json_value()) {
        let template = Template::parse("${a}", &names()).unwrap();
        let args = json!({"a": value}).as_object().unwrap().clone();
        let secrets = SecretValues::new();
        prop_assert_eq!(template.value(&Scope::new(&args, &secrets)).unwrap(), Some(args["a"].clone()));
    }

    #[test]
    fn an_argument_changes_neither_host_nor_segments(a in any::<String>(), b in any::<String>()) {
        let url = UrlTemplate::parse("https://x.test:8443/one/${a}/two?k=${b}&z=1", &names()).unwrap();
        let args = json!({"a": a, "b": b}).as_object().unwrap().clone();
        let secrets = SecretValues::new();
        if let Ok(filled) = url.fill(&Scope::new(&args, &secrets)) {
            prop_assert_eq!(filled.origin().ascii_serialization(), "https://x.test:8443");
            prop_assert_eq!(filled.path_segments().unwrap().count(), 3);
            let pairs: Vec<_> = filled.query_pairs().into_owned().collect();
            prop_assert_eq!(pairs, vec![("k".to_owned(), b), ("z".to_owned(), "1".to_owned())]);
        }
    }

    #[test]
    fn an_absolute_path_has_no_dots(path in "[a-z./]{0,30}") {
        let path = absolute(Path::new("/p/root"), &path);
        prop_assert!(path.is_absolute());
        let dots = ["/../", "/./"];
        let text = format!("{}/", path.display());
        prop_assert!(dots.iter().all(|it| !text.contains(it)), "{}", text);
    }

    #[test]
    fn json_paths_never_panic(path in "[$a-c.\\[\\]0-9*?@:'\"]{0,20}", value in json_value()) {
        if let Ok(path) = JsonPath::parse(&path) {
            path.select(&value);
        }
    }

    #[test]
    fn strict_json_reads_what_was_written(value in json_value()) {
        prop_assert_eq!(glee_core::json::parse(&value.to_string()).unwrap(), value);
    }
}
