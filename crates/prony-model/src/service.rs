//! The specification of services: servers that run beside the phases of a trial.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::limits::Limits;
use crate::program::{CommandLine, ProgramSpec};
use crate::units::Nanos;

/// A server that runs from before the first phase of a trial until after its last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceSpec {
    /// What each of its instances executes, and where; its name is that of the service. In its texts [`PORT`] and [`DATA`]
    /// stand for the port and the data directory of the instance, and [`hole`] for values of other services.
    pub program: ProgramSpec,
    /// How many instances run, numbered from 1 on; at least 1.
    pub count: u32,
    /// Names of the services that must be ready before this one is started.
    pub after: Vec<String>,
    /// When an instance is ready.
    pub ready: ReadySpec,
    /// Runs once in each trial when all of its instances are ready; before services that come after it are started.
    pub setup: Option<CommandLine>,
    /// Limits of each instance; times are none of them.
    pub limits: Limits,
}

impl ServiceSpec {
    /// The most services that a file can have, and the most instances of one.
    pub const MOST: u32 = 64;

    /// Its name.
    pub fn name(&self) -> &str {
        &self.program.name
    }

    /// The role of its instance of this number, from 1 on: `api`, or `mongo.2` where there are several.
    pub fn role(&self, number: u32) -> String {
        if self.count == 1 { self.name().to_owned() } else { format!("{}.{number}", self.name()) }
    }

    /// The roles of all of its instances.
    pub fn roles(&self) -> BTreeSet<String> {
        (1..=self.count).map(|number| self.role(number)).collect()
    }
}

/// The role of the load generator.
pub const LOAD: &str = "load";

/// Placeholder for the port of a service's instance, which is known in a trial only.
pub const PORT: &str = "\0port\0";

/// Placeholder for the data directory of a service's instance.
pub const DATA: &str = "\0data\0";

/// What other roles may ask of an instance of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfService {
    /// Its port.
    Port,
    /// `http://127.0.0.1:PORT`.
    Url,
    /// Its data directory.
    Data,
}

impl OfService {
    /// Everything.
    pub const ALL: [Self; 3] = [Self::Port, Self::Url, Self::Data];

    /// The word in placeholders: `{service.api.port}`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Port => "port",
            Self::Url => "url",
            Self::Data => "data",
        }
    }
}

/// Placeholder for a value of a service's instance of this number, from 1 on.
pub fn hole(service: &str, number: u32, value: OfService) -> String {
    format!("\0service.{service}.{number}.{}\0", value.word())
}

/// When an instance of a service is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReadySpec {
    /// The sign.
    pub sign: ReadySign,
    /// How long it may take, from its launch.
    pub within: Nanos,
}

/// What shows that an instance of a service is ready.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadySign {
    /// It accepts connections on its port.
    Port,
    /// It accepts connections at this address.
    Tcp(String),
    /// It answers a `GET` of this path on its port with a status of 200 to 399.
    Http(String),
    /// A line of its output or messages matches this pattern.
    Line(String),
    /// This command, repeated in its directory, exits with 0.
    Command(CommandLine),
    /// It is running.
    Started,
}
