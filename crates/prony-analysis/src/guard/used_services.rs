//! Which services a variant uses, as far as its specification says: requests, commands and programs name services by placeholders
//! or by the address where one listens, and services name further ones.

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

/// Hosts that are this machine.
const LOOPBACK: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// What a variant uses until the end of a phase: memory and files of earlier phases are still there.
pub(super) struct Used<'s> {
    services: &'s [ServiceSpec],
    /// The services that are named by what works in the phases, and those that these name in turn.
    reached: BTreeSet<&'s str>,
    /// The services that any service names, whether itself used or not, and those of `reached`. A client that sends operations by
    /// itself may be a service.
    named: BTreeSet<&'s str>,
    /// All texts that may name services: of what works in the phases, and of services.
    texts: Vec<String>,
    /// What works in the phases and names no service, for a message.
    pub(super) silent: Vec<String>,
    /// The addresses of servers to which operations go, and which are not known to be services.
    pub(super) elsewhere: BTreeSet<String>,
}

impl<'s> Used<'s> {
    pub(super) fn of(spec: &'s TrialSpec, phase: &str) -> Self {
        let services = &spec.services;
        let users = users(spec, phase);
        let (silent, elsewhere): (Vec<&User>, Vec<&User>) = users
            .iter()
            .filter(|user| !user.texts.iter().any(|text| services.iter().any(|service| names(text, service))))
            .partition(|user| user.address.is_none());
        let own: Vec<String> = users.iter().flat_map(|user| user.texts.iter().cloned()).collect();
        let of_services = services.iter().flat_map(|service| service.texts().into_iter().chain(after(service)));
        let texts: Vec<String> = own.iter().cloned().chain(of_services).collect();
        Self {
            services,
            reached: closure(services, own),
            named: closure(services, texts.clone()),
            texts,
            elsewhere: elsewhere.iter().filter_map(|user| user.address.clone()).collect(),
            silent: silent.iter().chain(&elsewhere).map(|user| user.what.clone()).collect(),
        }
    }

    /// The services that run.
    pub(super) const fn services(&self) -> &'s [ServiceSpec] {
        self.services
    }

    /// Whether the other variant says the same: whatever the one uses, the other one does.
    pub(super) fn says_as(&self, other: &Self) -> bool {
        self.texts == other.texts
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
    /// Host and port of the server to which it sends operations, where it is no more than that.
    address: Option<String>,
}

/// What may use services until the end of a phase. An embedded engine uses none.
fn users(spec: &TrialSpec, phase: &str) -> Vec<User> {
    let at_address = |what: String, url: &String| {
        let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
        let authority = rest.split(['/', '?']).next().unwrap_or_default();
        // Without a user and a password.
        let address = authority.rsplit('@').next().map(str::to_owned);
        User { what, texts: vec![url.clone()], address }
    };
    let of_subject = match &spec.subject {
        Subject::Store(store) => store.url.iter().map(|url| at_address("`url` of the store".to_owned(), url)).collect(),
        Subject::Program(program) => {
            let what = format!("program `{}`", program.name);
            vec![User { what, texts: program.texts(), address: None }]
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
                Some(User { what, texts: run.command.words(), address: None })
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

/// Whether a text names a service, by a placeholder or by the address where it listens.
fn names(text: &str, service: &ServiceSpec) -> bool {
    let by_placeholder = holes(text).iter().any(|(name, _)| name == service.name());
    by_placeholder || service.fixed_address().is_some_and(|address| has_address(text, address))
}

/// Whether a text has this port, as a number of its own, and before it this host if it has one there: `-p 5432`,
/// `postgresql://app@localhost:5432/app`.
fn has_address(text: &str, (host, port): (&str, u16)) -> bool {
    let port = port.to_string();
    let same = |other: &str| other == host || [other, host].iter().all(|host| LOOPBACK.contains(host));
    text.match_indices(&port).any(|(at, _)| {
        let (before, after) = (&text[..at], &text[at + port.len()..]);
        let is_part = before.ends_with(|c: char| c.is_ascii_digit() || c == '.')
            || after.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        let host = before.strip_suffix(':').map(|before| {
            let is_end = |c: char| !(c.is_alphanumeric() || matches!(c, '.' | '-' | '[' | ']' | ':'));
            let of_text = before.rsplit(is_end).next().unwrap_or_default();
            // `[::1]` has colons of its own, and `tcp:localhost:5432` another word before.
            if of_text.ends_with(']') { of_text } else { of_text.rsplit(':').next().unwrap_or_default() }
        });
        !is_part && host.is_none_or(same)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_an_address_by_its_port_and_by_the_host_before_it() {
        let local = ("127.0.0.1", 5432);
        for text in [
            "5432",
            "--port=5432",
            "psql -p 5432 -c 'SELECT 1'",
            "postgresql://a:b@localhost:5432/x",
            "http://[::1]:5432",
            "jdbc:postgresql:127.0.0.1:5432",
        ] {
            assert!(has_address(text, local), "{text}");
        }
        for text in ["15432", "54321", "0.5432", "10.5432.1", "postgresql://a@db.example:5432/x", "127.0.0.1:1", ""] {
            assert!(!has_address(text, local), "{text}");
        }
        assert!(has_address("postgresql://a@db.example:5432/x", ("db.example", 5432)));
    }
}
