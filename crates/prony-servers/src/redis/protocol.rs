//! RESP, version 2: the protocol of Redis and Valkey.
//!
//! A command is an array of byte strings. An answer is a line, behind which a byte string has its bytes and an array its items,
//! each an answer again. Nothing here reads or writes a connection.

use std::ops::Range;

/// A first line of an answer is not longer: the longest are errors with their texts.
const LONGEST_LINE: usize = 64 << 10;

/// The first line of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// A text: where it is in the bytes.
    Text(Range<usize>),
    /// The server's error: where its text is in the bytes.
    Error(Range<usize>),
    /// A number.
    Integer(i64),
    /// A byte string of so many bytes, which follow with a line's end; `None` for a value that is not there.
    Bulk(Option<usize>),
    /// So many answers, which follow; `None` for a transaction that was not carried out.
    Array(Option<usize>),
}

/// What is no answer of Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// Adds a command: its name and its arguments.
#[inline]
pub fn push(out: &mut Vec<u8>, words: &[&[u8]]) {
    begin(out, words.len());
    words.iter().for_each(|word| push_word(out, word));
}

/// Adds the beginning of a command of so many words, its name among them; [`push_word`] has to add these.
#[inline]
pub fn begin(out: &mut Vec<u8>, words: usize) {
    line(out, b'*', words);
}

/// Adds a word of a command.
#[inline]
pub fn push_word(out: &mut Vec<u8>, word: &[u8]) {
    line(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// Written by hand: the machinery of `write!` takes as long as the rest of a short command.
fn line(out: &mut Vec<u8>, kind: u8, mut number: usize) {
    let mut digits = [0; 20];
    let mut from = digits.len();
    loop {
        from -= 1;
        digits[from] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.push(kind);
    out.extend_from_slice(&digits[from..]);
    out.extend_from_slice(b"\r\n");
}

/// Reads the first line of an answer; how many bytes it takes with its end. `None` until all of it is there.
///
/// # Errors
/// Where these bytes begin no answer.
#[inline]
pub(super) fn head(bytes: &[u8]) -> Result<Option<(Head, usize)>, Malformed> {
    let Some(kind) = bytes.first() else { return Ok(None) };
    if !b"+-:$*".contains(kind) {
        return Err(Malformed);
    }
    let within = &bytes[..bytes.len().min(LONGEST_LINE)];
    let Some(end) = within.iter().position(|byte| *byte == b'\r') else {
        return if within.len() == LONGEST_LINE { Err(Malformed) } else { Ok(None) };
    };
    match bytes.get(end + 1) {
        None => return Ok(None),
        Some(b'\n') => {}
        Some(_) => return Err(Malformed),
    }
    let head = match kind {
        b'+' => Head::Text(1..end),
        b'-' => Head::Error(1..end),
        b':' => Head::Integer(number(&bytes[1..end])?),
        b'$' => Head::Bulk(length(&bytes[1..end])?),
        _ => Head::Array(length(&bytes[1..end])?),
    };
    Ok(Some((head, end + 2)))
}

fn number(digits: &[u8]) -> Result<i64, Malformed> {
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or(Malformed)
}

/// The longest byte string that a server has by its default (`proto-max-bulk-len`), and more items than an array has.
const LONGEST: i64 = 512 << 20;

fn length(digits: &[u8]) -> Result<Option<usize>, Malformed> {
    match number(digits)? {
        -1 => Ok(None),
        length @ 0..=LONGEST => Ok(Some(length as usize)),
        _ => Err(Malformed),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn command_is_an_array_of_byte_strings() {
        let mut out = b"before".to_vec();
        push(&mut out, &[b"SET", b"", &[0, 255]]);
        assert_eq!(out, b"before*3\r\n$3\r\nSET\r\n$0\r\n\r\n$2\r\n\0\xff\r\n");
        for number in [0, 9, 10, 1_234_567, usize::MAX] {
            let mut out = Vec::new();
            line(&mut out, b'$', number);
            assert_eq!(out, format!("${number}\r\n").into_bytes());
        }
    }

    #[test]
    fn heads_are_read_when_they_are_whole() {
        for (bytes, expected) in [
            (&b"+OK\r\n"[..], Head::Text(1..3)),
            (b"-ERR no such command\r\n", Head::Error(1..20)),
            (b":-42\r\n", Head::Integer(-42)),
            (b"$5\r\n", Head::Bulk(Some(5))),
            (b"$-1\r\n", Head::Bulk(None)),
            (b"*2\r\n", Head::Array(Some(2))),
            (b"*-1\r\n", Head::Array(None)),
        ] {
            for length in 0..bytes.len() {
                assert_eq!(head(&bytes[..length]), Ok(None), "{length}");
            }
            let more = [bytes, b"+more\r\n"].concat();
            assert_eq!(head(&more), Ok(Some((expected, bytes.len()))));
        }
    }

    #[test]
    fn bytes_of_another_protocol_are_refused_at_once() {
        let long = [b"+".as_slice(), &[b'x'; LONGEST_LINE]].concat();
        for bytes in
            [&b"HTTP/1.1 200 OK\r\n"[..], b"$x\r\n", b"$-2\r\n", b"*99999999999\r\n", b":\r\n", b"+a\rb", &long]
        {
            assert_eq!(head(bytes), Err(Malformed), "{}", bytes.escape_ascii());
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(Some((_, taken))) = head(&bytes) {
                prop_assert!(taken <= bytes.len());
            }
        }
    }
}
