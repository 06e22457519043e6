//! Messages: a command and its answer are a document each.

use super::bson::{self, Writer};

/// The opcode of `OP_MSG`, the only one since MongoDB 5.1.
const OP_MSG: u32 = 2013;

/// Bytes before the document: a header of four numbers, the flags, and the kind of the section.
const BEFORE: usize = 21;

/// Bytes from which the length of a message is known.
const HEAD: usize = 16;

/// The longest message of a server (`maxMessageSizeBytes`).
const LONGEST: usize = 48_000_000;

/// What is no answer of MongoDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer is not of MongoDB")]
pub struct Malformed;

/// Adds the message of this number, with a command on this database; `fields` writes the command's fields, of which the first
/// is its name.
pub fn message(out: &mut Vec<u8>, number: u32, database: &str, fields: impl FnOnce(&mut Writer<'_>)) {
    let begin = out.len();
    for word in [0, number, 0, OP_MSG, 0] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.push(0);
    bson::write(out, |command| {
        fields(command);
        command.text("$db", database);
    });
    let length = (out.len() - begin) as u32;
    out[begin..begin + 4].copy_from_slice(&length.to_le_bytes());
}

/// How many bytes the message has that begins here; `None` until that is known.
///
/// # Errors
/// Where these bytes begin no answer.
#[inline]
pub(super) fn length(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..HEAD)?.first_chunk()?));
    let (Some(length), Some(opcode)) = (word(0), word(12)) else { return Ok(None) };
    let length = length as usize;
    if opcode == OP_MSG && (BEFORE + 5..=LONGEST).contains(&length) { Ok(Some(length)) } else { Err(Malformed) }
}

/// The document of a whole message.
///
/// # Errors
/// Where it has none. A checksum may follow, which nothing asked for.
#[inline]
pub(super) fn document(message: &[u8]) -> Result<&[u8], Malformed> {
    message.get(BEFORE..).and_then(bson::document).ok_or(Malformed)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn command_is_a_message_with_one_document() {
        let mut out = b"before".to_vec();
        message(&mut out, 3, "admin", |command| command.int32("ping", 1));
        let message = &out[6..];
        assert_eq!((length(message), message[4]), (Ok(Some(message.len())), 3));
        let document = document(message).unwrap();
        assert_eq!((bson::number(document, &["ping"]), bson::text(document, "$db")), (Some(1.0), Some("admin")));
    }

    #[test]
    fn length_is_known_from_the_header_on() {
        let mut all = Vec::new();
        message(&mut all, 1, "d", |_| ());
        for bytes in 0..all.len() {
            let known = (bytes >= HEAD).then_some(all.len());
            assert_eq!(length(&all[..bytes]), Ok(known), "{bytes}");
        }
    }

    #[test]
    fn bytes_of_another_protocol_are_refused() {
        let mut short = Vec::new();
        message(&mut short, 1, "d", |_| ());
        short[0] = 20;
        for bytes in [&b"HTTP/1.1 200 OK\r\n\r\n"[..], &[0; 40], &short] {
            assert_eq!(length(bytes), Err(Malformed));
        }
        assert_eq!(document(&[0; BEFORE]), Err(Malformed));
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_parser_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = (length(&bytes), document(&bytes).map(|found| bson::number(found, &["a", "b"])));
            bson::fields(&bytes).for_each(drop);
        }
    }
}
