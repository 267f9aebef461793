//! What a confined call costs beside a plain spawn of the same program, in the same run, turn by turn.
//!
//! Both sides start /bin/true with three descriptors and wait for its end. Ratios are told, not times: the machine
//! decides about times. The plain side is std's, from as many threads: `tokio::process` gets fewer done at 16 in flight
//! (0.8 to 0.9 times as many on two processors), so whoever is held against this is held against that.

use std::fs::File;
use std::hint::black_box;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use glee_sandbox::{Confinement, Limits, Network, Order, Profile, Sandbox, Tier};

fn main() {
    glee_sandbox::run_if_launcher();
    let sandbox = Sandbox::new(PathBuf::from("/proc/self/exe"));
    let profile = |confinement| Profile {
        confinement,
        network: Network::None,
        read: vec![],
        write: vec![],
        protect: vec![],
        hide: vec![],
        limits: Limits::default(),
    };
    let (confined, off) = (profile(Confinement::Required), profile(Confinement::Off));

    for tier in [Tier::Full, Tier::FullWithoutCgroup, Tier::Landlock] {
        let mut times: Vec<Duration> = (0..20)
            .map(|_| {
                let fresh = Sandbox::at_most(PathBuf::from("/proc/self/exe"), tier);
                thread::sleep(Duration::from_millis(20));
                timed(Duration::ZERO, || call(&fresh, &confined))
            })
            .collect();
        times.sort();
        let [least, median] = [times[0], times[10]].map(|it| it.as_secs_f64() * 1e3);
        println!("first call, {tier}: at least {least:.1} ms, median {median:.1} ms");
    }
    call(&sandbox, &confined);
    call(&sandbox, &off);

    let mut resident = Vec::new();
    for (name, gap, rounds, megabytes) in [
        ("back to back", Duration::ZERO, 1000, 0),
        ("20 ms apart", Duration::from_millis(20), 100, 0),
        ("500 MB resident", Duration::ZERO, 500, 500),
    ] {
        resident.resize(megabytes << 20, 1_u8);
        black_box(&resident);
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            times[0].push(timed(gap, plain));
            times[1].push(timed(gap, || call(&sandbox, &confined)));
            times[2].push(timed(gap, || call(&sandbox, &off)));
        }
        let [plain, confined, off] = times.each_mut().map(|it| median(it));
        println!(
            "{name}: plain {plain:.0} us, confined {confined:.0} us ({:.2}x), off {off:.0} us ({:.2}x)",
            confined / plain,
            off / plain
        );
    }

    drop(resident);
    // A call that has touched the scratch is followed by a fresh cell, which the next one may have to wait for.
    let mut times = [const { Vec::new() }; 2];
    for _ in 0..200 {
        times[0].push(timed(Duration::ZERO, || {
            plainly("/usr/bin/touch", &["/tmp/glee-bench"])
        }));
        times[1].push(timed(Duration::ZERO, || {
            order(&sandbox, &confined, "/usr/bin/touch", &["/tmp/x"])
        }));
    }
    let _ = std::fs::remove_file("/tmp/glee-bench");
    let [plain_touch, touch] = times.each_mut().map(|it| median(it));
    println!(
        "touching scratch: plain {plain_touch:.0} us, confined {touch:.0} us ({:.2}x)",
        touch / plain_touch
    );

    let throughput = |call: &(dyn Fn() + Sync)| {
        let (threads, calls) = (16, 100);
        let start = Instant::now();
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| (0..calls).for_each(|_| call()));
            }
        });
        f64::from(threads * calls) / start.elapsed().as_secs_f64()
    };
    // Starts the launchers, which is not what is measured.
    throughput(&|| call(&sandbox, &confined));
    for _ in 0..3 {
        let (plain, confined) = (
            throughput(&plain),
            throughput(&|| call(&sandbox, &confined)),
        );
        println!(
            "16 in flight: plain {plain:.0}/s, confined {confined:.0}/s ({:.2}x as many, more is better)",
            confined / plain
        );
    }
}

/// In microseconds.
fn median(times: &mut [Duration]) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e6
}

fn timed(gap: Duration, call: impl Fn()) -> Duration {
    thread::sleep(gap);
    let start = Instant::now();
    call();
    start.elapsed()
}

fn plain() {
    plainly("/bin/true", &[]);
}

fn plainly(program: &str, args: &[&str]) {
    let status = Command::new(program)
        .args(args)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("spawns");
    assert!(status.success());
}

fn call(sandbox: &Sandbox, profile: &Profile) {
    order(sandbox, profile, "/bin/true", &[]);
}

fn order(sandbox: &Sandbox, profile: &Profile, program: &str, args: &[&str]) {
    let null = || {
        File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .expect("opens")
            .into()
    };
    let order = Order {
        program: program.into(),
        checked: None,
        args: args.iter().map(Into::into).collect(),
        env: vec![],
        cwd: "/".into(),
        fds: vec![null(), null(), null()],
    };
    sandbox
        .start(profile, order)
        .expect("starts")
        .wait()
        .expect("ends");
}
