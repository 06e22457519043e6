//! Tests of the floor: its variant for each variant, and its faults.

use super::*;

/// Three factors, and `[compare]` with the given keys.
fn file(compare: &str) -> String {
    format!(
        "[factors]\nengine = [\"memory\", \"lmdb\", \"redb\"]\nsize = [1, 2]\nbatch = [10, 20]\n[compare]\n{compare}\n\
         [store]\nengine = \"{{engine}}\"\n[data]\nrecords = \"{{size}}\"\n\
         [[phase]]\nname = \"write\"\nput = {{ transaction = {{ batch = \"{{batch}}\" }} }}\n"
    )
}

/// `engine size batch` of a variant.
fn labels(experiment: &Experiment, variant: usize) -> String {
    let levels = experiment.factors().iter().zip(&experiment.variants()[variant].levels);
    levels.map(|(factor, level)| factor.levels[*level].label.as_str()).collect::<Vec<_>>().join(" ")
}

/// Each variant with its floor.
fn floors(experiment: &Experiment) -> Vec<(String, Option<String>)> {
    let of = |v: usize| (labels(experiment, v), experiment.floor_of(v).map(|floor| labels(experiment, floor)));
    (0..experiment.variants().len()).map(of).collect()
}

fn floor_of(experiment: &Experiment, variant: &str) -> Option<String> {
    let (_, floor) = floors(experiment).into_iter().find(|(name, _)| name == variant).unwrap();
    floor
}

#[test]
fn a_floor_has_the_same_levels_of_all_that_it_does_not_name() {
    let experiment = sound(&file("floor = { engine = \"memory\" }"));
    let floors = floors(&experiment);
    assert_eq!(floors.len(), 12);
    for (variant, floor) in floors {
        let rest = variant.split_once(' ').unwrap().1;
        assert_eq!(floor.unwrap(), format!("memory {rest}"), "of {variant}; a floor's own is itself");
    }
    assert!(experiment.compare().baseline.is_empty(), "a floor needs no baseline");
    let decoded: Experiment = serde_json::from_str(&serde_json::to_string(&experiment).unwrap()).unwrap();
    assert_eq!(decoded, experiment);
}

#[test]
fn a_floor_may_name_more_than_the_baseline_or_be_it() {
    let one = sound(&file("baseline = { engine = \"lmdb\" }\nfloor = { engine = \"memory\", batch = 20 }"));
    assert_eq!(floor_of(&one, "lmdb 2 10").as_deref(), Some("memory 2 20"));
    assert_eq!(floor_of(&one, "memory 1 10").as_deref(), Some("memory 1 20"), "the same store in other batches");
    let same = sound(&file("baseline = { engine = \"memory\" }\nfloor = { engine = \"memory\" }"));
    let stratum = |v: usize| same.variants()[v].stratum;
    let baseline = |v: usize| same.variants().iter().position(|b| b.baseline && b.stratum == stratum(v));
    assert!((0..same.variants().len()).all(|v| same.floor_of(v) == baseline(v)));
    let none = sound(&file("baseline = { engine = \"lmdb\" }"));
    assert!((0..12).all(|v| none.floor_of(v).is_none()) && none.floor_of(99).is_none());
}

#[test]
fn where_the_design_leaves_it_out_a_variant_has_no_floor() {
    let design = "[[design.grid]]\nbatch = 10\n[[design.grid]]\nengine = [\"lmdb\", \"redb\"]\nbatch = 20\nsize = 2\n";
    let experiment = sound(&format!("{design}{}", file("floor = { engine = \"memory\" }")));
    assert_eq!(floor_of(&experiment, "lmdb 2 10").as_deref(), Some("memory 2 10"));
    assert_eq!(floor_of(&experiment, "lmdb 2 20"), None);
}

#[test]
fn faults_of_a_floor_are_named_all_at_once() {
    let many = "baseline = { engin = \"lmdb\" }\nfloor = { engine = \"memry\", sise = 1, batch = [10] }";
    insta::assert_snapshot!(faults(&file(many)), @"
    6:14 unknown factor `engin` | did you mean `engine`?
    7:20 factor `engine` has no level `memry` | did you mean `memory`?
    7:29 unknown factor `sise` | did you mean `size`?
    7:47 `batch` cannot be a list | expected `true`, `false`, a number or a text
    ");
    insta::assert_snapshot!(faults(&file("floor = \"memory\"")), @"6:9 `floor` cannot be the text `memory` | expected a table");
    let skip = format!("[design]\nskip = [{{ engine = \"memory\" }}]\n{}", file("floor = { engine = \"memory\" }"));
    insta::assert_snapshot!(faults(&skip), @"8:9 no variant is the floor, so nothing can be compared with it | `[design]` excludes these levels: name other levels, or let these run");
    let grids = "[[design.grid]]\nengine = \"memory\"\nsize = 1\n[[design.grid]]\nengine = \"lmdb\"\nsize = 2\n";
    insta::assert_snapshot!(faults(&format!("{grids}{}", file("floor = { engine = \"memory\" }"))), @"12:9 no other variant has the floor's levels of the other factors, so nothing can be compared with the floor | let the floor run at the levels of other variants, or name the levels of more factors in `floor`");
}

#[test]
fn the_command_line_may_set_a_floor_aside() {
    let text = file("floor = { engine = \"memory\" }");
    let pair = vec![("engine".to_owned(), vec!["lmdb".to_owned(), "redb".to_owned()])];
    for overrides in
        [Overrides { only: pair.clone(), ..Overrides::default() }, Overrides { set: pair, ..Overrides::default() }]
    {
        let experiment = sound_with(&text, &overrides);
        assert_eq!(experiment.variants().len(), 8);
        assert!((0..8).all(|v| experiment.floor_of(v).is_none()));
        assert_eq!(experiment.compare().floor["engine"], "memory", "reports can say what is missing");
    }
    let one = Overrides { only: vec![("size".to_owned(), vec!["2".to_owned()])], ..Overrides::default() };
    let experiment = sound_with(&text, &one);
    assert_eq!(floor_of(&experiment, "redb 2 20").as_deref(), Some("memory 2 20"), "indices count only what runs");
}

#[test]
fn searches_set_nothing_above_a_floor() {
    let experiment = sound(&file("floor = { engine = \"memory\" }"));
    let mut search = experiment.emptied("search".to_owned());
    search.admit(&experiment, 0);
    search.admit(&experiment, 4);
    assert!(search.compare().floor.is_empty() && search.floor_of(1).is_none());
}
