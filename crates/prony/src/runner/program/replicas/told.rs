//! Replicas in the record: what each was given, how it ended, what it wrote. Pure.

use std::collections::BTreeMap;

use prony_model::units::Nanos;
use serde_json::{Value, json};

use super::{Fate, Ran, Replicated};
use crate::runner::place::setting::Setting;

/// All that is known beside figures; nothing where the program has no replicas. Command lines and values of variables are
/// in it only where `commands` are recorded.
pub fn told(setting: &Setting<'_>, replicated: &Replicated, commands: bool) -> Value {
    let program = setting.program;
    let Some(spec) = &program.replicas else { return Value::Null };
    let variable = |(name, value): (&String, &String)| (name.clone(), setting.recorded(value, commands));
    let one = |ran: &Ran| {
        let own = program.replica(spec, ran.number);
        let own_env = own.env.iter().filter(|(name, _)| spec.env.contains_key(*name));
        let (fate, why) = match &ran.fate {
            Fate::NotBegun(why) => ("not begun", Some(why)),
            Fate::Ended(_) => ("ended", None),
            Fate::CutOff(_) => ("cut off", None),
        };
        json!({
            "instance": own.name,
            "pid": ran.pid,
            "command": setting.recorded_words(&own.command, commands),
            "env": own_env.map(variable).collect::<BTreeMap<_, _>>(),
            "fate": fate,
            "why": why,
            "status": ran.end().map(|end| end.status),
            "released": ran.released,
            "ended": ran.end().map(|end| end.at),
            "left_behind": ran.end().map(|end| end.leftover),
            "heard_nothing": ran.lines.heard_nothing(),
            "digest": ran.lines.digest,
            "marks": ran.marks,
            "output": { "stdout": ran.output[0], "stderr": ran.output[1] },
        })
    };
    json!({
        "count": spec.count,
        "phase": spec.phase,
        "released_within": released_within(&replicated.all),
        "memory_read": { "times": replicated.looks.count, "took": replicated.looks.took },
        "copies": replicated.all.iter().map(one).collect::<Vec<_>>(),
    })
}

/// From the first release to the last.
fn released_within(all: &[Ran]) -> Option<Nanos> {
    let released = || all.iter().map(|ran| ran.released);
    Some(released().max()?.since(released().min()?))
}
