//! Errors of the load generator.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// The address of a host, where that is another text.
fn resolved(host: &str, address: SocketAddr) -> String {
    if host == address.to_string() { String::new() } else { format!(" ({address})") }
}

/// What is wrong with what somebody asked for, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: String,
}

impl Fault {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

/// Why no load was run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The host's name has no address.
    #[error("cannot look up the host `{host}`")]
    Lookup {
        /// The host.
        host: String,
        /// What the system says.
        source: io::Error,
    },
    /// The server is on another machine.
    #[error(
        "`{host}` ({address}) is not a loopback address: prony sends load to another machine only with your consent; nothing was sent"
    )]
    OtherMachine {
        /// The host.
        host: String,
        /// Its address.
        address: SocketAddr,
    },
    /// No connection could be made before the load.
    #[error("cannot connect to `{host}`{}", resolved(host, *address))]
    Connect {
        /// The host.
        host: String,
        /// Its address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// Certificates cannot be used.
    #[error("cannot use the certificates in {place}: {cause}")]
    Certificates {
        /// Where they were to come from.
        place: String,
        /// What is wrong.
        cause: String,
    },
    /// A file with certificates cannot be read.
    #[error("cannot read `{}`", .path.display())]
    ReadFile {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// TLS cannot be used with this host.
    #[error("cannot use TLS with the host `{host}`")]
    Tls {
        /// The host.
        host: String,
        /// What rustls says.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The process may not open as many sockets.
    #[error("{connections} connections need more open files than the limit of this process, {limit}")]
    OpenFiles {
        /// Connections that were asked for.
        connections: u32,
        /// The hard limit.
        limit: u64,
    },
    /// The system refused what a thread of the load generator needs.
    #[error("cannot {doing}")]
    Setup {
        /// What was attempted.
        doing: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// A thread ended by a panic, which is a defect.
    #[error("a thread of the load generator ended by a panic; its figures are lost")]
    Panic,
}

impl Error {
    /// What to do about it, where there is something to do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Lookup { .. } => Some("check the host's name; an address, such as 127.0.0.1, needs no lookup".into()),
            Self::OtherMachine { .. } => {
                Some("add `--yes` if the server is yours, or its owner permits a load test".into())
            }
            Self::Connect { .. } => Some("check that the server runs and listens on this port".into()),
            Self::Certificates { .. } => {
                Some("`--cacert FILE` names a file with certificates in PEM form; `--insecure` checks none".into())
            }
            Self::OpenFiles { .. } => Some("use fewer connections, or raise the limit (`ulimit -Hn`)".into()),
            _ => None,
        }
    }
}
