//! Links the binary at a fixed address. Each trial starts it as a worker, and a position-independent one has 30,000 addresses
//! to correct first: a third of its start, and half a megabyte of anonymous memory.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    if target("OS") == "linux" && target("ENV") == "gnu" {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}
