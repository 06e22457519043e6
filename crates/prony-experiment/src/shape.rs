//! Types with which the form of the experiment file is declared. The validator, the JSON Schema and the reference use
//! the same declaration.

/// What a value may be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// Text as written; braces mean nothing.
    Plain,
    /// Text with placeholders of factors.
    Text,
    /// Text in which `{i}` is a record's number.
    Template,
    /// Text in which `{i}`, `{doc.FIELD}` and `{saved.NAME}` are values of a request.
    Request,
    /// `true` or `false`.
    Flag,
    /// A whole number from the first to the second.
    Whole(u64, u64),
    /// A whole number, which may be negative.
    Integer,
    /// A time of the calendar, as TOML writes it or as text.
    Date,
    /// A number above zero.
    Positive,
    /// A number from the first to the second.
    Between(f64, f64),
    /// A time such as `"5 s"`.
    Time,
    /// The same, above zero.
    Span,
    /// An amount of memory or storage such as `"40 kB"`, or a number of bytes.
    Bytes,
    /// A rate such as `"5000/s"`, or a number per second.
    Rate,
    /// A share such as `"60%"`, or a number from 0 to 1.
    Share,
    /// One of these words.
    Word(&'static [(&'static str, &'static str)]),
    /// Flag, number or text.
    Scalar,
    /// Anything.
    Any,
    /// A list of these.
    List(&'static Shape),
    /// A list of exactly two of these.
    Pair(&'static Shape),
    /// A table with keys that the user chooses.
    Map(&'static Shape),
    /// A table with these keys.
    Table(&'static TableShape),
    /// A field of a document: a constant, a text in which `{i}` is a record's number, a list of fields, a table with one
    /// of the actions of this one, or a table of fields with names that the user chooses.
    Field(&'static TableShape),
    /// Which documents a query finds: fields with values, or with a table of these tests; `and` and `or` take lists of them.
    Filter(&'static TableShape),
    /// What a field is compared with: a value, or `{doc.FIELD}` alone in a text.
    Operand,
    /// The first of these that fits the kind of value.
    Either(&'static [Shape]),
}

/// A table with known keys.
#[derive(Debug)]
pub(crate) struct TableShape {
    /// Its name in the schema and the reference, as in `[store]`.
    pub(crate) name: &'static str,
    /// What it is for, in one sentence.
    pub(crate) doc: &'static str,
    /// Its keys, in groups that tables can share.
    pub(crate) fields: &'static [&'static [Field]],
    /// The shape of keys that the user chooses, where there may be any.
    pub(crate) rest: Option<&'static Shape>,
}

/// A table with these keys only.
pub(crate) const fn table(name: &'static str, doc: &'static str, fields: &'static [&'static [Field]]) -> TableShape {
    TableShape { name, doc, fields, rest: None }
}

/// A key of a table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) need: Need,
    /// One sentence.
    pub(crate) doc: &'static str,
}

/// Whether a key must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It must.
    Required,
    /// It need not; the text says what holds without it.
    Optional(&'static str),
    /// Exactly one key of this kind must be there.
    Action,
    /// At least one key of this kind must be there; the text says what holds without this one.
    Some(&'static str),
}

/// A key that must be there.
pub(crate) const fn required(name: &'static str, shape: Shape, doc: &'static str) -> Field {
    Field { name, shape, need: Need::Required, doc }
}

/// A key of which, or of others like it, a table has at least one; `default` says what holds without it.
pub(crate) const fn some(name: &'static str, shape: Shape, default: &'static str, doc: &'static str) -> Field {
    Field { name, shape, need: Need::Some(default), doc }
}

/// A key that may be left out; `default` says what holds then.
pub(crate) const fn optional(name: &'static str, shape: Shape, default: &'static str, doc: &'static str) -> Field {
    Field { name, shape, need: Need::Optional(default), doc }
}

/// One of the keys of which exactly one must be there.
pub(crate) const fn action(name: &'static str, shape: Shape, doc: &'static str) -> Field {
    Field { name, shape, need: Need::Action, doc }
}

impl TableShape {
    /// Every known key.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'static Field> + use<> {
        self.fields.iter().flat_map(|group| group.iter())
    }

    /// The key with this name.
    pub(crate) fn field(&self, name: &str) -> Option<&'static Field> {
        self.all().find(|field| field.name == name)
    }

    /// The names of the keys of which exactly one must be there.
    pub(crate) fn actions(&self) -> Vec<&'static str> {
        self.all().filter(|field| field.need == Need::Action).map(|field| field.name).collect()
    }

    /// The keys of which at least one must be there.
    pub(crate) fn some(&self) -> Vec<&'static str> {
        self.all().filter(|field| matches!(field.need, Need::Some(_))).map(|field| field.name).collect()
    }
}

impl Shape {
    /// The values that it takes, in words, after `expected`.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Plain | Self::Text | Self::Template | Self::Request => "a text".to_owned(),
            Self::Flag => "`true` or `false`".to_owned(),
            Self::Whole(min, max) if *max >= i64::MAX as u64 => format!("a whole number of at least {min}"),
            Self::Whole(min, max) => format!("a whole number from {min} to {max}"),
            Self::Integer => "a whole number".to_owned(),
            Self::Date => "a date such as `2021-03-01`, or a time such as `2021-03-01T12:00:00Z`".to_owned(),
            Self::Positive => "a number above zero".to_owned(),
            Self::Between(min, max) => format!("a number from {min} to {max}"),
            Self::Time => "a time such as `\"5 s\"`".to_owned(),
            Self::Span => "a time above zero such as `\"5 s\"`".to_owned(),
            Self::Bytes => "an amount such as `\"40 kB\"` or a number of bytes".to_owned(),
            Self::Rate => "a rate such as `\"5000/s\"` or a number per second".to_owned(),
            Self::Share => "a share such as `\"60%\"` or a number from 0 to 1".to_owned(),
            Self::Word(words) => words.iter().map(|(w, _)| format!("`\"{w}\"`")).collect::<Vec<_>>().join(", "),
            Self::Scalar => "`true`, `false`, a number or a text".to_owned(),
            Self::Any => "anything".to_owned(),
            Self::List(item) => format!("a list, each item {}", item.words()),
            Self::Pair(item) => format!("a list of two, each {}", item.words()),
            Self::Map(_) => "a table".to_owned(),
            Self::Table(table) => {
                let fields: Vec<&str> = table.all().map(|field| field.name).collect();
                if fields.is_empty() { "`{}`".to_owned() } else { format!("a table of `{}`", fields.join("`, `")) }
            }
            Self::Field(_) => {
                "a value, a list or table of values, or a table that describes how values are made".to_owned()
            }
            Self::Filter(_) => "a table of fields, each with a value or with tests".to_owned(),
            Self::Operand => "a value, or the text `{doc.FIELD}`".to_owned(),
            Self::Either(shapes) => shapes.iter().map(Self::words).collect::<Vec<_>>().join(" or "),
        }
    }
}
