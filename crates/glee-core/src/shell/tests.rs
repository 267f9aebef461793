use proptest::prelude::*;

use super::*;

fn script(text: &str) -> Script {
    let at = Surroundings {
        cwd: Some("/work/project"),
        home: Some("/home/ada"),
    };
    read(text, at).unwrap_or_else(|err| panic!("{text}: {err}"))
}

/// Every command as its words, in brackets where they hold blanks.
fn commands(text: &str) -> Vec<String> {
    let shown = |word: &Word| match word.text.contains(' ') || word.text.is_empty() {
        true => format!("[{}]", word.text),
        false => word.text.clone(),
    };
    script(text)
        .commands
        .iter()
        .map(|it| it.words.iter().map(shown).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn what_would_run() {
    let cases: &[(&str, &[&str])] = &[
        ("ls -la", &["ls -la"]),
        ("", &[]),
        ("# rm -rf /", &[]),
        ("ls # rm -rf /", &["ls"]),
        ("ls#x", &["ls#x"]),
        (r#"r"m" -r'f' \/"#, &["rm -rf /"]),
        (r"$'\x72\155' $'a\tb'", &["rm a\tb"]),
        ("a;b&c&&d||e|f\ng", &["a", "b", "c", "d", "e", "f", "g"]),
        ("(a; (b)); { c; d; }", &["a", "b", "c", "d"]),
        ("{rm,-rf,/}", &["rm -rf /"]),
        (
            "echo a{b,c{d,e}}f {1..3} {x} {a,",
            &["echo abf acdf acef 1 2 3 {x} {a,"],
        ),
        ("x=rm; $x -rf /", &["rm -rf /"]),
        ("x='rm -rf /'; $x; \"$x\"", &["rm -rf /", "[rm -rf /]"]),
        ("rm${IFS}-rf${IFS}/", &["rm -rf /"]),
        ("rm$IFS$9-rf$IFS$9/", &["rm -rf /"]),
        ("a=r; b=m; $a$b x", &["rm x"]),
        ("x=r; x+=m; $x", &["rm"]),
        (
            "echo \"$(rm x)\" `cat y`",
            &["rm x", "cat y", "echo \u{FFFC} \u{FFFC}"],
        ),
        ("$(echo rm) -rf /", &["echo rm", "rm -rf /"]),
        ("cat <(curl x)", &["curl x", "cat \u{FFFC}"]),
        (
            "if a; then b; elif c; then d; else e; fi",
            &["a", "b", "c", "d", "e"],
        ),
        ("while a; do b; done | c", &["a", "b", "c"]),
        ("for x in a b; do rm $x; done", &["rm a b"]),
        ("for ((i=0;i<3;i++)); do b; done", &["b"]),
        ("case $x in a|b) c;; (d) e;& *) f; esac", &["c", "e", "f"]),
        ("f() { a \"$1\"; }; f x", &["a \u{FFFC}", "f x", "a x"]),
        ("function f { a; }", &["a"]),
        (
            "[[ $x < y && ( -f z ) ]] && a",
            &["-f z", "[[ \u{FFFC} y -f z", "a"],
        ),
        (
            "echo $((1+2)) $(( $(a) ))",
            &["a", "echo \u{FFFC} \u{FFFC}"],
        ),
        ("((1<<2))\nrm -rf /", &["rm -rf /"]),
        ("x=1 y=2 cmd", &["cmd"]),
        ("cat <<EOF\nrm -rf /\nEOF\nls", &["cat", "ls"]),
        ("cat <<EOF\n$(rm x)\nEOF\nls", &["rm x", "cat", "ls"]),
        ("cat <<'EOF'\n$(rm x)\nEOF\nls", &["cat", "ls"]),
        (
            "cat <<A <<-B; ls\n1\nA\n\t2\n\tB\npwd",
            &["cat", "ls", "pwd"],
        ),
        ("sh <<EOF\nrm x\nEOF", &["sh", "rm x"]),
        ("sh <<< 'rm x'", &["sh", "rm x"]),
        ("echo rm x | sh", &["echo rm x", "sh", "rm x"]),
        (
            "echo cm0gLXJmIC8= | base64 -d | bash",
            &["echo cm0gLXJmIC8=", "base64 -d", "bash", "rm -rf /"],
        ),
        (
            "sudo -u root env A=1 nice -n 5 rm x",
            &[
                "sudo -u root env A=1 nice -n 5 rm x",
                "env A=1 nice -n 5 rm x",
                "nice -n 5 rm x",
                "rm x",
            ],
        ),
        (
            "bash -lc 'rm x; ls'",
            &["bash -lc [rm x; ls]", "rm x", "ls"],
        ),
        ("sh -c 'rm \"$1\"' _ /", &["sh -c [rm \"$1\"] _ /", "rm /"]),
        (
            "sh -c \"echo '$x'\"",
            &["sh -c [echo '\u{FFFC}']", "echo \u{FFFC}"],
        ),
        (
            "eval rm -rf '$HOME'",
            &["eval rm -rf $HOME", "rm -rf /home/ada"],
        ),
        (
            "timeout -s KILL 5 rm x",
            &["timeout -s KILL 5 rm x", "rm x"],
        ),
        (
            "echo / | xargs rm -rf",
            &["echo /", "xargs rm -rf", "rm -rf /"],
        ),
        (
            "ls | xargs -I{} rm {}/x",
            &["ls", "xargs -I{} rm {}/x", "rm \u{FFFC}/x"],
        ),
        ("find / -delete", &["find / -delete", "rm -r -f /"]),
        (
            "find . -name '*.o' -exec rm {} \\;",
            &["find . -name *.o -exec rm {} ;", "rm ./\u{FFFC}/*.o"],
        ),
        ("command -v rm", &["command -v rm"]),
        ("busybox rm x", &["busybox rm x", "rm x"]),
        ("cd /; rm *", &["cd /", "rm *"]),
        (
            "echo ~/x ~root ~bob/y a~ \"~\"",
            &["echo /home/ada/x /root /home/bob/y a~ ~"],
        ),
        ("${x:-rm} y; ${y:=ls}; $y", &["rm y", "ls", "ls"]),
        ("a=(rm -rf); ${a[@]} /", &["rm -rf /", "rm /", "-rf /"]),
        ("ls 2>&1 >/dev/null &>x", &["ls"]),
        ("echo a\\\nb", &["echo ab"]),
        ("\"$@\" ls $@", &["ls"]),
        ("time -p ls; ! ls", &["ls", "ls"]),
        ("ls !(a|b) @(c)", &["ls !\u{FFFC} @\u{FFFC}"]),
        ("trap 'rm x' EXIT", &["trap [rm x] EXIT", "rm x", "EXIT"]),
    ];
    for (text, expected) in cases {
        assert_eq!(commands(text), *expected, "{text}");
    }
}

#[test]
fn what_no_shell_would_read() {
    for text in [
        "'a",
        "\"a",
        "$(a",
        "`a",
        "(a",
        "a)",
        "print('x')",
        "if a; then b",
        "${",
        "a >",
        "for x do",
    ] {
        assert!(read(text, Surroundings::default()).is_err(), "{text}");
    }
}

#[test]
fn quotes_over_a_here_document_hide_nothing() {
    assert!(commands("cat <<E 'x\n'; rm -rf /\nE\n").contains(&"rm -rf /".to_owned()));
    for text in [
        "cat <<E $(\nrm -rf /\nE\n)",
        "cat <<E \"$(echo \"\n\")\"\nrm -rf /\nE\n",
    ] {
        assert!(read(text, Surroundings::default()).is_err(), "{text}");
    }
}

#[test]
fn what_is_written_where() {
    let script = script("a >x 2>>y <z 3<>w 2>&1 >&v");
    let redirects: Vec<(Flow, &str)> = script.commands[0]
        .redirects
        .iter()
        .map(|it| (it.flow, it.target.text.as_str()))
        .collect();
    use Flow::*;
    assert_eq!(
        redirects,
        [
            (Out, "x"),
            (Out, "y"),
            (In, "z"),
            (Out, "w"),
            (Same, "1"),
            (Out, "v")
        ]
    );
}

#[test]
fn where_a_command_runs() {
    let script = script("cd src && a; (cd /; b); c; cd \"$x\"; d");
    let places: Vec<(String, Option<&str>)> = script
        .commands
        .iter()
        .map(|it| (it.words[0].text.clone(), it.cwd.as_deref()))
        .filter(|it| it.0 != "cd")
        .collect();
    assert_eq!(
        places,
        [
            ("a".to_owned(), Some("/work/project/src")),
            ("b".to_owned(), Some("/")),
            ("c".to_owned(), Some("/work/project/src")),
            ("d".to_owned(), None)
        ]
    );
}

/// Steps that a reading took, and what it gave.
fn counted(text: &str) -> (usize, Result<Script, Unreadable>) {
    let mut shell = Shell::new(Surroundings::default(), text.len());
    let read = shell.text(text, &[]);
    let steps = grammar::steps_for(text.len()) - shell.steps_left;
    (steps, read.map(|()| shell.script))
}

#[test]
fn what_multiplies_ends() {
    let many = 20_000;
    let long = "A".repeat(300_000);
    for text in [
        "{a,b}".repeat(many),
        "{".repeat(many) + &"}".repeat(many),
        "$(".repeat(many),
        "((".repeat(many),
        "$((".repeat(many),
        "`\\`".repeat(many),
        "eval ".repeat(many),
        "x=$x$x;".repeat(many) + "$x$x$x",
        "x=aaaaaaaa;".to_owned() + &"x=$x$x;".repeat(20) + "echo " + &"$x".repeat(many),
        "a[;".repeat(many),
        "cat <<A\n".repeat(many),
        "\\$".repeat(many),
        "\"".repeat(many),
        "(".repeat(many) + &")".repeat(many),
        "if ".repeat(many),
        "sh -c '".repeat(many),
        "!(".repeat(many),
        "a|".repeat(many) + "a",
        "sudo ".repeat(many),
        "${x:-".repeat(many),
        "x=(".repeat(many),
        "echo x".to_owned() + &"|cat".repeat(many / 8) + "|sh",
        "{ ".to_owned() + &":;".repeat(4000) + " } <<< '" + &long + "'",
        "{ ".to_owned() + &"sh;".repeat(4000) + " } <<< '#" + &long + "'",
        "find . ".to_owned() + &"-exec a \\; ".repeat(4000) + "<<< '" + &long + "'",
        "x=".to_owned() + &"$(:)".repeat(64) + "; echo " + &"$x".repeat(many),
        "a[$(".repeat(many),
    ] {
        // What is read holds no more than the steps it took; here-documents are held once.
        let (steps, script) = counted(&text);
        assert!(steps <= grammar::steps_for(text.len()));
        let commands = script.map(|it| it.commands).unwrap_or_default();
        let words = commands.iter().flat_map(|it| &it.words);
        let size: usize = words.map(|it| it.text.len() + it.made_by.len()).sum();
        assert!(
            size <= steps + text.len(),
            "{size} of {steps}: {}",
            &text[..20]
        );
    }
}

#[test]
fn the_steps_of_a_reading_are_in_proportion_to_its_text() {
    for part in [
        "ls\n",
        "sh|",
        "cat|",
        "echo x|sh\n",
        "(a)\n",
        "x=1; sh -c :\n",
        "cat <<A\n$x\nA\n",
    ] {
        let steps = |times: usize| counted(&(part.repeat(times) + "ls")).0;
        let (few, many) = (steps(100), steps(1000));
        assert!(many <= 11 * few, "{part}: {few}, then {many}");
    }
}

#[test]
fn what_is_too_much_to_read_is_not_read() {
    let endless = "{ ".to_owned() + &"sh;".repeat(4000) + " } <<< '" + &"#".repeat(300_000) + "'";
    let (steps, script) = counted(&endless);
    assert_eq!(
        script.map(|it| it.commands.len()),
        Err(Unreadable("it is too much to read".into()))
    );
    assert!(steps <= grammar::steps_for(endless.len()));
}

#[test]
fn a_text_is_followed_through_some_pipes_and_not_through_thousands() {
    let piped = |cats: usize| "echo rm x".to_owned() + &"|cat".repeat(cats) + "|sh";
    let last = |text: &str| commands(text).pop().unwrap();
    assert_eq!(last(&piped(8)), "rm x");
    assert_eq!(last(&piped(6000)), "sh");
}

fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn quote_by_backslashes(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c == '\n' {
                "'\n'".to_owned()
            } else {
                format!("\\{c}")
            }
        })
        .collect()
}

fn quote_doubly(text: &str) -> String {
    let escaped: String = text
        .chars()
        .map(|c| match c {
            '"' | '$' | '`' | '\\' => format!("\\{c}"),
            c => c.to_string(),
        })
        .collect();
    format!("\"{escaped}\"")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn reading_never_panics(text in "[ -~\n\u{FFFC}é]{0,60}") {
        let _ = read(&text, Surroundings::default());
    }

    #[test]
    fn reading_what_looks_like_shell_never_panics(
        parts in proptest::collection::vec(proptest::sample::select(vec![
            "a", " ", "'", "\"", "$", "(", ")", "{", "}", ",", "`", "\\", "\n", ";", "|", "&", "<", ">", "<<", "<<<",
            "((", "))", "$(", "${", "[[", "]]", "if ", "then ", "fi", "for x in ", "do ", "done", "case ", "esac", "in ",
            "x=", "#", "~", "*", "!", "EOF", "sh -c ", "eval ", "xargs ", "find . -exec ", "..", "sudo ", "1", "é", "=", "cd ",
            "$'", "\\'", "\r", "<<-E", "\nE\n", "$[", "]", "a[", "@(", "&>", "coproc ", "time -", "f() ", "$@", "set -- ",
            "shift;", "alias a=", "env -S ", "parallel ", ":::", "-I{} ", "{}", "find / -delete ", "printf %s ", "%", "| sh",
            "> x;", "sh x", "ssh h ", "git -c alias.x=!", "docker exec c ", "local x=", "${!x}", "${x[",
        ]), 0..40)
    ) {
        let _ = read(&parts.concat(), Surroundings::default());
    }

    #[test]
    fn what_is_quoted_is_read_as_it_was(words in proptest::collection::vec("[^\0]{0,12}", 1..4)) {
        for quote in [quote, quote_by_backslashes, quote_doubly] {
            let words: Vec<&String> = words.iter().filter(|it| !it.is_empty()).collect();
            let line = words.iter().map(|it| quote(it)).collect::<Vec<_>>().join(" ");
            let script = read(&format!("x {line}"), Surroundings::default()).unwrap();
            let read: Vec<&String> = script.commands[0].args().iter().map(|it| &it.text).collect();
            prop_assert_eq!(read, words);
        }
    }
}
