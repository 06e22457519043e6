//! The text of a value in a JSON text. Parsed and written again, numbers become others: `12345678901234567890123` is then
//! `1.2345678901234568e22`, and `1.50` is `1.5`.

use std::collections::HashMap;

use serde_json::value::RawValue;

/// The text of the value at a JSON pointer (RFC 6901), without blanks between its parts; `None` where there is none. `json` is
/// JSON.
pub(crate) fn text_at(json: &[u8], pointer: &str) -> Option<String> {
    let mut at: &RawValue = serde_json::from_slice(json).ok()?;
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        at = match at.get().as_bytes().first()? {
            // Of several members of one name this has the last one, as every parser.
            b'{' => serde_json::from_str::<HashMap<String, &RawValue>>(at.get()).ok()?.remove(&token)?,
            b'[' => serde_json::from_str::<Vec<&RawValue>>(at.get()).ok()?.into_iter().nth(token.parse().ok()?)?,
            _ => return None,
        };
    }
    Some(compact(at.get()))
}

/// The text without blanks between its parts.
fn compact(json: &str) -> String {
    let (mut is_in_string, mut is_escaped) = (false, false);
    let is_part = |c: &char| {
        let is_part = is_in_string || !c.is_ascii_whitespace();
        is_in_string ^= *c == '"' && !is_escaped;
        is_escaped = *c == '\\' && !is_escaped;
        is_part
    };
    json.chars().filter(is_part).collect()
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
