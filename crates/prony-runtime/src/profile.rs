//! V8's own profiler, in every Node process and worker thread of a trial. A preload starts it: the Node versions in use
//! refuse `--cpu-prof` in `NODE_OPTIONS`, and it writes nothing where a signal ends the process.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::Path;

use prony_model::profile::{Format, ProfileFile};
use prony_model::units::Nanos;
use serde_json::json;

use crate::error::Error;
use crate::node::quoted;
use crate::{utf8, write_all};
use prony_os::file_modes;
use prony_os::profile::Taken;

const PRELOAD: &str = include_str!("profile/prony-profile.cjs");
const OPTIONS: &str = "NODE_OPTIONS";

/// Writes the preload into `dir`, which is made where it is missing, and makes `env` load it before everything else.
///
/// # Errors
/// When the path cannot be passed to Node, or a file cannot be written.
pub fn prepare(dir: &Path, interval: Nanos, env: &mut Vec<(OsString, OsString)>) -> Result<(), Error> {
    let settings = json!({ "interval": (interval.as_nanos() / 1_000).max(1) }).to_string();
    let entry = dir.join("prony-profile.cjs");
    let mut options = OsString::from(format!("--require {}", quoted(utf8(&entry)?)));
    file_modes::directory(dir).map_err(Error::file("create", dir))?;
    write_all(dir, &[("prony-profile.cjs", PRELOAD), ("settings.json", &settings)])?;
    match env.iter_mut().find(|(name, _)| name == OsStr::new(OPTIONS)) {
        Some((_, own)) => {
            options.push(" ");
            options.push(&*own);
            *own = options;
        }
        None => env.push((OPTIONS.into(), options)),
    }
    Ok(())
}

/// Reads the files of the preload, when every process has ended.
///
/// # Errors
/// When the directory or a file in it cannot be read.
pub fn collect(dir: &Path) -> Result<Taken, Error> {
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(dir).map_err(Error::file("read", dir))? {
        let entry = entry.map_err(Error::file("read", dir))?;
        names.extend(entry.file_name().into_string().ok());
    }
    names.sort();
    let mut taken = Taken::default();
    for name in names.iter().filter(|name| name.ends_with(".cpuprofile")) {
        let path = dir.join(name);
        let body = fs::read(&path).map_err(Error::file("read", path))?;
        taken.files.push(ProfileFile { name: name.clone(), format: Format::CpuProfile, body });
    }
    for began in names.iter().filter_map(|name| name.strip_suffix(".began")) {
        if !names.iter().any(|name| name.starts_with(&format!("{began}-")) && name.ends_with(".cpuprofile")) {
            let command = fs::read_to_string(dir.join(format!("{began}.began"))).unwrap_or_default();
            taken.notes.push(lost(began, &command));
        }
    }
    Ok(taken)
}

fn lost(id: &str, command: &str) -> String {
    let (pid, thread) = id.split_once('-').unwrap_or((id, "0"));
    let who = if thread == "0" { format!("process {pid}") } else { format!("worker {thread} of process {pid}") };
    format!("{who} (`{command}`) ended before it could write its profile")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_preload_comes_first_and_the_users_own_options_stay() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join("a \"b\"");
        let mut env = vec![("NODE_OPTIONS".into(), "--max-old-space-size=99".into()), ("A".into(), "b".into())];
        prepare(&inside, Nanos::from_micros(250), &mut env).unwrap();
        let entry = dir.path().join("a \\\"b\\\"/prony-profile.cjs");
        assert_eq!(env[0].1.to_str().unwrap(), format!("--require \"{}\" --max-old-space-size=99", entry.display()));
        assert_eq!(fs::read_to_string(inside.join("settings.json")).unwrap(), r#"{"interval":250}"#);
        let mut bare = Vec::new();
        prepare(&dir.path().join("plain"), Nanos::from_millis(1), &mut bare).unwrap();
        let entry = dir.path().join("plain/prony-profile.cjs");
        assert_eq!(
            bare[0].1.to_str().unwrap(),
            format!("--require {}", entry.display()),
            "Node 8 and 10 read no quotes"
        );
    }

    #[test]
    fn a_thread_that_wrote_nothing_is_named() {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in [
            ("7-0.began", "/usr/bin/node a.js"),
            ("7-0-0.cpuprofile", "{}"),
            ("7-1.began", "/usr/bin/node w.js"),
            ("71-0.began", "/usr/bin/node b.js"),
            ("71-0-0.cpuprofile.part", "{"),
            ("settings.json", "{}"),
        ] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        let taken = collect(dir.path()).unwrap();
        assert_eq!(taken.files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(), ["7-0-0.cpuprofile"]);
        assert_eq!(
            taken.notes,
            [
                "worker 1 of process 7 (`/usr/bin/node w.js`) ended before it could write its profile",
                "process 71 (`/usr/bin/node b.js`) ended before it could write its profile"
            ]
        );
    }
}
