//! Scripts of the shipped experiments.

use std::path::Path;
use std::process::Command;

use xxhash_rust::xxh3::xxh3_128;

use crate::runtimes::version;

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
        (&["--elements", "0"], 115, 0),
        (&["--elements", "1000", "--seed", "3"], 178_559, 0),
        (&["--bytes", "50kB"], 50_372, 0),
        (&["--bytes", "1 MB", "--seed", "18446744073709551615", "--changeset", "<\"1\">"], 0, 0),
    ];
    for (arguments, length, hash) in recorded {
        let output = Command::new("node").arg(&script).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let found = (output.stdout.len(), xxh3_128(&output.stdout));
        assert_eq!(found, (length, hash), "{arguments:?}: {:#034x}", found.1);
    }
}
