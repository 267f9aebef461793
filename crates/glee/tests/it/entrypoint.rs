//! The program that was checked is the one that runs.

use std::time::Duration;

use glee::exec::{ByHand, Cage, Egress, Streams};
use glee_core::outcome::FailureKind;
use glee_core::permission::Network;
use glee_sandbox::{Confinement, Sandbox};

use crate::support::{GLEE, Scene};

#[test]
fn a_program_that_is_replaced_after_the_check_does_not_run() {
    let scene = Scene::new();
    let program = scene.write("program", "#!/bin/sh\necho checked\n");
    let other = scene.write("other", "#!/bin/sh\necho other\n");
    // Launchers are started between the check and the run, so this one is there at the right moment.
    let launcher = scene.write(
        "launcher",
        &format!(
            "#!/bin/sh\n/bin/mv {} {} 2>/dev/null\nexec {GLEE} \"$@\"\n",
            other.display(),
            program.display()
        ),
    );
    let cage = Cage::new(
        Sandbox::new(launcher),
        Confinement::Required,
        Egress::new(None),
        Vec::new(),
    );
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let run = || {
        let wanted = ByHand {
            words: vec![program.display().to_string()],
            read: Vec::new(),
            write: Vec::new(),
            network: Network::None,
            cwd: scene.root.clone(),
            env: Vec::new(),
            timeout: Some(Duration::from_secs(20)),
            root: scene.root.clone(),
        };
        runtime.block_on(cage.run_by_hand(wanted, Streams::Captured))
    };
    let refused = run().map(|it| it.stdout).unwrap_err();
    assert_eq!(refused.kind, FailureKind::ExecutionError);
    assert!(refused.message.contains("was replaced"), "{refused:?}");
    // A later call has checked what is there now.
    assert_eq!(run().unwrap().stdout, "other\n");
}
