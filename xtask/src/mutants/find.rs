//! Finds the functions of a source file that can be switched off, and adds the switch to each.

/// A function that can be replaced by a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mutant {
    /// The number of the line at which the function begins, from 1 on.
    pub(crate) line: usize,
    /// The function's name.
    pub(crate) name: String,
    /// What it returns instead; empty where it returns nothing.
    pub(crate) value: String,
}

/// The mutants of a file, and the file with all of them, numbered from `first` on: `crate::mutant` says which one is
/// active. Unit tests at the file's end stay as they are.
pub(crate) fn instrument(text: &str, first: usize) -> (Vec<Mutant>, String) {
    let (mut mutants, mut out) = (Vec::new(), String::new());
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        push(&mut out, line);
        if line == "#[cfg(test)]" {
            lines.by_ref().for_each(|(_, line)| push(&mut out, line));
            break;
        }
        let Some(name) = function(line) else { continue };
        let mut head = line.trim().to_owned();
        while !head.ends_with(['{', ';', '}']) {
            let Some((_, line)) = lines.next() else { break };
            push(&mut out, line);
            head = format!("{head} {}", line.trim());
        }
        if !head.ends_with('{') {
            continue;
        }
        for value in values(&head) {
            let number = first + mutants.len();
            push(&mut out, &format!("if crate::mutant({number}) {{ return {value}; }}"));
            mutants.push(Mutant { line: at + 1, name: name.clone(), value });
        }
    }
    (mutants, out)
}

fn push(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

/// The name of a function that begins in this line; `None` of one that may run when the program is compiled.
fn function(line: &str) -> Option<String> {
    let line = line.trim_start();
    let line = ["pub(crate) ", "pub(super) ", "pub "].into_iter().find_map(|p| line.strip_prefix(p)).unwrap_or(line);
    let name: String = line.strip_prefix("fn ")?.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    Some(name)
}

/// What a function with this head may return instead: a value that it was given, or the one that says that there is
/// nothing to say. None of types whose every value says something.
fn values(head: &str) -> Vec<String> {
    let head = head.trim_end_matches('{').trim_end();
    let head = head.split(" where ").next().unwrap_or(head);
    // An arrow inside the parentheses is that of a parameter's type.
    let is_outside = |returned: &str| returned.matches(')').count() <= returned.matches('(').count();
    let Some((parameters, returned)) = head.rsplit_once(") -> ").filter(|(_, returned)| is_outside(returned)) else {
        return vec![String::new()];
    };
    // Not the parenthesis of `pub(crate)`.
    let parameters = parameters.split_once("fn ").and_then(|(_, named)| named.split_once('('));
    let parameters = parameters.map_or("", |(_, parameters)| parameters);
    let given = parameters.split(", ").filter_map(|parameter| parameter.trim().split_once(": "));
    let same = given.filter(|(_, kind)| kind.trim_end_matches(',') == returned);
    if let Some((name, _)) = same.last() {
        return vec![name.trim_start_matches("mut ").to_owned()];
    }
    let begins = |kinds: &[&str]| kinds.iter().any(|kind| returned.starts_with(kind));
    match returned {
        "bool" => vec!["true".to_owned(), "false".to_owned()],
        _ if returned.starts_with("Option<") => vec!["None".to_owned()],
        _ if returned.starts_with("Reading<") => {
            vec!["prony_model::reading::Reading::Missing(prony_model::reading::Why::NotApplicable)".to_owned()]
        }
        "f64" | "u32" | "u64" | "usize" | "Nanos" | "Readings" => vec!["Default::default()".to_owned()],
        _ if begins(&["Vec<", "BTreeMap<", "BTreeSet<"]) => vec!["Default::default()".to_owned()],
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_switched_off_by_values_of_their_types() {
        let text = "pub fn a(x: u8) -> Option<Finding> {\n    Some(x)\n}\npub(crate) fn b(\n    mut all: Vec<u8>,\n    n: u8,\n) -> Vec<u8> {\n    all\n}\n\
                    fn c() -> bool {\n    true\n}\nconst fn d() -> u64 {\n    1\n}\nfn e() -> String {\n}\nfn f(g: &dyn Fn(u8) -> bool) {\n}\n#[cfg(test)]\nfn g() {\n";
        let (mutants, out) = instrument(text, 7);
        let all: Vec<(usize, &str, &str)> =
            mutants.iter().map(|m| (m.line, m.name.as_str(), m.value.as_str())).collect();
        let expected = [(1, "a", "None"), (4, "b", "all"), (10, "c", "true"), (10, "c", "false"), (18, "f", "")];
        assert_eq!(all, expected);
        assert!(out.contains("Option<Finding> {\nif crate::mutant(7) { return None; }\n    Some(x)"));
        assert!(out.contains(") -> Vec<u8> {\nif crate::mutant(8) { return all; }\n"));
        assert!(out.ends_with("if crate::mutant(11) { return ; }\n}\n#[cfg(test)]\nfn g() {\n"));
    }
}
