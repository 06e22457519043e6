//! Whether sessions of a database count what is read.
//!
//! That is decided by settings which each session gets when it begins: of the server, of `ALTER ROLE ALL`, of its database, of its
//! role, and of its role in its database; later ones go before earlier ones. What prony's own session has says little, since it
//! is one of another database, and mostly of another role. So all values are read that sessions of the observed database may get.
//! Of whose role they are is not known: a role that may begin sessions and does not count is enough to know nothing.
//!
//! What a session sets itself cannot be read. For these settings it has to be one of a superuser.

/// What reads the values that sessions of the database with this number may get. `server` is whether prony's own session has the
/// value from the server itself, and `role` the name of a role or nothing.
pub(super) fn query(database: &str) -> String {
    let names: Vec<String> = COUNTS.iter().chain(&STATEMENTS).map(|needed| format!("'{}'", needed.name)).collect();
    let names = names.join(", ");
    format!(
        "SELECT name, setting AS value, source IN ('default', 'environment variable', 'configuration file', 'command line', \
         'override') AS server, NULL AS here, NULL AS role FROM pg_settings WHERE name IN ({names}) UNION ALL \
         SELECT lower(split_part(given, '=', 1)), substr(given, strpos(given, '=') + 1), NULL, setdatabase <> 0, \
         CASE setrole WHEN 0 THEN '' ELSE setrole::regrole::text END FROM pg_db_role_setting, unnest(setconfig) AS given WHERE setdatabase IN (0, {database}) \
         AND lower(split_part(given, '=', 1)) IN ({names}) \
         AND (setrole = 0 OR EXISTS (SELECT FROM pg_roles WHERE oid = setrole AND rolcanlogin))"
    )
}

/// A setting without which the server does not count.
#[derive(Debug)]
pub(super) struct Needed {
    name: &'static str,
    /// Whether a value has the server count.
    counts: fn(&str) -> bool,
    /// A value that does.
    on: &'static str,
    /// What is counted.
    what: &'static str,
}

/// What numbers of tables, blocks and temporary files need.
pub(super) const COUNTS: [Needed; 1] =
    [Needed { name: "track_counts", counts: |value| !is_off(value), on: "on", what: "it" }];

/// What the number of statements needs.
pub(super) const STATEMENTS: [Needed; 3] = [
    Needed {
        name: "pg_stat_statements.track",
        counts: |value| !value.eq_ignore_ascii_case("none"),
        on: "top",
        what: "statements",
    },
    Needed {
        name: "pg_stat_statements.track_utility",
        counts: |value| !is_off(value),
        on: "on",
        what: "statements such as `BEGIN` and `COMMIT`",
    },
    // Since version 14: without it, `pg_stat_statements` sees nothing.
    Needed { name: "compute_query_id", counts: |value| !is_off(value), on: "auto", what: "statements" },
];

/// Whether a value is `off`, of which PostgreSQL accepts these names and unambiguous beginnings of them.
fn is_off(value: &str) -> bool {
    let value = value.trim().to_ascii_lowercase();
    let begins = |name: &str, least| value.len() >= least && name.starts_with(&value);
    value == "0" || begins("off", 2) || begins("false", 1) || begins("no", 1)
}

/// Where a value is given; of roles by their names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Scope {
    Server,
    /// Prony's own session: for whom else is not known.
    Own,
    Everybody,
    Database,
    Role(String),
    RoleHere(String),
}

/// A value of a setting.
#[derive(Clone, Debug)]
pub(super) struct Given {
    name: String,
    value: String,
    scope: Scope,
}

impl Given {
    /// From a row of [`query`].
    pub(super) fn of([name, value, server, here, role]: [Option<String>; 5]) -> Option<Self> {
        let scope = match (server.as_deref(), here.as_deref(), role) {
            (Some("t"), ..) => Scope::Server,
            (Some(_), ..) => Scope::Own,
            (None, Some("t"), Some(role)) if role.is_empty() => Scope::Database,
            (None, Some(_), Some(role)) if role.is_empty() => Scope::Everybody,
            (None, Some("t"), Some(role)) => Scope::RoleHere(role),
            (None, _, role) => Scope::Role(role?),
        };
        Some(Self { name: name?, value: value?, scope })
    }
}

/// Why not all sessions of the database count, by what the settings must be and what they are.
pub(super) fn not_counted(needed: &[Needed], given: &[Given]) -> Option<String> {
    needed.iter().find_map(|needed| needed.lacks(given))
}

impl Needed {
    fn lacks(&self, given: &[Given]) -> Option<String> {
        let Self { name, on, what, .. } = self;
        let own = || given.iter().filter(|given| given.name == *name);
        let in_scope = |scope: &Scope| own().find(|given| given.scope == *scope);
        // An older version has no such setting.
        in_scope(&Scope::Server).or_else(|| in_scope(&Scope::Own))?;
        let why = |of: &str, by: &str| format!("the server does not count {what}{of}: set `{name} = {on}`{by}");
        let all = [Scope::Database, Scope::Everybody, Scope::Server].iter().find_map(in_scope);
        match all.map(|all| (&all.scope, (self.counts)(&all.value))) {
            Some((_, true)) => {}
            Some((Scope::Database, false)) => {
                return Some(why(" in sessions of this database", " by `ALTER DATABASE`"));
            }
            Some((Scope::Everybody, false)) => return Some(why("", " by `ALTER ROLE ALL`")),
            Some((_, false)) => return Some(why("", "")),
            None => {
                return Some(format!(
                    "whether the server counts {what} is not known, since prony's own session has a `{name}` of its own: set \
                     `{name} = {on}` by `ALTER DATABASE` for the database that is observed"
                ));
            }
        }
        let of_role = |given: &Given| match &given.scope {
            Scope::RoleHere(role) => Some(role.clone()),
            Scope::Role(role) => Some(role.clone()).filter(|role| in_scope(&Scope::RoleHere(role.clone())).is_none()),
            _ => None,
        };
        let role = own().filter(|given| !(self.counts)(&given.value)).find_map(of_role)?;
        Some(why(&format!(" in sessions of role `{role}`"), " by `ALTER ROLE`"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(value: &str, scope: Scope) -> Given {
        Given { name: "track_counts".to_owned(), value: value.to_owned(), scope }
    }

    /// The begin of the reason, or nothing.
    fn lacks<const N: usize>(all: [(&str, Scope); N]) -> String {
        let given: Vec<Given> = all.into_iter().map(|(value, scope)| given(value, scope)).collect();
        not_counted(&COUNTS, &given).unwrap_or_default()
    }

    #[test]
    fn a_nearer_setting_overrides_a_more_general_one() {
        use Scope::{Database, Everybody, Server};
        assert_eq!(lacks([("on", Server)]), "");
        assert_eq!(lacks([("off", Server)]), "the server does not count it: set `track_counts = on`");
        assert_eq!(lacks([("off", Server), ("on", Everybody)]), "");
        assert_eq!(lacks([("off", Server), ("off", Everybody), ("on", Database)]), "");
        assert!(lacks([("on", Server), ("off", Everybody)]).ends_with("by `ALTER ROLE ALL`"));
        let database =
            "the server does not count it in sessions of this database: set `track_counts = on` by `ALTER DATABASE`";
        assert_eq!(lacks([("on", Server), ("on", Everybody), ("off", Database)]), database);
    }

    #[test]
    fn a_role_that_does_not_count_is_a_reason() {
        let [role, here] = [Scope::Role("5".to_owned()), Scope::RoleHere("5".to_owned())];
        let server = ("on", Scope::Server);
        let why = "the server does not count it in sessions of role `5`: set `track_counts = on` by `ALTER ROLE`";
        assert_eq!(lacks([server.clone(), ("off", role.clone())]), why);
        assert_eq!(lacks([server.clone(), ("off", here.clone())]), why);
        assert_eq!(lacks([server.clone(), ("on", role.clone()), ("off", here.clone())]), why);
        assert_eq!(lacks([server.clone(), ("off", role.clone()), ("on", here)]), "");
        let other = Scope::RoleHere("6".to_owned());
        assert_eq!(lacks([server, ("off", role), ("on", other)]), why, "of another role");
    }

    #[test]
    fn value_of_the_own_session_is_not_that_of_the_application() {
        for value in ["on", "off"] {
            assert!(lacks([(value, Scope::Own)]).starts_with("whether the server counts it is not known"));
            assert_eq!(lacks([(value, Scope::Own), ("on", Scope::Database)]), "");
            assert!(lacks([(value, Scope::Own), ("off", Scope::Everybody)]).ends_with("by `ALTER ROLE ALL`"));
        }
    }

    #[test]
    fn setting_that_a_version_has_not_is_no_reason() {
        assert_eq!(not_counted(&STATEMENTS, &[given("off", Scope::Server)]), None);
        assert_eq!(lacks([]), "");
    }

    #[test]
    fn names_of_off_are_those_of_postgresql() {
        for off in ["off", "OFF", "of", "false", "f", "Fa", "no", "n", "0", " off "] {
            assert!(is_off(off), "{off}");
        }
        for on in ["on", "o", "true", "t", "yes", "y", "1", "auto", "regress", ""] {
            assert!(!is_off(on), "{on}");
        }
    }

    #[test]
    fn statements_need_three_settings() {
        let with = |name: &str, value: &str| {
            let values = STATEMENTS.iter().map(|needed| {
                let value = if needed.name == name { value } else { needed.on };
                Given { name: needed.name.to_owned(), value: value.to_owned(), scope: Scope::Server }
            });
            not_counted(&STATEMENTS, &values.collect::<Vec<_>>())
        };
        assert_eq!(with("pg_stat_statements.track", "all"), None);
        for (name, value) in [
            ("pg_stat_statements.track", "None"),
            ("pg_stat_statements.track_utility", "off"),
            ("compute_query_id", "off"),
        ] {
            let why = with(name, value).unwrap();
            assert!(why.starts_with("the server does not count statements") && why.contains(name), "{why}");
        }
    }
}
