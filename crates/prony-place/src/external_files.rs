//! Digests of the files that a program uses outside of its copy: its executable and its input. They show whether these
//! files have changed when a run is resumed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use prony_experiment::redacted;

use crate::digest::of_file;
use crate::launch_setting::Setting;
use crate::place::Place;
use crate::startable::find;

/// Device, inode, size, and nanoseconds of the last changes of content and inode: what is the same was not written to.
type Stamp = (u64, u64, u64, (i64, i64), (i64, i64));

/// The digests of files as last read, so that each file is read once and not before every trial.
#[derive(Debug, Default)]
pub struct Files {
    read: RefCell<BTreeMap<PathBuf, (Stamp, String)>>,
}

impl Files {
    /// The state of the program's executable, or of the script that its command names, and of its input; by what the
    /// experiment calls them, or a digest of that where `commands` are not recorded. What lies in the program's copy, or is
    /// made for the trial, is not among them.
    pub fn of(&self, setting: &Setting<'_>, place: &Place, commands: bool) -> BTreeMap<String, String> {
        let program = setting.program;
        let command = program.command.words().into_iter().next().unwrap_or_default();
        let executable = find(program, Some(&setting.directory), &setting.filled(&command));
        let input = program.input.file().map(|path| (path.to_string_lossy().into_owned(), path.to_path_buf()));
        let outside = |path: &Path| !path.starts_with(setting.scratch) && !place.made(path);
        let files = executable.map(|path| (command, path)).into_iter().chain(input).filter(|(_, path)| outside(path));
        let states = files.filter_map(|(name, path)| Some((name, self.state(&path)?)));
        let name = |name: String| if commands { name } else { redacted::hidden(&name) };
        states.map(|(called, state)| (name(called), state)).collect()
    }

    /// A digest of the file, or its stamp if it is large; `None` for what is not a regular file, such as a FIFO.
    fn state(&self, path: &Path) -> Option<String> {
        let about = fs::metadata(path).ok().filter(Metadata::is_file)?;
        let times = ((about.mtime(), about.mtime_nsec()), (about.ctime(), about.ctime_nsec()));
        let stamp = (about.dev(), about.ino(), about.size(), times.0, times.1);
        let mut read = self.read.borrow_mut();
        if let Some((_, state)) = read.get(path).filter(|(known, _)| *known == stamp) {
            return Some(state.clone());
        }
        let state = of_file(path, &about).ok()?;
        read.insert(path.to_path_buf(), (stamp, state.clone()));
        Some(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::LARGE;
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::time::{Duration, SystemTime};

    #[test]
    fn a_file_has_another_state_where_its_content_is_another() {
        let (folder, files) = (tempfile::tempdir().unwrap(), Files::default());
        let path = folder.path().join("app");
        assert_eq!(files.state(&path), None);
        let written = |text: &str| {
            fs::write(&path, text).unwrap();
            files.state(&path).unwrap()
        };
        let (one, two) = (written("one"), written("two, longer"));
        assert_ne!(one, two);
        assert_eq!(Files::default().state(&path).unwrap(), two, "in another session");
        assert_eq!(written("one"), one, "whenever it was written");
        assert_eq!(files.state(folder.path()), None);
    }

    /// A file of 80 MB into which 7 bytes were written in the middle counted as the same.
    #[test]
    fn a_large_file_is_known_by_its_size_its_ends_and_its_time_of_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("large");
        let file = File::create(&path).unwrap();
        let last = LARGE.as_bytes() + 1;
        // Each in another session.
        let state = |written: Duration| {
            file.set_modified(SystemTime::UNIX_EPOCH + written).unwrap();
            Files::default().state(&path).unwrap()
        };
        let (early, late) = (Duration::from_secs(5), Duration::new(5, 1));
        file.set_len(last).unwrap();
        let first = state(early);
        assert_eq!(state(early), first);
        file.write_at(b"changed", last / 2).unwrap();
        assert_ne!(state(late), first, "written in its middle");
        file.write_at(b"x", last - 1).unwrap();
        let at_its_end = state(early);
        assert_ne!(at_its_end, first);
        file.set_len(last + 1).unwrap();
        assert_ne!(state(early), at_its_end);
    }
}
