//! Decides which package a function belongs to.

/// The program's own files, in Node.
pub(super) const OWN: &str = "the program";

/// JavaScript that `eval`, `new Function` or `vm` compiled from a text, which is in no file.
const COMPILED: &str = "(compiled at run time)";

/// prony's own probe.
const PROBE: &str = "prony's probe";

/// Names in brackets that are parts of a process; all other such names are the kernel and its modules.
const OF_PROCESSES: [&str; 5] = ["[unknown]", "[vdso]", "[vsyscall]", "[heap]", "[stack]"];

/// The package of a function that V8 names. Native functions have no line.
pub(super) fn of_script<'a>(name: &'a str, url: &'a str, line: Option<u32>) -> &'a str {
    match url {
        "" if line.is_some() => COMPILED,
        // What `vm` calls a script that is given no name.
        "evalmachine.<anonymous>" => COMPILED,
        _ => of_url(name, url),
    }
}

fn of_url<'a>(name: &'a str, url: &'a str) -> &'a str {
    if let Some((_, inside)) = url.rsplit_once("node_modules/") {
        return of_folder(inside);
    }
    match url {
        // V8's own states are nobody's code: each is a package by itself.
        "" if name.starts_with('(') => name,
        "" => "native",
        _ if url.starts_with("node:") => "node",
        _ if url.starts_with("wasm:") => "wasm",
        // Before version 16, Node's own modules had bare names: `internal/timers.js`, `fs.js`.
        _ if !url.contains("://") && !url.starts_with('/') => "node",
        _ if is_ours(url) => PROBE,
        _ => OWN,
    }
}

/// Whether a file is one that prony put into the program, from the trial's scratch directory.
fn is_ours(url: &str) -> bool {
    let inside = url.split_once("/.prony-").and_then(|(_, scratch)| scratch.split_once('/'));
    inside.is_some_and(|(_, path)| path.starts_with("probe/") || path.starts_with("profile/"))
}

/// `express/lib/router.js` is of `express`, `@scope/name/x.js` of `@scope/name`.
fn of_folder(inside: &str) -> &str {
    let slashes = if inside.starts_with('@') { 2 } else { 1 };
    inside.match_indices('/').nth(slashes - 1).map_or(inside, |(at, _)| &inside[..at])
}

/// The package of a function of native code: its library, and its crate or outermost namespace where the name has one.
pub(super) fn of_library(symbol: &str, library: &str) -> String {
    let file = library.trim_end_matches(" (deleted)").rsplit('/').next().unwrap_or_default();
    let bracketed = file.starts_with('[') && !OF_PROCESSES.contains(&file);
    let file = match file {
        "" | "[unknown]" => "unknown",
        file if bracketed || file.ends_with(".ko") => "kernel",
        file => file,
    };
    match namespace(symbol) {
        Some(space) if file != "kernel" => format!("{file}: {space}"),
        _ => file.to_owned(),
    }
}

/// `redb` of `<redb::tree::Btree<K> as core::ops::Drop>::drop`; `rocksdb` of `rocksdb::DBImpl::Get(...)`.
fn namespace(symbol: &str) -> Option<&str> {
    let start = symbol.trim_start_matches(['<', '&', '*', '(', '[']);
    let start = ["mut ", "const ", "dyn "].iter().fold(start, |text, word| text.strip_prefix(word).unwrap_or(text));
    let (space, _) = start.split_once("::")?;
    let named = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (!space.is_empty() && space.chars().all(named)).then_some(space)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_of_node_are_folders_of_node_modules() {
        for (name, url, package) in [
            ("get", "file:///site/node_modules/express/lib/router.js", "express"),
            ("get", "/site/node_modules/a/node_modules/@b/c/index.js", "@b/c"),
            ("get", "/site/node_modules/single.js", "single.js"),
            ("build", "file:///site/build.js", OWN),
            ("build", "/site/build.js", OWN),
            ("tick", "/tmp/.prony-9-16-8/probe/node/heap.cjs", PROBE),
            ("write", "file:///tmp/.prony-9-16-8/profile/prony-profile.cjs", PROBE),
            ("build", "/tmp/.prony-9-16-8/site/probe/build.js", OWN),
            ("readSync", "node:fs", "node"),
            ("load", "internal/modules/cjs/loader.js", "node"),
            ("f", "wasm://wasm/1234", "wasm"),
            ("(garbage collector)", "", "(garbage collector)"),
            ("push", "", "native"),
        ] {
            assert_eq!(of_url(name, url), package, "{url}");
        }
    }

    /// Functions that a template engine or a validator compiles were of the package `native`.
    #[test]
    fn functions_that_are_compiled_at_run_time_are_not_native() {
        assert_eq!(of_script("anonymous", "", Some(1)), COMPILED);
        assert_eq!(of_script("(anonymous)", "", Some(1)), COMPILED);
        assert_eq!(of_script("f", "evalmachine.<anonymous>", Some(1)), COMPILED);
        assert_eq!(of_script("push", "", None), "native");
        assert_eq!(of_script("build", "/site/build.js", Some(1)), OWN);
    }

    #[test]
    fn packages_of_native_code_are_libraries_and_crates() {
        for (symbol, library, package) in [
            ("malloc", "/usr/lib/x86_64-linux-gnu/libc.so.6", "libc.so.6"),
            ("do_syscall_64", "[kernel.kallsyms]", "kernel"),
            ("ext4_readdir", "[ext4]", "kernel"),
            ("clock_gettime", "[vdso]", "[vdso]"),
            ("<redb::tree::Btree<K, V> as core::ops::drop::Drop>::drop", "/usr/bin/prony", "prony: redb"),
            ("<&mut dyn fjall::Tree as x>::y", "/usr/bin/prony (deleted)", "prony: fjall"),
            ("rocksdb::DBImpl::Get(rocksdb::Slice const&)", "/lib/librocksdb.so.7", "librocksdb.so.7: rocksdb"),
            ("mdb_put", "/usr/bin/prony", "prony"),
            ("[unknown]", "[unknown]", "unknown"),
            ("operator new(unsigned long)", "/lib/x.so", "x.so"),
        ] {
            assert_eq!(of_library(symbol, library), package, "{symbol}");
        }
    }
}
