//! The launcher hook first, then the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    glee_sandbox::run_if_launcher();
    // Secrets pass through this process. Where it cannot be hidden, the sandbox still hides it from tools.
    let _ = glee_sandbox::hide_this_process();
    glee::surface::cli::main()
}
