//! How the binary is linked.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" {
        // Where it lies is settled here and not at each start, of glee and of each launcher: to correct some
        // sixty thousand addresses takes longer than everything else before the first line of `main`.
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
