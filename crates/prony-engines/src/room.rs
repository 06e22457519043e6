//! How much room values need on an engine's pages: a long one has pages of its own, whose rest stays empty.

use prony_model::spec::{OptionValue, StoreSpec};

/// Bytes of a page, unless the store sets another size.
const PAGE: u64 = 4096;

/// From this share of a page on, no second value of the same length fits on the same page.
const HALF: u64 = 2;

/// A longer row of a table of SQLite's without row identifiers has overflow pages: `(4096 - 12) * 64 / 255 - 23` (file format, 1.6).
const ROW_OF_INDEX: u64 = 1002;

/// Bytes that a value with so many bytes takes on the disk at least, with the rest of its pages. Engines that write values one
/// behind the other, or compress, or whose page size is set, need no more than its bytes.
pub fn least_of_value(store: &StoreSpec, bytes: u64) -> u64 {
    let sized = store
        .options
        .iter()
        .any(|(name, value)| name.contains("page") && matches!(value, OptionValue::Int(_) | OptionValue::Text(_)));
    let is_index = store.options.get("rowid") == Some(&OptionValue::Bool(false));
    let shared = if is_index { ROW_OF_INDEX } else { PAGE / HALF };
    if sized || bytes <= shared {
        return bytes;
    }
    let pages = |bytes: u64| bytes.div_ceil(PAGE) * PAGE;
    match store.engine.as_str() {
        // Overflow pages begin with a header of 16 bytes.
        "lmdb" => pages(bytes + 16),
        // A leaf with one value has a power of two of pages.
        "redb" => pages(bytes).next_power_of_two().max(PAGE),
        // One row lies on a page. Of a longer one a part does, of any size up to a page, and the rest fills pages of its own, but
        // for less than one (file format, 1.6).
        "sqlite" => bytes.max(PAGE),
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_have_pages_of_their_own() {
        let of = |engine: &str, bytes| least_of_value(&StoreSpec::of(engine), bytes);
        assert_eq!(
            [100, 2_048, 2_049, 4_080, 4_081, 5_000].map(|bytes| of("lmdb", bytes)),
            [100, 2_048, 4_096, 4_096, 8_192, 8_192]
        );
        assert_eq!([2_100, 5_000, 8_193].map(|bytes| of("redb", bytes)), [4_096, 8_192, 16_384]);
        assert_eq!([2_100, 4_500, 5_000].map(|bytes| of("sqlite", bytes)), [4_096, 4_500, 5_000]);
        assert_eq!(of("fjall", 5_000), 5_000);
        let mut index = StoreSpec::of("sqlite");
        index.options.insert("rowid".to_owned(), OptionValue::Bool(false));
        assert_eq!([1_002, 1_003, 5_000].map(|bytes| least_of_value(&index, bytes)), [1_002, 4_096, 5_000]);
        let mut sized = StoreSpec::of("sqlite");
        sized.options.insert("page_size".to_owned(), OptionValue::Text("64 kB".to_owned()));
        assert_eq!(least_of_value(&sized, 2_100), 2_100);
    }
}
