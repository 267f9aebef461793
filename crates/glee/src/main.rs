//! The launcher hook first, then the command line.

use std::process::ExitCode;

fn main() -> ExitCode {
    glee_sandbox::run_if_launcher();
    glee::surface::cli::main()
}
