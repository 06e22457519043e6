//! Checks that imports between sibling modules run in one direction and not through many files; the compiler enforces
//! this only between crates.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::SourceFile;

type Graph = BTreeMap<String, BTreeSet<String>>;

/// Crates that run trials: data walk through few files from their source to the record.
const SHALLOW: [&str; 3] = ["prony-boundaries", "prony-place", "prony-runner"];

/// Imports, one behind another, between files of such a crate.
const MOST_IMPORTS: usize = 6;

pub(crate) fn check(files: &[SourceFile]) -> Vec<String> {
    let mut packages: BTreeMap<&str, Vec<&SourceFile>> = BTreeMap::new();
    for file in files {
        packages.entry(&file.package).or_default().push(file);
    }
    packages.iter().flat_map(|(name, files)| check_package(name, files)).collect()
}

fn check_package(name: &str, files: &[&SourceFile]) -> Vec<String> {
    let modules: BTreeSet<&[String]> = files.iter().map(|f| f.module.as_slice()).collect();
    // Parent module -> graph of its children.
    let mut siblings: BTreeMap<Vec<String>, Graph> = BTreeMap::new();
    let mut imports = Graph::new();
    // Unit tests in files of their own may use each other's.
    for file in files.iter().filter(|file| !is_of_tests(&file.module)) {
        for path in paths(&file.code, &file.module, &modules) {
            let imported = known_prefix(&path, &modules).unwrap_or_default();
            if imported != file.module {
                imports.entry(title(&file.module)).or_default().insert(title(imported));
            }
            let Some(target) = known_prefix(&path, &modules) else { continue };
            let common = file.module.iter().zip(target).take_while(|(a, b)| a == b).count();
            if let (Some(from), Some(to)) = (file.module.get(common), target.get(common)) {
                let graph = siblings.entry(file.module[..common].to_vec()).or_default();
                graph.entry(from.clone()).or_default().insert(to.clone());
            }
        }
    }
    let cycles = siblings.iter().filter_map(|(parent, graph)| {
        let cycle = find_cycle(graph)?;
        let place = if parent.is_empty() { name.to_owned() } else { format!("{name}::{}", parent.join("::")) };
        Some(format!("modules of `{place}` use each other in a ring: {}", cycle.join(" -> ")))
    });
    cycles.chain(SHALLOW.contains(&name).then(|| too_long(name, &imports)).flatten()).collect()
}

/// The longest chain of imports between files, where it is too long or without an end.
fn too_long(name: &str, imports: &Graph) -> Option<String> {
    if let Some(cycle) = find_cycle(imports) {
        return Some(format!("files of `{name}` import each other in a ring: {}", cycle.join(" -> ")));
    }
    let mut known = BTreeMap::new();
    let longest = imports.keys().map(|file| chain(imports, file, &mut known)).max_by_key(Vec::len)?;
    let length = longest.len() - 1;
    let text = || format!("{length} imports in a chain in `{name}`, {MOST_IMPORTS} at most: {}", longest.join(" -> "));
    (length > MOST_IMPORTS).then(text)
}

/// The longest chain that begins at a file; `known` are those of other files. The graph has no ring.
fn chain<'g>(imports: &'g Graph, at: &'g str, known: &mut BTreeMap<&'g str, Vec<&'g str>>) -> Vec<&'g str> {
    if !known.contains_key(at) {
        let next = imports.get(at).into_iter().flatten().map(|next| chain(imports, next, known));
        let longest = next.max_by_key(Vec::len).unwrap_or_default();
        known.insert(at, [vec![at], longest].concat());
    }
    known[at].clone()
}

/// What a file is called in a chain.
fn title(module: &[String]) -> String {
    if module.is_empty() { "lib".to_owned() } else { module.join("::") }
}

fn is_of_tests(module: &[String]) -> bool {
    module.iter().any(|part| part == "tests")
}

/// The longest leading part of `path` that is a module.
fn known_prefix<'a>(path: &'a [String], modules: &BTreeSet<&[String]>) -> Option<&'a [String]> {
    (1..=path.len()).rev().map(|n| &path[..n]).find(|prefix| modules.contains(prefix))
}

/// Every `crate::a::b`, `super::a` and `child::a` in the code, as absolute module paths; braces after `use` are opened.
fn paths(code: &str, module: &[String], modules: &BTreeSet<&[String]>) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut begins = vec![("crate::".to_owned(), Vec::new()), ("super::".to_owned(), parent(module))];
    let children = modules.iter().filter(|other| other.len() == module.len() + 1 && other.starts_with(module));
    begins.extend(children.map(|child| (format!("{}::", child[module.len()]), child.to_vec())));
    let begins = begins.iter().flat_map(|(word, base)| code.match_indices(word.as_str()).map(move |at| (at, base)));
    for ((at, word), base) in begins {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '$')) {
            continue;
        }
        let mut base = base.clone();
        let mut rest = &code[at + word.len()..];
        while let Some(after) = rest.strip_prefix("super::") {
            base = parent(&base);
            rest = after;
        }
        expand(&base, rest, &mut found);
    }
    found
}

fn parent(module: &[String]) -> Vec<String> {
    module[..module.len().saturating_sub(1)].to_vec()
}

/// Follows `a::b`, `a::{b, c::d}` from `base`.
fn expand(base: &[String], text: &str, found: &mut Vec<Vec<String>>) {
    let mut path = base.to_vec();
    let mut rest = text.trim_start();
    loop {
        if let Some(inner) = rest.strip_prefix('{') {
            for part in split_braces(inner) {
                expand(&path, part, found);
            }
            return;
        }
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        if end > 0 {
            path.push(rest[..end].to_owned());
        }
        match rest[end..].strip_prefix("::") {
            Some(after) if end > 0 => rest = after.trim_start(),
            _ => break,
        }
    }
    found.push(path);
}

/// The parts of `a, b::{c, d}, e}...` at its own depth.
fn split_braces(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                parts.push(&text[start..at]);
                return parts;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts
}

fn find_cycle(graph: &Graph) -> Option<Vec<String>> {
    graph.keys().find_map(|start| {
        let mut path = vec![start.clone()];
        reaches(graph, start, start, &mut path, &mut BTreeSet::new()).then_some(path)
    })
}

fn reaches(graph: &Graph, at: &str, goal: &str, path: &mut Vec<String>, visited: &mut BTreeSet<String>) -> bool {
    for next in graph.get(at).into_iter().flatten().filter(|next| *next != at) {
        path.push(next.clone());
        if next == goal || (visited.insert(next.clone()) && reaches(graph, next, goal, path, visited)) {
            return true;
        }
        path.pop();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(module: &[&str], code: &str) -> SourceFile {
        let module = module.iter().map(|m| (*m).to_owned()).collect();
        SourceFile { path: "x.rs".into(), package: "p".into(), module, code: code.to_owned() }
    }

    #[test]
    fn a_ring_of_siblings_is_found() {
        let files = [
            file(&["a"], "use crate::b::{self, Thing};"),
            file(&["b"], "use super::c;"),
            file(&["c"], "fn f() { crate::a::g() }"),
        ];
        assert_eq!(check(&files), ["modules of `p` use each other in a ring: a -> b -> c -> a"]);
    }

    #[test]
    fn one_direction_is_fine() {
        let files = [
            file(&[], "pub mod a; pub mod b;"),
            file(&["a"], "use crate::{b::x, c::{d, e}};"),
            file(&["b"], "use crate::c;"),
            file(&["c"], "use crate::Error;"),
            file(&["c", "d"], "use super::Helper; use crate::b::y as _never;".split(';').next().unwrap_or_default()),
        ];
        assert_eq!(check(&files), Vec::<String>::new());
    }

    /// A crate that runs trials, of these files.
    fn shallow(files: &[(&[&str], String)]) -> Vec<String> {
        let file = |(module, code): &(&[&str], String)| SourceFile { package: SHALLOW[0].into(), ..file(module, code) };
        check(&files.iter().map(file).collect::<Vec<_>>())
    }

    #[test]
    fn a_chain_of_imports_may_have_six_and_no_more() {
        let names = ["a", "b", "c", "d", "e", "f", "g"];
        let mut files: Vec<(&[&str], String)> = vec![(&[], "pub mod a;".to_owned())];
        let codes = names[1..].iter().map(|name| format!("use crate::{name};"));
        files.extend(names.iter().zip(codes).map(|(name, code)| (std::slice::from_ref(name), code)));
        files.push((&["g"], String::new()));
        files.push((&["a", "tests"], "use super::super::a; use crate::tests::c;".to_owned()));
        files.push((&["tests"], "use crate::a;".to_owned()));
        assert_eq!(shallow(&files), [""; 0], "tests are in no chain and in no ring");
        files.push((&["g", "h"], String::new()));
        files[7].1 = "h::f();".to_owned();
        let chain = "a -> b -> c -> d -> e -> f -> g -> g::h";
        assert_eq!(shallow(&files), [format!("7 imports in a chain in `{}`, 6 at most: {chain}", SHALLOW[0])]);
        files[7].1 = "use crate::{Reexported, b::C};".to_owned();
        let ring = "b -> c -> d -> e -> f -> g -> b";
        let [modules, files] = &shallow(&files)[..] else { panic!() };
        assert!(modules.ends_with(ring) && files.ends_with(ring), "{modules}; {files}");
    }
}
