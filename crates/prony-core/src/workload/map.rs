//! Nodes, ways and relations as a street map has them, by number.
//!
//! The elements come in groups of [`GROUP`]: nodes, then ways along them, then one relation of those ways and nodes, so
//! that every reference points back and any first part of the stream is a map of its own. The shares are about those of
//! real extracts. The street map's own data is not used: names and places are made up from the seed.

use crate::random::{Purpose, Stream, derive};

/// Elements of a group.
const GROUP: u64 = 100;
/// Nodes at the begin of a group; ways follow, and one relation.
const NODES: u64 = 88;
/// The most members of a way or relation.
const MOST_MEMBERS: u64 = 24;
/// 2010-01-01 in Unix seconds, and the seconds of the ten years after it.
const TIMES: (u64, u64) = (1_262_304_000, 315_360_000);

/// Names of tags with values they may have; a value that ends in a blank goes on with a name.
const TAGS: [(&str, &[&str]); 10] = [
    ("name", &["Calle ", "Rue ", "Улица ", "Ala ", "\"Old\" ", "Bed & Breakfast ", "通り "]),
    ("source", &["survey", "bing", "local_knowledge", "TIGER/Line® 2008 by way of import"]),
    ("addr:street", &["Main ", "Kalākaua ", "Straße <old> ", "O'Neill's "]),
    ("addr:housenumber", &["7", "12a", "221", "3-5"]),
    ("highway", &["residential", "service", "track", "footway", "crossing", "tertiary"]),
    ("building", &["yes", "house", "garage", "roof"]),
    ("natural", &["tree", "wood", "coastline", "peak"]),
    ("surface", &["asphalt", "unpaved", "gravel"]),
    ("amenity", &["bench", "parking", "restaurant"]),
    ("note", &["check: 5 < 6 & \"quoted\" ", "surveyed on foot by "]),
];

/// Syllables of names.
const SYLLABLES: [&str; 16] =
    ["ka", "lo", "ʻi", "mar", "ten", "ou", "ber", "ść", "na", "wai", "hil", "do", "ré", "sun", "to", "ñu"];

/// What an element is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A place.
    Node,
    /// A line or area along nodes.
    Way,
    /// Elements that belong together.
    Relation,
}

impl Kind {
    /// Every kind, in the order of a group.
    pub const ALL: [Self; 3] = [Self::Node, Self::Way, Self::Relation];

    /// The name as written in files of the street map.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Way => "way",
            Self::Relation => "relation",
        }
    }
}

/// One element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// Its number from the stream's begin, from 1; new elements are known by their negative.
    pub number: u64,
    /// Who made it.
    pub user: u32,
    /// When, Unix time in seconds.
    pub at: u64,
    /// What it is.
    pub body: Body,
    /// What is said of it; no name twice.
    pub tags: Vec<Tag>,
}

/// What an element holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A place, in units of 1e-7 degrees.
    Node {
        /// North of the equator.
        latitude: i32,
        /// East of Greenwich.
        longitude: i32,
    },
    /// Numbers of nodes, in order.
    Way(Vec<u64>),
    /// Members, in order.
    Relation(Vec<Member>),
}

impl Body {
    /// What the element is.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Node { .. } => Kind::Node,
            Self::Way(_) => Kind::Way,
            Self::Relation(_) => Kind::Relation,
        }
    }
}

/// A member of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// What it is.
    pub kind: Kind,
    /// Its number.
    pub number: u64,
    /// Its part in the relation; may be empty.
    pub role: &'static str,
}

/// A name and a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// The name.
    pub name: &'static str,
    /// The value: any text, characters that markup must escape among it.
    pub value: String,
}

/// A map without end: each element is a function of its number and the seed.
#[derive(Clone, Copy, Debug)]
pub struct MapData {
    seed: u64,
}

impl MapData {
    /// The map of a seed.
    pub const fn new(seed: u64) -> Self {
        Self { seed: derive(seed, Purpose::Map, 0) }
    }

    /// The element at an index, from 0; its number is one more.
    pub fn element(&self, index: u64) -> Element {
        let mut stream = Stream::new(derive(self.seed, Purpose::Map, index));
        let group = index - index % GROUP;
        let (body, tags) = match index % GROUP {
            place if place < NODES => (node(&mut stream, self.seed, group), node_tags(&mut stream)),
            place if place < GROUP - 1 => (Body::Way(way(&mut stream, group)), 1 + stream.below(5)),
            _ => (Body::Relation(relation(&mut stream, group)), 2 + stream.below(3)),
        };
        Element {
            number: index + 1,
            user: stream.below(500) as u32,
            at: TIMES.0 + stream.below(TIMES.1),
            body,
            tags: self::tags(&mut stream, tags),
        }
    }

    /// Every element from the first on.
    pub fn elements(self) -> impl Iterator<Item = Element> {
        (0..u64::MAX).map(move |index| self.element(index))
    }
}

/// A place within about a kilometre of its group's.
fn node(stream: &mut Stream, seed: u64, group: u64) -> Body {
    let mut centre = Stream::new(derive(seed, Purpose::Map, u64::MAX - group));
    let near = |centre: u64, span: u64, stream: &mut Stream| (centre + stream.below(span)) as i64;
    let latitude = near(centre.below(1_600_000_000), 100_000, stream) - 800_000_000;
    let longitude = near(centre.below(3_599_000_000), 100_000, stream) - 1_800_000_000;
    Body::Node { latitude: latitude as i32, longitude: longitude as i32 }
}

/// Most nodes are only part of a way.
fn node_tags(stream: &mut Stream) -> u64 {
    if stream.below(100) < 6 { 1 + stream.below(4) } else { 0 }
}

/// Neighbouring nodes of the group; two of five ways end where they began.
fn way(stream: &mut Stream, group: u64) -> Vec<u64> {
    let count = 2 + stream.below(MOST_MEMBERS - 2).min(stream.below(MOST_MEMBERS - 2));
    let first = group + 1 + stream.below(NODES - count);
    let mut nodes: Vec<u64> = (first..first + count).collect();
    if count > 3 && stream.below(5) < 2 {
        nodes.push(first);
    }
    nodes
}

/// Ways of the group, and a node now and then.
fn relation(stream: &mut Stream, group: u64) -> Vec<Member> {
    let member = |stream: &mut Stream| match stream.below(4) {
        0 => Member { kind: Kind::Node, number: group + 1 + stream.below(NODES), role: "stop" },
        part => Member {
            kind: Kind::Way,
            number: group + NODES + 1 + stream.below(GROUP - NODES - 1),
            role: ["outer", "inner", ""][part as usize - 1],
        },
    };
    (0..2 + stream.below(MOST_MEMBERS / 3)).map(|_| member(stream)).collect()
}

fn tags(stream: &mut Stream, count: u64) -> Vec<Tag> {
    let first = stream.below(TAGS.len() as u64) as usize;
    let of = |place: u64, stream: &mut Stream| {
        let (name, values) = TAGS[(first + place as usize) % TAGS.len()];
        let value = values[stream.below(values.len() as u64) as usize];
        let value = if value.ends_with(' ') { format!("{value}{}", self::name(stream)) } else { value.to_owned() };
        Tag { name, value }
    };
    (0..count).map(|place| of(place, stream)).collect()
}

fn name(stream: &mut Stream) -> String {
    (0..2 + stream.below(3)).map(|_| SYLLABLES[stream.below(SYLLABLES.len() as u64) as usize]).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SOME: usize = 20_000;

    fn some(seed: u64) -> Vec<Element> {
        MapData::new(seed).elements().take(SOME).collect()
    }

    #[test]
    fn the_elements_are_a_function_of_number_and_seed() {
        let map = MapData::new(7);
        let all = some(7);
        assert_eq!(all[12_345], map.element(12_345));
        assert_ne!(all[12_345], MapData::new(8).element(12_345));
        assert!(all.iter().enumerate().all(|(index, element)| element.number == index as u64 + 1));
    }

    /// Fixes the data of a seed: a change here makes files with one seed differ between versions.
    #[test]
    fn the_elements_of_a_seed_do_not_change() {
        let mut digest = crate::workload::Digest::new();
        for element in some(42) {
            digest.add(&element.number.to_le_bytes(), format!("{element:?}").as_bytes());
        }
        assert_eq!(digest.hex(), "19b535e03bd221cd2a0c863a3ef6970d");
    }

    #[test]
    fn every_reference_points_back_at_an_element_of_its_kind() {
        let all = some(1);
        let kind = |number: u64| all[number as usize - 1].body.kind();
        for element in &all {
            let members: Vec<(Kind, u64)> = match &element.body {
                Body::Node { .. } => continue,
                Body::Way(nodes) => nodes.iter().map(|number| (Kind::Node, *number)).collect(),
                Body::Relation(members) => members.iter().map(|member| (member.kind, member.number)).collect(),
            };
            assert!(members.len() >= 2 && members.len() <= MOST_MEMBERS as usize + 1, "{element:?}");
            for (expected, number) in members {
                assert!(number < element.number && kind(number) == expected, "{element:?}");
            }
        }
    }

    #[test]
    fn places_lie_on_the_globe_and_near_those_of_their_group() {
        let places: Vec<(i32, i32)> = (some(3).iter())
            .filter_map(|element| match element.body {
                Body::Node { latitude, longitude } => Some((latitude, longitude)),
                _ => None,
            })
            .collect();
        assert!(places.iter().all(|(lat, lon)| lat.abs() <= 900_000_000 && lon.abs() <= 1_800_000_000));
        for group in places.chunks(NODES as usize) {
            assert!(group.iter().all(|(lat, _)| (i64::from(*lat) - i64::from(group[0].0)).abs() < 100_000));
        }
        assert_ne!(places[0], places[1]);
    }

    #[test]
    fn shares_are_those_of_a_map_and_tags_need_escaping_now_and_then() {
        let all = some(5);
        let count = |kind| all.iter().filter(|element| element.body.kind() == kind).count();
        assert_eq!(Kind::ALL.map(count), [SOME * 88 / 100, SOME * 11 / 100, SOME / 100]);
        let tagged = all.iter().filter(|e| e.body.kind() == Kind::Node && !e.tags.is_empty()).count() as f64;
        assert!((0.05..0.07).contains(&(tagged / count(Kind::Node) as f64)), "{tagged}");
        let values = || all.iter().flat_map(|element| &element.tags);
        for special in ["&", "<", "\"", "'", "ʻ", "通"] {
            assert!(values().any(|tag| tag.value.contains(special)), "{special}");
        }
        for element in &all {
            let names: BTreeSet<&str> = element.tags.iter().map(|tag| tag.name).collect();
            assert_eq!(names.len(), element.tags.len(), "{element:?}");
        }
    }
}
