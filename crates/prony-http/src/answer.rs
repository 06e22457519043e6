//! Finds the end of an answer and says whether its connection can be used again (RFC 9112, section 6.3). The bytes may
//! come in any portions; the outcome does not depend on them.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Response, Status};

use crate::chunked::{Chunked, NotChunked};

/// Header fields of an answer that are accepted.
const MOST_FIELDS: usize = 256;
/// Bytes of an answer's head that are accepted.
const LONGEST_HEAD: usize = 64 << 10;
/// The server changes the protocol, which no request asks for.
const SWITCHING: u16 = 101;

/// Why bytes are no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("head: {0}")]
    Head(#[from] httparse::Error),
    #[error("the head is longer than 64 KiB")]
    LongHead,
    #[error("`Content-Length` is no number, or there are several that differ")]
    Length,
    #[error(transparent)]
    Chunks(#[from] NotChunked),
    #[error("bytes after the end of the answer")]
    AfterEnd,
    #[error("the server switches to another protocol")]
    Switching,
}

/// Bytes of a body that are stored.
const MOST_EXTRACTED: usize = 16 << 20;
/// Room for a body that is not given back after each answer.
const ROOM: usize = 1 << 20;

/// What of an answer is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    pub(crate) head: bool,
    pub(crate) body: bool,
}

impl Wanted {
    pub(crate) fn is_any(self) -> bool {
        self.head || self.body
    }
}

/// What was wanted of an answer.
#[derive(Debug, Default)]
pub(crate) struct Extract {
    /// The head, where it is wanted.
    pub(crate) head: Vec<u8>,
    /// The begin of the body, where it is wanted.
    pub(crate) body: Vec<u8>,
    /// Whether the body goes on behind it.
    pub(crate) is_cut: bool,
}

impl Extract {
    fn clear(&mut self) {
        self.head.clear();
        self.body.clear();
        self.body.shrink_to(ROOM);
        self.is_cut = false;
    }

    fn add(&mut self, bytes: &[u8]) {
        let room = MOST_EXTRACTED - self.body.len();
        self.is_cut |= bytes.len() > room;
        self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

/// One answer while it is read.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    place: Place,
    wanted: Wanted,
    pub(crate) extract: Extract,
    /// Bytes of the body so far.
    body: u64,
    /// The begin of a head that came in several portions.
    head: Vec<u8>,
    status: u16,
    is_to_head: bool,
    reusable: bool,
    /// An answer with status 1xx was taken.
    interim: bool,
}

#[derive(Clone, Debug, Default)]
enum Place {
    Head,
    /// Bytes of the body that are still to come.
    Length(u64),
    Chunks(Chunked),
    UntilClose,
    #[default]
    Done,
}

/// What the head of an answer says.
struct Head {
    length: usize,
    status: u16,
    reusable: bool,
    body: Place,
}

impl Answer {
    /// Begins the next answer. Answers to HEAD have no body, whatever they say.
    pub(crate) fn begin(&mut self, is_to_head: bool, wanted: Wanted) {
        self.head.clear();
        self.extract.clear();
        (self.wanted, self.body, self.interim) = (wanted, 0, false);
        (self.place, self.status, self.is_to_head, self.reusable) = (Place::Head, 0, is_to_head, false);
    }

    /// Bytes of the body so far.
    pub(crate) fn length(&self) -> u64 {
        self.body
    }

    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// Whether an answer with status 1xx has come since this was asked last.
    #[inline]
    pub(crate) fn had_interim(&mut self) -> bool {
        std::mem::take(&mut self.interim)
    }

    /// Whether something came of the answer, without those with status 1xx.
    pub(crate) fn has_begun(&self) -> bool {
        !matches!(self.place, Place::Head) || !self.head.is_empty()
    }

    pub(crate) fn is_done(&self) -> bool {
        matches!(self.place, Place::Done)
    }

    /// Whether the connection can be used for another request after this answer.
    pub(crate) fn is_reusable(&self) -> bool {
        self.reusable
    }

    /// Takes bytes that came.
    ///
    /// # Errors
    /// Where they are no answer, and where they continue behind its end.
    pub(crate) fn take(&mut self, mut bytes: &[u8]) -> Result<(), Malformed> {
        let wants_body = self.wanted.body;
        while !bytes.is_empty() {
            let Self { extract, body, .. } = self;
            let mut data = |bytes: &[u8]| {
                *body += bytes.len() as u64;
                if wants_body {
                    extract.add(bytes);
                }
            };
            let taken = match &mut self.place {
                Place::Head => self.take_head(bytes)?,
                Place::Length(left) => {
                    let some = (*left).min(bytes.len() as u64);
                    *left -= some;
                    data(&bytes[..some as usize]);
                    some as usize
                }
                Place::Chunks(chunks) => chunks.take(bytes, data)?,
                Place::UntilClose => {
                    data(bytes);
                    bytes.len()
                }
                Place::Done => return Err(Malformed::AfterEnd),
            };
            bytes = &bytes[taken..];
            if self.is_at_end() {
                self.place = Place::Done;
            }
        }
        Ok(())
    }

    /// The server closed the connection; whether the answer is whole.
    pub(crate) fn close(&mut self) -> bool {
        if matches!(self.place, Place::UntilClose) {
            self.place = Place::Done;
        }
        self.is_done()
    }

    fn is_at_end(&self) -> bool {
        match &self.place {
            Place::Length(left) => *left == 0,
            Place::Chunks(chunks) => chunks.is_done(),
            Place::Head | Place::UntilClose | Place::Done => false,
        }
    }

    /// Takes bytes of the head; how many.
    fn take_head(&mut self, bytes: &[u8]) -> Result<usize, Malformed> {
        let before = self.head.len();
        let parsed = if before == 0 {
            parse(bytes, self.is_to_head)?
        } else {
            self.head.extend_from_slice(bytes);
            parse(&self.head, self.is_to_head)?
        };
        let Some(head) = parsed else {
            if before == 0 {
                self.head.extend_from_slice(bytes);
            }
            return if self.head.len() > LONGEST_HEAD { Err(Malformed::LongHead) } else { Ok(bytes.len()) };
        };
        if head.length > LONGEST_HEAD {
            return Err(Malformed::LongHead);
        }
        if self.wanted.head {
            let whole = if before == 0 { bytes } else { &self.head };
            self.extract.head.clear();
            self.extract.head.extend_from_slice(&whole[..head.length]);
        }
        self.head.clear();
        match head.status {
            SWITCHING => return Err(Malformed::Switching),
            // Another answer follows these.
            100..200 => self.interim = true,
            _ => (self.place, self.status, self.reusable) = (head.body, head.status, head.reusable),
        }
        Ok(head.length - before)
    }
}

/// How heads are read: a line that begins with a blank goes on with the field before it (RFC 9112, section 5.2).
pub(crate) fn config() -> ParserConfig {
    let mut config = ParserConfig::default();
    config.allow_obsolete_multiline_headers_in_responses(true);
    config
}

/// Parses a head; `None` where it is not whole.
fn parse(bytes: &[u8], is_to_head: bool) -> Result<Option<Head>, Malformed> {
    let mut fields = [const { MaybeUninit::<Header<'_>>::uninit() }; MOST_FIELDS];
    let mut response = Response::new(&mut []);
    let parsed = config().parse_response_with_uninit_headers(&mut response, bytes, &mut fields)?;
    let Status::Complete(length) = parsed else { return Ok(None) };
    let said = Said::of(response.headers)?;
    let status = response.code.unwrap_or_default();
    let body = match said {
        _ if is_to_head || matches!(status, 204 | 304) => Place::Length(0),
        Said { chunked: Some(true), .. } => Place::Chunks(Chunked::new()),
        Said { chunked: Some(false), .. } => Place::UntilClose,
        Said { length: Some(length), .. } => Place::Length(length),
        _ => Place::UntilClose,
    };
    let persists = response.version == Some(1) || said.keep_alive;
    let reusable = persists && !said.close && !matches!(body, Place::UntilClose);
    Ok(Some(Head { length, status, reusable, body }))
}

/// What header fields say about the body and the connection.
#[derive(Default)]
struct Said {
    length: Option<u64>,
    /// Whether the last coding of the transfer is `chunked`; `None` without any.
    chunked: Option<bool>,
    close: bool,
    keep_alive: bool,
}

impl Said {
    fn of(fields: &[Header<'_>]) -> Result<Self, Malformed> {
        let mut said = Self::default();
        for Header { name, value } in fields {
            match name.len() {
                14 if name.eq_ignore_ascii_case("content-length") => {
                    for value in items(value) {
                        let length = number(value).ok_or(Malformed::Length)?;
                        if said.length.is_some_and(|other| other != length) {
                            return Err(Malformed::Length);
                        }
                        said.length = Some(length);
                    }
                }
                17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                    said.chunked = items(value).last().map(|last| last.eq_ignore_ascii_case(b"chunked"));
                }
                10 if name.eq_ignore_ascii_case("connection") => {
                    said.close |= items(value).any(|item| item.eq_ignore_ascii_case(b"close"));
                    said.keep_alive |= items(value).any(|item| item.eq_ignore_ascii_case(b"keep-alive"));
                }
                _ => {}
            }
        }
        Ok(said)
    }
}

/// The parts of a list between commas.
fn items(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// A number of decimal digits without a sign.
fn number(text: &[u8]) -> Option<u64> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    digits.then(|| std::str::from_utf8(text).ok()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum End {
        /// Status, whether the connection can be used again.
        Whole(u16, bool),
        Cut,
        Malformed,
    }

    /// What an answer in these portions is, the connection closed behind it.
    fn read<'a>(portions: impl IntoIterator<Item = &'a [u8]>, is_to_head: bool) -> End {
        let mut answer = Answer::default();
        answer.begin(is_to_head, Wanted { head: true, body: true });
        for portion in portions {
            if answer.take(portion).is_err() {
                return End::Malformed;
            }
        }
        if answer.close() { End::Whole(answer.status(), answer.is_reusable()) } else { End::Cut }
    }

    fn whole(text: &str) -> End {
        read([text.as_bytes()], false)
    }

    #[test]
    fn body_ends_where_its_head_says() {
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", End::Whole(200, true)),
            ("HTTP/1.1 200 OK\r\ncontent-length: 5, 5\r\nContent-Length:5\r\n\r\nhello", End::Whole(200, true)),
            ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", End::Whole(404, true)),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", End::Whole(200, true)),
            ("HTTP/1.1 204 No Content\r\n\r\n", End::Whole(204, true)),
            ("HTTP/1.1 200 OK\r\nX: a\r\n  b\r\nContent-Length:\r\n 1\r\n\r\nx", End::Whole(200, true)),
            ("HTTP/1.1 200 OK\r\nConnection: x,\r\n\tclose\r\nContent-Length: 1\r\n\r\nx", End::Whole(200, false)),
            ("HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n", End::Whole(304, true)),
            ("HTTP/1.1 200 OK\r\n\r\nuntil the end", End::Whole(200, false)),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\nContent-Length: 1\r\n\r\nxyz", End::Whole(200, false)),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 204 N\r\n\r\n",
                End::Whole(204, true),
            ),
        ] {
            assert_eq!(whole(text), expected, "{text:?}");
        }
        assert_eq!(read([b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n".as_slice()], true), End::Whole(200, true));
    }

    #[test]
    fn what_is_wanted_is_the_last_head_and_the_data_of_the_body() {
        let hint = "HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n";
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let text = format!("{hint}{head}4;a=b\r\nabcd\r\n3\r\nefg\r\n0\r\nX: 1\r\n\r\n");
        for size in 1..text.len() {
            let mut answer = Answer::default();
            for wanted in [Wanted { head: true, body: true }, Wanted::default()] {
                answer.begin(false, wanted);
                text.as_bytes().chunks(size).for_each(|portion| answer.take(portion).unwrap());
                let expected = if wanted.body {
                    (head.as_bytes(), b"abcdefg".as_slice())
                } else {
                    (b"".as_slice(), b"".as_slice())
                };
                assert_eq!((answer.extract.head.as_slice(), answer.extract.body.as_slice()), expected);
                assert_eq!((answer.length(), answer.is_done(), answer.extract.is_cut), (7, true, false));
            }
        }
    }

    /// Its time to first byte was that of `103 Early Hints`.
    #[test]
    fn answer_begins_after_those_with_status_1xx() {
        let hint = b"HTTP/1.1 103 Hints\r\nLink: x\r\n\r\n";
        let mut answer = Answer::default();
        answer.begin(false, Wanted::default());
        let mut after = |portion: &[u8]| {
            answer.take(portion).unwrap();
            (answer.had_interim(), answer.has_begun())
        };
        assert_eq!(after(&hint[..9]), (false, true), "whether it is one is not known yet");
        assert_eq!(after(&hint[9..]), (true, false));
        assert_eq!(after(&[hint.as_slice(), b"HTTP/1.1 2"].concat()), (true, true));
        assert_eq!(after(b"00 OK\r\nContent-Length: 1\r\n\r\n"), (false, true));
        assert_eq!(after(b"x"), (false, true));
    }

    #[test]
    fn long_body_is_stored_up_to_a_bound() {
        let mut answer = Answer::default();
        answer.begin(false, Wanted { head: false, body: true });
        answer.take(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        let portion = vec![b'x'; 1 << 20];
        (0..17).for_each(|_| answer.take(&portion).unwrap());
        assert_eq!(
            (answer.extract.body.len(), answer.extract.is_cut, answer.length()),
            (MOST_EXTRACTED, true, 17 << 20)
        );
        answer.begin(false, Wanted::default());
        assert!(answer.extract.body.capacity() <= ROOM && !answer.extract.is_cut);
    }

    #[test]
    fn connection_is_used_again_unless_the_answer_refuses() {
        for (text, expected) in [
            ("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", false),
            ("HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 0\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", false),
            ("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n", true),
        ] {
            assert_eq!(whole(text), End::Whole(200, expected), "{text:?}");
        }
    }

    #[test]
    fn answer_that_is_not_whole_is_cut() {
        for text in [
            "",
            "HTTP/1.1 200 OK\r\nContent-Le",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
            "HTTP/1.1 100 Continue\r\n\r\n",
        ] {
            assert_eq!(whole(text), End::Cut, "{text:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_answer_are_malformed() {
        for text in [
            "SSH-2.0-OpenSSH\r\n",
            "HTTP/1.1 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: +1\r\n\r\nx",
            "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhello",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello",
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
        ] {
            assert_eq!(whole(text), End::Malformed, "{text:?}");
        }
        assert_eq!(whole(&format!("HTTP/1.1 200 OK\r\nA: {}", "x".repeat(LONGEST_HEAD))), End::Malformed);
        assert_eq!(whole(&format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: 1\r\n".repeat(MOST_FIELDS + 1))), End::Malformed);
    }

    /// Answers of every kind, and such ones with bytes changed, removed and repeated.
    fn answers() -> impl Strategy<Value = Vec<u8>> {
        let seeds = prop::sample::select(vec![
            "HTTP/1.1 200 OK\r\nContent-Length: 12\r\nServer: x\r\n\r\nhello, world",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4;a=b\r\nabcd\r\n10\r\n0123456789abcdef\r\n0\r\nX: 1\r\n\r\n",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc",
            "HTTP/1.0 302 Found\r\nLocation: /x\r\n\r\nuntil close",
            "HTTP/1.1 204 No Content\r\n\r\n",
            "\r\nHTTP/1.1 500 Internal Server Error\nContent-Length: 1\n\nx",
        ]);
        let change = (0usize..120, prop::sample::select(b"\r\n :;,0129afHTP/\0\xff".to_vec()), 0u8..4);
        (seeds, prop::collection::vec(change, 0..4)).prop_map(|(seed, changes)| {
            let mut bytes = seed.as_bytes().to_vec();
            for (at, byte, how) in changes {
                let at = at % bytes.len();
                match how {
                    0 => bytes[at] = byte,
                    1 => bytes.insert(at, byte),
                    2 => bytes.truncate(at.max(1)),
                    _ => drop(bytes.remove(at)),
                }
                if bytes.is_empty() {
                    bytes.push(byte);
                }
            }
            bytes
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn outcome_does_not_depend_on_the_portions(
            bytes in answers(), cuts in prop::collection::vec(0usize..200, 0..8), is_to_head: bool,
        ) {
            let at_once = read([bytes.as_slice()], is_to_head);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).chain([0, bytes.len()]).collect();
            cuts.sort_unstable();
            prop_assert_eq!(read(cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]), is_to_head), at_once);
            prop_assert_eq!(read(bytes.chunks(1), is_to_head), at_once);
        }

        #[test]
        fn any_bytes_have_an_outcome(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let headed = [b"HTTP/1.1 200 OK\r\n".as_slice(), &bytes].concat();
            for bytes in [bytes, headed] {
                prop_assert_eq!(read(bytes.chunks(7), false), read([bytes.as_slice()], false));
            }
        }
    }
}
