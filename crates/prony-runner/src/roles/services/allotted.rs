//! What each instance of a trial's services is given: a free port of the loopback interface and directories of its own.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use prony_model::program::INSTANCE;
use prony_model::service::{DATA, OfService, PORT, hole};
use prony_model::spec::{Action, TrialSpec};

use crate::error::Error;

/// The shares of all instances.
#[derive(Debug, Default)]
pub(crate) struct Allotted {
    all: Vec<Share>,
    data: PathBuf,
}

/// What one instance is given.
#[derive(Debug)]
pub(crate) struct Share {
    /// The service's name.
    pub(crate) service: String,
    /// The instance's number, from 1 on.
    pub(crate) number: u32,
    /// Its role.
    pub(crate) role: String,
    /// A port that was free.
    pub(crate) port: u16,
    /// Its data directory, which was made empty.
    pub(crate) data: PathBuf,
    /// Its directory for all else.
    pub(crate) scratch: PathBuf,
}

impl Allotted {
    /// For all services of a trial with this scratch directory.
    ///
    /// # Errors
    /// Where a directory cannot be made, or there is no free port.
    pub(crate) fn new(spec: &TrialSpec, scratch: &Path) -> Result<Self, Error> {
        let data = scratch.join("data");
        let (mut all, mut listeners) = (Vec::new(), Vec::new());
        for (service, number) in spec.services.iter().flat_map(|one| (1..=one.count).map(move |number| (one, number))) {
            let role = service.role(number);
            // All of them stay open until the last is found, so that no port is found twice.
            let failed = |source| Error::Setup { doing: "find a free port", source };
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
            let port = listener.local_addr().map_err(failed)?.port();
            listeners.push(listener);
            let (data, scratch) = (data.join(&role), scratch.join("services").join(&role));
            for directory in [&data, &scratch] {
                let failed = |source| Error::Setup { doing: "make a directory of a service", source };
                fs::create_dir_all(directory).map_err(failed)?;
            }
            all.push(Share { service: service.name().to_owned(), number, role, port, data, scratch });
        }
        Ok(Self { all, data })
    }

    /// Those of a service's instances.
    pub(crate) fn of<'s>(&'s self, service: &'s str) -> impl Iterator<Item = &'s Share> {
        self.all.iter().filter(move |share| share.service == service)
    }

    /// The directory that has the data directories of all; `None` where there are no services.
    pub(crate) fn data(&self) -> Option<&Path> {
        (!self.all.is_empty()).then_some(self.data.as_path())
    }

    /// What stands for the placeholders in texts of the instance with this share.
    pub(crate) fn values(&self, share: &Share) -> Vec<(String, OsString)> {
        let own = [
            (PORT.to_owned(), share.port.to_string().into()),
            (DATA.to_owned(), share.data.clone().into()),
            (INSTANCE.to_owned(), share.number.to_string().into()),
        ];
        own.into_iter().chain(self.everywhere()).collect()
    }

    /// What stands for values of instances in texts of all services and requests.
    fn everywhere(&self) -> impl Iterator<Item = (String, OsString)> + '_ {
        let of = |share: &Share, value| match value {
            OfService::Port => share.port.to_string().into(),
            OfService::Url => url(share.port).into(),
            OfService::Data => share.data.clone().into(),
        };
        self.all.iter().flat_map(move |share| {
            OfService::ALL.map(|value| (hole(&share.service, share.number, value), of(share, value)))
        })
    }

    /// The trial with the servers' addresses in its requests.
    pub(crate) fn fill<'s>(&self, spec: &'s TrialSpec) -> Cow<'s, TrialSpec> {
        if self.all.is_empty() {
            return Cow::Borrowed(spec);
        }
        let mut spec = spec.clone();
        for phase in &mut spec.phases {
            if let Action::Http(http) = &mut phase.action {
                for share in &self.all {
                    let hole = hole(&share.service, share.number, OfService::Url);
                    http.server = http.server.replace(&hole, &url(share.port));
                }
            }
        }
        Cow::Owned(spec)
    }
}

fn url(port: u16) -> String {
    format!("http://{}:{port}", Ipv4Addr::LOCALHOST)
}
