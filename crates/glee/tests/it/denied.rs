//! What a tool was refused is told, with a grant that works, and to nobody else.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::time::Duration;

use glee::app::{App, Call};
use glee_core::outcome::{Failure, FailureKind, Outcome};
use glee_core::port::{Answer, Caller, Cancel, Waits};
use serde_json::{Value, json};

use crate::mcp::server::eventually;
use crate::support::{Scene, json as output, stderr, stdout, wiring};

const MODULE: &str = r#"
import os, socket, time, urllib.error, urllib.request

IMPORTED = os.urandom(8).hex()

def get(url):
    return urllib.request.urlopen(url, timeout=20).read().decode()

def meet(ours, theirs):
    open(ours, "w").close()
    while not os.path.exists(theirs): time.sleep(0.005)

def run(do):
    how, _, what = do.partition(" ")
    if how == "get":
        return get(what)
    if how == "connect":
        host, port = what.split()
        socket.create_connection((host, int(port)), 20)
    if how == "read":
        return open(what).read()
    if how == "write":
        open(what, "w").close()
    if how == "swallow":
        try: get(what)
        except OSError: return IMPORTED
    if how == "fail":
        raise ValueError(IMPORTED)
    if how == "hang":
        try: get(what)
        except OSError: time.sleep(600)
    if how == "wait":
        url, out = what.split()
        try: get(url)
        except OSError:
            meet(f"{out}/asked", f"{out}/go")
            raise
    if how == "follow":
        url, out = what.split()
        meet(f"{out}/begun", f"{out}/asked")
        return get(url)
    if how == "ask":
        proxy = socket.create_connection(("127.0.0.1", 3128))
        proxy.sendall(f"CONNECT {what} HTTP/1.1\r\n\r\n".encode())
        raise ValueError(proxy.recv(4096).decode())
    if how == "secret":
        return get(f"http://{os.environ['TOKEN']}.test/")
    if how == "datagram":
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("10.0.0.1", 53))
    return "done"
"#;

/// The kinds of tools that are held by the sandbox; the function is served by an interpreter that stays.
const KINDS: [&str; 2] = ["command", "python"];

struct Stage {
    scene: Scene,
    app: App,
    runtime: tokio::runtime::Runtime,
}

impl Stage {
    /// A tool for each entry, all with the same permissions.
    fn set(tools: &[(&str, &str)], permissions: &str, config: &str) -> Stage {
        let scene = Scene::new();
        scene.write(".glee/config.yml", config);
        std::fs::create_dir(scene.root.join("out")).unwrap();
        for (name, kind) in tools {
            let own = format!(".glee/tools/{name}");
            let exec = match *kind {
                "command" => format!(
                    "exec: {{command: {{entrypoint: {own}/main.py, args: [--, '${{do}}'], timeout_ms: 20000}}}}"
                ),
                _ => format!(
                    "exec: {{python: {{module: main, function: run, args: ['${{do}}'], cwd: {own}, timeout_ms: 20000}}}}"
                ),
            };
            scene.write(
                &format!("{own}/tool.yml"),
                &format!(
                    "name: {name}\ndescription: A tool\nkind: {kind}\nversion: 1\n\
                     inputs: {{schema: {{type: object, properties: {{do: {{type: string, description: What to do}}}}}}}}\n\
                     outputs: {{format: text}}\n{exec}\n{permissions}\napproval: {{required: false}}\n"
                ),
            );
            let script = "\nif __name__ == '__main__':\n    import sys\n    print(run(sys.argv[2]), end='')\n";
            scene.write(
                &format!("{own}/main.py"),
                &format!("#!/usr/bin/python3 -B\n{MODULE}{script}"),
            );
        }
        let secrets = BTreeMap::from([("TOKEN".to_owned(), "Secret-Token-1".to_owned())]);
        let app = App::open(scene.project(), wiring(secrets, Answer::Approved)).unwrap();
        let runtime = tokio::runtime::Runtime::new().unwrap();
        Stage {
            scene,
            app,
            runtime,
        }
    }

    fn of(kind: &str, permissions: &str, config: &str) -> Stage {
        Stage::set(&[("tool", kind)], permissions, config)
    }

    fn call(&self, args: Value) -> Outcome {
        self.call_of("tool", args, None)
    }

    fn call_of(&self, tool: &str, args: Value, timeout: Option<Duration>) -> Outcome {
        let call = Call {
            tool: tool.into(),
            args: args.as_object().unwrap().clone(),
            caller: Caller {
                name: "user".into(),
            },
            timeout,
            cancel: Cancel::never(),
            party: std::sync::Arc::new(Waits),
            approval: None,
        };
        self.runtime.block_on(self.app.call(call))
    }

    #[track_caller]
    fn ok(&self, what: &str) -> Value {
        self.call(json!({"do": what})).result.unwrap().value
    }

    #[track_caller]
    fn fails(&self, what: &str) -> Failure {
        self.call(json!({"do": what})).result.unwrap_err()
    }
}

/// Says `hello` to whoever asks, at one address.
fn greeter(at: IpAddr) -> SocketAddr {
    let listener = TcpListener::bind((at, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
            );
        }
    });
    address
}

fn loopback() -> IpAddr {
    IpAddr::from([127, 0, 0, 1])
}

#[track_caller]
fn only(failure: &Failure) -> Value {
    let denied = failure.details.get("denied").cloned().unwrap_or_default();
    assert_eq!(denied.as_array().map(Vec::len), Some(1), "{failure:?}");
    denied[0].clone()
}

fn grant(denied: &Value) -> String {
    denied["grant"].as_str().unwrap().to_owned()
}

fn allowing(hosts: &str) -> String {
    format!("http: {{allowed_hosts: [{hosts}]}}\n")
}

#[test]
fn an_address_that_is_not_public_is_told_and_the_grant_works() {
    for kind in KINDS {
        let server = greeter(loopback());
        let get = format!("get http://{server}/");
        let stage = Stage::of(kind, "permissions: {network: true}", "");
        for _ in 0..2 {
            let failure = stage.fails(&get);
            let denied = only(&failure);
            assert_eq!(denied["what"], server.to_string());
            assert_eq!(denied["by"], "connect supervisor");
            assert_eq!(denied["permission"], "network");
            let hint = failure.hint.unwrap();
            assert!(
                hint.contains(&grant(&denied)) && hint.contains("HTTP_PROXY"),
                "{hint}"
            );
            // As the advice says.
            let advised = format!("permissions: {{{}}}", grant(&denied));
            assert_eq!(Stage::of(kind, &advised, "").ok(&get), "hello", "{kind}");
        }
    }
}

#[test]
fn a_project_that_would_not_allow_it_is_told_of_too() {
    let server = greeter(loopback());
    let get = format!("get http://{server}/");
    let permissions = "permissions: {network: true}";
    let stage = Stage::of("command", permissions, &allowing("a.test"));
    let denied = only(&stage.fails(&get));
    let note = denied["note"].as_str().unwrap();
    assert!(note.contains("http.allowed_hosts"), "{note}");
    let advised = format!("permissions: {{{}}}", grant(&denied));
    let both = Stage::of("command", &advised, &allowing(&format!("\"{server}\"")));
    assert_eq!(both.ok(&get), "hello");
}

#[test]
fn datagrams_are_told_and_nothing_is_promised() {
    for kind in KINDS {
        let stage = Stage::of(kind, "permissions: {network: true}", "");
        let denied = only(&stage.fails("datagram"));
        assert_eq!(denied["what"], "10.0.0.1:53 (datagrams)");
        assert_eq!(denied["grant"], Value::Null);
    }
}

#[test]
fn a_host_that_is_not_listed_is_told_and_the_grant_works() {
    for kind in KINDS {
        let server = greeter(loopback());
        let get = format!("get http://{server}/");
        let stage = Stage::of(kind, "permissions: {network: {hosts: [a.test]}}", "");
        for _ in 0..2 {
            let denied = only(&stage.fails(&get));
            assert_eq!(denied["what"], server.to_string());
            assert_eq!(denied["by"], "proxy");
            assert_eq!(denied["permission"], "network");
            assert_eq!(
                grant(&denied),
                format!("network: {{hosts: [\"{server}\"]}}")
            );
        }
        let advised = format!("permissions: {{network: {{hosts: [a.test, \"{server}\"]}}}}");
        assert_eq!(Stage::of(kind, &advised, "").ok(&get), "hello");
        let named = only(&stage.fails("get http://Other.test:81/"));
        assert_eq!(named["what"], "other.test:81");
    }
}

#[test]
fn no_tool_can_have_a_wider_grant_taught() {
    for kind in KINDS {
        let stage = Stage::of(kind, "permissions: {network: {hosts: [a.test]}}", "");
        assert_eq!(
            grant(&only(&stage.fails("ask b.test:80"))),
            "network: {hosts: [\"b.test:80\"]}"
        );
        for host in ["*.test", "b\",\"*.test", "b\"],fs:{write:[\"out"] {
            let failure = stage.fails(&format!("ask {host}:80"));
            assert_eq!(failure.details.get("denied"), None, "{failure:?}");
        }
    }
}

#[test]
fn a_host_that_the_project_does_not_allow_is_told_and_the_grant_works() {
    for kind in KINDS {
        let server = greeter(loopback());
        let get = format!("get http://{server}/");
        let permissions = format!("permissions: {{network: {{hosts: [\"{server}\"]}}}}");
        let stage = Stage::of(kind, &permissions, &allowing("a.test"));
        let denied = only(&stage.fails(&get));
        assert_eq!(denied["permission"], "http.allowed_hosts");
        let entry = grant(&denied)
            .replace("http.allowed_hosts: [", "")
            .replace(']', "");
        let config = allowing(&format!("a.test, {entry}"));
        assert_eq!(Stage::of(kind, &permissions, &config).ok(&get), "hello");
    }
}

/// A name of this machine's own that leads to a private address, and is not `localhost`.
fn private_name() -> Option<(String, IpAddr)> {
    let hosts = std::fs::read_to_string("/etc/hosts").ok()?;
    let names = hosts.lines().flat_map(|it| it.split_whitespace().skip(1));
    names
        .filter(|it| *it != "localhost" && !it.starts_with('#'))
        .find_map(|name| {
            let found: Vec<IpAddr> = (name, 0)
                .to_socket_addrs()
                .ok()?
                .map(|it| it.ip())
                .collect();
            let is_bindable = |it: &IpAddr| TcpListener::bind((*it, 0)).is_ok();
            let all = found
                .iter()
                .all(|it| !glee_sandbox::is_public(*it) && is_bindable(it));
            all.then(|| Some((name.to_owned(), *found.first()?)))?
        })
}

#[test]
fn a_listed_name_at_a_private_address_is_told_and_the_grant_works() {
    let (name, address) = private_name().expect(
        "/etc/hosts must have a name besides `localhost` for a private address of this machine",
    );
    for kind in KINDS {
        let server = greeter(address);
        let get = format!("get http://{name}:{}/", server.port());
        let permissions = format!("permissions: {{network: {{hosts: [{name}]}}}}");
        let denied = only(&Stage::of(kind, &permissions, "").fails(&get));
        assert_eq!(denied["what"], format!("{name}:{}", server.port()));
        assert_eq!(
            grant(&denied),
            format!("network: {{hosts: [\"{server}\"]}}")
        );
        let advised = format!("permissions: {{network: {{hosts: [{name}, \"{server}\"]}}}}");
        assert_eq!(Stage::of(kind, &advised, "").ok(&get), "hello");
    }
}

#[test]
fn a_file_without_a_grant_is_told_and_the_grant_works() {
    for kind in KINDS {
        // To each stage its own, which the grant of another does not name.
        for (attempt, name) in [
            ("read", "there"),
            ("read", "a,b&c"),
            ("write", "part/old"),
            ("write", "part/new"),
        ] {
            let set = |permissions: &str| {
                let stage = Stage::of(kind, permissions, "");
                for it in ["there", "a,b&c", "part/old"] {
                    stage.scene.write(it, "");
                }
                let path = stage.scene.root.join(name).display().to_string();
                (stage, format!("{attempt} {path}"))
            };
            let (stage, what) = set("permissions: {fs: {read: [part, out], write: []}}");
            let failure = stage.fails(&what);
            let granted = grant(&only(&failure));
            let (list, path) = granted.split_once(": ").unwrap();
            let list = list.strip_prefix("fs.").unwrap();
            let there = stage.scene.root.display().to_string();
            let advised = format!("permissions: {{fs: {{{list}: {path}}}}}");
            let (stage, what) = set(&advised.replace(&there, "."));
            stage.ok(&what);
        }
    }
}

#[test]
fn a_connection_past_the_proxy_is_taught_and_the_proxy_works() {
    for kind in KINDS {
        let server = greeter(loopback());
        let permissions = format!("permissions: {{network: {{hosts: [\"{server}\"]}}}}");
        let stage = Stage::of(kind, &permissions, "");
        for direct in [
            "connect 10.0.0.1 80".to_owned(),
            format!("connect 127.0.0.1 {}", server.port()),
        ] {
            let failure = stage.fails(&direct);
            let denied = only(&failure);
            assert_eq!(denied["by"], "empty network");
            assert_eq!(denied["grant"], Value::Null);
            let hint = failure.hint.unwrap();
            assert!(
                hint.contains("it seems") && hint.contains("HTTP_PROXY"),
                "{hint}"
            );
        }
        assert_eq!(stage.ok(&format!("get http://{server}/")), "hello");
    }
}

#[test]
fn two_tools_behind_one_socket_are_told_their_own() {
    for kind in KINDS {
        let permissions = "permissions: {network: {hosts: [a.test]}, fs: {read: [], write: [out]}}";
        let stage = Stage::set(&[("tool", kind), ("other", kind)], permissions, "");
        let out = stage.scene.root.join("out");
        let exists = |name: &str| out.join(name).exists();
        let out = out.display();
        let wait = format!("wait http://one.test/ {out}");
        let follow = json!({"do": format!("follow http://two.test/ {out}")});
        std::thread::scope(|scope| {
            // The second begins before the first is refused, and ends while that is still under way.
            let second = scope.spawn(|| stage.call_of("other", follow, None));
            eventually("the second has begun", || exists("begun"));
            let first = scope.spawn(|| stage.fails(&wait));
            let second = second.join().unwrap().result.unwrap_err();
            assert_eq!(only(&second)["what"], "two.test:80");
            let nothing = stage.call_of("other", json!({"do": "fail"}), None);
            assert_eq!(nothing.result.unwrap_err().details.get("denied"), None);
            stage.scene.write("out/go", "");
            assert_eq!(only(&first.join().unwrap())["what"], "one.test:80");
        });
    }
}

#[test]
fn what_one_call_was_refused_is_not_told_of_the_next() {
    for (permissions, url) in [
        ("permissions: {network: true}", "http://127.0.0.1:1/"),
        (
            "permissions: {network: {hosts: [a.test]}}",
            "http://b.test/",
        ),
    ] {
        for kind in KINDS {
            let stage = Stage::of(kind, permissions, "");
            let imported = stage.ok(&format!("swallow {url}"));
            let failure = stage.fails("fail");
            assert_eq!(failure.details.get("denied"), None, "{failure:?}");
            if kind == "python" {
                // It was the same interpreter, or this would say nothing.
                let imported = imported.as_str().unwrap();
                assert!(failure.message.contains(imported), "{failure:?}");
            }
        }
    }
}

#[test]
fn what_an_import_was_refused_is_not_told_of_a_call() {
    let stage = Stage::of("python", "permissions: {network: true}", "");
    let module = "import socket\nsocket.socket().connect_ex(('127.0.0.1', 1))\ndef run(do): raise ValueError(do)\n";
    stage.scene.write(".glee/tools/tool/main.py", module);
    let failure = stage.fails("x");
    assert_eq!(failure.details.get("denied"), None, "{failure:?}");
}

#[test]
fn a_call_that_timed_out_is_told_what_it_was_refused() {
    let permissions = [
        "permissions: {network: true}",
        "permissions: {network: {hosts: [a.test]}}",
    ];
    let check = |permissions: &str, kind: &str| {
        let stage = Stage::of(kind, permissions, "");
        stage.ok("nothing");
        // Long enough to get there, also on a machine that has much to do.
        let timeout = Some(Duration::from_secs(5));
        let outcome = stage.call_of("tool", json!({"do": "hang http://127.0.0.1:1/"}), timeout);
        let failure = outcome.result.unwrap_err();
        assert_eq!(failure.kind, FailureKind::Timeout);
        assert_eq!(only(&failure)["what"], "127.0.0.1:1");
    };
    std::thread::scope(|scope| {
        for permissions in permissions {
            for kind in KINDS {
                scope.spawn(move || check(permissions, kind));
            }
        }
    });
}

#[test]
fn a_secret_in_the_name_of_a_host_is_not_told() {
    for kind in KINDS {
        let permissions =
            "permissions: {network: {hosts: [a.test]}, secrets: {TOKEN: {type: string}}}";
        let failure = Stage::of(kind, permissions, "").fails("secret");
        assert_eq!(only(&failure)["what"], "[REDACTED:TOKEN].test:80");
        let all = format!("{failure:?}").to_lowercase();
        assert!(!all.contains("secret-token-1"), "{all}");
    }
}

#[test]
fn who_is_held_to_no_hosts_is_sent_to_no_proxy() {
    let server = greeter(loopback());
    let get = format!("get http://{server}/");
    let permissions = format!("permissions: {{network: {{hosts: [\"{server}\"]}}}}");
    for kind in KINDS {
        assert_eq!(
            Stage::of(kind, &permissions, "sandbox: off\n").ok(&get),
            "hello"
        );
    }
    let scene = Scene::new();
    scene.write(".glee/config.yml", "sandbox: off\n");
    let code = format!("import urllib.request as u; print(u.urlopen('http://{server}/').read())");
    let options = [
        "sandbox",
        "exec",
        "--host",
        &server.to_string(),
        "--",
        "/usr/bin/python3",
    ];
    let ran = scene.glee(&[&options[..], &["-c", &code]].concat());
    assert_eq!(stdout(&ran), "b'hello'\n", "{}", stderr(&ran));
}

#[test]
fn code_that_was_refused_something_says_so() {
    let config = "builtins: {enable: [run_code], network: true}\n";
    let stage = Stage::set(&[], "", config);
    let code = "import socket; socket.create_connection(('127.0.0.1', 1))";
    let args = json!({"language": "python", "code": code});
    let outcome = stage.call_of("run_code", args, None);
    let warnings = format!("{:?}", outcome.result.unwrap());
    assert!(
        warnings.contains("the connect supervisor refused 127.0.0.1:1"),
        "{warnings}"
    );
    assert!(warnings.contains("builtins.network: {hosts:"), "{warnings}");
}

#[test]
fn by_hand_it_is_told_as_an_option_that_works() {
    let server = greeter(loopback());
    let scene = Scene::new();
    let code = format!("import urllib.request as u; print(u.urlopen('http://{server}/').read())");
    let run = |options: &[&str]| {
        let program = ["--", "/usr/bin/python3", "-c", &code];
        scene.glee(&[&["sandbox", "exec"], options, &program].concat())
    };
    let refused = stderr(&run(&["--net"]));
    let told = format!("denied: the connect supervisor refused {server};");
    assert!(refused.contains(&told), "{refused}");
    let asked = format!("denied: the proxy refused {server};");
    let refused = stderr(&run(&["--host", "a.test"]));
    assert!(refused.contains(&asked), "{refused}");
    let denied = output(&run(&["--net", "--json"]))["denied"][0].clone();
    assert_eq!(denied["grant"], format!("--host {server}"));
    let advised = run(&["--host", &server.to_string()]);
    assert_eq!(stdout(&advised), "b'hello'\n");
    assert_eq!(stderr(&advised), "");
}
