//! Checks the quotes of comma-separated values, which the reader of rows takes as they come: with a quote that is never closed
//! all that follows would silently be one cell.

/// Bytes of the longest row; a longer one is a file of another kind.
pub(super) const LONGEST_ROW: u64 = 256 << 20;

/// U+FEFF, which some programs write at the beginning of a file.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The state after the bytes so far.
#[derive(Debug, Default)]
pub(super) struct Quotes {
    at: At,
    /// Line breaks so far, quoted ones included.
    breaks: u64,
    /// Where the quoted text began that is open.
    opened: u64,
    /// Bytes of the row so far.
    row: u64,
    /// How many bytes of a byte order mark have been passed over at the beginning.
    mark: usize,
    fault: Option<(u64, String)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum At {
    #[default]
    CellBegin,
    Plain,
    Quoted,
    /// After a quote in quoted text: its end, or the first of two.
    Quote,
}

impl Quotes {
    /// Goes over the next bytes.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        if bytes.is_empty() && self.at == At::Quoted {
            self.note(self.opened, "has a quote that is never closed".to_owned());
        }
        for byte in bytes {
            if BYTE_ORDER_MARK.get(self.mark) == Some(byte) && self.at == At::CellBegin {
                self.mark += 1;
                continue;
            }
            self.mark = BYTE_ORDER_MARK.len();
            self.breaks += u64::from(*byte == b'\n');
            self.row += 1;
            self.at = match (self.at, byte) {
                (At::CellBegin, b'"') => {
                    self.opened = self.breaks + 1;
                    At::Quoted
                }
                (At::Quote, b'"') => At::Quoted,
                (At::Quoted, b'"') => At::Quote,
                (At::Quoted, _) => At::Quoted,
                (_, b',') => At::CellBegin,
                (_, b'\n' | b'\r') => {
                    self.row = 0;
                    At::CellBegin
                }
                (At::Quote, _) => {
                    self.note(self.breaks + 1, "has text between a closing quote and the next comma".to_owned());
                    At::Plain
                }
                (At::CellBegin | At::Plain, _) => At::Plain,
            };
            if self.row > LONGEST_ROW {
                self.note(self.opened.max(1), format!("is longer than {} MiB", LONGEST_ROW >> 20));
                return;
            }
        }
    }

    fn note(&mut self, line: u64, fault: String) {
        self.fault.get_or_insert((line, fault));
    }

    /// The line of the first fault, and what is wrong with it.
    pub(super) fn fault(&self) -> Option<(u64, String)> {
        self.fault.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(text: &str) -> Option<(u64, String)> {
        let mut whole = Quotes::default();
        whole.take(text.as_bytes());
        whole.take(b"");
        let mut pieces = Quotes::default();
        text.as_bytes().iter().for_each(|byte| pieces.take(&[*byte]));
        pieces.take(b"");
        assert_eq!(whole.fault(), pieces.fault(), "however the bytes are cut");
        whole.fault()
    }

    #[test]
    fn quotes_that_are_closed_have_no_fault() {
        for text in ["\u{feff}\"a\nb\",c\n1,2", "a,b\n1,\"x\ny\"\r\n\"\",\"a\"\"b\"\n", "5\" nail,\"x\"", "", "\"a\""] {
            assert_eq!(fault(text), None, "{text}");
        }
    }

    #[test]
    fn faults_have_their_line() {
        assert_eq!(fault("a\n\"x\ny\"\n\"z\nw").unwrap().0, 4, "where the quote stands");
        let (line, said) = fault("a,b\n\"x\"y,2\n").unwrap();
        assert_eq!((line, said.as_str()), (2, "has text between a closing quote and the next comma"));
    }

    #[test]
    fn a_row_without_end_is_found_before_it_is_read() {
        let mut quotes = Quotes::default();
        quotes.take(b"a\n\"");
        let piece = vec![b'x'; 1 << 20];
        let pieces = (0..).find(|_| {
            quotes.take(&piece);
            quotes.fault().is_some()
        });
        assert_eq!((pieces, quotes.fault().unwrap().0), (Some(255), 2));
    }
}
