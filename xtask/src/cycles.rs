//! Imports between sibling modules run one way; only crate borders would enforce it otherwise.

use std::collections::{BTreeMap, BTreeSet};

use crate::source::SourceFile;

type Graph = BTreeMap<String, BTreeSet<String>>;

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
    for file in files {
        for path in paths(&file.code, &file.module) {
            let Some(target) = known_prefix(&path, &modules) else { continue };
            let common = file.module.iter().zip(target).take_while(|(a, b)| a == b).count();
            if let (Some(from), Some(to)) = (file.module.get(common), target.get(common)) {
                let graph = siblings.entry(file.module[..common].to_vec()).or_default();
                graph.entry(from.clone()).or_default().insert(to.clone());
            }
        }
    }
    siblings
        .iter()
        .filter_map(|(parent, graph)| {
            let cycle = find_cycle(graph)?;
            let place = if parent.is_empty() { name.to_owned() } else { format!("{name}::{}", parent.join("::")) };
            Some(format!("modules of `{place}` use each other in a ring: {}", cycle.join(" -> ")))
        })
        .collect()
}

/// The longest leading part of `path` that is a module.
fn known_prefix<'a>(path: &'a [String], modules: &BTreeSet<&[String]>) -> Option<&'a [String]> {
    (1..=path.len()).rev().map(|n| &path[..n]).find(|prefix| modules.contains(prefix))
}

/// Every `crate::a::b` and `super::a` in the code, as absolute module paths; braces after `use` are opened.
fn paths(code: &str, module: &[String]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (at, word) in code.match_indices("crate::").chain(code.match_indices("super::")) {
        let before = code[..at].chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | ':' | '$')) {
            continue;
        }
        let mut base: Vec<String> = if word == "crate::" { Vec::new() } else { parent(module) };
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
}
