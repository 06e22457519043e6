//! Finds the end of a body in chunks (RFC 9112, section 7.1). The bytes may come in any portions.

/// Bytes of extensions and trailers that are accepted.
const MOST_EXTRA: usize = 64 << 10;

/// The bytes are not in chunks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body is not in chunks, as `Transfer-Encoding` says")]
pub(crate) struct NotChunked;

/// How far a body was read.
#[derive(Clone, Debug)]
pub(crate) struct Chunked {
    place: Place,
    /// Bytes of the chunk that are still to come.
    left: u64,
    extra: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// In the digits of a size; whether there was one.
    Size {
        any: bool,
    },
    /// Behind the digits, before the end of the line.
    Extension,
    Data,
    /// At the end of a chunk's data.
    AfterData,
    /// In a line behind the last chunk; whether it is empty so far.
    Trailer {
        empty: bool,
    },
    Done,
}

impl Chunked {
    pub(crate) const fn new() -> Self {
        Self { place: Place::Size { any: false }, left: 0, extra: 0 }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.place == Place::Done
    }

    /// Takes bytes up to the end of the body, and gives those that are data; how many were taken.
    pub(crate) fn take(&mut self, bytes: &[u8], mut data: impl FnMut(&[u8])) -> Result<usize, NotChunked> {
        let mut at = 0;
        while at < bytes.len() && !self.is_done() {
            if self.place == Place::Data {
                let some = self.left.min((bytes.len() - at) as u64);
                self.left -= some;
                data(&bytes[at..at + some as usize]);
                at += some as usize;
                if self.left == 0 {
                    self.place = Place::AfterData;
                }
            } else {
                self.place = self.next(bytes[at])?;
                at += 1;
            }
        }
        Ok(at)
    }

    /// The place behind a byte that is no data.
    fn next(&mut self, byte: u8) -> Result<Place, NotChunked> {
        Ok(match (self.place, byte) {
            (Place::Size { any: true } | Place::Extension, b'\n') if self.left > 0 => Place::Data,
            (Place::Size { any: true } | Place::Extension, b'\n') => Place::Trailer { empty: true },
            (Place::Size { any: true }, b'\r' | b';' | b' ' | b'\t') => Place::Extension,
            (Place::Size { .. }, digit) => {
                let digit = char::from(digit).to_digit(16).ok_or(NotChunked)?;
                self.left = self.left.checked_mul(16).ok_or(NotChunked)? + u64::from(digit);
                Place::Size { any: true }
            }
            (Place::AfterData, b'\r') => Place::AfterData,
            (Place::AfterData, b'\n') => Place::Size { any: false },
            (Place::Trailer { empty: true }, b'\n') => Place::Done,
            (Place::Trailer { .. }, b'\n') => self.extra(Place::Trailer { empty: true })?,
            (Place::Trailer { empty }, byte) => self.extra(Place::Trailer { empty: empty && byte == b'\r' })?,
            (Place::Extension, _) => self.extra(Place::Extension)?,
            (Place::AfterData | Place::Data | Place::Done, _) => return Err(NotChunked),
        })
    }

    fn extra(&mut self, place: Place) -> Result<Place, NotChunked> {
        self.extra += 1;
        if self.extra > MOST_EXTRA { Err(NotChunked) } else { Ok(place) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(text: &str) -> Result<(usize, bool), NotChunked> {
        let mut chunked = Chunked::new();
        let taken = chunked.take(text.as_bytes(), |_| {})?;
        Ok((taken, chunked.is_done()))
    }

    #[test]
    fn body_ends_behind_the_empty_line_after_the_last_chunk() {
        for text in [
            "0\r\n\r\n",
            "5\r\nhello\r\n0\r\n\r\n",
            "a;name=\"x\"\r\n0123456789\r\n00\r\nTrailer: 1\r\n\r\n",
            "F \r\n012345678901234\r\n0;last\r\nA: 1\r\nB: 2\r\n\r\n",
            "1\nx\n0\n\n",
        ] {
            assert_eq!(taken(&format!("{text}HTTP/1.1")), Ok((text.len(), true)), "{text:?}");
            for end in 0..text.len() {
                assert_eq!(taken(&text[..end]), Ok((end, false)), "{text:?} to {end}");
            }
        }
    }

    #[test]
    fn body_that_is_not_in_chunks_is_malformed() {
        for text in ["\r\n", "x\r\n", "-1\r\n", "5\r\nhelloX", "11111111111111111\r\n", ";\r\n"] {
            assert_eq!(taken(text), Err(NotChunked), "{text:?}");
        }
        assert_eq!(taken(&format!("5;{}", "x".repeat(MOST_EXTRA + 1))), Err(NotChunked));
    }
}
