//! Enumerations whose variants have a word: each word, and its meaning where files use it, is written beside its variant.

/// Declares an enumeration with `VARIANT = "word";` or `VARIANT = "word", "meaning";` for each variant, and gives it `ALL`,
/// `WORDS`, `name` and `named`. The word is that in files, tables and messages; in records it is what `serde` makes of the variant.
#[macro_export]
macro_rules! words {
    ($($(#[$of:meta])* $vis:vis enum $enum:ident {
        $($(#[$attribute:meta])* $variant:ident = $word:literal $(, $meaning:literal)?;)+
    })+) => {$(
        $(#[$of])*
        $vis enum $enum { $($(#[$attribute])* $variant,)+ }

        impl $enum {
            /// All of them, in the order of their declaration.
            $vis const ALL: [Self; [$($word),+].len()] = [$(Self::$variant),+];

            /// The word of each with its meaning, which is empty where none is declared.
            $vis const WORDS: [(&'static str, &'static str); Self::ALL.len()] = [$(($word, concat!($($meaning)?))),+];

            /// Its word.
            $vis const fn name(self) -> &'static str {
                Self::WORDS[self as usize].0
            }

            /// Its meaning, in words.
            $vis const fn meaning(self) -> &'static str {
                Self::WORDS[self as usize].1
            }

            /// The one with this word.
            $vis fn named(word: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == word)
            }
        }
    )+};
}

#[cfg(test)]
mod tests {
    use serde::Serialize;

    use crate::program::{Care, CopyOf, Manager, OutwardLinks, ProfileOf, Runtime, Weak};
    use crate::service::SetUp;
    use crate::spec::{Distribution, Durability, Sharing, Sign};

    crate::words! {
        /// Two.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Example {
            /// Has no meaning.
            One = "the one";
            /// Has a meaning.
            Other = "the other", "what it is";
        }
    }

    #[test]
    fn a_variant_has_its_word_and_its_meaning() {
        assert_eq!(Example::ALL.map(Example::name), ["the one", "the other"]);
        assert_eq!(Example::ALL.map(Example::meaning), ["", "what it is"]);
        assert_eq!(Example::WORDS, [("the one", ""), ("the other", "what it is")]);
        assert_eq!(["the other", "another"].map(Example::named), [Some(Example::Other), None]);
    }

    fn same<T: Serialize>(all: &[T], words: &[(&str, &str)]) {
        let of_records = serde_json::to_value(all).unwrap();
        assert_eq!(of_records, serde_json::json!(words.iter().map(|(word, _)| word).collect::<Vec<_>>()));
    }

    /// The word of a file is read as the value that a record has.
    #[test]
    fn words_of_files_are_those_of_records() {
        same(&Care::ALL, &Care::WORDS);
        same(&CopyOf::ALL, &CopyOf::WORDS);
        same(&Distribution::ALL, &Distribution::WORDS);
        same(&Durability::ALL, &Durability::WORDS);
        same(&Manager::ALL, &Manager::WORDS);
        same(&OutwardLinks::ALL, &OutwardLinks::WORDS);
        same(&ProfileOf::ALL, &ProfileOf::WORDS);
        same(&Runtime::ALL, &Runtime::WORDS);
        same(&SetUp::ALL, &SetUp::WORDS);
        same(&Sharing::ALL, &Sharing::WORDS);
        same(&Sign::ALL, &Sign::WORDS);
        same(&Weak::ALL, &Weak::WORDS);
    }
}
