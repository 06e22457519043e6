//! The word that was meant where another is written.

/// Characters of the longest word that is compared with others.
const LONGEST: usize = 1_000;

/// The known word that differs from `word` by a typing error.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = word.chars().count();
    let slips = |k: &str| 1.max(length.max(k.chars().count()) / 3);
    // A distance is at least the difference of the lengths, and takes far longer to find.
    let near = known.into_iter().filter(|k| length <= LONGEST && length.abs_diff(k.chars().count()) <= slips(k));
    near.map(|k| (strsim::damerau_levenshtein(word, k), k))
        .filter(|(distance, k)| *distance <= slips(k) && *distance < k.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, k)| k)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_with_a_typing_error_is_found_and_another_word_is_not() {
        let known = ["no_sync", "write_map", "max_size"];
        assert_eq!(nearest("nosync", known), Some("no_sync"));
        assert_eq!(nearest("wirte_map", known), Some("write_map"));
        assert_eq!(nearest("cache", known), None);
        assert_eq!(nearest("x", ["a", "b"]), None, "one letter is no slip of another");
        assert_eq!(nearest(&"n".repeat(1_000_000), known), None);
    }
}
