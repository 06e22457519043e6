//! Reads the profiler's files of one trial as one profile.

use prony_model::profile::{Format, ProfileFile};

use super::{Builder, Damaged, Profile};

impl Profile {
    /// From the files of one trial.
    ///
    /// # Errors
    /// [`Damaged`] where a file is not in its format.
    pub fn from_files(files: &[ProfileFile]) -> Result<Self, Damaged> {
        let mut builder = Builder::default();
        for file in files {
            let text = String::from_utf8_lossy(&file.body);
            let added = match file.format {
                Format::CpuProfile => builder.add_cpuprofile(&text),
                Format::PerfScript => builder.add_perf_script(&text),
            };
            added.map_err(|Damaged(what)| Damaged(format!("`{}`: {what}", file.name)))?;
        }
        Ok(builder.finish())
    }
}
