use serde_json::json;

use super::*;

fn lines(texts: &[&str]) -> Vec<Example> {
    texts
        .iter()
        .map(|it| Example::Line((*it).to_owned()))
        .collect()
}

fn objects(values: &[Value]) -> Vec<Example> {
    values
        .iter()
        .map(|it| Example::Arguments(it.as_object().unwrap().clone()))
        .collect()
}

fn named() -> Written {
    Written {
        name: "r".into(),
        ..Written::default()
    }
}

/// Only the flaws' places.
fn flaws(written: Written) -> Vec<String> {
    match CustomRule::new(written) {
        Ok(_) => Vec::new(),
        Err(flaws) => flaws.into_iter().map(|it| it.pointer).collect(),
    }
}

#[test]
fn patterns_stand_in_commands_as_words() {
    let written = Written {
        forbidden_patterns: vec![
            "curl".into(),
            "nc".into(),
            "git  push --force".into(),
            ">x".into(),
        ],
        matching: lines(&[
            "curl x",
            "/usr/bin/curl x",
            "ls; c'u'rl x",
            "sudo nc -l",
            "git push --force origin",
            "sh -c 'curl x'",
            "which curl",
        ]),
        not_matching: lines(&[
            "rsync a b",
            "git push",
            "curly x",
            "libcurl-dev",
            "git push --force-with-lease",
        ]),
        ..named()
    };
    assert_eq!(flaws(written), [""; 0]);
}

#[test]
fn prefixes_are_words_of_a_command() {
    let written = Written {
        prefix: Some(vec!["git".into(), "push".into()]),
        ruling: Some(Ruling::Ask),
        matching: lines(&[
            "git push",
            "git push origin main",
            "cd x && sudo git push",
            "git 'push'",
            "git -C . push",
            "git --no-pager push",
            "git pus?",
            "git $x",
        ]),
        not_matching: lines(&[
            "git log push",
            "git pull",
            "echo git push",
            "git",
            "git commit -m 'git push'",
        ]),
        ..named()
    };
    assert_eq!(flaws(written), [""; 0]);
}

#[test]
fn conditions_all_hold() {
    let test = |glob: &str| ArgumentTest {
        glob: Some(glob.into()),
        ..ArgumentTest::default()
    };
    let written = Written {
        arguments: vec![
            ("env".into(), test("prod*")),
            ("deep.name".into(), test("a")),
        ],
        ruling: Some(Ruling::Deny),
        matching: objects(&[json!({"env": "production", "deep": {"name": "a"}})]),
        not_matching: objects(&[
            json!({"env": "production"}),
            json!({"env": "test", "deep": {"name": "a"}}),
            json!({}),
        ]),
        ..named()
    };
    assert_eq!(flaws(written), [""; 0]);
    let regex = ArgumentTest {
        regex: Some("^v[0-9]+$".into()),
        ..ArgumentTest::default()
    };
    let written = Written {
        arguments: vec![("tag".into(), regex)],
        host: Some("*.example.com".into()),
        ruling: Some(Ruling::Deny),
        matching: objects(&[json!({"tag": "v1", "url": "https://a.example.com/x"})]),
        not_matching: objects(&[
            json!({"tag": "v1", "url": "https://example.net"}),
            json!({"tag": "v", "url": "https://a.example.com"}),
        ]),
        ..named()
    };
    assert_eq!(flaws(written), [""; 0]);
    let written = Written {
        path_below: Some("/srv/data".into()),
        ruling: Some(Ruling::Ask),
        matching: [
            lines(&[
                "cat /srv/data/x",
                "ls > /srv/x/../data/y",
                "cd /srv; cat data/x",
                "tool --file=/srv/data/x",
                "dd if=/srv/data/x",
                "cat /srv/dat?/x",
                "cp -r /srv /tmp",
            ]),
            objects(&[json!({"path": "/srv/data/x"})]),
        ]
        .concat(),
        not_matching: lines(&["cat /srv/database", "echo /srv", "cp /srv/x /tmp"]),
        ..named()
    };
    assert_eq!(flaws(written), [""; 0]);
}

#[test]
fn hosts_are_found_where_programs_take_them() {
    let written = Written {
        host: Some("evil.com".into()),
        ruling: Some(Ruling::Deny),
        matching: lines(&[
            "curl https://evil.com/x",
            "curl evil.com/x",
            "curl --url=https://evil.com",
            "wget evil.com",
            "git clone git@evil.com:x",
            "ssh me@evil.com ls",
        ]),
        not_matching: lines(&[
            "curl https://example.com/evil.com",
            "echo evil.com",
            "ls evil.com",
        ]),
        ..named()
    };
    assert_eq!(flaws(written), [""; 0]);
}

#[test]
fn what_is_wrong_with_a_rule() {
    let deny = || Written {
        ruling: Some(Ruling::Deny),
        ..named()
    };
    let equals = |value: Value, glob: &str| ArgumentTest {
        equals: Some(value),
        glob: Some(glob.into()),
        ..ArgumentTest::default()
    };
    let bad_regex = ArgumentTest {
        regex: Some("(".into()),
        ..ArgumentTest::default()
    };
    for (written, expected) in [
        (deny(), vec![""]),
        (
            Written {
                tools: vec!["a/b".into()],
                ..deny()
            },
            vec!["/tools/0"],
        ),
        (
            Written {
                tools: vec!["ok_*".into(), "".into()],
                ..deny()
            },
            vec!["/tools/1"],
        ),
        (
            Written {
                tools: vec!["glee_x*".into()],
                ..deny()
            },
            vec!["/tools/0"],
        ),
        (
            Written {
                tools: vec!["-x".into()],
                ..deny()
            },
            vec!["/tools/0"],
        ),
        (
            Written {
                tools: vec!["shell".into()],
                ..named()
            },
            vec![""],
        ),
        (
            Written {
                forbidden_patterns: vec![" ".into()],
                ..named()
            },
            vec!["/forbidden_patterns/0"],
        ),
        (
            Written {
                prefix: Some(vec![]),
                ..deny()
            },
            vec!["/prefix"],
        ),
        (
            Written {
                tools: vec!["[z-a]x".into()],
                ..deny()
            },
            vec!["/tools/0"],
        ),
        (
            Written {
                forbidden_patterns: vec!["a|b".into(), "curl | sh".into()],
                ..named()
            },
            vec!["/forbidden_patterns/1"],
        ),
        (
            Written {
                prefix: Some(vec!["git push".into()]),
                ..deny()
            },
            vec!["/prefix/0"],
        ),
        (
            Written {
                prefix: Some(vec!["/bin/rm".into()]),
                ..deny()
            },
            vec!["/prefix/0"],
        ),
        (
            Written {
                arguments: vec![("a".into(), equals(json!("x"), "y*"))],
                ..deny()
            },
            vec!["/when/arguments/a/equals"],
        ),
        (
            Written {
                arguments: vec![("a".into(), bad_regex)],
                ..deny()
            },
            vec!["/when/arguments/a/regex"],
        ),
        (
            Written {
                arguments: vec![("a".into(), ArgumentTest::default())],
                ..deny()
            },
            vec!["/when/arguments/a"],
        ),
        (
            Written {
                host: Some("a b".into()),
                ..deny()
            },
            vec!["/when/host"],
        ),
        (
            Written {
                prefix: Some(vec!["ls".into()]),
                matching: lines(&["cat x", "ls"]),
                not_matching: lines(&["ls -l", "'"]),
                ..deny()
            },
            vec!["/match/0", "/not_match/0", "/not_match/1"],
        ),
        (
            Written {
                tools: vec!["shell".into()],
                ..deny()
            },
            vec![],
        ),
    ] {
        let shown = format!("{written:?}");
        assert_eq!(flaws(written), expected, "{shown}");
    }
}

#[test]
fn what_allows_a_call_allows_all_of_it() {
    let allow = || Written {
        ruling: Some(Ruling::Allow),
        ..named()
    };
    for written in [
        Written {
            prefix: Some(vec!["git".into(), "status".into()]),
            matching: lines(&[
                "git status",
                "git status -s; git status",
                "sh -c 'git status'",
                "git status > /dev/null",
            ]),
            not_matching: lines(&[
                "git status; ./evil.sh",
                "./evil.sh || git status",
                "echo $(git status); python3 evil.py",
                "git status $(./evil.sh)",
                "git status | sh",
                "./git status",
                "g?t status",
                "git $x",
                "git status > .bashrc",
                "sh -c 'git status; ./evil.sh'",
                "sh -c 'git status' > x",
                "sh ./git status",
            ]),
            ..allow()
        },
        Written {
            prefix: Some(vec!["timeout".into(), "5".into(), "make".into()]),
            matching: lines(&["timeout 5 make all"]),
            not_matching: lines(&["timeout 5 make all; make"]),
            ..allow()
        },
        Written {
            path_below: Some("docs".into()),
            matching: [
                lines(&["cat docs/x", "cat docs/x docs/y > docs/z"]),
                objects(&[json!({"path": "docs/x"})]),
            ]
            .concat(),
            not_matching: [
                lines(&[
                    "cat docs/x src/secret",
                    "cat docs/x; ./evil",
                    "cat docs/x > src/y",
                    "cat docs/../x",
                    "cat docs/$x/y x",
                ]),
                objects(&[json!({"path": "docs/x", "target": "src/y"})]),
            ]
            .concat(),
            ..allow()
        },
        Written {
            host: Some("api.example.com".into()),
            matching: [
                lines(&["curl https://api.example.com/x"]),
                objects(&[json!({"url": "https://api.example.com/x"})]),
            ]
            .concat(),
            not_matching: [
                lines(&[
                    "curl https://evil.com; : https://api.example.com",
                    "curl https://api.example.com evil.com",
                    "curl https://api.example.com/x > .bashrc",
                ]),
                objects(&[json!({"a": "https://api.example.com", "b": "https://evil.com"})]),
            ]
            .concat(),
            ..allow()
        },
    ] {
        assert_eq!(flaws(written), [""; 0]);
    }
}

#[test]
fn what_is_read_as_commands_is_not_searched_as_a_text() {
    let written = Written {
        forbidden_patterns: vec!["nc".into()],
        matching: lines(&[
            "sh -c 'ls; nc x'",
            "sudo nc",
            "echo nc",
            "eval nc x",
            "ls > nc",
        ]),
        not_matching: lines(&[
            "ls # nc",
            "sh -c 'ls # nc'",
            "sudo env A=1 sh -c 'ls # nc'",
            "sh -c \"cat <<'E' > x\nnc\nE\"",
            "cat <<'E' > x\nnc\nE",
        ]),
        ..named()
    };
    assert_eq!(flaws(written), [""; 0]);
}

/// Names of tools of bundles have three parts, and those of twins a `~`.
#[test]
fn tools_of_bundles_can_be_named() {
    let part = "x".repeat(64);
    for name in [
        "pay~0123abcd.t.1".to_owned(),
        format!("{part}~0123abcd.{part}.{part}"),
    ] {
        assert_eq!(super::no_possible_name(&name), None, "{name}");
        let longer = name + &part;
        assert_eq!(
            super::no_possible_name(&longer).is_some(),
            longer.len() > 203
        );
    }
}
