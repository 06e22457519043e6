//! Tests what distinguishes experiments of which command lines are not recorded.

use prony_model::catalog::Overrides;

use super::{sound, sound_with};

/// The values were left out of what was compared, so that a run was resumed with other ones.
#[test]
fn other_values_of_the_environment_are_noticed_though_they_are_not_recorded() {
    let with = |place: &str, command: &str| {
        let text = format!("[observe]\nrecord_commands = false\n[program.x]\ncommand = \"{command} {{env.PLACE}}\"\n");
        let variables = [("PLACE".to_owned(), place.to_owned())].into();
        sound_with(&text, &Overrides { variables, ..Overrides::default() })
    };
    let recorded = with("here", "a").recorded().into_owned();
    assert!(!format!("{recorded:?}").contains("here"));
    let same = with("here", "a");
    assert!(*same.recorded() == recorded && same.changed_variables(&recorded).is_empty());
    let moved = with("there", "a");
    assert!(*moved.recorded() != recorded && moved.changed_variables(&recorded) == ["PLACE"]);
    assert!(recorded.is_of(moved.source()), "the file is the same");
    let other = with("here", "b");
    assert!(other.changed_variables(&recorded).is_empty() && !recorded.is_of(other.source()));
}

/// A run was resumed with the same file of another folder, whose directory was replaced by the same text in both records.
#[test]
fn other_paths_are_noticed_though_they_are_not_recorded() {
    let text = "[observe]\nrecord_commands = false\n[program.x]\ncommand = \"a\"\ndirectory = \"site\"\ninput = \"in\"\n\
                output = { file = \"out\" }\nchange = { patch = \"p\" }\n";
    let below = |folder: &str| sound(text).with_paths(|path| Ok::<_, ()>(format!("{folder}/{path}"))).unwrap();
    let record = below("/here").recorded().into_owned();
    assert!(!format!("{record:?}").contains("/here") && *below("/here").recorded() == record);
    assert!(*below("/there").recorded() != record && below("/here").agrees_with(&record));
    assert!(!below("/there").agrees_with(&record), "nor does a search go on with it");
}

/// They were recorded with their secrets.
#[test]
fn requests_are_left_out_with_command_lines_and_those_that_differ_stay_different() {
    let experiment = |secret: &str, recorded: bool| {
        sound(&format!(
            "[observe]\nrecord_commands = {recorded}\n[[phase]]\nname = \"p\"\nhttp = {{ url = \"http://127.0.0.1:9\", requests = 9, mix = {{ \
             a = {{ path = \"/SECRET1{secret}/{{i}}\", headers = {{ authorization = \"SECRET2\" }}, body = \"SECRET3\" }}, \
             b = {{ path = \"/b\", body = {{ file = \"SECRET4\", fill = {{ SECRET5 = \"SECRET6{{i}}\" }} }} }} }} }}\n\
             [[phase]]\nname = \"q\"\nhttp = {{ url = \"http://SECRET7\", path = \"/\", requests = 1, other_machines = true }}\n"
        ))
    };
    let record = |secret: &str| experiment(secret, false).recorded().into_owned();
    let text = format!("{:?}", record(""));
    assert!(
        !text.contains("SECRET") && text.contains("authorization") && text.contains("http://127.0.0.1:9"),
        "{text}"
    );
    let whole = format!("{:?}", experiment("", true).recorded());
    assert!((1..=7).all(|n| whole.contains(&format!("SECRET{n}"))), "{whole}");
    let kinds = |secret: &str| record(secret).variants()[0].spec.phases[0].action.http().unwrap().kinds.clone();
    assert!(kinds("").iter().zip(kinds("")).all(|(one, other)| one.sends_as(&other)));
    assert!(!kinds("")[0].sends_as(&kinds("x")[0]) && kinds("")[1].sends_as(&kinds("x")[1]));
}
