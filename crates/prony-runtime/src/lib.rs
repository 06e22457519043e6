//! Probes inside a language runtime (Node, CPython): they measure its heap, time functions, and suspend the program at
//! the end of a function call. No package has to be installed, and the program is not changed.
//!
//! The probes are sources embedded here. [`prepare`] writes them into the trial's scratch directory and extends the
//! environment so that the runtime loads them before the program: `NODE_OPTIONS` for Node 8.10 and later, `PYTHONPATH`
//! for CPython 3.9 and later. Child processes inherit both; Node's worker threads load the probe too. A probe appends
//! lines to the channel named in `PRONY_MARKS` ([`parse`]) and opens it for each of them, so it keeps no descriptor, no
//! port and no event loop alive. What it cannot observe is reported by [`unprobed`] or by the probe itself.

pub mod error;
mod figures;
mod heap_aborts;
mod matches;
mod node;
pub mod profile;
mod protocol;
mod python;
mod roles;
mod suspend;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

pub use error::Error;
pub use figures::{GcFigures, HeapFigures};
pub use matches::{matches, names};
pub use prony_model::program::Runtime;
pub use prony_model::record::probe::{Because, Role};
pub use protocol::{Hello, Occasion, ProbeEvent, ProbeLine, Source, Tallied, Unsupported, parse};
pub use roles::Roles;
pub use suspend::{SuspendedThread, SuspensionCommand};

use prony_os::file_modes;

/// How many invocations of a call are reported one by one in each thread, unless a spec says otherwise.
pub const DETAIL: u32 = 1_000;

/// The variable that names the channel of marks and probes.
pub const MARKS: &str = "PRONY_MARKS";

/// A function to be timed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSpec {
    /// The name of its events, such as that of a phase.
    pub id: String,
    /// Node: `FILE#EXPORT`, the file by the end of its path (`gatsby/dist/utils/source-nodes.js#default`), by its whole
    /// path from the program's directory (`./gatsby-node.js#sourceNodes`), or a package (`lodash#debounce`); names may be
    /// nested (`#Store.prototype.put`).
    /// Python: `PACKAGE.MODULE:FUNCTION` or `PACKAGE.MODULE:CLASS.METHOD`.
    pub call: String,
    /// Whether the program is suspended each time when no invocation of it is running any more.
    pub suspend_at_end: bool,
}

/// The tasks of a probe, and the paths of its files. All paths are absolute.
#[derive(Clone, Debug)]
pub struct ProbeSpec<'a> {
    /// The functions to be timed.
    pub calls: &'a [CallSpec],
    /// A directory of the trial's scratch for the probe's own files; made where it is missing.
    pub dir: &'a Path,
    /// The file or FIFO that lines are appended to. A FIFO must be open for reading before the program starts.
    pub marks: &'a Path,
    /// The directory where suspended processes wait for their [`SuspendedThread`]; made where it is missing.
    pub commands: &'a Path,
    /// The program's working directory, from which paths and packages of calls are resolved.
    pub directory: &'a Path,
    /// How many invocations are reported one by one, for each call and thread; later ones are counted. See [`DETAIL`].
    pub detail: u32,
}

/// A runtime whose programs will be probed.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The runtime.
    pub runtime: Runtime,
    reports: PathBuf,
}

impl Prepared {
    /// The processes that aborted at their own heap limit, with the heap's sizes then. Call this after their end.
    ///
    /// # Errors
    /// When the reports cannot be read; a truncated one is left out.
    pub fn heap_aborts(&self) -> Result<Vec<ProbeLine>, Error> {
        heap_aborts::read(&self.reports)
    }
}

/// Why a program started with these arguments of the runtime (without the runtime's own name) is not probed.
pub fn unprobed(runtime: Runtime, args: &[OsString]) -> Option<String> {
    match runtime {
        Runtime::Node => node::unprobed(args),
        Runtime::Python => python::unprobed(args),
    }
}

fn check(runtime: Runtime, call: &CallSpec) -> Result<(), Error> {
    let (_, form) = runtime.call_form();
    if runtime.is_call(&call.call) { Ok(()) } else { Err(Error::Call { call: call.call.clone(), form }) }
}

/// Writes the probe of a runtime and makes `env` load it; what the user has set there stays.
///
/// # Errors
/// When a call is not written as its runtime needs it, a path cannot be passed to the runtime, or a file cannot be
/// written.
pub fn prepare(
    runtime: Runtime,
    spec: &ProbeSpec<'_>,
    env: &mut BTreeMap<OsString, OsString>,
) -> Result<Prepared, Error> {
    spec.calls.iter().try_for_each(|call| check(runtime, call))?;
    let reports = spec.dir.join("reports");
    let text = written(spec, &reports)?;
    for made in [spec.dir, spec.commands] {
        fs::create_dir_all(made).map_err(Error::file("create", made))?;
    }
    file_modes::directory(&reports).map_err(Error::file("create", &reports))?;
    match runtime {
        Runtime::Node => node::install(spec.dir, &text, env)?,
        Runtime::Python => python::install(spec.dir, &text, env)?,
    }
    env.insert(MARKS.into(), spec.marks.into());
    Ok(Prepared { runtime, reports })
}

/// The spec in the form that probes read: JSON that is a Python literal too, so that flags are numbers.
fn written(spec: &ProbeSpec<'_>, reports: &Path) -> Result<String, Error> {
    let call = |call: &CallSpec| {
        let suspend = u8::from(call.suspend_at_end);
        json!({ "id": call.id, "call": call.call, "suspend": suspend })
    };
    let written = json!({
        "marks": utf8(spec.marks)?,
        "commands": utf8(spec.commands)?,
        "reports": utf8(reports)?,
        "directory": utf8(spec.directory)?,
        "detail": spec.detail,
        "calls": spec.calls.iter().map(call).collect::<Vec<_>>(),
    });
    Ok(written.to_string())
}

/// A path in the form in which a probe receives it.
pub(crate) fn utf8(path: &Path) -> Result<&str, Error> {
    let utf8_path = path.to_str().filter(|text| path.is_absolute() && !text.contains(['\n', '\0']));
    utf8_path.ok_or_else(|| Error::ProbePath { path: path.to_owned() })
}

/// Writes files below a directory, with the directories that they lie in.
pub(crate) fn write_all(dir: &Path, files: &[(&str, &str)]) -> Result<(), Error> {
    for (name, text) in files {
        let path = dir.join(name);
        let parent = path.parent().unwrap_or(dir);
        fs::create_dir_all(parent).map_err(Error::file("create", parent))?;
        fs::write(&path, text).map_err(Error::file("write", &path))?;
    }
    Ok(())
}

/// The prefix of a new part of a variable: the old value and the separator; nothing where it is empty.
fn before<'a>(env: &'a BTreeMap<OsString, OsString>, name: &str) -> Option<&'a OsStr> {
    env.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(call: &str) -> CallSpec {
        CallSpec { id: "source".into(), call: call.into(), suspend_at_end: true }
    }

    fn prepared(
        runtime: Runtime,
        calls: &[CallSpec],
        env: &mut BTreeMap<OsString, OsString>,
    ) -> Result<tempfile::TempDir, Error> {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let (probe, marks, commands) = (root.join("a \"probe\""), root.join("marks"), root.join("commands"));
        let spec =
            ProbeSpec { calls, dir: &probe, marks: &marks, commands: &commands, directory: root, detail: DETAIL };
        prepare(runtime, &spec, env).map(|_| dir)
    }

    #[test]
    fn calls_are_checked_before_anything_is_written() {
        let mut env = BTreeMap::new();
        for bad in ["", "file.js", "#default", "file.js#", "file.js#a..b", "file.js#a b", "a.js#1x"] {
            let error = prepared(Runtime::Node, &[call(bad)], &mut env).unwrap_err();
            assert!(matches!(&error, Error::Call { call, .. } if call == bad), "{error}");
        }
        for bad in ["module", ":f", "module:", "module:a:b.", "pkg.module#f"] {
            assert!(prepared(Runtime::Python, &[call(bad)], &mut env).is_err(), "{bad}");
        }
        assert!(env.is_empty());
        for good in ["a/b.js#default", "@scope/pkg#Store.prototype.put", "x#$"] {
            prepared(Runtime::Node, &[call(good)], &mut env).unwrap();
        }
        prepared(Runtime::Python, &[call("pkg.module:Class.method")], &mut env).unwrap();
    }

    #[test]
    fn the_users_own_options_come_first_and_stay() {
        let mut env: BTreeMap<OsString, OsString> = BTreeMap::new();
        env.insert("NODE_OPTIONS".into(), "--max-old-space-size=99".into());
        env.insert("PYTHONPATH".into(), "/their/own".into());
        let node = prepared(Runtime::Node, &[], &mut env).unwrap();
        let python = prepared(Runtime::Python, &[], &mut env).unwrap();
        let options = env[OsStr::new("NODE_OPTIONS")].to_str().unwrap();
        let path = node.path().join("a \\\"probe\\\"/node/prony-probe.cjs");
        assert_eq!(options, format!("--max-old-space-size=99 --require \"{}\"", path.display()));
        let expected = format!("{}:/their/own", python.path().join("a \"probe\"/python").display());
        assert_eq!(env[OsStr::new("PYTHONPATH")].to_str(), Some(expected.as_str()));
        assert!(env[OsStr::new(MARKS)].to_str().unwrap().ends_with("/marks"));
    }

    #[test]
    fn unrepresentable_probe_path_is_refused() {
        let here = Path::new("relative");
        let spec = ProbeSpec { calls: &[], dir: here, marks: here, commands: here, directory: here, detail: 1 };
        let error = prepare(Runtime::Node, &spec, &mut BTreeMap::new()).unwrap_err();
        assert!(matches!(error, Error::ProbePath { path } if path == here));
        assert!(!here.exists());
    }
}
