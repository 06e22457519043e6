//! The probe of Node: loaded by `--require`, and from there for ES modules.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

use super::{before, utf8, write_all};
use crate::error::Error;

const FILES: [(&str, &str); 11] = [
    ("prony-probe.cjs", include_str!("node/prony-probe.cjs")),
    ("channel.cjs", include_str!("node/channel.cjs")),
    ("gc.cjs", include_str!("node/gc.cjs")),
    ("heap.cjs", include_str!("node/heap.cjs")),
    ("histogram.cjs", include_str!("node/histogram.cjs")),
    ("suspend.cjs", include_str!("node/suspend.cjs")),
    ("calls.cjs", include_str!("node/calls.cjs")),
    ("targets.cjs", include_str!("node/targets.cjs")),
    ("modules.cjs", include_str!("node/modules.cjs")),
    ("esm-loader.mjs", include_str!("node/esm-loader.mjs")),
    ("children.cjs", include_str!("node/children.cjs")),
];

/// The native module of `gc.c`.
const COUNTER: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/gc.node"));

/// Writes the probe and appends it to `NODE_OPTIONS`.
pub(super) fn install(dir: &Path, spec: &str, env: &mut BTreeMap<OsString, OsString>) -> Result<(), Error> {
    let dir = dir.join("node");
    write_all(&dir, &FILES)?;
    write_all(&dir, &[("spec.json", spec)])?;
    let counter = dir.join("gc.node");
    fs::write(&counter, COUNTER).map_err(Error::file("write", &counter))?;
    let entry = dir.join("prony-probe.cjs");
    let quoted = quoted(utf8(&entry)?);
    let mut options =
        before(env, "NODE_OPTIONS").map(|own| [own, OsStr::new(" ")].join(OsStr::new(""))).unwrap_or_default();
    options.push(format!("--require {quoted}"));
    env.insert("NODE_OPTIONS".into(), options);
    Ok(())
}

/// A path in NODE_OPTIONS. Node 12 and later read quotes and backslashes there as JSON writes them; older ones take a
/// quote as part of the name, so that none is written where none is needed.
pub(crate) fn quoted(path: &str) -> String {
    if path.contains(|c: char| c.is_whitespace() || c == '"' || c == '\\') {
        return serde_json::to_string(path).expect("a text is always JSON");
    }
    path.to_owned()
}

/// Node's permission model hides the probe's files; no other option prevents its loading.
pub(super) fn unprobed(args: &[OsString]) -> Option<String> {
    let flag = args.iter().take_while(|arg| arg.as_encoded_bytes().starts_with(b"-")).find_map(|arg| {
        ["--permission", "--experimental-permission"].into_iter().find(|flag| arg.as_os_str() == OsStr::new(flag))
    })?;
    Some(format!(
        "`{flag}` keeps Node from reading the probe, unless `--allow-fs-read` and `--allow-fs-write` name prony's scratch"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_only_where_they_must_be() {
        assert_eq!(quoted("/tmp/.prony-1/probe.cjs"), "/tmp/.prony-1/probe.cjs");
        assert_eq!(quoted("/a b/\"c"), r#""/a b/\"c""#);
    }

    /// Bound at the first call, a missing name would end the user's program.
    #[test]
    fn native_module_is_bound_when_it_is_loaded() {
        let (pt_dynamic, dt_flags, df_bind_now) = (2, 30, 8);
        let word = |at: u64, bytes: usize| {
            let mut word = [0; 8];
            word[..bytes].copy_from_slice(&COUNTER[at as usize..][..bytes]);
            u64::from_le_bytes(word)
        };
        assert_eq!(&COUNTER[..6], b"\x7fELF\x02\x01", "64 bits, little endian");
        let (table, size, count) = (word(32, 8), word(54, 2), word(56, 2));
        let dynamic = (0..count).map(|n| table + n * size).find(|at| word(*at, 4) == pt_dynamic).unwrap();
        let entries = (0..word(dynamic + 32, 8) / 16).map(|n| word(dynamic + 8, 8) + n * 16);
        let flags = entries.filter(|at| word(*at, 8) == dt_flags).map(|at| word(at + 8, 8));
        assert_eq!(flags.fold(0, |all, flags| all | flags) & df_bind_now, df_bind_now);
    }

    #[test]
    fn only_the_runtimes_own_flags_count() {
        let args = |list: &[&str]| list.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(unprobed(&args(&["--permission", "a.js"])).is_some_and(|why| why.contains("`--permission`")));
        assert_eq!(unprobed(&args(&["a.js", "--permission"])), None);
        assert_eq!(unprobed(&[]), None);
    }
}
