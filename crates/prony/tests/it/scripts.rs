//! Tests the scripts of the shipped experiments.

use std::path::Path;
use std::process::Command;

use xxhash_rust::xxh3::xxh3_128;

use crate::bench::version;

/// The hashes are those of the generator of earlier versions, which was part of prony: files that were measured then can
/// be made again.
#[test]
fn changeset_script_writes_the_recorded_bytes() {
    let Some(node) = version("node") else { return };
    if node < (18, 3) {
        println!("SKIPPED: `changeset.js` takes Node 18.3");
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/parsers/changeset.js");
    let recorded: [(&[&str], usize, u128); 4] = [
        (&["--elements", "0"], 115, 0xf8d9_a2ca_cf8c_d423_01d2_5133_f9d7_1a56),
        (&["--elements", "1000", "--seed", "3"], 178_559, 0xf4c6_6398_6c85_e3de_2aa4_6140_eb5f_bdcd),
        (&["--bytes", "50kB"], 50_372, 0xac1f_7afb_6e8d_8027_e5d9_b854_0f4c_947e),
        (
            &["--bytes", "1 MB", "--seed", "18446744073709551615", "--changeset", "<\"1\">"],
            1_000_596,
            0x7b5b_21e1_2507_23f8_a0c0_320b_775d_7894,
        ),
    ];
    for (arguments, length, hash) in recorded {
        let output = Command::new("node").arg(&script).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let found = (output.stdout.len(), xxh3_128(&output.stdout));
        assert_eq!(found, (length, hash), "{arguments:?}: {:#034x}", found.1);
    }
}
