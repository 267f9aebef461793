//! The launcher hook first, then the command line.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// A small call asks for memory two hundred times, and another thread gives much of it back.
#[global_allocator]
static MEMORY: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    glee_sandbox::run_if_launcher();
    // Secrets pass through this process. Where it cannot be hidden, the sandbox still hides it from tools.
    let _ = glee_sandbox::hide_this_process();
    glee::surface::cli::main()
}
