//! The experiment as it is recorded where its file keeps command lines out of the record.

use std::borrow::Cow;

use serde_json::Value;

use super::design::Experiment;
use prony_model::program::{Change, CommandLine, InputSpec, ProgramSpec};
use prony_model::spec::Subject;

/// What stands in the place of a text that is not recorded.
pub const LEFT_OUT: &str = "(left out of the record)";

impl Experiment {
    /// Whether command lines, variables and texts of programs are recorded.
    pub const fn records_commands(&self) -> bool {
        self.observe.record_commands
    }

    /// The experiment as it is recorded: whole, or without command lines, variables, texts that programs are given, and
    /// the file's text. Everything that figures and comparisons rest on stays.
    pub fn recorded(&self) -> Cow<'_, Self> {
        if self.records_commands() {
            return Cow::Borrowed(self);
        }
        let mut recorded = self.clone();
        recorded.source = recorded_source(&self.source);
        for level in recorded.factors.iter_mut().flat_map(|factor| &mut factor.levels) {
            // Labels are recorded, and so are numbers, by which variants are put in order.
            let is_recorded = match &level.value {
                Value::Object(_) | Value::Array(_) => false,
                Value::String(text) => *text == level.label,
                _ => true,
            };
            if !is_recorded {
                level.value = Value::Null;
            }
        }
        for variant in &mut recorded.variants {
            if let Subject::Program(program) = &mut variant.spec.subject {
                leave_out(program);
            }
        }
        Cow::Owned(recorded)
    }

    /// Whether a text is the file of which this experiment was made, as far as the record tells.
    pub fn is_of(&self, text: &str) -> bool {
        self.source == text || self.source == recorded_source(text)
    }
}

/// What is recorded of a file's text, by which it is known again.
fn recorded_source(text: &str) -> String {
    format!("# {LEFT_OUT}: a text of {} bytes, {}\n", text.len(), digest(text))
}

/// What tells a text that is not recorded from others, and says nothing of what it holds: FNV-1a.
pub fn digest(text: &str) -> String {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{hash:016x}")
}

fn leave_out(program: &mut ProgramSpec) {
    let line = || CommandLine::Words(vec![LEFT_OUT.to_owned()]);
    program.command = line();
    for step in [&mut program.build, &mut program.prepare, &mut program.cleanup].into_iter().flatten() {
        *step = line();
    }
    program.env.values_mut().for_each(|value| LEFT_OUT.clone_into(value));
    if let Some(replicas) = &mut program.replicas {
        replicas.env.values_mut().for_each(|value| LEFT_OUT.clone_into(value));
        replicas.command = replicas.command.is_some().then(line);
    }
    [&mut program.directory, &mut program.store].into_iter().flatten().for_each(|text| LEFT_OUT.clone_into(text));
    if let InputSpec::File(text) | InputSpec::Text(text) = &mut program.input {
        LEFT_OUT.clone_into(text);
    }
    for change in &mut program.changes {
        let texts = match change {
            Change::Replace { file, find, with, .. } => vec![file, find, with],
            Change::Patch { file } => vec![file],
            Change::Dependency { name, version, .. } => vec![name, version],
            Change::Revision { of } => vec![of],
        };
        texts.into_iter().for_each(|text| LEFT_OUT.clone_into(text));
    }
}
