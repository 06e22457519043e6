//! What is recorded of a program, or of a service, before it runs.

use prony_model::program::CommandLine;
use prony_model::record::EffectiveProgram;
use prony_place::external_files::Files;
use prony_place::launch_setting::Setting;
use prony_place::place::Place;

/// What was asked to run; command lines and values of variables only where `commands` are recorded.
pub(crate) fn declared(files: &Files, setting: &Setting<'_>, place: &Place, commands: bool) -> EffectiveProgram {
    let program = setting.program;
    let variable = |(name, value): (&String, &String)| (name.clone(), setting.recorded(value, commands));
    EffectiveProgram {
        program: program.name.clone(),
        command: setting.recorded_words(&program.command, commands),
        shell: matches!(program.command, CommandLine::Shell { .. }),
        directory: setting.directory.clone(),
        copy: program.copy,
        changes: place.changed.clone(),
        remarks: place.remarks.clone(),
        files: files.of(setting, place, commands),
        source: place.source.clone(),
        env: program.env.iter().map(variable).collect(),
        inherit: program.inherit.clone(),
        inherited: setting.inherited(),
        runtime: program.runtime,
        pty: program.pty,
        ..EffectiveProgram::default()
    }
}
