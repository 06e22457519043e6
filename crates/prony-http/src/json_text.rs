//! The text of a value in a JSON text. Parsed and written again, numbers become others: `12345678901234567890123` is then
//! `1.2345678901234568e22`, and `1.50` is `1.5`.

/// The text of the value at a JSON pointer (RFC 6901), without blanks between its parts; `None` where there is none. `json` is
/// JSON.
pub(crate) fn text_at(json: &[u8], pointer: &str) -> Option<String> {
    let mut at = after_blanks(json, 0);
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        at = match json.get(at)? {
            b'{' => member(json, at, &token)?,
            b'[' => item(json, at, token.parse().ok()?)?,
            _ => return None,
        };
    }
    String::from_utf8(compact(json.get(at..end(json, at))?)).ok()
}

/// Where the value of a name begins in an object; the last one where there are several, as a parser has it.
fn member(json: &[u8], object: usize, name: &str) -> Option<usize> {
    let (mut at, mut found) = (after_blanks(json, object + 1), None);
    while json.get(at) == Some(&b'"') {
        let key_end = end(json, at);
        let value = after_blanks(json, after_blanks(json, key_end) + 1);
        if serde_json::from_slice::<String>(&json[at..key_end]).is_ok_and(|key| key == name) {
            found = Some(value);
        }
        at = next(json, value);
    }
    found
}

/// Where an item of an array begins.
fn item(json: &[u8], array: usize, index: usize) -> Option<usize> {
    let mut at = after_blanks(json, array + 1);
    for _ in 0..index {
        at = next(json, at);
    }
    json.get(at).filter(|byte| **byte != b']').map(|_| at)
}

/// Where the next member or item begins after the value at a place, or the end of all.
fn next(json: &[u8], value: usize) -> usize {
    let after = after_blanks(json, end(json, value));
    if json.get(after) == Some(&b',') { after_blanks(json, after + 1) } else { after }
}

fn after_blanks(json: &[u8], at: usize) -> usize {
    let blanks = json.iter().skip(at).take_while(|byte| byte.is_ascii_whitespace());
    at + blanks.count()
}

/// The end of the value that begins at a place.
fn end(json: &[u8], begin: usize) -> usize {
    let mut depth = 0u32;
    let mut at = begin;
    while let Some(byte) = json.get(at) {
        match byte {
            b'"' => at = end_of_string(json, at),
            b'{' | b'[' => (depth, at) = (depth + 1, at + 1),
            b'}' | b']' | b',' if depth == 0 => return at,
            b'}' | b']' => (depth, at) = (depth - 1, at + 1),
            byte if depth == 0 && byte.is_ascii_whitespace() => return at,
            _ => {
                at += 1;
                continue;
            }
        }
        if depth == 0 {
            return at;
        }
    }
    at
}

fn end_of_string(json: &[u8], begin: usize) -> usize {
    let mut is_escaped = false;
    let ends = |byte: &u8| {
        let is_end = *byte == b'"' && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    };
    json.iter().skip(begin + 1).position(ends).map_or(json.len(), |length| begin + length + 2)
}

/// The text without blanks between its parts.
fn compact(value: &[u8]) -> Vec<u8> {
    let (mut out, mut at) = (Vec::with_capacity(value.len()), 0);
    while let Some(byte) = value.get(at) {
        let end = if *byte == b'"' { end_of_string(value, at) } else { at + 1 };
        if !byte.is_ascii_whitespace() {
            out.extend_from_slice(&value[at..end]);
        }
        at = end;
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn numbers_are_as_they_were_sent() {
        let json = br#" { "id" : 12345678901234567890123, "n": [1.50, -0, 1E2 ],
            "\u0061/b" : {"~": [true , "x ]\" y"] }, "id2":7} "#;
        for (pointer, expected) in [
            ("/id", Some("12345678901234567890123")),
            ("/n/0", Some("1.50")),
            ("/n/2", Some("1E2")),
            ("/n", Some("[1.50,-0,1E2]")),
            ("/a~1b/~0/0", Some("true")),
            ("/a~1b", Some(r#"{"~":[true,"x ]\" y"]}"#)),
            ("/id2", Some("7")),
            ("/n/3", None),
            ("/none", None),
            ("/id/x", None),
        ] {
            assert_eq!(text_at(json, pointer).as_deref(), expected, "{pointer}");
        }
        assert_eq!(text_at(b" 1.0 ", "").as_deref(), Some("1.0"));
        assert_eq!(text_at(br#"{"a":1,"a":2}"#, "/a").as_deref(), Some("2"), "as a parser has it");
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            prop::collection::vec(prop::sample::select("a\"\\/~{}[],: \n\u{e9}".chars().collect::<Vec<_>>()), 0..5)
                .prop_map(|chars| Value::from(chars.into_iter().collect::<String>())),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let name = prop::sample::select(vec!["", "a", "a/b", "~", "\"", "\\"]);
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::vec((name, inner), 0..4)
                    .prop_map(|all| all.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Value>()),
            ]
        })
    }

    /// Each value below `value`, with its pointer.
    fn below(value: &Value, pointer: &str, all: &mut Vec<(String, Value)>) {
        all.push((pointer.to_owned(), value.clone()));
        match value {
            Value::Array(items) => {
                items.iter().enumerate().for_each(|(index, item)| below(item, &format!("{pointer}/{index}"), all));
            }
            Value::Object(members) => members.iter().for_each(|(name, value)| {
                let token = name.replace('~', "~0").replace('/', "~1");
                below(value, &format!("{pointer}/{token}"), all);
            }),
            _ => {}
        }
    }

    proptest! {
        #[test]
        fn values_are_those_of_a_parser(value in json(), is_pretty: bool) {
            let text = if is_pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) }.unwrap();
            let mut all = Vec::new();
            below(&value, "", &mut all);
            for (pointer, value) in all {
                prop_assert_eq!(text_at(text.as_bytes(), &pointer), Some(value.to_string()), "{} of {}", pointer, text);
            }
        }
    }
}
