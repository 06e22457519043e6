//! What each instance of a trial's services is given: a free port of the loopback interface and directories of its own.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};

use prony_model::event::Observer;
use prony_model::http::BodySpec;
use prony_model::program::{CommandLine, INSTANCE};
use prony_model::reading::Reading;
use prony_model::record::effective::CopiedData;
use prony_model::service::{DATA, OfService, PORT, ServiceSpec, hole};
use prony_model::spec::{Action, PhaseSpec, Subject, TrialSpec};
use prony_place::place::{Means, progress_of};
use prony_place::places::Places;
use prony_place::shell_text::takes_values;
use prony_place::user::User;

use crate::error::Error;
use crate::roles::data::OnDisk;

/// The directory with the data of all instances, in the scratch directory of a trial.
const DATA_OF_ALL: &str = "data";

/// Where an instance of this role has its data.
pub(super) fn data_of(scratch: &Path, role: &str) -> PathBuf {
    scratch.join(DATA_OF_ALL).join(role)
}

/// Where instances have all else.
pub(super) fn beside_data(scratch: &Path) -> PathBuf {
    scratch.join("services")
}

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
    /// A port that was free, or that of a server that runs already.
    pub(crate) port: u16,
    /// Where it answers.
    pub(crate) url: String,
    /// Its data directory, empty unless its service begins with data.
    pub(crate) data: PathBuf,
    /// Its directory for all else.
    pub(crate) scratch: PathBuf,
}

impl Share {
    /// Fills its data directory, where its service begins with data.
    ///
    /// # Errors
    /// Where the data cannot be copied, or have changed since the run began.
    pub(crate) fn fill(
        &self,
        (places, means): (&Places, Means<'_>),
        service: &ServiceSpec,
        observer: &mut dyn Observer,
    ) -> Result<Option<CopiedData>, Error> {
        let Some(data) = &service.data else { return Ok(None) };
        let mut progress = progress_of(means, &service.program, &data.from, observer);
        Ok(Some(places.data.copy(service, data, &self.data, &mut progress)?))
    }
}

impl Allotted {
    /// For all services of a trial with this scratch directory.
    ///
    /// # Errors
    /// Where a directory cannot be made, there is no free port, or a shell would misread a value in the text of a phase's
    /// command.
    pub(crate) fn new(spec: &TrialSpec, scratch: &Path) -> Result<Self, Error> {
        let data = scratch.join(DATA_OF_ALL);
        let (mut all, mut listeners) = (Vec::new(), Vec::new());
        for (service, number) in spec.services.iter().flat_map(|one| (1..=one.count).map(move |number| (one, number))) {
            let role = service.role(number);
            let (port, url) = match &service.running {
                Some(running) => (running.port, running.url.clone()),
                None => {
                    // All of them stay open until the last is found, so that no port is found twice.
                    let failed = Error::setup("find a free port");
                    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(&failed)?;
                    let port = listener.local_addr().map_err(&failed)?.port();
                    listeners.push(listener);
                    (port, url(port))
                }
            };
            let (data, scratch) = (data_of(scratch, &role), beside_data(scratch).join(&role));
            for directory in [&data, &scratch] {
                fs::create_dir_all(directory).map_err(Error::setup("make a directory of a service"))?;
            }
            all.push(Share { service: service.name().to_owned(), number, role, port, url, data, scratch });
        }
        let allotted = Self { all, data };
        allotted.fits_shells(&spec.phases)?;
        Ok(allotted)
    }

    /// Those of a service's instances.
    pub(crate) fn of<'s>(&'s self, service: &'s str) -> impl Iterator<Item = &'s Share> {
        self.all.iter().filter(move |share| share.service == service)
    }

    /// Where the store or the services have their data; `scratch` is the directory of the store.
    pub(crate) fn on_disk(&self, scratch: &Path, spec: &TrialSpec) -> OnDisk {
        let missing = |why: &str| Reading::not_supported(why);
        let device = Reading::Measured(scratch.to_path_buf());
        match spec.measures_servers() {
            true if self.all.is_empty() => {
                let why = "prony did not start the server";
                OnDisk { store: missing(why), device: missing(why) }
            }
            true if !spec.services.iter().any(uses_data) => {
                OnDisk { store: missing("no service uses `{data}`"), device }
            }
            true => OnDisk { store: Reading::Measured(self.data.clone()), device },
            false if spec.services.iter().any(uses_data) => {
                let why = "services of the trial keep their data in the same directory";
                OnDisk { store: missing(why), device }
            }
            false => OnDisk::at(scratch),
        }
    }

    /// Gives an instance's directories to the user that it runs as, and lets that user reach them. Where prony writes files
    /// itself afterwards, as root, the user cannot put links in their places.
    ///
    /// # Errors
    /// Where a directory above them is closed to the user.
    pub(crate) fn give(&self, share: &Share, directory: &Path, user: &User) -> Result<(), Error> {
        let above = [self.data.parent(), Some(&self.data), share.scratch.parent(), Some(&share.scratch)];
        above.into_iter().flatten().try_for_each(|above| user.let_in(above))?;
        user.own_tree(&share.data)?;
        // A copy that trials share stays as it is.
        if directory.starts_with(&share.scratch) { Ok(user.own(directory)?) } else { Ok(()) }
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

    /// What stands for values of instances in texts of all services, of requests, and of a program.
    pub(crate) fn everywhere(&self) -> impl Iterator<Item = (String, OsString)> + '_ {
        let of = |share: &Share, value| match value {
            OfService::Port => share.port.to_string().into(),
            OfService::Url => share.url.clone().into(),
            OfService::Data => share.data.clone().into(),
        };
        self.all.iter().flat_map(move |share| {
            OfService::ALL.map(|value| (hole(&share.service, share.number, value), of(share, value)))
        })
    }

    /// Puts values of instances into a text.
    fn fill_in(&self, text: &mut String) {
        for (hole, value) in self.everywhere() {
            *text = text.replace(&hole, &value.to_string_lossy());
        }
    }

    /// Refuses a phase in the text of whose command a shell would misread a value of an instance.
    ///
    /// # Errors
    /// Where there is one.
    fn fits_shells(&self, phases: &[PhaseSpec]) -> Result<(), Error> {
        let values: Vec<(String, OsString)> = self.everywhere().collect();
        let runs = phases.iter().filter_map(|phase| match &phase.action {
            Action::Run(run) => Some(&run.command),
            _ => None,
        });
        for line in runs {
            takes_values(line, values.iter().map(|(hole, value)| (hole.as_str(), value.as_os_str())))?;
        }
        Ok(())
    }

    /// The trial with the servers' addresses in its requests, and their values in its commands.
    pub(crate) fn fill<'s>(&self, spec: &'s TrialSpec) -> Cow<'s, TrialSpec> {
        if !spec.measures_servers() {
            return Cow::Borrowed(spec);
        }
        let mut spec = spec.clone();
        if let Subject::Store(store) = &mut spec.subject {
            store.url.iter_mut().for_each(|url| self.fill_in(url));
        }
        for phase in &mut spec.phases {
            match &mut phase.action {
                Action::Http(http) => {
                    self.fill_in(&mut http.server);
                    for kind in &mut http.kinds {
                        if let Some(BodySpec::File { path, .. }) = &mut kind.body {
                            make_absolute(path);
                        }
                    }
                }
                Action::Run(run) => {
                    make_absolute(&mut run.directory);
                    match &mut run.command {
                        CommandLine::Words(words) => words.iter_mut().for_each(|word| self.fill_in(word)),
                        CommandLine::Shell { script, .. } => self.fill_in(script),
                    }
                }
                _ => {}
            }
        }
        Cow::Owned(spec)
    }
}

/// A path of the file for the worker, which has another working directory than the runner.
fn make_absolute(path: &mut String) {
    if let Ok(found) = std::path::absolute(&*path) {
        *path = found.to_string_lossy().into_owned();
    }
}

/// Whether the texts of a service ask for a data directory.
fn uses_data(service: &ServiceSpec) -> bool {
    let words = service.program.command.words();
    let prepare = service.program.prepare.iter().chain(&service.setup).flat_map(CommandLine::words);
    let counters = service.counters.iter().flat_map(|counters| counters.source.texts());
    let all = words.into_iter().chain(prepare).chain(counters).chain(service.program.env.values().cloned());
    let is_asked = |text: String| text.contains(DATA) || text.contains(".data\0");
    all.into_iter().any(is_asked)
}

fn url(port: u16) -> String {
    format!("http://{}:{port}", Ipv4Addr::LOCALHOST)
}
