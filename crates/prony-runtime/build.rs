//! Compiles the native module that counts collections inside Node, which the crate then embeds as bytes.

#![allow(clippy::print_stdout, reason = "cargo reads what a build script prints")]

use std::path::Path;

const SOURCE: &str = "src/node/gc.c";

fn main() {
    println!("cargo:rerun-if-changed={SOURCE}");
    let out = std::env::var_os("OUT_DIR").expect("cargo sets it for every build script");
    // It is loaded into any process of Node, and so depends on no library, not even that of C. Names are bound when it is
    // loaded, so that a missing one is an error of `dlopen`; bound at the first call, it would end the program.
    let mut command = cc::Build::new().opt_level(2).debug(false).pic(true).get_compiler().to_command();
    command.args(["-shared", "-nostdlib", "-fvisibility=hidden", "-Wl,--strip-all", "-Wl,-z,now", "-o"]);
    let status = command.arg(Path::new(&out).join("gc.node")).arg(SOURCE).status();
    assert!(status.as_ref().is_ok_and(std::process::ExitStatus::success), "{command:?}: {status:?}");
}
