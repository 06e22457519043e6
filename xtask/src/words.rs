//! Checks that no identifier or file name contains certain words, for which the field has its own terms.

use std::collections::BTreeMap;

use crate::names::names;
use crate::source::Text;

/// The words, and what to write.
const BANNED: &[(&[&str], &str)] = &[
    (&["nursery", "cradle", "crib"], "spawner"),
    (&["bear", "birth"], "spawn"),
    (&["born"], "spawned"),
    (&["told"], "reported"),
    (&["tell", "tells", "telling"], "report or send"),
    (&["teller"], "sender"),
    (&["stranger"], "foreign process"),
    (&["strangers"], "foreign processes"),
    (&["standing"], "reused"),
    (&["stand", "stands"], "what it really does"),
    (&["stage"], "environment"),
    (&["stages"], "environments"),
    (&["edge"], "snapshot or boundary"),
    (&["edges"], "snapshots or boundaries"),
    (&["look"], "interim analysis, poll or reading"),
    (&["looks"], "interim analyses, polls or readings"),
    (&["looked"], "read, searched or examined"),
    (&["hold"], "suspend"),
    (&["holds", "holding"], "suspends, contains or satisfies"),
    (&["held"], "suspended"),
    (&["canary", "canaries"], "reference workload"),
    (&["sing", "sings", "sung"], "run"),
    (&["lives", "lived"], "succeeds or is alive"),
    (&["dies", "died", "deaths"], "fails, ends or aborts"),
    (&["rests", "rested"], "is idle or settled"),
    (&["luck"], "a plain word"),
    (&["house"], "architecture"),
    (&["arm"], "variant"),
    (&["arms"], "variants"),
    (&UNCLEAR, "what it really contains"),
];

/// Words that hide what a name stands for.
const UNCLEAR: [&str; 18] = [
    "seen", "kept", "stood", "gone", "alone", "along", "around", "others", "fate", "fates", "travel", "travels",
    "weather", "trouble", "troubled", "honesty", "shelf", "stamps",
];

/// A name with a banned word that is a term: the verdict *can't tell*.
const TERM: &str = "CantTell";

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
    let is_in = |word: &&str| parts(name).any(|part| part.eq_ignore_ascii_case(word));
    let found = |(words, instead): &(&[&'static str], _)| Some((words.iter().copied().find(is_in)?, *instead));
    if name == TERM { None } else { BANNED.iter().find_map(found) }
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
        assert_eq!(check_one("a.rs", "let lives = 1; let arms = 2; let tells = 3;").len(), 3, "inflected forms");
        assert_eq!(check_one("a.rs", "let a = Verdict::CantTell;"), [""; 0], "a term");
    }
}
