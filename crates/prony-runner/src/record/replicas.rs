//! Replicas in a trial's record: the command and settings of each, how it ended, what it wrote. Pure functions.

use prony_model::record::effective::{self, Replica, Replicas};
use prony_model::units::Nanos;
use prony_place::launch_setting::Setting;

use crate::watched::replicas::{Ran, ReplicaEnd, Replicated};

/// All that is known beside metrics; `None` where the program has no replicas. Command lines and values of variables
/// are in it only where `commands` are recorded.
pub fn report(setting: &Setting<'_>, replicated: &Replicated, commands: bool) -> Option<Replicas> {
    let program = setting.program;
    let spec = program.replicas.as_ref()?;
    let variable = |(name, value): (&String, &String)| (name.clone(), setting.recorded(value, commands));
    let one = |ran: &Ran| {
        let own = program.replica(spec, ran.number);
        let own_env = own.env.iter().filter(|(name, _)| spec.env.contains_key(*name));
        let (end, why) = match &ran.end {
            ReplicaEnd::NotBegun(why) => (effective::ReplicaEnd::NotBegun, Some(why.clone())),
            ReplicaEnd::Ended(_) => (effective::ReplicaEnd::Ended, None),
            ReplicaEnd::CutOff(_) => (effective::ReplicaEnd::CutOff, None),
        };
        let process = ran.end();
        Replica {
            command: setting.recorded_words(&own.command, commands),
            env: own_env.map(variable).collect(),
            instance: own.name,
            pid: process.map(|_| ran.pid),
            end,
            why,
            status: process.map(|process| process.status),
            released: ran.released,
            ended: process.map(|end| end.at),
            left_behind: process.map(|end| end.leftover),
            heard_nothing: ran.lines.heard_nothing(),
            digest: ran.lines.lines.digest().cloned(),
            resolution: ran.lines.lines.resolution(),
            marks: ran.marks,
            output: (&ran.output).into(),
        }
    };
    Some(Replicas {
        count: spec.count,
        phase: spec.phase.clone(),
        released_within: released_within(&replicated.all),
        memory_read: replicated.memory,
        copies: replicated.all.iter().map(one).collect(),
    })
}

/// From the first release to the last.
fn released_within(all: &[Ran]) -> Option<Nanos> {
    let released = || all.iter().map(|ran| ran.released);
    Some(released().max()?.since(released().min()?))
}
