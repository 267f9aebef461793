//! Programs that must work confined. A sandbox that holds everything back is easy.

use std::path::Path;

use glee_sandbox::{Confinement, Profile, Sandbox, Tier};

use crate::support::*;

/// Name, the program it needs, and a script that prints `ok` at its end. `$W` is a writable directory.
const PROGRAMS: &[(&str, &str, &str)] = &[
    ("sh", "/bin/sh", "x=1; [ $x = 1 ] && echo ok"),
    (
        "bash",
        "/usr/bin/bash",
        "bash -c 'set -o pipefail; a=(1 2 3); [[ ${#a[@]} = 3 ]] && cat <(echo ok)'",
    ),
    (
        "coreutils",
        "/usr/bin/sort",
        "cd $W && printf 'b\\na\\n' | sort > s && head -1 s | grep -q a && wc -l s && cp s t && ls -la && stat s && date && rm s t && echo ok",
    ),
    (
        "pipes",
        "/bin/sh",
        "seq 1 100000 | sort -n | tail -1 | grep -q 100000 && echo ok",
    ),
    (
        "find and xargs",
        "/usr/bin/find",
        "cd $W && mkdir -p d/e && touch d/e/f && find . -name f -print0 | xargs -0 ls && rm -r d && echo ok",
    ),
    (
        "sed and awk",
        "/usr/bin/awk",
        "echo a b | sed s/a/c/ | awk '{print $1}' | grep -q c && echo ok",
    ),
    (
        "tar and gzip",
        "/usr/bin/tar",
        "cd $W && echo x > f && tar czf a.tgz f && rm f && tar xzf a.tgz && cat f && rm f a.tgz && echo ok",
    ),
    (
        "rename across directories",
        "/bin/mv",
        "cd $W && mkdir a b && echo x > a/f && mv a/f b/g && ln b/g a/h && rm -r a b && echo ok",
    ),
    (
        "chmod and chown",
        "/bin/chmod",
        "cd $W && touch f && chmod 700 f && chown $(id -u) f && touch -d 2001-01-01 f && rm f && echo ok",
    ),
    (
        "git",
        "git",
        "cd $W && export HOME=$W && git init -q r && cd r && git config user.email a@b && git config user.name a && echo x > f && git add f && git commit -qm m && git mv f g && git commit -qm n && git log --oneline | wc -l | grep -q 2 && cd .. && rm -rf r .gitconfig && echo ok",
    ),
    (
        "git in scratch",
        "git",
        "cd /tmp && export HOME=/tmp && git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && echo ok",
    ),
    (
        "node",
        "/usr/bin/node",
        "node -e 'const {execSync}=require(\"child_process\"); const fs=require(\"fs\"); fs.writeFileSync(process.env.W+\"/n\",\"x\"); if(execSync(\"cat $W/n\").toString()!==\"x\")process.exit(1); fs.unlinkSync(process.env.W+\"/n\"); new Promise(r=>setTimeout(r,10)).then(()=>console.log(\"ok\"))'",
    ),
    (
        "node workers",
        "/usr/bin/node",
        "node -e 'const {Worker}=require(\"worker_threads\"); new Worker(\"require(\\\"worker_threads\\\").parentPort.postMessage(1)\",{eval:true}).on(\"message\",()=>console.log(\"ok\"))'",
    ),
    (
        "python",
        "/usr/bin/python3",
        "python3 -I -c 'import json, sqlite3, hashlib, ssl, ctypes, tempfile; tempfile.mkstemp(); print(\"ok\")'",
    ),
    (
        "python with numpy",
        "/usr/lib/python3/dist-packages/numpy/__init__.py",
        "/usr/bin/python3 -I -c 'import numpy as n; a=n.random.rand(99,99); assert n.allclose(a @ n.linalg.inv(a), n.eye(99)); print(\"ok\")'",
    ),
    (
        "python threads",
        "/usr/bin/python3",
        "python3 -I -c 'import threading; t=[threading.Thread(target=sum,args=(range(1000),)) for _ in range(20)]; [x.start() for x in t]; [x.join() for x in t]; print(\"ok\")'",
    ),
    (
        "python asyncio",
        "/usr/bin/python3",
        "python3 -I -c '\nimport asyncio\nasync def main():\n  p = await asyncio.create_subprocess_exec(\"echo\",\"hi\",stdout=-1)\n  assert (await p.communicate())[0]==b\"hi\\n\"\nasyncio.run(main()); print(\"ok\")'",
    ),
    (
        "python multiprocessing",
        "/usr/bin/python3",
        "python3 -I -c '\nimport multiprocessing as m\nif __name__==\"__main__\":\n  with m.Pool(3) as p: assert sum(p.map(abs,range(50)))==1225\n  from multiprocessing import shared_memory as s\n  x=s.SharedMemory(create=True,size=10); x.unlink(); print(\"ok\")'",
    ),
    (
        "sqlite in a grant",
        "/usr/bin/python3",
        "python3 -I -c 'import sqlite3,os; p=os.environ[\"W\"]+\"/db\"; c=sqlite3.connect(p); c.execute(\"create table t(x)\"); c.commit(); c.close(); os.unlink(p); print(\"ok\")'",
    ),
    ("perl", "/usr/bin/perl", "perl -e 'print qq(ok\\n)'"),
    (
        "time zone",
        "/bin/date",
        "TZ=Europe/Berlin date +%Z | grep -q CE && echo ok",
    ),
    (
        "proc",
        "/bin/cat",
        "cat /proc/self/status /proc/cpuinfo /proc/meminfo > /dev/null && test -d /proc/$$ && ls -l /dev/fd/ > /dev/null && echo ok",
    ),
    (
        "devices",
        "/bin/dd",
        "dd if=/dev/urandom of=/dev/null bs=1k count=10 2>/dev/null && head -c 5 /dev/zero | wc -c && echo ok",
    ),
    (
        "signals",
        "/bin/sh",
        "trap 'echo ok; exit 0' USR1; kill -USR1 $$; sleep 5",
    ),
    (
        "abort",
        "/bin/sh",
        "sh -c 'kill -ABRT $$'; [ $? = 134 ] && echo ok",
    ),
    (
        "compiler",
        "/usr/bin/gcc",
        "cd /tmp && echo 'int main(){return 0;}' > a.c && gcc a.c -o a && ./a && echo ok",
    ),
];

fn works(sandbox: &Sandbox, profile: &Profile, names: impl Fn(&str) -> bool) -> usize {
    let mut broken = Vec::new();
    let mut count = 0;
    for (name, needs, script) in PROGRAMS.iter().filter(|it| names(it.0)) {
        let found = ["", "/usr/local/bin/", "/usr/bin/"]
            .iter()
            .any(|dir| Path::new(&format!("{dir}{needs}")).is_file());
        if !found {
            println!("{name}: void, {needs} is not here");
            continue;
        }
        count += 1;
        let (mut order, out, err) = order("/bin/sh", &["-c", script]);
        order
            .env
            .push(("W".into(), profile.write[0].clone().into()));
        order.env.push(("LC_ALL".into(), "C".into()));
        let child = sandbox.start(profile, order).unwrap();
        let (stdout, stderr) = (collect(out), collect(err));
        let end = child.wait().unwrap();
        let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
        if !stdout.ends_with(b"ok\n") {
            broken.push(format!(
                "{name}: {end:?}\n{}{}",
                String::from_utf8_lossy(&stdout),
                String::from_utf8_lossy(&stderr)
            ));
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    count
}

#[test]
fn ordinary_programs_work_in_the_full_tier() {
    let dir = tempfile::tempdir().unwrap();
    let mut granted = profile(Confinement::Required);
    granted.write.push(dir.path().to_path_buf());
    assert!(works(&sandbox(), &granted, |_| true) >= 15);
}

#[test]
fn ordinary_programs_work_with_a_network() {
    let dir = tempfile::tempdir().unwrap();
    let mut granted = profile(Confinement::Required);
    granted.write.push(dir.path().to_path_buf());
    granted.network = glee_sandbox::Network::Outbound { granted: vec![] };
    works(&sandbox(), &granted, |name| {
        name.starts_with("python") || name.starts_with("node") || name == "git"
    });
}

#[test]
fn programs_that_need_no_metadata_and_no_scratch_work_with_landlock_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut granted = profile(Confinement::Required);
    granted.write.push(dir.path().to_path_buf());
    let plain = [
        "sh",
        "bash",
        "pipes",
        "sed and awk",
        "python threads",
        "python asyncio",
        "perl",
        "signals",
        "abort",
        "node",
    ];
    works(
        &Sandbox::at_most(launcher(), Tier::Landlock),
        &granted,
        |name| plain.contains(&name),
    );
}

#[test]
fn git_commits_where_its_hooks_and_its_configuration_are_protected() {
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    let git = |args: &[&str]| {
        let ran = std::process::Command::new("git")
            .args(args)
            .current_dir(dir.path())
            .env("HOME", dir.path())
            .output();
        ran.is_ok_and(|it| it.status.success())
    };
    if !git(&["init", "-q"]) {
        println!("void: no git here");
        return;
    }
    git(&["config", "user.email", "a@b"]);
    git(&["config", "user.name", "a"]);
    let mut granted = profile(Confinement::Required);
    granted.write.push(dir.path().to_path_buf());
    for it in [".git/hooks", ".git/config", ".mcp.json", ".glee/config.yml"] {
        granted.protect.push(dir.path().join(it));
    }
    let script = format!(
        "cd {} && export HOME=/tmp && echo x > f && git add f && git commit -qm m && git checkout -qb other && git mv f g && \
         git commit -qm n && git merge -q other && git log --oneline | wc -l",
        dir.path().display()
    );
    assert_eq!(sh(&sandbox(), &granted, &script).ok().trim(), "2");
    let configure = format!(
        "cd {} && git config core.hooksPath /tmp",
        dir.path().display()
    );
    assert_ne!(
        sh(&sandbox(), &granted, &configure).end.exit,
        glee_sandbox::Exit::Code(0)
    );
}
