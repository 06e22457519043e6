//! The probe of a program's runtime: how it is loaded into the program, and why it may report nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use prony_boundaries::functions;
use prony_model::program::ProgramSpec;
use prony_model::reading::Why;
use prony_model::spec::PhaseSpec;
use prony_os::launch::LaunchSpec;
use prony_runtime::{CallSpec, DETAIL, MARKS, Prepared, ProbeLine, ProbeSpec, Runtime, prepare, unprobed};

use crate::error::Error;

/// What was added to a program's environment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probing {
    prepared: Option<Prepared>,
    /// Where suspended threads wait.
    pub commands: PathBuf,
    /// Why no probe will report, as far as that is known beforehand.
    unprobed: Option<Why>,
}

/// Makes the launch load the probe of the program's runtime. Everything it needs lies in the trial's scratch.
///
/// # Errors
/// Where the probe's files cannot be written, or a path cannot be passed to the runtime.
pub(crate) fn install(
    launch: &mut LaunchSpec,
    program: &ProgramSpec,
    phases: &[PhaseSpec],
    scratch: &Path,
) -> Result<Probing, Error> {
    let commands = scratch.join("commands");
    let Some(runtime) = program.runtime else {
        let why = Why::NotSupported("the program does not set `runtime`".into());
        return Ok(Probing { unprobed: Some(why), ..Probing::default() });
    };
    let mut env: BTreeMap<OsString, OsString> = std::mem::take(&mut launch.env).into_iter().collect();
    let marks = env.get(OsStr::new(MARKS)).map_or_else(|| scratch.join("marks"), PathBuf::from);
    // The last wrapper is the outermost: where a thread is suspended, all other wrappers have ended.
    let mut calls: Vec<CallSpec> = phases.iter().flat_map(functions::specs).collect();
    calls.sort_by_key(|call| call.suspend_at_end);
    let spec = ProbeSpec {
        calls: &calls,
        dir: &scratch.join("probe"),
        marks: &marks,
        commands: &commands,
        directory: &launch.directory,
        detail: DETAIL,
    };
    let prepared = prepare(runtime, &spec, &mut env)?;
    launch.env = env.into_iter().collect();
    let why = is_the_runtime(runtime, &launch.command).then(|| unprobed(runtime, &launch.args)).flatten();
    Ok(Probing { prepared: Some(prepared), commands, unprobed: why.map(|why| Why::NotSupported(why.into())) })
}

/// Whether the command is the runtime itself, so that the runtime's arguments follow.
fn is_the_runtime(runtime: Runtime, command: &OsStr) -> bool {
    let name = Path::new(command).file_name().unwrap_or_default().to_string_lossy();
    match runtime {
        Runtime::Node => name == "node",
        Runtime::Python => name.starts_with("python"),
    }
}

impl Probing {
    /// Why the heap metrics are missing if no probe reported anything.
    pub(crate) fn silent(&self) -> Why {
        let silent = "no probe reported that it was loaded: the program does not use the `runtime` that the experiment file \
                      sets, that runtime is older than Node 8.10 or CPython 3.9, or the program had ended before";
        self.unprobed.clone().unwrap_or_else(|| Why::Failed(silent.into()))
    }

    /// Whether a probe was to be loaded.
    pub(crate) const fn is_there(&self) -> bool {
        self.prepared.is_some()
    }

    /// Processes that aborted at their heap's own limit. Call it after the program's end, while its scratch exists.
    ///
    /// # Errors
    /// Where what they left cannot be read.
    pub(crate) fn heap_aborts(&self) -> Result<Vec<ProbeLine>, Error> {
        Ok(self.prepared.as_ref().map_or_else(|| Ok(Vec::new()), Prepared::heap_aborts)?)
    }
}

#[cfg(test)]
mod tests {
    use prony_model::program::{AtEndSpec, ObserveSpec, Trigger};
    use prony_model::program::{CommandLine, CopyOf, InputSpec, OutputTo, OutwardLinks};
    use prony_model::spec::Action;

    use super::*;

    fn program(runtime: Option<Runtime>) -> ProgramSpec {
        ProgramSpec {
            name: "x".into(),
            command: CommandLine::Words(vec!["x".into()]),
            directory: None,
            copy: CopyOf::None,
            links: OutwardLinks::Refuse,
            store: None,
            env: BTreeMap::new(),
            inherit: Vec::new(),
            input: InputSpec::Null,
            output: OutputTo::Null,
            pty: false,
            runtime,
            success: Vec::new(),
            build: None,
            prepare: None,
            conclude: None,
            cleanup: None,
            warmup: 0,
            changes: Vec::new(),
            replicas: None,
        }
    }

    fn launch(words: &[&str]) -> LaunchSpec {
        let mut spec = LaunchSpec::new(words[0], "/");
        spec.args = words[1..].iter().map(OsString::from).collect();
        spec.env = vec![(MARKS.into(), "/m".into()), ("NODE_OPTIONS".into(), "--own".into())];
        spec
    }

    fn why(runtime: Option<Runtime>, words: &[&str]) -> String {
        let dir = tempfile::tempdir().unwrap();
        install(&mut launch(words), &program(runtime), &[], dir.path()).unwrap().silent().to_string()
    }

    #[test]
    fn what_cannot_speak_says_why() {
        use Runtime::{Node, Python};
        assert!(why(None, &["x"]).contains("does not set `runtime`"));
        assert!(why(Some(Python), &["/usr/bin/python3.11", "-I", "a.py"]).contains("`-I`"));
        assert!(why(Some(Node), &["node", "--permission", "a.js"]).contains("`--permission`"));
        assert!(
            why(Some(Node), &["./build.sh", "--permission"]).contains("no probe reported"),
            "arguments of something else"
        );
    }

    #[test]
    fn the_launch_gets_the_probe_and_keeps_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let mut spec = launch(&["node", "a.js"]);
        let trigger = Some(Trigger::Call("a.js#f".into()));
        let observe = ObserveSpec {
            begin: trigger.clone(),
            end: trigger,
            at_end: Some(AtEndSpec::default()),
            ..ObserveSpec::WHOLE
        };
        let phase = PhaseSpec {
            name: "p q".into(),
            timed: true,
            action: Action::Observe(observe),
            background: None,
            limit: None,
        };
        let probing = install(&mut spec, &program(Some(Runtime::Node)), &[phase], dir.path()).unwrap();
        let options = spec.env.iter().find(|(name, _)| name == "NODE_OPTIONS").unwrap().1.to_str().unwrap();
        assert!(options.starts_with("--own --require "), "{options}");
        assert_eq!(probing.heap_aborts().unwrap(), []);
        let none = install(&mut launch(&["x"]), &program(None), &[], dir.path()).unwrap();
        assert!(!none.is_there() && none.heap_aborts().unwrap().is_empty());
    }
}
