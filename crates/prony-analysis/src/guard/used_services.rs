//! Which services a variant uses, as far as its specification says: requests, commands and programs name services by
//! placeholders, and services name further ones.

use std::collections::BTreeSet;

use prony_model::service::{ServiceSpec, holes};
use prony_model::spec::{Action, Subject, TrialSpec};

/// How certain it is that a variant uses a service, ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Use {
    /// Everything that could use it names others.
    No,
    /// Something that could use it names no service.
    Unknown,
    /// It is named.
    Yes,
}

/// What a variant uses until the end of a phase: memory and files of earlier phases are still there.
pub(super) struct Used<'s> {
    services: &'s [ServiceSpec],
    /// The services that are named by what works in the phases, and those that these name in turn.
    reached: BTreeSet<&'s str>,
    /// The services that any service names, whether itself used or not, and those of `reached`. A client that sends operations by
    /// itself may be a service.
    named: BTreeSet<&'s str>,
    /// What works in the phases and names no service, for a message.
    pub(super) silent: Vec<String>,
}

impl<'s> Used<'s> {
    pub(super) fn of(spec: &'s TrialSpec, phase: &str) -> Self {
        let services = &spec.services;
        let users = users(spec, phase);
        let is_silent =
            |user: &&User| !user.texts.iter().any(|text| services.iter().any(|service| names(text, service)));
        let texts = users.iter().flat_map(|user| user.texts.iter().cloned());
        let of_services = services.iter().flat_map(|service| service.texts().into_iter().chain(after(service)));
        Self {
            services,
            reached: closure(services, texts.clone().collect()),
            named: closure(services, texts.chain(of_services).collect()),
            silent: users.iter().filter(is_silent).map(|user| user.what.clone()).collect(),
        }
    }

    /// The services that run.
    pub(super) const fn services(&self) -> &'s [ServiceSpec] {
        self.services
    }

    /// Whether something works in the phases that may use services, known ones or not.
    pub(super) fn works(&self) -> bool {
        !self.reached.is_empty() || !self.silent.is_empty()
    }

    /// Whether something works in the phases, and no service is known to be used.
    pub(super) fn is_unknown(&self) -> bool {
        self.reached.is_empty() && self.works()
    }

    /// Whether this service is used: by what works in the phases, and by anything.
    pub(super) fn uses(&self, service: &str) -> [Use; 2] {
        let runs = self.services.iter().any(|own| own.name() == service);
        let otherwise = if runs && !self.silent.is_empty() { Use::Unknown } else { Use::No };
        [&self.reached, &self.named].map(|known| if known.contains(service) { Use::Yes } else { otherwise })
    }
}

/// Something that may use services.
struct User {
    /// What it is, for a message.
    what: String,
    /// Its texts that may name services.
    texts: Vec<String>,
}

/// What may use services until the end of a phase. An embedded engine uses none.
fn users(spec: &TrialSpec, phase: &str) -> Vec<User> {
    let at_address = |what: String, url: &String| User { what, texts: vec![url.clone()] };
    let of_subject = match &spec.subject {
        Subject::Store(store) => store.url.iter().map(|url| at_address("`url` of the store".to_owned(), url)).collect(),
        Subject::Program(program) => {
            let what = format!("program `{}`", program.name);
            vec![User { what, texts: program.texts() }]
        }
        Subject::Services => Vec::new(),
    };
    let at = spec.phases.iter().position(|found| found.name == phase);
    let until = &spec.phases[..at.map_or(0, |at| at + 1)];
    let of_phases = until.iter().flat_map(|phase| {
        let user = |action: &Action| match action {
            Action::Http(http) => Some(at_address(format!("`http` of phase `{}`", phase.name), &http.server)),
            Action::Run(run) => {
                let what = format!("`run` of phase `{}`", phase.name);
                Some(User { what, texts: run.command.words() })
            }
            _ => None,
        };
        phase.actions().filter_map(user).collect::<Vec<_>>()
    });
    of_subject.into_iter().chain(of_phases).collect()
}

/// The services after which one is started, as placeholders: it may use them at ports that the file does not name.
fn after(service: &ServiceSpec) -> impl Iterator<Item = String> {
    use prony_model::service::{OfService, hole};
    service.after.iter().map(|name| hole(name, 1, OfService::Port))
}

/// The services that these texts name, and those that the texts of these name.
fn closure(services: &[ServiceSpec], mut texts: Vec<String>) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    while let Some(text) = texts.pop() {
        for service in services.iter().filter(|service| names(&text, service)) {
            if found.insert(service.name()) {
                texts.extend(service.texts());
            }
        }
    }
    found
}

/// Whether a text names a service.
fn names(text: &str, service: &ServiceSpec) -> bool {
    holes(text).iter().any(|(name, _)| name == service.name())
}
