//! Words that no identifier or file name has: the field has words of its own for them.

use std::collections::BTreeMap;

use crate::names::names;
use crate::source::Text;

/// The words, and what to write.
const BANNED: [(&str, &str); 36] = [
    ("nursery", "spawner"),
    ("cradle", "spawner"),
    ("crib", "spawner"),
    ("bear", "spawn"),
    ("born", "spawned"),
    ("birth", "spawn"),
    ("told", "reported"),
    ("stranger", "foreign process"),
    ("strangers", "foreign processes"),
    ("standing", "reused"),
    ("stage", "environment"),
    ("stages", "environments"),
    ("edge", "snapshot or boundary"),
    ("edges", "snapshots or boundaries"),
    ("look", "interim analysis, poll or reading"),
    ("looks", "interim analyses, polls or readings"),
    ("hold", "suspend"),
    ("held", "suspended"),
    ("seen", "what it really contains"),
    ("kept", "what it really contains"),
    ("stood", "what it really contains"),
    ("gone", "what it really contains"),
    ("alone", "what it really contains"),
    ("along", "what it really contains"),
    ("around", "what it really contains"),
    ("others", "what it really contains"),
    ("fate", "what it really contains"),
    ("travel", "what it really contains"),
    ("weather", "what it really contains"),
    ("trouble", "what it really contains"),
    ("honesty", "what it really contains"),
    ("shelf", "what it really contains"),
    ("stamps", "what it really contains"),
    ("luck", "a plain word"),
    ("house", "architecture"),
    ("arm", "variant"),
];

/// Names and file stems with a banned word, each at the place where it is met first.
pub(crate) fn check(files: &[Text]) -> Vec<String> {
    let mut found: BTreeMap<&str, String> = BTreeMap::new();
    for file in files {
        let path = file.path.display();
        if let Some(stem) = file.path.file_stem().and_then(|stem| stem.to_str()) {
            found.entry(stem).or_insert_with(|| format!("the file `{path}`"));
        }
        for name in names(&file.text) {
            found.entry(name.text).or_insert_with(|| format!("`{path}:{}`", name.line));
        }
    }
    let faults = found.iter().filter_map(|(name, place)| {
        let (word, instead) = banned(name)?;
        Some(format!("{place} has the name `{name}`: instead of `{word}` write {instead}"))
    });
    faults.collect()
}

/// The first banned word of a name, and what to write.
fn banned(name: &str) -> Option<(&'static str, &'static str)> {
    BANNED.into_iter().find(|(word, _)| parts(name).any(|part| part.eq_ignore_ascii_case(word)))
}

/// The words of a name in any of Rust's three styles.
fn parts(name: &str) -> impl Iterator<Item = &str> {
    name.split('_').flat_map(|part| {
        let is_all_caps = !part.contains(|c: char| c.is_lowercase());
        let starts = part.char_indices().filter(move |(_, c)| c.is_uppercase() && !is_all_caps).map(|(at, _)| at);
        let mut cuts: Vec<usize> = starts.chain([0, part.len()]).collect();
        cuts.sort_unstable();
        cuts.windows(2).map(|cut| &part[cut[0]..cut[1]]).collect::<Vec<_>>()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(path: &str, source: &str) -> Vec<String> {
        check(&[Text { path: path.into(), text: source.to_owned() }])
    }

    #[test]
    fn names_are_cut_into_their_words() {
        let parts = |name| parts(name).filter(|part| !part.is_empty()).collect::<Vec<_>>();
        assert_eq!(parts("held_times"), ["held", "times"]);
        assert_eq!(parts("HeldTimes"), ["Held", "Times"]);
        assert_eq!(parts("MOST_HELD2"), ["MOST", "HELD2"]);
        assert_eq!(parts("isHeld"), ["is", "Held"]);
    }

    #[test]
    fn banned_word_in_a_name_is_refused() {
        for name in ["held", "is_held", "HeldTimes", "MOST_HELD"] {
            let faults = check_one("a.rs", &format!("\nlet {name} = 1;\n"));
            assert_eq!(faults, [format!("`a.rs:2` has the name `{name}`: instead of `held` write suspended")]);
        }
        assert_eq!(check_one("a.rs", "fn shelter() {} // held\nlet a = \"held\";"), [""; 0]);
        assert_eq!(check_one("src/weather.rs", "").len(), 1, "a file name is a name");
    }
}
