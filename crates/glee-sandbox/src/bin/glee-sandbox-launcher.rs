//! A launcher and nothing else, for programs that cannot re-execute themselves, such as this crate's tests.

fn main() {
    glee_sandbox::run_if_launcher();
    std::process::exit(2);
}
