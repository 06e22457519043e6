//! Errors of mounting, cutting and building images.

use std::io;
use std::path::{Path, PathBuf};

/// Why the file system cannot do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file system cannot be mounted.
    #[error("cannot mount a file system on `{}`: {why}", .point.display())]
    Mount {
        /// The mount point.
        point: PathBuf,
        /// What is missing or wrong.
        why: String,
        /// What to do.
        hint: String,
    },
    /// A file or directory that the file system needs cannot be used.
    #[error("cannot {action} `{}`", .path.display())]
    File {
        /// What was tried: `create`, `read` ...
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A setting that cannot be obeyed.
    #[error("{message}")]
    Setting {
        /// What is wrong.
        message: String,
        /// What to do.
        hint: String,
    },
    /// There is no such file system on a directory.
    #[error("no file system of `prony powercut mount` is mounted on `{}`", .point.display())]
    NotMounted {
        /// The directory.
        point: PathBuf,
    },
    /// The process that serves the file system has ended, and its mount is still there.
    #[error("the process that served `{}` has ended; its mount is stale", .point.display())]
    Stale {
        /// The mount point.
        point: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A mount was removed, and the process that served it has not ended.
    #[error(
        "the mount on `{}` is removed, but the process that served it still uses the state directory `{}`",
        .point.display(), .state.display()
    )]
    StillServed {
        /// Where the mount was.
        point: PathBuf,
        /// Its state directory.
        state: PathBuf,
    },
    /// A mount is gone, and its owner did not ask for it.
    #[error("the mount on `{}` is gone: {why}", .point.display())]
    Ended {
        /// The mount point.
        point: PathBuf,
        /// What ended it.
        why: String,
    },
    /// A cut is saved, and images of it cannot be made.
    #[error("the cut is saved in `{}`, but images of it cannot be made", .saved.display())]
    Images {
        /// The directory of the saved cut.
        saved: PathBuf,
        /// Why.
        source: Box<Self>,
    },
    /// The connection to the process that serves the file system failed.
    #[error("lost the connection to the process that serves the file system at `{}`", .point.display())]
    Control {
        /// The mount point.
        point: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The process that serves the file system refused a request or failed in it; the whole message.
    #[error("{message}")]
    Refused {
        /// What it says.
        message: String,
        /// What to do, where it says so.
        hint: Option<String>,
    },
}

impl Error {
    /// What to do about it, where there is something to do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Mount { hint, .. } | Self::Setting { hint, .. } => Some(hint.clone()),
            Self::Refused { hint, .. } => hint.clone(),
            Self::File { action: "create", path, source } if source.kind() == io::ErrorKind::AlreadyExists => {
                Some(format!("name a directory that does not exist yet, or remove `{}` first", path.display()))
            }
            Self::File { action: "create", path, source } if source.kind() == io::ErrorKind::NotFound => {
                let above = path.parent().unwrap_or(path);
                Some(format!("make the directory above it first: `mkdir -p {}`", above.display()))
            }
            Self::Images { saved, .. } => {
                Some(format!("make them later: `prony powercut images {} --into DIR`", saved.display()))
            }
            Self::NotMounted { point } => {
                Some(format!("mount one: `prony powercut mount {} --state DIR`", point.display()))
            }
            Self::StillServed { .. } => Some(
                "end the process `powercut-serve`, or choose another state directory for the next mount".to_owned(),
            ),
            Self::Ended { .. } => Some("what was in it is lost; mount it again".to_owned()),
            Self::Stale { point, .. } => {
                Some(format!("remove it: `prony doctor --repair`, or `prony powercut unmount {}`", point.display()))
            }
            _ => None,
        }
    }

    /// The text with those of its causes.
    pub(crate) fn whole(&self) -> String {
        prony_model::error::chain(self)
    }

    /// A setting that cannot be obeyed: what is wrong, and what to do.
    pub(crate) fn setting(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Setting { message: message.into(), hint: hint.into() }
    }

    /// An error of a file, for `map_err`.
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::File { action, path, source }
    }
}
