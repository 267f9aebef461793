//! What a confined call costs beside a plain spawn of the same program, in the same run, turn by turn.
//!
//! Both sides start /bin/true with three descriptors and wait for its end. Ratios are told, not times: the machine
//! decides about times.

use std::fs::File;
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

    for (name, gap) in [
        ("back to back", Duration::ZERO),
        ("20 ms apart", Duration::from_millis(20)),
    ] {
        let rounds = if gap.is_zero() { 1000 } else { 100 };
        let mut times = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            times[0].push(timed(gap, plain));
            times[1].push(timed(gap, || call(&sandbox, &confined)));
            times[2].push(timed(gap, || call(&sandbox, &off)));
        }
        let median = |times: &mut Vec<Duration>| {
            times.sort();
            times[times.len() / 2].as_secs_f64() * 1e6
        };
        let [plain, confined, off] = times.each_mut().map(median);
        println!(
            "{name}: plain {plain:.0} us, confined {confined:.0} us ({:.2}x), off {off:.0} us ({:.2}x)",
            confined / plain,
            off / plain
        );
    }

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
    throughput(&|| call(&sandbox, &confined));
    for _ in 0..3 {
        let (plain, confined) = (
            throughput(&plain),
            throughput(&|| call(&sandbox, &confined)),
        );
        println!(
            "16 in flight: plain {plain:.0}/s, confined {confined:.0}/s ({:.2}x)",
            confined / plain
        );
    }
}

fn timed(gap: Duration, call: impl Fn()) -> Duration {
    thread::sleep(gap);
    let start = Instant::now();
    call();
    start.elapsed()
}

fn plain() {
    let status = Command::new("/bin/true")
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("spawns");
    assert!(status.success());
}

fn call(sandbox: &Sandbox, profile: &Profile) {
    let null = || {
        File::options()
            .read(true)
            .write(true)
            .open("/dev/null")
            .expect("opens")
            .into()
    };
    let order = Order {
        program: "/bin/true".into(),
        args: vec![],
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
