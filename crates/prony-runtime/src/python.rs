//! The probe of CPython: a `sitecustomize` at the head of `PYTHONPATH`.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use super::{before, utf8, write_all};
use crate::error::Error;

const FILES: [(&str, &str); 8] = [
    ("sitecustomize.py", include_str!("python/sitecustomize.py")),
    ("_prony_probe/__init__.py", include_str!("python/_prony_probe/__init__.py")),
    ("_prony_probe/channel.py", include_str!("python/_prony_probe/channel.py")),
    ("_prony_probe/heap.py", include_str!("python/_prony_probe/heap.py")),
    ("_prony_probe/suspend.py", include_str!("python/_prony_probe/suspend.py")),
    ("_prony_probe/calls.py", include_str!("python/_prony_probe/calls.py")),
    ("_prony_probe/modules.py", include_str!("python/_prony_probe/modules.py")),
    ("_prony_probe/children.py", include_str!("python/_prony_probe/children.py")),
];

/// Writes the probe and puts it in front of `PYTHONPATH`.
pub(super) fn install(dir: &Path, spec: &str, env: &mut BTreeMap<OsString, OsString>) -> Result<(), Error> {
    let dir = dir.join("python");
    if utf8(&dir)?.contains(':') {
        return Err(Error::ProbePath { path: dir });
    }
    write_all(&dir, &FILES)?;
    // Imported rather than parsed: Python's own JSON costs more to load than all of the probe.
    write_all(&dir, &[("_prony_probe/spec.py", &format!("SPEC = {spec}\n"))])?;
    let mut path = dir.into_os_string();
    if let Some(own) = before(env, "PYTHONPATH") {
        path.push(":");
        path.push(own);
    }
    env.insert("PYTHONPATH".into(), path);
    Ok(())
}

/// The flag, if any, by which Python ignores its environment or its site: `-I`, `-E` or `-S`, by itself or in a group.
pub(super) fn unprobed(args: &[OsString]) -> Option<String> {
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let letters = arg.as_encoded_bytes().strip_prefix(b"-").filter(|rest| !rest.is_empty())?;
        if letters[0] == b'-' {
            if arg == OsStr::new("--check-hash-based-pycs") {
                rest.next();
            }
            continue;
        }
        // `-c` and `-m` end the options; `-W` and `-X` take what follows.
        let own = letters.iter().position(|letter| b"cmWX".contains(letter)).unwrap_or(letters.len());
        if let Some(letter) = letters[..own].iter().find(|letter| b"IES".contains(letter)) {
            let what = if *letter == b'S' { "does not load `sitecustomize`" } else { "ignores `PYTHONPATH`" };
            return Some(format!("with `-{}` Python {what}, so no probe is loaded", *letter as char));
        }
        match letters.get(own) {
            Some(b'c' | b'm') => return None,
            Some(_) if own + 1 == letters.len() => drop(rest.next()),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(list: &[&str]) -> Option<String> {
        unprobed(&list.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn flags_that_shut_the_probe_out_are_named() {
        for (args, flag) in [
            (&["-I", "a.py"][..], "`-I`"),
            (&["-uE", "a.py"], "`-E`"),
            (&["-W", "error", "-S", "-c", "pass"], "`-S`"),
            (&["-Xdev", "-I"], "`-I`"),
            (&["-X", "dev", "--check-hash-based-pycs", "always", "-E", "x"], "`-E`"),
        ] {
            assert!(with(args).is_some_and(|why| why.contains(flag)), "{args:?}");
        }
    }

    #[test]
    fn what_belongs_to_the_program_is_not_a_flag() {
        for args in
            [&["a.py", "-I"][..], &["-c", "-I"], &["-m", "x", "-S"], &["-W", "-I", "a.py"], &["-u", "-", "-I"], &[]]
        {
            assert_eq!(with(args), None, "{args:?}");
        }
    }
}
