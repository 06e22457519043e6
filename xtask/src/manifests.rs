//! Checks that every crate inherits the workspace's lints.

use std::path::Path;

pub(crate) fn check(root: &Path) -> Result<Vec<String>, String> {
    let read = |path: &str| std::fs::read_to_string(root.join(path)).map_err(|e| format!("cannot read `{path}`: {e}"));
    let mut faults = Vec::new();
    for member in members(&read("Cargo.toml")?) {
        let path = format!("{member}/Cargo.toml");
        if !inherits(&read(&path)?) {
            faults.push(format!(
                "`{path}` does not inherit the workspace's lints: add `[lints]` with `workspace = true`"
            ));
        }
    }
    Ok(faults)
}

/// The folders of the workspace's crates.
fn members(manifest: &str) -> impl Iterator<Item = &str> {
    let list = manifest.lines().find_map(|line| line.strip_prefix("members = ")).unwrap_or_default();
    list.split('"').skip(1).step_by(2)
}

fn inherits(manifest: &str) -> bool {
    let lints = manifest.lines().map(str::trim).skip_while(|line| *line != "[lints]").nth(1);
    lints == Some("workspace = true") && !manifest.contains("[lints.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_the_workspace_are_found() {
        let manifest = "[workspace]\nmembers = [\"crates/a\", \"b\"]\ndefault-members = [\"c\"]\n";
        assert_eq!(members(manifest).collect::<Vec<_>>(), ["crates/a", "b"]);
    }

    #[test]
    fn crate_lints_come_only_from_the_workspace() {
        assert!(inherits("[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n"));
        assert!(!inherits("[package]\nname = \"a\"\n"));
        assert!(!inherits("[lints.rust]\nmissing_docs = \"warn\"\n"));
        assert!(!inherits("[lints]\nworkspace = true\n[lints.rust]\nunsafe_code = \"allow\"\n"));
    }
}
