//! Program, arguments, environment and directory of a launch as C strings, as exec needs them. Pure functions.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Where programs are searched for when the subject's environment has no `PATH`.
pub const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Every text that exec needs.
#[derive(Debug, Default)]
pub(super) struct ExecStrings {
    /// Working directory.
    pub(super) directory: CString,
    /// Files by which a process moves itself into control groups ([`crate::limits::Group::entrances`]).
    pub(super) entrances: Vec<CString>,
    /// Programs to try, in order.
    pub(super) candidates: Vec<CString>,
    /// Arguments, the program's name first.
    pub(super) args: Vec<CString>,
    /// The whole environment.
    pub(super) env: Vec<CString>,
}

/// A text with a zero byte, which C takes for its end. The value names the text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut(pub(super) String);

impl ExecStrings {
    /// Of a command, its arguments without its name, its environment, and the directory in which it works.
    pub(super) fn new(
        command: Vec<u8>,
        args: impl Iterator<Item = Vec<u8>>,
        env: impl Iterator<Item = (Vec<u8>, Vec<u8>)>,
        directory: Vec<u8>,
    ) -> Result<Self, Cut> {
        let env: Vec<(Vec<u8>, Vec<u8>)> = env.collect();
        let path = env.iter().find(|(name, _)| name == b"PATH").map_or(DEFAULT_PATH.as_bytes(), |(_, value)| value);
        let candidates = candidates(&command, path);
        // The command comes before what is derived from it, so that an error names what was written.
        let args = [command].into_iter().chain(args).map(c_string).collect::<Result<_, _>>()?;
        let candidates = candidates.into_iter().map(c_string).collect::<Result<_, _>>()?;
        let joined = |(mut name, value): (Vec<u8>, Vec<u8>)| {
            name.push(b'=');
            name.extend_from_slice(&value);
            c_string(name)
        };
        let env = env.into_iter().map(joined).collect::<Result<_, _>>()?;
        Ok(Self { directory: c_string(directory)?, entrances: Vec::new(), candidates, args, env })
    }

    /// The same for a process that moves itself into control groups first.
    pub(super) fn entering(mut self, entrances: impl IntoIterator<Item = PathBuf>) -> Result<Self, Cut> {
        let entrances = entrances.into_iter().map(|path| c_string(path.into_os_string().into_vec()));
        self.entrances = entrances.collect::<Result<_, _>>()?;
        Ok(self)
    }

    /// Bytes of all texts with their ends and the pointers to them.
    pub(super) fn size(&self) -> usize {
        let lists = [&self.entrances, &self.candidates, &self.args, &self.env];
        let texts = lists.into_iter().flatten().chain([&self.directory]);
        texts.map(|text| text.as_bytes_with_nul().len() + size_of::<*const u8>()).sum()
    }

    /// The candidate of this number, as a path.
    pub(super) fn candidate(&self, number: u32) -> Option<&Path> {
        let found = self.candidates.get(usize::try_from(number).ok()?)?;
        Some(Path::new(OsStr::from_bytes(found.as_bytes())))
    }
}

fn c_string(bytes: Vec<u8>) -> Result<CString, Cut> {
    CString::new(bytes).map_err(|error| {
        let text = String::from_utf8_lossy(&error.into_vec()).replace('\0', "\\0");
        Cut(format!("`{text}` contains a zero byte"))
    })
}

/// Programs to try for a command, in order; a command with a slash is a path, an empty entry of `path` the directory.
fn candidates(command: &[u8], path: &[u8]) -> Vec<Vec<u8>> {
    if command.contains(&b'/') || command.is_empty() {
        return vec![command.to_vec()];
    }
    let join = |directory: &[u8]| match directory {
        b"" => [b".", command].join(&b'/'),
        directory => [directory, command].join(&b'/'),
    };
    path.split(|byte| *byte == b':').map(join).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(command: &str, env: &[(&str, &str)]) -> Result<ExecStrings, Cut> {
        let env = env.iter().map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()));
        ExecStrings::new(command.into(), [b"-x".to_vec()].into_iter(), env, b"/dir".to_vec())
    }

    #[test]
    fn names_are_searched_for_and_paths_are_not() {
        let found = |command: &str, path: &str| -> Vec<String> {
            let all = candidates(command.as_bytes(), path.as_bytes());
            all.into_iter().map(|candidate| String::from_utf8(candidate).unwrap()).collect()
        };
        assert_eq!(found("node", "/a:/b"), ["/a/node", "/b/node"]);
        assert_eq!(found("node", ":/b"), ["./node", "/b/node"]);
        assert_eq!(found("./node", "/a"), ["./node"]);
        assert_eq!(found("", "/a"), [""]);
    }

    #[test]
    fn the_path_is_that_of_the_program() {
        let own = texts("node", &[("A", "b"), ("PATH", "/own")]).unwrap();
        assert_eq!((own.candidate(0), own.candidate(1)), (Some(Path::new("/own/node")), None));
        assert_eq!(own.env, [c"A=b", c"PATH=/own"].map(CString::from));
        assert_eq!(own.args, [c"node", c"-x"].map(CString::from));
        let none = texts("node", &[]).unwrap();
        assert_eq!(none.candidate(0), Some(Path::new("/usr/local/bin/node")));
    }

    #[test]
    fn a_zero_byte_is_named() {
        assert_eq!(texts("a\0b", &[]).unwrap_err(), Cut("`a\\0b` contains a zero byte".into()));
        assert_eq!(texts("a", &[("N", "\0")]).unwrap_err(), Cut("`N=\\0` contains a zero byte".into()));
    }
}
