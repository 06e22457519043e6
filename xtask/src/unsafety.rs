//! Checks that unsafe code is only in the module of `prony-os` that wraps system calls, and in the call that opens
//! LMDB.

use crate::names::names;
use crate::source::Text;

/// Where it is allowed: the beginning of a path, and how often each of the two names may occur in such a file.
const ALLOWED: [(&str, usize); 2] = [("crates/prony-os/src/sys/", usize::MAX), ("crates/prony-engines/src/lmdb.rs", 1)];

/// The keyword, and the lint that would have to be allowed for it.
const NAMES: [&str; 2] = ["unsafe", "unsafe_code"];

pub(crate) fn check(files: &[Text]) -> Vec<String> {
    files.iter().flat_map(faults_of).collect()
}

fn faults_of(file: &Text) -> Vec<String> {
    let path = file.path.to_string_lossy();
    let allowed = ALLOWED.iter().find(|(place, _)| path.starts_with(place)).map_or(0, |(_, most)| *most);
    let found = names(&file.text);
    let beyond = |name: &'static str| {
        let path = path.clone();
        let beyond = found.iter().filter(move |found| found.text == name).skip(allowed);
        beyond
            .map(move |found| format!("`{path}:{}` has `{name}`: unsafe code lives in `prony-os/src/sys`", found.line))
    };
    NAMES.into_iter().flat_map(beyond).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(path: &str, text: &str) -> Vec<String> {
        check(&[Text { path: path.into(), text: text.to_owned() }])
    }

    #[test]
    fn unsafe_code_is_refused_outside_its_module() {
        let block = "fn f() {\n    unsafe { g() }\n}\n";
        let lint = "#[allow(unsafe_code)]\nfn f() {}\n";
        for path in
            ["crates/prony/src/a.rs", "crates/prony-os/src/sysx.rs", "crates/prony/tests/it/a.rs", "xtask/src/a.rs"]
        {
            let faults = check_one(path, block);
            assert_eq!(faults, [format!("`{path}:2` has `unsafe`: unsafe code lives in `prony-os/src/sys`")]);
            assert_eq!(check_one(path, lint).len(), 1);
        }
        assert_eq!(check_one("crates/prony-os/src/sys/a.rs", &format!("{block}{lint}{block}")), [""; 0]);
        assert_eq!(check_one("crates/prony/src/a.rs", "// unsafe\nlet a = \"unsafe\";\nfn is_unsafe() {}\n"), [""; 0]);
    }

    #[test]
    fn lmdb_is_opened_by_one_unsafe_call() {
        let call = "#[allow(unsafe_code)]\nfn open() {\n    unsafe { open() }\n}\n";
        assert_eq!(check_one("crates/prony-engines/src/lmdb.rs", call), [""; 0]);
        let faults = check_one("crates/prony-engines/src/lmdb.rs", &call.repeat(2));
        assert_eq!(faults.len(), 2, "{faults:?}");
        assert!(faults[0].contains("lmdb.rs:7`") && faults[1].contains("lmdb.rs:5`"), "{faults:?}");
    }
}
