use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::*;
use crate::model::*;
use crate::permission::Permissions;
use crate::policy::{objections, strictest};
use crate::port::{Caller, Files};
use crate::schema::Schema;
use crate::template::{Names, Template};

/// A machine with a home and three links.
pub(super) struct Machine(HashMap<PathBuf, PathBuf>);

impl Machine {
    pub(super) fn new() -> Machine {
        let links = [
            ("/srv/project/notes", "/etc/passwd"),
            ("/srv/project/keys-of-ada", "/home/ada/.ssh"),
            ("/srv/project/l", "/"),
        ];
        Machine(links.map(|(from, to)| (from.into(), to.into())).into())
    }
}

impl Files for Machine {
    fn home(&self) -> Option<&Path> {
        Some(Path::new("/home/ada"))
    }

    fn resolve(&self, path: &Path) -> PathBuf {
        for (link, target) in &self.0 {
            if let Ok(rest) = path.strip_prefix(link) {
                return target.join(rest).components().collect();
            }
        }
        path.to_owned()
    }
}

pub(super) fn tool(exec: Exec) -> ToolSpec {
    ToolSpec {
        name: "tool".into(),
        version: "1".into(),
        title: None,
        description: String::new(),
        tags: Vec::new(),
        inputs: Schema::new(json!({"type": "object"})).unwrap(),
        elicit: Vec::new(),
        outputs: Outputs {
            format: Format::Text,
            extract: None,
            fields: Vec::new(),
            schema: None,
            on_mismatch: OnMismatch::Warn,
        },
        exec,
        permissions: Permissions::default(),
        approval: Approval::Never,
        annotations: Annotations::default(),
        limits: Limits::default(),
        tasks: Tasks::Never,
        examples: Vec::new(),
        origin: Origin::User,
        source: PathBuf::new(),
        document: [0; 32],
    }
}

/// A tool that is told everything by its arguments.
pub(super) fn python() -> ToolSpec {
    tool(Exec::Python(Python {
        module: "m".into(),
        function: "f".into(),
        args: Vec::new(),
        kwargs: Vec::new(),
        venv: None,
        cwd: ".".into(),
        env: Vec::new(),
    }))
}

pub(super) fn command(entrypoint: &str, args: &[&str]) -> ToolSpec {
    let names = Names {
        inputs: ["x".to_owned()].into(),
        secrets: Default::default(),
    };
    tool(Exec::Command(Command {
        entrypoint: entrypoint.into(),
        args: args
            .iter()
            .map(|it| Template::parse(it, &names).unwrap())
            .collect(),
        cwd: ".".into(),
        env: Vec::new(),
        stdin: None,
        exit_codes_ok: vec![0],
        dashes: Dashes::Allow,
    }))
}

/// What decides: the strictest decision, and whose it is.
fn judge(rules: &[Box<dyn Rule>], case: &Case<'_>) -> (Decision, String) {
    match strictest(&objections(rules, case)) {
        Some(it) => (it.decision.clone(), it.rule.clone()),
        None => (Decision::Allow, "-".to_owned()),
    }
}

fn verdict(spec: &ToolSpec, args: &Value) -> (Decision, String) {
    let caller = Caller { name: "a".into() };
    let machine = Machine::new();
    let args: Map<String, Value> = args.as_object().unwrap().clone();
    let case = Case::new(spec, &args, &caller, Path::new("/srv/project"), &machine);
    judge(&defaults(), &case)
}

fn word(decision: &Decision) -> &'static str {
    match decision {
        Decision::Allow => "allow",
        Decision::Ask { .. } => "ask",
        Decision::Deny { .. } => "deny",
    }
}

fn line_of(cell: &str) -> String {
    cell.replace('⏎', "\n").replace('␍', "\r")
}

#[test]
fn every_line_of_the_table() {
    let table = include_str!("testdata/commands.tsv");
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in table.lines().filter(|it| !it.starts_with("# ")) {
        let cells: Vec<&str> = line.splitn(3, '\t').collect();
        let [decision, rule, text] = cells[..] else {
            panic!("three cells: {line}");
        };
        count += 1;
        let (found, by) = verdict(&python(), &json!({"command": line_of(text)}));
        if (word(&found), by.as_str()) != (decision, rule) {
            wrong.push(format!(
                "{text}\n    is {by}: {:?}, not {decision} by {rule}",
                found
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {count}\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(count >= 150, "{count}");
}

/// Each rule is taken out in turn: some line of the table must then be decided otherwise.
#[test]
fn without_any_one_default_rule_the_table_does_not_hold() {
    let table = include_str!("testdata/commands.tsv");
    let (spec, machine) = (python(), Machine::new());
    let caller = Caller { name: "a".into() };
    for out in 0..defaults().len() {
        let mut rules = defaults();
        let name = rules.remove(out).name().to_owned();
        let lines = table
            .lines()
            .filter(|it| it.split('\t').nth(1) == Some(&name));
        let missed = lines.filter(|line| {
            let text = line.splitn(3, '\t').nth(2).unwrap();
            let args = json!({"command": line_of(text)})
                .as_object()
                .unwrap()
                .clone();
            let case = Case::new(&spec, &args, &caller, Path::new("/srv/project"), &machine);
            !line.starts_with(word(&judge(&rules, &case).0))
        });
        assert!(missed.count() > 0, "nothing needs the rule {name}");
    }
}

#[test]
fn which_arguments_are_looked_at() {
    for (args, expected) in [
        (json!({"command": "rm -rf /"}), "deny"),
        (json!({"cmd": "rm -rf /"}), "deny"),
        (json!({"shell_command": "rm -rf /"}), "deny"),
        (json!({"command": ["rm", "-rf", "/"]}), "deny"),
        (json!({"command": "rm", "args": ["-rf", "/"]}), "deny"),
        (json!({"command": ["echo", "rm -rf /"]}), "allow"),
        (json!({"script": "rm -rf /", "language": "bash"}), "deny"),
        (
            json!({"script": "print('x')", "language": "python"}),
            "allow",
        ),
        (json!({"command": "cat passwd", "cwd": "/etc"}), "deny"),
        (json!({"path": "/etc/passwd"}), "deny"),
        (json!({"filePath": "../../etc/passwd"}), "deny"),
        (json!({"files": ["a", ".env"]}), "deny"),
        (json!({"edits": [{"path": "~/.ssh/id_rsa"}]}), "deny"),
        (json!({"path": "notes"}), "deny"),
        (json!({"path": ".env.example"}), "allow"),
        (
            json!({"path": "a.txt", "content": "rm -rf / .env /etc/passwd"}),
            "allow",
        ),
        (json!({"text": "rm -rf /"}), "allow"),
        (json!({"content": "/etc/passwd"}), "allow"),
        (json!({"message": ".env"}), "allow"),
        (json!({"commands":["rm -rf /"]}), "deny"),
        (json!({"command":["rm -rf /"]}), "deny"),
        (json!({"command":["sh","-c","rm -rf /"]}), "deny"),
        (json!({"command":{"line":"rm -rf /"}}), "deny"),
        (
            json!({"command":"rm -rf /","interpreter":"/bin/bash"}),
            "deny",
        ),
        (json!({"command":"rm -rf /","lang":"en"}), "deny"),
        (json!({"command":"rm -rf /","runtime":"docker"}), "deny"),
        (json!({"command":"rm -rf /","language":"bash "}), "deny"),
        (json!({"command":"rm -rf /","language":"python"}), "allow"),
        (
            json!({"command":"rm -rf /","language":"/usr/bin/python3.12"}),
            "allow",
        ),
        (json!({"script":"print('x')"}), "ask"),
        (json!({"script":"rm -rf /"}), "deny"),
        (json!({"script":"print('x')","language":"python"}), "allow"),
        (json!({"path":" /etc/passwd"}), "deny"),
        (json!({"path":"file:///etc/shadow"}), "deny"),
        (json!({"url":"file:///etc/shadow"}), "deny"),
        (json!({"url":"https://example.com/.env"}), "allow"),
        (json!({"path":"conf://.env"}), "deny"),
        (json!({"file":"a://b:///.env"}), "deny"),
        (json!({"path":"file://.env"}), "deny"),
        (json!({"url":"example.com/.env"}), "allow"),
        (json!({"path":["a",["/etc/shadow"]]}), "deny"),
        (json!({"path":"/proc/self/root/etc/shadow"}), "deny"),
        (json!({"command":"rm","args":"-rf /"}), "deny"),
        (json!({"command":"sh","args":["-c","rm -rf /"]}), "deny"),
        (json!({"cwd":"/","command":"rm -r etc"}), "deny"),
        (json!({"shell":"/bin/bash","command":"ls"}), "allow"),
        (json!({"files":[{"path":"a","content":".env"}]}), "allow"),
        (json!({"command":{"name":"x","content":"it's"}}), "allow"),
        (json!({"commands":["ls","pwd"]}), "allow"),
        (json!({"command":["git","commit","-m","rm -rf /"]}), "allow"),
        (json!({}), "allow"),
    ] {
        assert_eq!(word(&verdict(&python(), &args).0), expected, "{args}");
    }
}

#[test]
fn argument_vectors_are_commands() {
    for (entrypoint, args, x, expected) in [
        ("rm", vec!["-rf", "${x}"], "/", "deny"),
        ("rm", vec!["-rf", "${x}"], "build", "ask"),
        ("/bin/cat", vec!["${x}"], "/etc/passwd", "deny"),
        ("/bin/cat", vec!["${x}"], "; rm -rf /", "allow"),
        ("printf", vec!["%s", "${x}"], "$(rm -rf /)", "allow"),
        ("sh", vec!["-c", "${x}"], "rm -rf /", "deny"),
        (
            "sh",
            vec!["-c", "echo \"$1\"", "_", "${x}"],
            "rm -rf /",
            "allow",
        ),
        ("./run.sh", vec!["${x}"], "rm -rf /", "allow"),
        ("./run.sh", vec!["${x}"], "src/main.rs", "allow"),
    ] {
        let spec = command(entrypoint, &args);
        let found = verdict(&spec, &json!({"x": x}));
        assert_eq!(
            word(&found.0),
            expected,
            "{entrypoint} {args:?} {x}: {found:?}"
        );
    }
}

#[test]
fn what_goes_to_a_server_is_not_looked_at() {
    let names = Names {
        inputs: Default::default(),
        secrets: Default::default(),
    };
    let spec = tool(Exec::Http(Box::new(Http {
        method: Method::Get,
        url: crate::url_template::UrlTemplate::parse("https://x.test", &names).unwrap(),
        headers: Vec::new(),
        query: Vec::new(),
        body: None,
        auth: None,
        success_codes: Vec::new(),
        retry: Retry {
            times: 0,
            pause: std::time::Duration::ZERO,
        },
        redirects: Redirects::Refuse,
    })));
    let args = json!({"path": "/etc/passwd", "command": "rm -rf /"});
    assert_eq!(word(&verdict(&spec, &args).0), "allow");
}

#[test]
fn permissions_that_are_not_listed() {
    let caller = Caller { name: "a".into() };
    let machine = Machine::new();
    let (args, root) = (Map::new(), Path::new("/srv/project"));
    let mut writer = command("./x.sh", &[]);
    writer.permissions.write.push("out".into());
    let mut networked = python();
    networked.permissions.network = crate::permission::Network::Public;
    for (spec, list, missing) in [
        (&writer, "fs:write, proc:exec", ""),
        (&writer, " FS:WRITE,proc:exec,docker,", ""),
        (&writer, "fs:read,proc:exec", "fs:write"),
        (&writer, "", "fs:write, proc:exec"),
        (&networked, "net:read,proc:exec", "net:write"),
        (&networked, "net:read,net:write,proc:exec", ""),
    ] {
        let case = Case::new(spec, &args, &caller, root, &machine);
        let reason = match permit::AllowedPermissions::parse(list)
            .judge(&case)
            .unwrap()
        {
            Decision::Allow => String::new(),
            Decision::Ask { reason } | Decision::Deny { reason } => reason,
        };
        assert_eq!(
            reason.trim_start_matches("not among ALLOWED_TOOL_PERMS: "),
            missing,
            "{list}"
        );
    }
}

#[test]
fn what_asks_at_which_level() {
    use autonomy::{Level, Severity};
    let table = [
        (Level::Hitl, [true, true, true, true]),
        (Level::Supervised, [false, true, true, true]),
        (Level::Autonomous, [false, false, false, true]),
        (Level::Yolo, [false, false, false, false]),
    ];
    let severities = [
        Severity::Reads,
        Severity::Network,
        Severity::Writes,
        Severity::Destructive,
    ];
    for (level, expected) in table {
        assert_eq!(severities.map(|it| level.asks(it)), expected, "{level:?}");
    }
    let mut spec = python();
    assert_eq!(Severity::of(&spec), Severity::Reads);
    spec.permissions.network = crate::permission::Network::Public;
    assert_eq!(Severity::of(&spec), Severity::Network);
    spec.permissions.write.push("x".into());
    assert_eq!(Severity::of(&spec), Severity::Writes);
    spec.annotations.destructive = Some(true);
    assert_eq!(Severity::of(&spec), Severity::Destructive);
}

#[test]
fn what_the_project_allows_autonomy_does_not_ask() {
    use autonomy::{Autonomy, Level};
    use custom::{CustomRule, Ruling, Written};
    let caller = Caller { name: "a".into() };
    let machine = Machine::new();
    let spec = python();
    let rule = CustomRule::new(Written {
        name: "listing".into(),
        prefix: Some(vec!["ls".into()]),
        ruling: Some(Ruling::Allow),
        ..Written::default()
    });
    let autonomy = Autonomy {
        level: Level::Hitl,
        rules: vec![std::sync::Arc::new(rule.unwrap())],
    };
    for (line, expected) in [("ls -l", "allow"), ("cat x", "ask")] {
        let args = json!({"command": line}).as_object().unwrap().clone();
        let case = Case::new(&spec, &args, &caller, Path::new("/srv/project"), &machine);
        assert_eq!(word(&autonomy.judge(&case).unwrap()), expected, "{line}");
    }
}

proptest::proptest! {
    #[test]
    fn judging_never_panics(
        parts in proptest::collection::vec(proptest::sample::select(vec![
            "rm -rf ", "/", "*", "?", "[", "$x", "~", "..", " ", "-", "--", "=", ":", "curl ", "-o", "-O ", "sh ", "| ", "; ", "> ",
            "mv ", "cp -t", "dd of=", "sed -i", "chmod -R ", "kill ", "mkfs.", "parted ", "/dev/", "/proc/1/root", "nc -", "socat ",
            "find ", "-name ", "xargs ", "tar -C ", "git grep ", "jq --arg ", "zip -x ", "file:", "//", "@", ".env", "é", "\u{FFFC}",
            "ssh -i", "touch ", "f(){ f;f; };", "wget ", "python3 -", "--env-file", "yq e ", "rsync --del ", "systemctl ",
        ]), 0..12)
    ) {
        verdict(&python(), &json!({"command": parts.concat(), "path": parts.concat()}));
    }
}

#[test]
fn there_are_not_any_number_of_commands_in_a_call() {
    let args: Map<String, Value> = (0..100)
        .map(|at| {
            (
                "_".repeat(at % 17) + "c" + &"-".repeat(at / 17) + "ommand",
                json!("ls"),
            )
        })
        .collect();
    assert_eq!(word(&verdict(&python(), &Value::Object(args)).0), "deny");
}
