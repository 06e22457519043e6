//! The paths of this machine that a variant names.

use crate::http::BodySpec;
use crate::program::{Change, InputSpec, OutputTo, ProgramSpec};
use crate::service::{DataSpec, Observed, RunningSpec, ServiceSpec};
use crate::spec::{Action, Subject, TrialSpec};

impl TrialSpec {
    /// Every file and directory that it names, except files of documents: they are named by absolute paths, with what was in
    /// them.
    pub fn paths_mut(&mut self) -> Vec<&mut String> {
        // Every field is named, here and below, so that a new one is not forgotten.
        let Self { subject, services, data: _, phases, limits: _, crashes: _ } = self;
        let mut all = Vec::new();
        match subject {
            Subject::Program(program) => of_program(program, &mut all),
            Subject::Store(_) | Subject::Services => {}
        }
        services.iter_mut().for_each(|service| of_service(service, &mut all));
        for phase in phases {
            match &mut phase.action {
                Action::Run(run) => all.push(&mut run.directory),
                Action::Http(http) => {
                    let bodies = http.kinds.iter_mut().filter_map(|kind| kind.body.as_mut());
                    all.extend(bodies.filter_map(|body| match body {
                        BodySpec::File { path, fill: _ } => Some(path),
                        BodySpec::Text(_) | BodySpec::Document => None,
                    }));
                }
                _ => {}
            }
        }
        all
    }
}

fn of_service<'s>(service: &'s mut ServiceSpec, all: &mut Vec<&'s mut String>) {
    of_program(&mut service.program, all);
    all.extend(service.data.as_mut().map(|DataSpec { from }| from));
    if let Some(RunningSpec { url: _, port: _, processes }) = &mut service.running {
        match processes {
            Observed::PidFile(path) | Observed::Cgroup(path) => all.push(path),
            Observed::Pid(_) | Observed::Container(_) => {}
        }
    }
}

fn of_program<'s>(program: &'s mut ProgramSpec, all: &mut Vec<&'s mut String>) {
    #[rustfmt::skip]
    let ProgramSpec {
        directory, input, output, changes,
        // `store` lies where the program works, which only a trial knows.
        store: _, name: _, command: _, copy: _, links: _, env: _, inherit: _, pty: _, runtime: _, success: _, build: _,
        prepare: _, conclude: _, cleanup: _, warmup: _, replicas: _,
    } = program;
    all.extend(directory);
    match input {
        InputSpec::File(path) => all.push(path),
        InputSpec::Null | InputSpec::Text(_) => {}
    }
    match output {
        OutputTo::File(path) => all.push(path),
        OutputTo::Capture | OutputTo::Null | OutputTo::Inherit => {}
    }
    for change in changes {
        match change {
            Change::Patch { file } => all.push(file),
            // Their files lie in the copy.
            Change::Replace { .. } | Change::Dependency { .. } | Change::Revision { .. } => {}
        }
    }
}
