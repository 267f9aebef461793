//! Built-in tools against what they are for: a real engine of containers, a real searx, and the registries that
//! packages come from. With `GLEE_LONG`, because some must be installed and the others reached.

use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use glee_core::host::is_public;
use glee_core::port::Answer;
use serde_json::json;

use super::{call, nobody, open, scene, value};
use crate::support::is_long;

/// Podman, with everything of its own in one directory.
struct Engine {
    /// It goes before its directory.
    service: Option<Running>,
    directory: tempfile::TempDir,
}

impl Engine {
    fn start() -> Engine {
        // The path of a socket must be short.
        let directory = tempfile::Builder::new()
            .prefix("p")
            .tempdir_in("/tmp")
            .unwrap();
        let at = directory.path();
        let settings = "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n\
             [engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n";
        let storage = format!(
            "[storage]\ndriver = \"vfs\"\ngraphroot = \"{0}/root\"\nrunroot = \"{0}/run\"\n",
            at.display()
        );
        std::fs::write(at.join("containers.conf"), settings).unwrap();
        std::fs::write(at.join("storage.conf"), storage).unwrap();
        let mut engine = Engine {
            service: None,
            directory,
        };
        let socket = format!("unix://{}", engine.socket().display());
        let mut service = engine.podman(&["system", "service", "--time=0", &socket]);
        let service = service.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        engine.service = Some(Running(service.unwrap()));
        let began = Instant::now();
        while UnixStream::connect(engine.socket()).is_err() {
            assert!(
                began.elapsed() < Duration::from_secs(60),
                "podman does not answer"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        engine
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("s")
    }

    fn podman(&self, words: &[&str]) -> Command {
        let mut podman = Command::new("podman");
        podman
            .args(words)
            .env(
                "CONTAINERS_CONF",
                self.directory.path().join("containers.conf"),
            )
            .env(
                "CONTAINERS_STORAGE_CONF",
                self.directory.path().join("storage.conf"),
            );
        podman
    }

    fn run(&self, words: &[&str]) {
        let done = self.podman(words).output().unwrap();
        assert!(done.status.success(), "{words:?}: {done:?}");
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.podman(&["rm", "--all", "--force"]).output();
    }
}

#[test]
fn containers_of_a_real_engine() {
    if !is_long() {
        return;
    }
    let engine = Engine::start();
    let scene = scene(&format!(
        "builtins: {{enable: [system], docker: \"{}\"}}\n",
        engine.socket().display()
    ));
    let app = open(&scene, nobody());
    let listed = |kind: &str| {
        let listed = value(call(&app, "tool_docker_list", json!({"type": kind}), None));
        listed["items"].clone()
    };
    assert_eq!(
        (listed("images"), listed("containers")),
        (json!([]), json!([]))
    );
    let tar = engine.directory.path().join("image.tar");
    scene.write("image/hello", "hello\n");
    let packed = Command::new("tar")
        .args(["-C", "image", "-cf"])
        .arg(&tar)
        .arg(".")
        .current_dir(&scene.root)
        .status();
    assert!(packed.unwrap().success());
    engine.run(&["import", &tar.display().to_string(), "glee/thing:1"]);
    engine.run(&[
        "create",
        "--name",
        "waiting",
        "--network",
        "none",
        "glee/thing:1",
        "/hello",
    ]);
    assert_eq!(listed("images"), json!(["localhost/glee/thing:1"]));
    // One that does not run is one as well.
    assert_eq!(listed("containers"), json!(["waiting"]));
}

/// Debian's searx, which SearXNG comes from and shares its API with. What it finds is asked of one engine, here.
#[test]
fn a_real_searx() {
    if !is_long() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let bind = || {
        runtime
            .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
            .unwrap()
    };
    let (engine, free) = (bind(), bind());
    let (engine_port, port) = (
        engine.local_addr().unwrap().port(),
        free.local_addr().unwrap().port(),
    );
    drop(free);
    let found = json!({"results": [
        {"url": "https://example.com/a", "title": "A & B", "content": "what it says"},
        {"url": "https://example.com/c", "title": "C", "content": ""},
    ]});
    let answer = axum::routing::get(|| async { axum::Json(found) });
    let router = axum::Router::new().route("/found", answer);
    runtime.spawn(async move { axum::serve(engine, router).await });
    let share = "/usr/share/python3-searx";
    let settings = json!({
        "general": {"debug": false, "instance_name": "test"},
        "search": {"safe_search": 0, "autocomplete": "", "default_lang": "", "ban_time_on_fail": 5, "max_ban_time_on_fail": 120, "formats": ["html", "json"]},
        "server": {"port": port, "bind_address": "127.0.0.1", "secret_key": "of a test", "base_url": false, "image_proxy": false, "http_protocol_version": "1.0", "method": "GET", "default_http_headers": {}},
        "ui": {"static_path": format!("{share}/static"), "templates_path": format!("{share}/templates"), "default_theme": "oscar", "default_locale": "", "theme_args": {"oscar_style": "logicodev"}},
        "outgoing": {"request_timeout": 10.0, "useragent_suffix": "", "pool_connections": 10, "pool_maxsize": 10},
        "engines": [{
            "name": "here", "engine": "json_engine", "shortcut": "h", "categories": "general", "paging": false, "enable_http": true,
            "search_url": format!("http://127.0.0.1:{engine_port}/found?q={{query}}"),
            "results_query": "results", "url_query": "url", "title_query": "title", "content_query": "content",
        }],
        "locales": {"en": "English"},
        "doi_resolvers": {"none": "https://example.com/"},
        "default_doi_resolver": "none",
    });
    let file = directory.path().join("settings.yml");
    std::fs::write(&file, settings.to_string()).unwrap();
    let searx = Command::new("/usr/bin/python3")
        .args(["-m", "searx.webapp"])
        .env("SEARX_SETTINGS_PATH", &file)
        .current_dir(directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let _searx = Running(searx);
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(
            began.elapsed() < Duration::from_secs(60),
            "searx does not answer"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    let scene = scene(&format!(
        "builtins: {{enable: [core], search: {{provider: searxng, url: \"http://127.0.0.1:{port}/\"}}}}\n"
    ));
    let app = open(&scene, nobody());
    let told = value(call(
        &app,
        "web_search",
        json!({"query": "a b", "numResults": 1}),
        None,
    ));
    assert_eq!(
        told,
        json!({"results": [{"title": "A & B", "url": "https://example.com/a", "snippet": "what it says"}]})
    );
}

/// A program, to the end of the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where a registry is. On a machine that reaches it by an address that is not public, a project must name that.
fn registries(hosts: &[&str]) -> String {
    let mut entries: Vec<String> = hosts.iter().map(|&it| it.to_owned()).collect();
    for host in hosts {
        let found = (*host, 443).to_socket_addrs().into_iter().flatten();
        let private = found.filter(|it: &SocketAddr| !is_public(it.ip()));
        entries.extend(private.map(|it| it.to_string()));
    }
    json!(entries).to_string()
}

/// Whom this machine trusts, when it is not those whom the program brings along.
fn trusted(variable: &str, line: &str) -> String {
    let file = std::env::var(variable).unwrap_or_default();
    match Path::new(&file).is_file() {
        true => format!("{line}{file}\n"),
        false => String::new(),
    }
}

#[test]
fn packages_of_real_registries() {
    if !is_long() {
        return;
    }
    let hosts = ["pypi.org", "files.pythonhosted.org", "registry.npmjs.org"];
    let config = format!(
        "builtins: {{enable: [dev], registries: {}}}\n",
        registries(&hosts)
    );
    let scene = scene(&config);
    scene.write("package.json", "{\"name\": \"x\", \"version\": \"1.0.0\"}");
    scene.write(".npmrc", &trusted("NODE_EXTRA_CA_CERTS", "cafile="));
    scene.write(
        ".venv/pip.conf",
        &format!("[global]\n{}", trusted("PIP_CERT", "cert = ")),
    );
    let app = open(&scene, Answer::Approved);
    for (manager, package, made) in [
        (
            "npm",
            "left-pad@1.3.0",
            "node_modules/left-pad/package.json",
        ),
        ("pip", "six==1.17.0", ".venv/lib"),
    ] {
        let args = json!({"packages": [package], "manager": manager});
        let told = value(call(&app, "install_package", args, None));
        assert_eq!(told["passed"], true, "{told}");
        assert!(scene.root.join(made).exists(), "{told}");
    }
    // What was installed is what the project's tests find.
    scene.write("tests/test_six.py", "import unittest, six\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(six.__version__, '1.17.0')\n");
    std::fs::remove_file(scene.root.join("package.json")).unwrap();
    let told = value(call(&app, "run_tests", json!({}), None));
    assert_eq!(told["passed"], true, "{told}");
    assert_eq!(told["command"][0], ".venv/bin/python");
}
