//! Tests what distinguishes experiments of which command lines are not recorded.

use prony_model::catalog::Overrides;

use super::sound_with;

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
