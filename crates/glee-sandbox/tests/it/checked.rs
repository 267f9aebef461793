//! What was checked is what runs: a program that was replaced since is not started.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use glee_sandbox::{Checked, Confinement, Exit, Profile, Sandbox, StartError, Tier};
use rustix::fs::{CWD, Mode, OFlags, RenameFlags, renameat_with};

use crate::support::*;

/// A sandbox of each kind, and the confinement to ask of it.
fn kinds() -> [(Sandbox, Confinement); 3] {
    [
        (sandbox(), Confinement::Required),
        (
            Sandbox::at_most(launcher(), Tier::Landlock),
            Confinement::Required,
        ),
        (sandbox(), Confinement::Off),
    ]
}

fn reading(confinement: Confinement, path: &Path) -> Profile {
    let mut granted = profile(confinement);
    granted.read.push(path.to_path_buf());
    granted
}

fn script(path: &Path, text: &str) {
    fs::write(path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Starts the program as the file that was checked.
fn run_checked(
    sandbox: &Sandbox,
    granted: &Profile,
    program: &Path,
    checked: Checked,
) -> Result<(Exit, String), StartError> {
    let (mut order, out, _err) = order(program.to_str().unwrap(), &[]);
    order.checked = Some(checked);
    let child = sandbox.start(granted, order)?;
    let said = collect(out);
    let exit = child.wait()?.exit;
    Ok((exit, String::from_utf8(said.join().unwrap()).unwrap()))
}

/// As glee opens what it checks.
fn open(program: &Path) -> Checked {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    Checked::now(rustix::fs::open(program, flags, Mode::empty()).unwrap()).unwrap()
}

#[test]
fn a_program_that_was_replaced_is_not_run() {
    type Make = fn(&Path, &str);
    let elf: Make = |path, program| {
        fs::copy(format!("/bin/{program}"), path).unwrap();
    };
    let text: Make = |path, program| script(path, &format!("exec {program}"));
    for (sandbox, confinement) in kinds() {
        for make in [elf, text] {
            let dir = tempfile::tempdir().unwrap();
            let (program, other) = (dir.path().join("program"), dir.path().join("other"));
            for grant in [dir.path(), &program] {
                make(&program, "true");
                make(&other, "false");
                let granted = reading(confinement, grant);
                let ran = run_checked(&sandbox, &granted, &program, open(&program)).unwrap();
                assert_eq!(ran.0, Exit::Code(0));
                let checked = open(&program);
                fs::rename(&other, &program).unwrap();
                let refused = run_checked(&sandbox, &granted, &program, checked);
                assert!(
                    matches!(refused, Err(StartError::Replaced(_))),
                    "{confinement:?} {refused:?}"
                );
            }
        }
    }
}

/// Also when it is the same file, and has its old contents again.
#[test]
fn a_program_that_was_changed_is_not_run() {
    for (sandbox, confinement) in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        script(&program, "exec true");
        let granted = reading(confinement, dir.path());
        // Two changes within one tick of the kernel's clock look like one.
        let changed = |path: &Path| {
            let found = fs::metadata(path).unwrap();
            (found.ctime(), found.ctime_nsec())
        };
        let beside = dir.path().join("beside");
        while {
            fs::write(&beside, "").unwrap();
            changed(&beside) == changed(&program)
        } {}
        let checked = open(&program);
        let text = fs::read(&program).unwrap();
        fs::write(&program, "#!/bin/sh\nexec false\n").unwrap();
        fs::write(&program, &text).unwrap();
        let refused = run_checked(&sandbox, &granted, &program, checked);
        assert!(
            matches!(refused, Err(StartError::Replaced(_))),
            "{confinement:?} {refused:?}"
        );
        let ran = run_checked(&sandbox, &granted, &program, open(&program)).unwrap();
        assert_eq!(ran.0, Exit::Code(0));
    }
}

/// What comes of doing something again and again, while two names change hands.
fn while_exchanged<T>(
    one: &Path,
    other: &Path,
    every: Duration,
    times: usize,
    mut attempt: impl FnMut() -> T,
) -> Vec<T> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE).unwrap();
                // So that some starts get through between two exchanges.
                std::thread::sleep(every);
            }
        });
        let outcomes = (0..times).map(|_| attempt()).collect();
        over.store(true, Ordering::Relaxed);
        outcomes
    })
}

/// The name changes hands again and again, while the program is started by it.
#[test]
fn what_was_checked_runs_whatever_its_name_leads_to() {
    for (sandbox, confinement) in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let (program, other) = (dir.path().join("program"), dir.path().join("other"));
        fs::copy("/bin/true", &program).unwrap();
        fs::copy("/bin/false", &other).unwrap();
        let good = fs::metadata(&program).unwrap().ino();
        let granted = reading(confinement, dir.path());
        let outcomes = while_exchanged(&program, &other, Duration::from_millis(1), 300, || {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let opened = rustix::fs::open(&program, flags, Mode::empty()).unwrap();
            let code = i32::from(rustix::fs::fstat(&opened).unwrap().st_ino != good);
            let checked = Checked::now(opened).unwrap();
            (code, run_checked(&sandbox, &granted, &program, checked))
        });
        let (mut ran, mut refused) = (0, 0);
        for (code, outcome) in outcomes {
            match outcome {
                Ok((exit, _)) => {
                    assert_eq!(exit, Exit::Code(code), "another program ran");
                    ran += 1;
                }
                Err(StartError::Replaced(_)) => refused += 1,
                Err(err) => panic!("{err}"),
            }
        }
        println!("{confinement:?}: {ran} ran, {refused} refused");
        assert!(ran > 0 && refused > 0, "there was no race");
    }
}

#[test]
fn a_checked_script_knows_where_it_is() {
    for (sandbox, confinement) in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        script(&program, r#"echo "$0"; . "$(dirname "$0")/beside""#);
        fs::write(dir.path().join("beside"), "echo beside\n").unwrap();
        let granted = reading(confinement, dir.path());
        let (exit, said) = run_checked(&sandbox, &granted, &program, open(&program)).unwrap();
        assert_eq!(exit, Exit::Code(0));
        assert_eq!(said, format!("{}\nbeside\n", program.display()));
    }
}

/// The interpreter takes its time, and meanwhile somebody is at the file.
#[test]
fn ap_03_a_script_runs_as_it_was_checked_whatever_becomes_of_it() {
    type Change = fn(&Path);
    let replaced: Change = |program| {
        let other = program.with_file_name("other");
        script(&other, "echo other");
        fs::rename(other, program).unwrap();
    };
    let written: Change = |program| fs::write(program, "echo other\n").unwrap();
    let moved: Change = |program| {
        let dir = program.parent().unwrap();
        fs::rename(dir, dir.with_file_name("aside")).unwrap();
        fs::create_dir(dir).unwrap();
        script(program, "echo other");
    };
    for (sandbox, confinement) in kinds() {
        for change in [replaced, written, moved] {
            let dir = tempfile::tempdir().unwrap();
            let (tools, signs) = (dir.path().join("tools"), dir.path().join("signs"));
            fs::create_dir(&tools).unwrap();
            fs::create_dir(&signs).unwrap();
            let (slow, program) = (dir.path().join("slow"), tools.join("program"));
            let wait = format!(
                "cd {} && : > begun && while ! [ -e on ]; do sleep 0.01; done; exec /bin/sh $1",
                signs.display()
            );
            script(&slow, &wait);
            fs::write(&program, format!("#!{}\necho checked\n", slow.display())).unwrap();
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
            let mut granted = reading(confinement, dir.path());
            granted.write.push(signs.clone());
            let (mut order, out, _err) = order(program.to_str().unwrap(), &[]);
            order.checked = Some(open(&program).kept());
            let child = sandbox.start(&granted, order).unwrap();
            while !signs.join("begun").exists() {
                std::thread::yield_now();
            }
            change(&program);
            fs::write(signs.join("on"), "").unwrap();
            let said = collect(out);
            assert_eq!(child.wait().unwrap().exit, Exit::Code(0), "{confinement:?}");
            let said = String::from_utf8(said.join().unwrap()).unwrap();
            assert_eq!(said, "checked\n", "{confinement:?}");
        }
    }
}

/// A name that leads to the script now and to another file a moment later, by a directory above it: that leaves no trace on
/// either file.
#[test]
fn ap_03_a_script_runs_as_it_was_checked_whatever_its_name_leads_to() {
    for (sandbox, confinement) in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let (tools, others) = (dir.path().join("tools"), dir.path().join("others"));
        let program = tools.join("program");
        for (place, text) in [(&tools, "echo checked"), (&others, "echo other")] {
            fs::create_dir(place).unwrap();
            script(&place.join("program"), text);
        }
        let good = fs::metadata(&program).unwrap().ino();
        let granted = reading(confinement, dir.path());
        let outcomes = while_exchanged(&tools, &others, Duration::from_micros(300), 200, || {
            let flags = OFlags::PATH | OFlags::CLOEXEC;
            let opened = rustix::fs::open(&program, flags, Mode::empty()).unwrap();
            let is_good = rustix::fs::fstat(&opened).unwrap().st_ino == good;
            let checked = Checked::now(opened).unwrap().kept();
            let own = if is_good { "checked\n" } else { "other\n" };
            (own, run_checked(&sandbox, &granted, &program, checked))
        });
        let (mut ran, mut refused) = (0, 0);
        for (own, outcome) in outcomes {
            match outcome {
                Ok(it) => {
                    assert_eq!(it, (Exit::Code(0), own.to_owned()), "{confinement:?}");
                    ran += 1;
                }
                Err(StartError::Replaced(_)) => refused += 1,
                Err(err) => panic!("{err}"),
            }
        }
        println!("{confinement:?}: {ran} ran, {refused} refused");
        assert!(ran > 0 && refused > 0, "there was no race");
    }
}

/// What it does with its own file is what it would do otherwise: reads it, copies it, locks it.
#[test]
fn a_kept_script_knows_its_file() {
    for (sandbox, confinement) in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let (program, out) = (dir.path().join("program"), dir.path().join("out"));
        fs::create_dir(&out).unwrap();
        let text = "#!/bin/sh -e\nread -r a < $0; read -r b < $0; echo \"$a\" \"$b\" $-; cp $0 $(dirname $0)/out/copy\n\
                    exec 9< $0; flock -n 9; ! flock -n $0 true; (cat $0 | tail -n 1); exit\nend";
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let mut granted = reading(confinement, dir.path());
        granted.write.push(out.clone());
        let checked = open(&program).kept();
        let (exit, said) = run_checked(&sandbox, &granted, &program, checked).unwrap();
        assert_eq!(exit, Exit::Code(0), "{said}");
        assert_eq!(said, "#!/bin/sh -e #!/bin/sh -e e\nend", "{confinement:?}");
        assert_eq!(fs::read_to_string(out.join("copy")).unwrap(), text);
    }
}

#[test]
fn a_kept_script_has_the_arguments_and_the_end_of_any_other() {
    for (sandbox, confinement) in kinds() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("program", &link).unwrap();
        let program = dir.path().join("program");
        script(&program, r#"echo "$@" 3; exit 7"#);
        let granted = reading(confinement, dir.path());
        for name in [&program, &link] {
            let (mut order, out, _err) = order(name.to_str().unwrap(), &["1", "2 2"]);
            order.checked = Some(open(&program).kept());
            let child = sandbox.start(&granted, order).unwrap();
            let said = collect(out);
            assert_eq!(child.wait().unwrap().exit, Exit::Code(7));
            assert_eq!(said.join().unwrap(), b"1 2 2 3\n");
        }
        fs::write(&program, "#!/nowhere/sh\n").unwrap();
        let missing = run_checked(&sandbox, &granted, &program, open(&program));
        assert!(
            matches!(missing, Err(StartError::NotFound(_))),
            "{missing:?}"
        );
    }
}

/// Its limit of files holds for the copy, and the launcher lives on.
#[test]
fn a_script_that_cannot_be_kept_is_not_run() {
    for (sandbox, confinement) in kinds().into_iter().take(2) {
        let dir = tempfile::tempdir().unwrap();
        let (program, small) = (dir.path().join("program"), dir.path().join("small"));
        script(&program, &format!("echo ran\n#{}", "x".repeat(4096)));
        script(&small, "echo ran");
        let mut granted = reading(confinement, dir.path());
        granted.limits.file_size = Some(4096);
        let refused = run_checked(&sandbox, &granted, &program, open(&program).kept());
        assert!(refused.is_err(), "{refused:?}");
        let ran = run_checked(&sandbox, &granted, &small, open(&small).kept()).unwrap();
        assert_eq!(ran.1, "ran\n");
    }
}

#[test]
fn a_checked_program_is_found_by_its_bare_name() {
    for (sandbox, confinement) in kinds() {
        let granted = profile(confinement);
        let checked = open(&PathBuf::from("/usr/bin/env").canonicalize().unwrap());
        let ran = run_checked(&sandbox, &granted, Path::new("env"), checked).unwrap();
        assert_eq!(ran.0, Exit::Code(0));
    }
}

/// Not by that name by its interpreter, for which it would mean a file beside it.
#[test]
fn a_kept_script_is_found_by_its_bare_name() {
    for (sandbox, confinement) in kinds() {
        let dir = tempfile::tempdir().unwrap();
        script(&dir.path().join("ldd"), "echo other");
        let granted = reading(confinement, dir.path());
        let (mut order, out, _err) = order("ldd", &["--version"]);
        order.cwd = dir.path().to_path_buf();
        let path = PathBuf::from("/usr/bin/ldd").canonicalize().unwrap();
        order.checked = Some(open(&path).kept());
        let child = sandbox.start(&granted, order).unwrap();
        let said = collect(out);
        assert_eq!(child.wait().unwrap().exit, Exit::Code(0), "{confinement:?}");
        assert!(said.join().unwrap().starts_with(b"ldd"));
    }
}
