//! Words that no identifier or file name has: the table "replace on sight" of the design, where the field has words of
//! its own. What had one when this check began is listed in `words_left.txt`, which can only shrink.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

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

/// The list of names that have such a word still, one a line, sorted.
pub(crate) const LIST: &str = "xtask/src/words_left.txt";

pub(crate) fn check(files: &[Text], root: &Path) -> Result<Vec<String>, String> {
    let path = root.join(LIST);
    let list = std::fs::read_to_string(&path).map_err(|e| format!("cannot read `{LIST}`: {e}"))?;
    let found = found(files);
    if std::env::var_os("PRONY_BLESS").is_some() {
        let left: String =
            list.lines().filter(|name| found.contains_key(name)).map(|name| format!("{name}\n")).collect();
        std::fs::write(&path, left).map_err(|e| format!("cannot write `{LIST}`: {e}"))?;
        return Ok(faults(&found, &list).into_iter().filter(|fault| !fault.contains(LIST)).collect());
    }
    Ok(faults(&found, &list))
}

/// Names and file stems with a banned word: where each is met first.
fn found(files: &[Text]) -> BTreeMap<&str, String> {
    let mut found = BTreeMap::new();
    for file in files {
        let path = file.path.display();
        if let Some(stem) = file.path.file_stem().and_then(|stem| stem.to_str()).filter(|stem| banned(stem).is_some()) {
            found.entry(stem).or_insert_with(|| format!("the file `{path}`"));
        }
        for name in names(&file.text) {
            if banned(name.text).is_some() {
                found.entry(name.text).or_insert_with(|| format!("`{path}:{}`", name.line));
            }
        }
    }
    found
}

fn faults(found: &BTreeMap<&str, String>, list: &str) -> Vec<String> {
    let listed: BTreeSet<&str> = list.lines().collect();
    let new = found.iter().filter(|(name, _)| !listed.contains(*name)).filter_map(|(name, place)| {
        let (word, instead) = banned(name)?;
        Some(format!("{place} has the name `{name}`: instead of `{word}` write {instead}"))
    });
    let mended = listed.iter().filter(|name| !found.contains_key(*name));
    let mended = mended.map(|name| format!("`{name}` occurs nowhere: take it out of `{LIST}` (PRONY_BLESS=1 does it)"));
    new.chain(mended).collect()
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

    fn text(path: &str, text: &str) -> Text {
        Text { path: path.into(), text: text.to_owned() }
    }

    fn check_one(path: &str, source: &str, list: &str) -> Vec<String> {
        faults(&found(&[text(path, source)]), list)
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
            let faults = check_one("a.rs", &format!("\nlet {name} = 1;\n"), "");
            assert_eq!(faults, [format!("`a.rs:2` has the name `{name}`: instead of `held` write suspended")]);
        }
        assert_eq!(check_one("a.rs", "fn shelter() {} // held\nlet a = \"held\";", ""), [""; 0]);
        assert_eq!(check_one("src/weather.rs", "", "").len(), 1, "a file name is a name");
    }

    #[test]
    fn list_of_names_left_can_only_shrink() {
        assert_eq!(check_one("a.rs", "let held = 1;", "held\n"), [""; 0]);
        let faults = check_one("a.rs", "let a = 1;", "held\n");
        assert!(faults.len() == 1 && faults[0].contains("occurs nowhere"), "{faults:?}");
        assert_eq!(check_one("a.rs", "let held_back = 1;", "held\n").len(), 2, "a new name, and one that is mended");
    }

    #[test]
    fn list_is_sorted_and_each_name_in_it_has_a_banned_word() {
        let list: Vec<&str> = include_str!("words_left.txt").lines().collect();
        assert!(list.is_sorted_by(|a, b| a < b));
        let wrong: Vec<_> = list.iter().filter(|name| banned(name).is_none()).collect();
        assert!(wrong.is_empty(), "{wrong:?}");
    }
}
