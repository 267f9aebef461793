//! git in the sandbox: what it tells, what a commit writes, and what nothing it starts can.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use glee_core::outcome::FailureKind;
use glee_core::port::Answer;
use serde_json::{Value, json};

use super::{ALL, call, kind, nobody, open, scene, value};
use crate::support::{Scene, json as output_json};

fn git(scene: &Scene, words: &[&str]) {
    let done = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"])
        .args(words)
        .current_dir(&scene.root)
        .env("HOME", &scene.root)
        .output()
        .unwrap();
    assert!(done.status.success(), "{words:?}: {done:?}");
}

#[test]
fn git_in_a_repository() {
    let scene = scene(ALL);
    scene.write("a.txt", "one\n");
    scene.write(".gitignore", ".glee\n");
    git(&scene, &["init", "-q", "-b", "main"]);
    git(&scene, &["config", "user.name", "Ada"]);
    git(&scene, &["config", "user.email", "ada@example.com"]);
    git(&scene, &["add", "."]);
    git(&scene, &["commit", "-q", "-m", "first"]);
    scene.write("a.txt", "two\n");
    scene.write("-b c.txt", "new\n");
    let app = open(&scene, Answer::Approved);
    let state = value(call(&app, "git_status", json!({}), None));
    assert_eq!(state["branch"], "main");
    let changed = json!([{"path": "a.txt", "status": " M"}, {"path": "-b c.txt", "status": "??"}]);
    assert_eq!(state["entries"], changed);
    let diff = value(call(&app, "git_diff", json!({"paths": ["a.txt"]}), None));
    assert!(
        diff["diff"].as_str().unwrap().contains("-one\n+two\n"),
        "{diff}"
    );
    let args = json!({"message": "second", "paths": ["a.txt", "-b c.txt"]});
    let made = value(call(&app, "git_commit", args, None));
    let log = value(call(&app, "git_log", json!({"limit": 5}), None));
    assert_eq!(log["commits"][0]["hash"], made["hash"]);
    assert_eq!(log["commits"][0]["subject"], "second");
    assert_eq!(log["commits"].as_array().unwrap().len(), 2);
    // What is named is a commit or a path, and never an option.
    for (tool, args) in [
        ("git_diff", json!({"commit": "--output=made"})),
        ("git_log", json!({"commit": "--output=made"})),
        ("git_diff", json!({"paths": ["../x"]})),
    ] {
        assert!(call(&app, tool, args, None).result.is_err());
        assert!(!scene.root.join("made").exists());
    }
}

/// What is compared is what the input says, whatever is staged and whatever is committed.
#[test]
fn git_compares_with_the_last_commit() {
    let scene = scene(ALL);
    scene.write(".gitignore", ".glee\n");
    scene.write("a.txt", "one\n");
    git(&scene, &["init", "-q", "-b", "main"]);
    git(&scene, &["config", "color.ui", "always"]);
    git(&scene, &["config", "color.diff", "always"]);
    git(&scene, &["add", "."]);
    let app = open(&scene, nobody());
    let diff = |args: Value| {
        let told = value(call(&app, "git_diff", args, None));
        told["diff"].as_str().unwrap().to_owned()
    };
    // Before the first commit all of it is new.
    assert!(diff(json!({})).contains("\n+one\n"));
    assert!(diff(json!({"staged": true})).contains("\n+one\n"));
    git(&scene, &["commit", "-q", "-m", "first"]);
    scene.write("a.txt", "two\n");
    git(&scene, &["add", "."]);
    assert!(diff(json!({})).contains("\n-one\n+two\n"));
    scene.write("a.txt", "one\n");
    assert_eq!(diff(json!({})), "");
    assert!(diff(json!({"staged": true})).contains("\n-one\n+two\n"));
}

/// By whatever path: not by its name in a commit, and not among all that differs.
#[test]
fn git_shows_no_secrets() {
    let scene = scene(ALL);
    scene.write("a.txt", "one\n");
    scene.write(".env", "TOKEN=before\n");
    scene.write("sub/.env.local", "TOKEN=before\n");
    git(&scene, &["init", "-q", "-b", "main"]);
    git(&scene, &["add", "a.txt", ".env", "sub"]);
    git(&scene, &["commit", "-q", "-m", "first"]);
    git(&scene, &["tag", "v1"]);
    let app = open(&scene, nobody());
    scene.write("a.txt", "two\n");
    scene.write(".env", "TOKEN=after\n");
    git(&scene, &["mv", "sub/.env.local", "sub/moved"]);
    let told = call(&app, "git_diff", json!({}), None).result.unwrap();
    assert!(
        told.value["diff"].as_str().unwrap().contains("+two"),
        "{told:?}"
    );
    assert!(!told.value.to_string().contains("-TOKEN"), "{told:?}");
    assert!(!told.value.to_string().contains("after"), "{told:?}");
    assert_eq!(told.warnings, ["2 files that hold secrets are left out"]);
    for commit in ["HEAD", "v1", "main", "HEAD~0"] {
        let told = value(call(
            &app,
            "git_diff",
            json!({"commit": commit, "paths": ["a.txt"]}),
            None,
        ));
        assert!(told["diff"].as_str().unwrap().contains("+two"), "{told:?}");
    }
    for commit in ["HEAD:.env", ":.env", "HEAD:", "v1..HEAD", "--no-index", ""] {
        let outcome = call(
            &app,
            "git_diff",
            json!({"commit": commit, "paths": ["a.txt"]}),
            None,
        );
        assert_eq!(
            kind(&outcome),
            FailureKind::InvalidInput,
            "{commit}: {outcome:?}"
        );
    }
}

/// What a person's next `git status` runs is decided in there.
#[test]
fn what_is_gits_own_is_not_written() {
    let deed = "for it in commondir config.worktree index modules/x/config worktrees/x/gitdir; do
        mkdir -p .git/modules/x .git/worktrees/x; echo x > .git/$it; done; mv .git old; rm -rf .git; mkdir .git;
        touch ran";
    let shell = |scene: &Scene| {
        // What a script does no rule foresees.
        scene.write("deed.sh", deed);
        let deed = "bash deed.sh";
        let app = open(scene, Answer::Approved);
        let run = |tool: &str, args: Value| {
            let outcome = call(&app, tool, args, None);
            assert!(outcome.result.is_ok(), "{tool}: {outcome:?}");
            let ran = scene.root.join("ran");
            assert!(ran.exists(), "{tool}: {outcome:?}");
            fs::remove_file(ran).unwrap();
        };
        run("shell", json!({"command": deed}));
        run("tool_exec", json!({"cmd": deed}));
        run("run_code", json!({"language": "bash", "code": deed}));
    };
    let names = |scene: &Scene| {
        let entries = fs::read_dir(scene.root.join(".git")).unwrap();
        let mut names: Vec<_> = entries.map(|it| it.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let repository = scene(ALL);
    git(&repository, &["init", "-q"]);
    let before = names(&repository);
    shell(&repository);
    assert_eq!(names(&repository), before);
    assert!(!repository.root.join("old").exists());

    // In another worktree it is a file, which stays what it is.
    let worktree = scene(ALL);
    worktree.write(".git", "gitdir: /nowhere\n");
    shell(&worktree);
    let file = fs::read_to_string(worktree.root.join(".git")).unwrap();
    assert_eq!(file, "gitdir: /nowhere\n");

    // Where there is none, none is made.
    let plain = scene(ALL);
    shell(&plain);
    let is_repository = Command::new("git")
        .args(["rev-parse", "--git-dir"])
        .current_dir(&plain.root)
        .output();
    assert!(!is_repository.unwrap().status.success());
}

/// Nor is what is git's own further down, also where it came after the first call.
#[test]
fn repositories_below_are_not_written_either() {
    let scene = scene(ALL);
    let app = open(&scene, Answer::Approved);
    let deed = "echo x > vendor/lib/.git/hooks/post-commit; echo x >> sub/.git; rm -rf vendor/lib/.git; \
        mv vendor/lib old; mv vendor old; mv sub old; touch vendor/lib/ran";
    scene.write("deed.sh", deed);
    let deed = "bash deed.sh";
    scene.write("vendor/lib/a.txt", "one\n");
    value(call(&app, "shell", json!({"command": "true"}), None));
    git(&scene, &["init", "-q", "vendor/lib"]);
    scene.write("sub/.git", "gitdir: ../nowhere\n");
    let before = tree(&scene.root.join("vendor/lib/.git"));
    for (tool, args) in [
        ("shell", json!({"command": deed})),
        ("tool_exec", json!({"cmd": deed})),
        ("run_code", json!({"language": "bash", "code": deed})),
    ] {
        let outcome = call(&app, tool, args, None);
        assert!(outcome.result.is_ok(), "{tool}: {outcome:?}");
        assert!(
            scene.root.join("vendor/lib/ran").exists(),
            "{tool}: {outcome:?}"
        );
        fs::remove_file(scene.root.join("vendor/lib/ran")).unwrap();
        assert_eq!(tree(&scene.root.join("vendor/lib/.git")), before, "{tool}");
        let file = fs::read_to_string(scene.root.join("sub/.git")).unwrap();
        assert_eq!(file, "gitdir: ../nowhere\n", "{tool}");
    }
}

/// A filter of the repository's is run to tell what has changed; it can change nothing.
#[test]
fn who_only_asks_git_writes_nothing() {
    let scene = scene(ALL);
    git(&scene, &["init", "-q"]);
    scene.write(".gitattributes", "*.txt filter=x\n");
    scene.write("a.txt", "one\n");
    git(&scene, &["add", "."]);
    git(&scene, &["commit", "-q", "-m", "first"]);
    let filter = "echo ran >&2; touch made .git/made; cat";
    git(&scene, &["config", "filter.x.clean", filter]);
    scene.write("a.txt", "two\n");
    let app = open(&scene, nobody());
    for tool in ["git_status", "git_diff", "git_log"] {
        value(call(&app, tool, json!({}), None));
        assert!(!scene.root.join("made").exists(), "{tool}");
        assert!(!scene.root.join(".git/made").exists(), "{tool}");
    }
}

/// A repository may say what git starts; that runs in the sandbox, too.
#[test]
fn what_git_starts_is_held() {
    let scene = scene(ALL);
    let out = scene.root.with_file_name("escaped");
    git(&scene, &["init", "-q"]);
    let hook = format!(
        "#!/bin/sh\ntouch {} ran\necho the hook ran >&2\nexit 1\n",
        out.display()
    );
    scene.write(".git/hooks/pre-commit", &hook);
    git(&scene, &["config", "user.name", "Ada"]);
    git(&scene, &["config", "user.email", "ada@example.com"]);
    scene.write("a.txt", "one\n");
    let app = open(&scene, Answer::Approved);
    let outcome = call(
        &app,
        "git_commit",
        json!({"message": "x", "paths": ["a.txt"]}),
        None,
    );
    let said = outcome.result.unwrap_err().details["stderr"].to_string();
    assert!(said.contains("the hook ran"), "{said}");
    assert!(!out.exists() && !scene.root.join("ran").exists());
}

fn said(scene: &Scene, words: &[&str]) -> String {
    let done = Command::new("git")
        .args(words)
        .current_dir(&scene.root)
        .output();
    String::from_utf8(done.unwrap().stdout)
        .unwrap()
        .trim()
        .to_owned()
}

/// A repository with one commit and a file that was changed since.
fn repository() -> Scene {
    let scene = scene(ALL);
    scene.write(".gitignore", ".glee\n");
    scene.write("a.txt", "one\n");
    git(&scene, &["init", "-q", "-b", "main"]);
    git(&scene, &["config", "user.name", "Ada"]);
    git(&scene, &["config", "user.email", "ada@example.com"]);
    git(&scene, &["add", "."]);
    git(&scene, &["commit", "-q", "-m", "first"]);
    scene.write("a.txt", "two\n");
    scene
}

fn commit() -> Value {
    json!({"message": "second", "paths": ["a.txt"]})
}

/// For git itself nothing differs from a commit that a person made.
#[test]
fn a_commit_leaves_what_git_leaves() {
    for detached in [false, true] {
        let scene = repository();
        if detached {
            git(&scene, &["checkout", "-q", "--detach"]);
        }
        let app = open(&scene, Answer::Approved);
        let made = value(call(&app, "git_commit", commit(), None));
        assert_eq!(
            said(&scene, &["rev-parse", "HEAD"]),
            made["hash"].as_str().unwrap()
        );
        assert_eq!(said(&scene, &["status", "--porcelain"]), "");
        assert_eq!(
            said(&scene, &["branch", "--show-current"]).is_empty(),
            detached
        );
        let history = said(&scene, &["reflog", "HEAD"]);
        assert!(
            history.lines().next().unwrap().ends_with("commit: second"),
            "{history}"
        );
        let left = fs::read_dir(scene.root.join(".git/glee")).unwrap().count();
        assert!(left == 0 && !scene.root.join(".git/index.lock").exists());
        assert_eq!(said(&scene, &["fsck", "--strict"]), "");
    }
}

/// Hooks see all, and change nothing but the message, wherever they stand.
#[test]
fn hooks_write_nothing() {
    for directory in [".git/hooks", ".husky"] {
        let scene = repository();
        if directory == ".husky" {
            git(&scene, &["config", "core.hooksPath", ".husky"]);
        }
        let own = scene.root.join(".git");
        let targets = "commondir config hooks/x info/exclude modules/x objects/info/alternates objects/new refs/heads/new \
            logs/HEAD worktrees/x HEAD index packed-refs glee/commit/HEAD glee/commit/commondir glee/commit/index";
        let deed = format!(
            "#!/bin/sh\ncd {0}\nfor it in {targets}; do mkdir -p $(dirname $it); echo x >> $it; done 2>/dev/null\n\
             touch ../made; rm -rf objects/??; rm refs/heads/main; ln -s /etc/passwd refs/heads/link; mv hooks old\n",
            own.display()
        );
        scene.write(
            &format!("{directory}/pre-commit"),
            &format!("{deed}git diff --cached --name-only >&2\n"),
        );
        scene.write(
            &format!("{directory}/prepare-commit-msg"),
            &format!("{deed}cd -; echo \"$2 $(git diff --cached --name-only)\" >> \"$1\"\n"),
        );
        scene.write(
            &format!("{directory}/commit-msg"),
            &format!("{deed}echo checked >> \"$1\"\n"),
        );
        scene.write(
            &format!("{directory}/post-commit"),
            &format!("{deed}git log -1 --format=%s >&2; exit 3\n"),
        );
        let before = tree(&own);
        let app = open(&scene, Answer::Approved);
        let outcome = call(&app, "git_commit", commit(), None).result.unwrap();
        assert!(
            outcome.warnings[0].contains("`post-commit` ended with code 3")
                && outcome.warnings[0].contains("second"),
            "{:?}",
            outcome.warnings
        );
        let message = said(&scene, &["log", "-1", "--format=%B"]);
        assert_eq!(message, "second\nmessage a.txt\nchecked");
        assert!(!scene.root.join("made").exists());
        let after = tree(&own);
        for (path, text) in &before {
            // What glee itself brings up to date.
            if ![
                "index",
                "logs/HEAD",
                "refs/heads/main",
                "logs/refs/heads/main",
            ]
            .contains(&path.as_str())
            {
                assert_eq!(after.get(path), Some(text), "{path}");
            }
        }
        for path in after.keys().filter(|it| !before.contains_key(*it)) {
            let parts: Vec<&str> = path.split('/').collect();
            assert!(
                parts[0] == "objects" && parts[1].len() == 2,
                "{path} is new"
            );
        }
        assert_eq!(said(&scene, &["fsck", "--strict"]), "");
    }
}

/// Each of them can say no.
#[test]
fn a_hook_refuses_a_commit() {
    for hook in ["pre-commit", "prepare-commit-msg", "commit-msg"] {
        let scene = repository();
        scene.write(
            &format!(".git/hooks/{hook}"),
            "#!/bin/sh\necho not like this >&2\nexit 1\n",
        );
        let app = open(&scene, Answer::Approved);
        let refused = call(&app, "git_commit", commit(), None).result.unwrap_err();
        assert_eq!(refused.kind, FailureKind::ExecutionError, "{hook}");
        assert!(
            refused.details["stderr"]
                .to_string()
                .contains("not like this")
        );
        assert_eq!(said(&scene, &["rev-list", "--count", "HEAD"]), "1");
        assert_eq!(
            said(&scene, &["status", "--porcelain"]),
            "M a.txt",
            "{hook}"
        );
    }
}

/// All files below, with what they hold.
fn tree(below: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut left = vec![below.to_owned()];
    while let Some(directory) = left.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => left.push(entry.path()),
                false => {
                    let name = entry
                        .path()
                        .strip_prefix(below)
                        .unwrap()
                        .display()
                        .to_string();
                    found.insert(name, fs::read(entry.path()).unwrap_or_default());
                }
            }
        }
    }
    found
}

#[test]
fn what_is_under_way_is_left_alone() {
    for (file, hint) in [("MERGE_HEAD", "finishes"), ("index.lock", "again")] {
        let scene = repository();
        scene.write(&format!(".git/{file}"), "x");
        let app = open(&scene, Answer::Approved);
        let refused = call(&app, "git_commit", commit(), None).result.unwrap_err();
        assert_eq!(refused.kind, FailureKind::Conflict, "{file}");
        assert!(refused.hint.unwrap().contains(hint));
        assert_eq!(
            fs::read_to_string(scene.root.join(".git").join(file)).unwrap(),
            "x"
        );
        assert_eq!(said(&scene, &["rev-list", "--count", "HEAD"]), "1");
    }
}

/// The sandbox hides what a person has told git; who they are is known all the same, and nothing else of it.
#[test]
fn a_commit_is_the_persons() {
    let scene = repository();
    git(&scene, &["config", "--unset", "user.name"]);
    git(&scene, &["config", "--unset", "user.email"]);
    scene.write(".glee/config.yml", &format!("{ALL}autonomy: yolo\n"));
    let hook = "#!/bin/sh\ngit config --list >&2\ncat \"$GIT_CONFIG_GLOBAL\" >&2\nexit 1\n";
    let home = scene.root.with_file_name("home");
    fs::create_dir(&home).unwrap();
    let run = |config: &str| {
        fs::write(home.join(".gitconfig"), config).unwrap();
        let env = BTreeMap::from([("HOME".to_owned(), home.display().to_string())]);
        let params = commit().to_string();
        output_json(&scene.glee_with(
            &["run", "git_commit", "--json", "--params", "-"],
            &env,
            &params,
        ))
    };
    let refused = run("");
    assert_eq!(refused["error"]["code"], "EXECUTION_ERROR", "{refused}");
    assert!(
        refused["error"]["hint"]
            .as_str()
            .unwrap()
            .contains("user.name")
    );
    let config = "[user]\n\tname = Grace \\\"H\\\" X\n\temail = grace@example.com\n[http]\n\textraHeader = a secret\n";
    assert_eq!(run(config)["ok"], true);
    assert_eq!(
        said(&scene, &["log", "-1", "--format=%an <%ae>, %cn"]),
        "Grace \"H\" X <grace@example.com>, Grace \"H\" X"
    );
    scene.write(".git/hooks/pre-commit", hook);
    scene.write("a.txt", "three\n");
    let refused = run(config).to_string();
    assert!(
        refused.contains("Grace") && !refused.contains("a secret"),
        "{refused}"
    );
    // The repository's own word counts more.
    fs::remove_file(scene.root.join(".git/hooks/pre-commit")).unwrap();
    git(&scene, &["config", "user.name", "Ada"]);
    assert_eq!(run(config)["ok"], true);
    assert_eq!(said(&scene, &["log", "-1", "--format=%an"]), "Ada");
}

/// Another worktree of a repository that lies elsewhere.
#[test]
fn a_linked_worktree() {
    let main = repository();
    let linked = scene(ALL);
    let root = linked.root.display().to_string();
    fs::remove_dir_all(&linked.root).unwrap();
    git(&main, &["worktree", "add", "-q", "-b", "side", &root]);
    linked.write(".glee/config.yml", ALL);
    linked.write("a.txt", "three\n");
    let app = open(&linked, Answer::Approved);
    let state = value(call(&app, "git_status", json!({}), None));
    assert_eq!(state["entries"], json!([{"path": "a.txt", "status": " M"}]));
    let diff = value(call(&app, "git_diff", json!({}), None));
    assert!(
        diff["diff"].as_str().unwrap().contains("-one\n+three"),
        "{diff}"
    );
    let made = value(call(&app, "git_commit", commit(), None));
    assert_eq!(
        said(&main, &["rev-parse", "side"]),
        made["hash"].as_str().unwrap()
    );
    assert_eq!(said(&linked, &["status", "--porcelain"]), "");
    assert_eq!(said(&main, &["status", "--porcelain"]), "M a.txt");
    let log = value(call(&app, "git_log", json!({}), None));
    assert_eq!(log["commits"][0]["subject"], "second");
}

/// Whoever makes a `.git` of a file can name any directory; only one that names the project as well is read.
#[test]
fn a_file_opens_no_directory_that_knows_nothing_of_it() {
    let other = repository();
    fs::create_dir_all(other.root.join(".git/worktrees/x")).unwrap();
    let own = other.root.join(".git/worktrees/x");
    fs::write(own.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(own.join("commondir"), "../..\n").unwrap();
    // It is the worktree of somebody else.
    let theirs = other.write("theirs/.git", "gitdir: elsewhere\n");
    fs::write(own.join("gitdir"), format!("{}\n", theirs.display())).unwrap();
    let scene = scene(ALL);
    for named in [&own, &other.root.join(".git")] {
        scene.write(".git", &format!("gitdir: {}\n", named.display()));
        let app = open(&scene, Answer::Approved);
        for (tool, args) in [
            ("git_log", json!({})),
            ("git_commit", json!({"message": "x"})),
        ] {
            let outcome = call(&app, tool, args, None);
            assert_eq!(
                kind(&outcome),
                FailureKind::ExecutionError,
                "{tool}: {outcome:?}"
            );
        }
    }
    assert_eq!(said(&other, &["rev-list", "--count", "HEAD"]), "1");
}

/// What a repository links to is not taken for its own, whoever made it.
#[test]
fn links_in_a_repository_lead_nowhere() {
    for name in ["index", "HEAD", "config.worktree", "logs", "glee"] {
        let scene = repository();
        let secret = scene.root.with_file_name("secret");
        fs::write(&secret, "secret").unwrap();
        let path = scene.root.join(".git").join(name);
        let _ = fs::remove_file(&path);
        let _ = fs::remove_dir_all(&path);
        symlink(&secret, &path).unwrap();
        let app = open(&scene, Answer::Approved);
        let outcome = call(&app, "git_commit", commit(), None);
        assert!(outcome.result.is_err(), "{name}: {outcome:?}");
        assert_eq!(fs::read_to_string(&secret).unwrap(), "secret", "{name}");
        assert!(!scene.root.join(".git/index.lock").exists(), "{name}");
    }
}
