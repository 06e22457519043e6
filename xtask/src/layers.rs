//! Checks the direction between crates: which crate may use which.

use std::path::Path;

/// Each crate with what it may use of the others.
const ALLOWED: &[(&str, &[&str])] = &[
    ("prony-model", &[]),
    ("prony-stats", &["prony-model"]),
    ("prony-servers", &[]),
    ("prony-counters", &["prony-model", "prony-servers"]),
    ("prony-workload", &["prony-model"]),
    ("prony-experiment", &["prony-model", "prony-stats"]),
    ("prony-analysis", &["prony-experiment", "prony-model", "prony-results", "prony-stats"]),
    ("prony-os", &["prony-model"]),
    ("prony-powercut", &["prony-model", "prony-os"]),
    ("prony-runtime", &["prony-model", "prony-os"]),
    ("prony-engines", &["prony-model", "prony-servers", "prony-workload"]),
    ("prony-http", &["prony-model", "prony-workload"]),
    ("prony-results", &["prony-experiment", "prony-model", "prony-os"]),
    ("prony-boundaries", &["prony-experiment", "prony-model", "prony-os", "prony-runtime"]),
    (
        "prony-place",
        &["prony-analysis", "prony-experiment", "prony-model", "prony-os", "prony-results", "prony-runtime"],
    ),
    (
        "prony-runner",
        &[
            "prony-analysis",
            "prony-boundaries",
            "prony-counters",
            "prony-engines",
            "prony-experiment",
            "prony-model",
            "prony-os",
            "prony-place",
            "prony-powercut",
            "prony-results",
            "prony-runtime",
            "prony-stats",
        ],
    ),
    ("prony-report", &["prony-analysis", "prony-experiment", "prony-model", "prony-results", "prony-stats"]),
    (
        "prony",
        &[
            "prony-analysis",
            "prony-boundaries",
            "prony-counters",
            "prony-engines",
            "prony-experiment",
            "prony-http",
            "prony-model",
            "prony-os",
            "prony-place",
            "prony-powercut",
            "prony-report",
            "prony-results",
            "prony-runner",
            "prony-runtime",
            "prony-stats",
            "prony-workload",
        ],
    ),
];

pub(crate) fn check(root: &Path) -> Result<Vec<String>, String> {
    let mut faults = Vec::new();
    let crates = root.join("crates");
    let entries = std::fs::read_dir(&crates).map_err(|e| format!("cannot read `crates`: {e}"))?;
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let manifest = entry.path().join("Cargo.toml");
        let text =
            std::fs::read_to_string(&manifest).map_err(|e| format!("cannot read `{}`: {e}", manifest.display()))?;
        match ALLOWED.iter().find(|(crate_name, _)| *crate_name == name) {
            Some((_, allowed)) => faults.extend(faults_of(&name, allowed, &text)),
            None => faults.push(format!("`{name}` has no layer; give it one in `xtask/src/layers.rs`")),
        }
    }
    Ok(faults)
}

fn faults_of(name: &str, allowed: &[&str], manifest: &str) -> Vec<String> {
    dependencies(manifest)
        .filter(|used| used.starts_with("prony") && !allowed.contains(used))
        .map(|used| format!("`{name}` uses `{used}`, which is not below it"))
        .collect()
}

/// Names below `[dependencies]` and `[build-dependencies]`; tests may use what they like.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    manifest.lines().filter_map(move |line| {
        if line.starts_with('[') {
            inside = matches!(line.trim(), "[dependencies]" | "[build-dependencies]");
            return None;
        }
        let name = line.split(['.', '=', ' ']).next().unwrap_or_default().trim();
        (inside && !name.is_empty() && !name.starts_with('#')).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_upwards_is_a_fault() {
        let manifest =
            "[dependencies]\nserde.workspace = true\nprony-os = { path = \"x\" }\n[dev-dependencies]\nprony = \"1\"\n";
        let faults = faults_of("prony-engines", &["prony-model"], manifest);
        assert_eq!(faults, ["`prony-engines` uses `prony-os`, which is not below it"]);
        assert!(faults_of("prony", &["prony-os"], manifest).is_empty());
    }
}
