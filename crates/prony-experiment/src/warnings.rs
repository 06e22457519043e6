//! Warnings: what is not an error in a file, but probably not what was meant.

use std::path::Path;

use super::decode::compare::gaps_differ;
use super::decode::never_measured;
use super::design::{Experiment, Factor, Variant};
use super::never_matches;
use super::node::{Node, Value, parse};
use super::problem::{Problem, Problems};
use super::shell_syntax::{ShellSyntax, shell_syntax};
use prony_model::number::count;
use prony_model::program::{CommandLine, ProgramSpec};
use prony_model::spec::{Action, Amount, BytesSpec, CollectionSpec, Size, ValueSpec};
use prony_model::units::{Bytes, parse_bytes};

/// Commands with a sign of the shell and no shell, those that name a file which `is_beside` the experiment's while they run in
/// an empty directory, sizes that are written as a value, queries that can find nothing, times that leave out gaps,
/// percentiles for which operations are too few, and variants that run what their baseline runs.
pub fn warnings(experiment: &Experiment, is_beside: &dyn Fn(&str) -> bool) -> Vec<Problem> {
    let text = experiment.source();
    let Ok(raw) = parse(text, "") else { return Vec::new() };
    let mut problems = Problems::new(text);
    commands(&raw.root, experiment, is_beside, &mut problems);
    values(&raw.root, experiment, &mut problems);
    beyond_records(&raw.root, experiment, &mut problems);
    never_matches::queries(&raw.root, experiment, &mut problems);
    gaps_differ(&raw.root, experiment.variants(), &mut problems);
    never_measured::warnings(raw.root.get("compare"), experiment.variants(), &mut problems);
    same_trials(&raw.root, experiment, &mut problems);
    problems.into_list()
}

fn commands(root: &Node, experiment: &Experiment, is_beside: &dyn Fn(&str) -> bool, problems: &mut Problems<'_>) {
    for program in root.table_of("program") {
        let node = &program.node;
        let without = node.get("shell").is_none_or(|shell| matches!(shell.value, Value::Flag(false)));
        // The `shell` of a program holds for its replicas, which have none of their own.
        let of_replicas = node.get("replicas").and_then(|replicas| replicas.get("command"));
        let commands =
            [(node.get("command"), String::new()), (of_replicas, format!(" to `[program.{}]`", program.key))];
        for (command, place) in
            commands.iter().filter(|_| without).filter_map(|(command, place)| Some(((*command)?, place)))
        {
            if let Some(syntax) = command.text().and_then(shell_syntax) {
                let hint = match syntax {
                    ShellSyntax::Variable => {
                        format!("write `env = {{ NAME = \"value\" }}`, or add `shell = true`{place}")
                    }
                    ShellSyntax::Sign(_) => {
                        format!("add `shell = true`{place}, or write the command as a list of words")
                    }
                };
                problems.fault(&command.span, format!("this command does not run in a shell: {syntax}"), hint);
            }
        }
        let of_program =
            |variant: &Variant| variant.spec.subject.program().filter(|spec| spec.name == program.key).cloned();
        let absent = experiment.variants().iter().filter_map(of_program).find_map(|spec| left_behind(&spec, is_beside));
        if let (Some(command), Some(word)) = (node.get("command"), absent) {
            let message = format!("`{word}` is in the folder of this file, but the program runs in an empty directory");
            let hint = "add `directory = \".\"`, so that the program runs in a copy of this folder, or write the \
                        whole path of the file";
            problems.fault(&command.span, message, hint);
        }
    }
}

/// The first word of a command that is a file beside the experiment's, where the program has no directory and nothing makes
/// files for it.
fn left_behind(program: &ProgramSpec, is_beside: &dyn Fn(&str) -> bool) -> Option<String> {
    if program.directory.is_some() || program.build.is_some() || program.prepare.is_some() {
        return None;
    }
    let words = match &program.command {
        CommandLine::Words(words) => words.clone(),
        CommandLine::Shell { script, .. } => shell_words::split(script).unwrap_or_default(),
    };
    words.into_iter().find(|word| Path::new(word).is_relative() && is_beside(word))
}

/// Variants that run the same trial as their baseline. An A/A comparison is meant where the levels in which they differ have the
/// same value under two names.
fn same_trials(root: &Node, experiment: &Experiment, problems: &mut Problems<'_>) {
    for variant in experiment.variants().iter().filter(|variant| !variant.baseline) {
        let Some(baseline) = experiment.baseline_of(variant).filter(|baseline| baseline.spec == variant.spec) else {
            continue;
        };
        let levels = variant.levels.iter().zip(&baseline.levels);
        let differs = |factor: &Factor, level: usize, other: usize| {
            let value = |at: usize| factor.levels.get(at).map(|level| &level.value);
            value(level) != value(other)
        };
        let mut factors = experiment.factors().iter().zip(levels);
        let Some((factor, _)) = factors.find(|(factor, (level, other))| differs(factor, **level, **other)) else {
            continue;
        };
        let at =
            root.get("factors").and_then(|all| all.entry(&factor.name)).map_or(0..0, |entry| entry.key_span.clone());
        let (own, other) = (experiment.levels_text(variant), experiment.levels_text(baseline));
        let hint = "let the factor make a difference there; for an A/A comparison write levels that are equal, as \
                    `a = {}` and `b = {}`";
        problems.fault(at, format!("`{own}` runs the same trial as its baseline, `{other}`"), hint);
    }
}

/// More puts or removals than there are records: the last ones replace what the phase itself has stored, or remove nothing.
fn beyond_records(root: &Node, experiment: &Experiment, problems: &mut Problems<'_>) {
    for spec in experiment.variants().iter().map(|variant| &variant.spec) {
        for phase in &spec.phases {
            let (ops, does, work, hint) = match &phase.action {
                Action::Put(ops) => {
                    let hint = "raise `records`, or write an `update` phase to replace records";
                    (ops, "puts", "replace what the phase itself has stored", hint)
                }
                Action::Delete(ops) => (ops, "removes", "remove nothing", "raise `records`, or lower `count`"),
                _ => continue,
            };
            let records = spec.collection(ops).map_or(u64::MAX, |collection| collection.records);
            let Amount::Count(times) = ops.amount else { continue };
            if times <= records {
                continue;
            }
            let is_own = |node: &&Node| node.get("name").and_then(Node::text) == Some(&phase.name);
            let own = root.list_of("phase").iter().find(is_own);
            let at = own.and_then(|node| node.get(phase.action.name())?.get("count"));
            let message = format!(
                "`{}` {does} {times} times, and the collection has {}: {} of them {work}",
                phase.name,
                count(records, "record"),
                times - records
            );
            problems.fault(at.map_or(0..0, |node| node.span.clone()), message, hint);
        }
    }
}

/// A value that is one text, the same in every record, and looks like a size; it may come from a factor.
fn values(root: &Node, experiment: &Experiment, problems: &mut Problems<'_>) {
    let Some(data) = root.get("data") else { return };
    let whole = |data: &CollectionSpec| match &data.value {
        ValueSpec::Bytes(BytesSpec { bytes, prefix, .. }) => match prefix.as_slice() {
            [text] if *bytes == Size::Fixed(Bytes::default()) && parse_bytes(text).is_ok() => Some(text.clone()),
            _ => None,
        },
        ValueSpec::Document(_) => None,
    };
    let each = experiment.variants().iter().flat_map(|variant| &variant.spec.data);
    for (collection, text) in each.filter_map(|collection| Some((collection, whole(collection)?))) {
        let place = collection.name.as_ref().and_then(|name| data.get("collection")?.get(name)).unwrap_or(data);
        let place = place.get("value").unwrap_or(place);
        let message = format!("every value is the text `{text}`, {} long", count(text.len(), "byte"));
        let hint = format!("for values with a size of {text} write `value = {{ bytes = \"{text}\" }}`");
        problems.fault(&place.span, message, hint);
    }
}

#[cfg(test)]
mod tests {
    use crate::tests::sound;

    use super::warnings;

    fn of(value: &str) -> Vec<(usize, usize, String, Option<String>)> {
        let text = format!(
            "[factors]\nsize = [\"1 kB\", \"2 MiB\"]\n[store]\nengine = \"memory\"\n[data]\nkey = \
             \"{{size}}{{i}}\"\nrecords = 9\nvalue = {value}\n[[phase]]\nname = \"write\"\nput = {{}}\n"
        );
        let found = warnings(&sound(&text), &|_| false).into_iter();
        found.map(|problem| (problem.line, problem.column, problem.message, problem.hint)).collect()
    }

    fn warning(text: &str, length: usize) -> (usize, usize, String, Option<String>) {
        let hint = format!("for values with a size of {text} write `value = {{ bytes = \"{text}\" }}`");
        (8, 9, format!("every value is the text `{text}`, {length} bytes long"), Some(hint))
    }

    #[test]
    fn puts_and_removals_beyond_the_records_of_their_phase_are_warned_about() {
        let of = |action: &str, times: u64| {
            let text = format!(
                "[store]\nengine = \"lmdb\"\n[data]\nkey = \"{{i}}\"\nrecords = 20\nvalue = \"v\"\n[[phase]]\nname = \"load\"\n{action} = {{ count = {times} }}\n"
            );
            warnings(&sound(&text), &|_| false).into_iter().map(|found| (found.line, found.message)).collect::<Vec<_>>()
        };
        let said = "`load` puts 50 times, and the collection has 20 records: 30 of them replace what the phase itself has stored";
        assert_eq!((of("put", 50), of("put", 20)), (vec![(9, said.to_owned())], Vec::new()));
        let said = "`load` removes 50 times, and the collection has 20 records: 30 of them remove nothing";
        assert_eq!((of("delete", 50), of("delete", 20)), (vec![(9, said.to_owned())], Vec::new()));
        assert_eq!(of("get", 50), Vec::new());
    }

    /// Two variants ran the same command and were compared as if they differed.
    #[test]
    fn variants_that_run_what_their_baseline_runs_are_warned_about() {
        let of = |factors: &str, program: &str, baseline: &str| {
            let text =
                format!("{factors}[program.x]\ncommand = \"a\"\n{program}\n[compare]\nbaseline = {{ {baseline} }}\n");
            warnings(&sound(&text), &|_| false).into_iter().map(|found| (found.line, found.message)).collect::<Vec<_>>()
        };
        let cuts = "[factors]\ncut = [\"a b\", \"a  b\", \"c\"]\n";
        let replicas = "replicas = { count = 1, phase = \"run\", command = \"x {cut}\" }";
        let said = "`cut=a  b` runs the same trial as its baseline, `cut=a b`".to_owned();
        assert_eq!(of(cuts, replicas, "cut = \"a b\""), [(2, said)]);
        assert_eq!(of(cuts, &replicas.replace("{cut}", "'{cut}'"), "cut = \"a b\""), []);
        let changes = "[factors.code]\none = {}\nother = {}\n";
        assert_eq!(of(changes, "directory = \".\"\nchange = \"{code}\"", "code = \"one\""), [], "A/A");
    }

    #[test]
    fn sizes_that_are_written_as_values_are_warned_about() {
        assert_eq!(of("\"1 kB\""), [warning("1 kB", 4)]);
        assert_eq!(of("\"100\""), [warning("100", 3)]);
        assert_eq!(of("\"{size}\""), [warning("1 kB", 4), warning("2 MiB", 5)]);
        let several = "[store]\nengine = \"memory\"\n[data.collection.a]\nrecords = 9\nvalue = \"1 kB\"\n[[phase]]\nname = \"w\"\nput = {}\n";
        assert_eq!(warnings(&sound(several), &|_| false)[0].line, 5);
        for value in ["\"1 kB of {i}\"", "\"{i}\"", "\"one\"", "{ bytes = \"1 kB\" }", "{ bytes = \"{size}\" }"] {
            assert_eq!(of(value), [], "{value}");
        }
    }
}
