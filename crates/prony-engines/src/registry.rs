//! The engines of this build: the one place that lists them.
//!
//! The loops are generic over the engine. They are compiled with each engine in this crate, so that a change in another crate does
//! not compile them again.

use prony_model::crash::CrashStep;
use prony_model::link::{Link, Progress};
use prony_model::spec::StoreSpec;
use prony_model::spelling::nearest;

use crate::driver::{Capabilities, Description, Driver, EngineError, Settings, StoreFault};
use crate::phases::{self, CrashPlan, HostError, Machine, Plan, Stop};

/// An engine that a driver exists for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Known {
    /// The driver's name.
    pub name: &'static str,
    /// The feature that enables it; `None` where every build has it.
    pub feature: Option<&'static str>,
    /// Whether this build has it.
    pub built: bool,
}

type Host = fn(&mut dyn Link, &dyn Machine, &Plan, &Progress) -> Result<(), HostError>;

type Crash = fn(&mut dyn Link, &dyn Machine, &CrashPlan, CrashStep) -> Result<(), HostError>;

/// What is done with a driver, which is chosen by name once: inside, every call is direct.
struct Functions {
    describe: fn() -> Description,
    check: fn(&StoreSpec) -> Result<Settings, Vec<StoreFault>>,
    capabilities: fn(&StoreSpec) -> Capabilities,
    host: Host,
    crash: Crash,
}

impl Functions {
    fn of<D: Driver>() -> Self {
        Self {
            describe: D::describe,
            check: D::check,
            capabilities: D::capabilities,
            host: phases::host::<D>,
            crash: phases::crash::<D>,
        }
    }
}

macro_rules! engines {
    ($($name:literal $feature:literal $driver:path;)*) => {
        /// Every engine that a driver exists for, in this build or not.
        pub const KNOWN: &[Known] = &[
            Known { name: "memory", feature: None, built: true },
            $(Known { name: $name, feature: Some($feature), built: cfg!(feature = $feature) },)*
        ];

        fn functions(engine: &str) -> Result<Functions, EngineError> {
            match engine {
                "memory" => Ok(Functions::of::<crate::memory::Memory>()),
                $(#[cfg(feature = $feature)] $name => Ok(Functions::of::<$driver>()),)*
                other => Err(EngineError::Unknown(other.to_owned())),
            }
        }
    };
}

engines! {
    "lmdb" "lmdb" crate::lmdb::Lmdb;
    "sqlite" "sqlite" crate::sqlite::Sqlite;
    "redb" "redb" crate::redb::Redb;
    "fjall" "fjall" crate::fjall::Fjall;
    "libmdbx" "libmdbx" crate::mdbx::Mdbx;
    "sled" "sled" crate::sled::Sled;
    "rocksdb" "rocksdb" crate::rocksdb::RocksDb;
    "postgresql" "postgres" crate::postgresql::Postgresql;
    "redis" "redis" crate::redis::Redis;
    "mongodb" "mongodb" crate::mongodb::Mongodb;
}

/// The engines of this build; asks each for its version.
pub fn engines() -> Vec<Description> {
    KNOWN.iter().filter_map(|known| describe(known.name).ok()).collect()
}

/// Hosts a store of the engine named `engine`: opens it, reports that, and runs the requested phases until the runner sends
/// `stop`.
///
/// # Errors
/// Whatever ends the trial before its plan, and an engine that this build does not have.
pub fn host(
    engine: &str,
    link: &mut dyn Link,
    machine: &dyn Machine,
    plan: &Plan,
    progress: &Progress,
) -> Result<(), HostError> {
    (functions(engine).map_err(Stop::from)?.host)(link, machine, plan, progress)
}

/// Does a step of a crash trial on the engine named `engine`.
///
/// # Errors
/// As [`host`].
pub fn crash(
    engine: &str,
    link: &mut dyn Link,
    machine: &dyn Machine,
    plan: &CrashPlan,
    step: CrashStep,
) -> Result<(), HostError> {
    (functions(engine).map_err(Stop::from)?.crash)(link, machine, plan, step)
}

/// The settings that result from `spec` on its engine, or everything that is wrong with it.
///
/// # Errors
/// An engine that this build does not have, an unknown option, a value that does not fit, or a
/// durability class that is not offered.
pub fn check(spec: &StoreSpec) -> Result<Settings, Vec<StoreFault>> {
    let functions = functions(&spec.engine).map_err(|_| vec![missing(&spec.engine)])?;
    (functions.check)(spec)
}

/// What the engine can do with the settings that result from `spec`.
///
/// # Errors
/// `Unknown` where this build has no such engine.
pub fn capabilities(spec: &StoreSpec) -> Result<Capabilities, EngineError> {
    Ok((functions(&spec.engine)?.capabilities)(spec))
}

/// What the engine named `engine` is and promises.
///
/// # Errors
/// `Unknown` where this build has no such engine.
pub fn describe(engine: &str) -> Result<Description, EngineError> {
    Ok((functions(engine)?.describe)())
}

/// The fault of an engine that this build does not have; its hint says how to get one that does.
pub fn missing(engine: &str) -> StoreFault {
    let known = KNOWN.iter().find(|known| known.name == engine).and_then(|known| known.feature);
    let (message, hint) = match known {
        Some(feature) => {
            (format!("engine `{engine}` is not in this build"), format!("build with `--features {feature}`"))
        }
        None => (format!("there is no engine `{engine}`"), suggestion(engine)),
    };
    StoreFault { option: None, message, hint: Some(hint) }
}

fn suggestion(engine: &str) -> String {
    let names: Vec<&str> = KNOWN.iter().map(|known| known.name).collect();
    match nearest(engine, names.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known engines: `{}`", names.join("`, `")),
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn spec(engine: &str) -> StoreSpec {
        StoreSpec::of(engine)
    }

    #[test]
    fn every_engine_of_the_build_is_known_by_the_name_it_gives_itself() {
        let described: Vec<String> = engines().into_iter().map(|engine| engine.name).collect();
        let built: Vec<&str> = KNOWN.iter().filter(|known| known.built).map(|known| known.name).collect();
        assert_eq!(described, built);
        for name in built {
            assert_eq!(describe(name).map(|engine| engine.name).ok().as_deref(), Some(name));
        }
    }

    #[test]
    fn engines_that_are_not_there_say_what_to_do() {
        let faults = check(&spec("lmbd")).unwrap_err();
        assert_eq!(faults[0].message, "there is no engine `lmbd`");
        assert_eq!(faults[0].hint.as_deref(), Some("did you mean `lmdb`?"));
        for known in KNOWN.iter().filter(|known| !known.built) {
            let faults = check(&spec(known.name)).unwrap_err();
            assert_eq!(faults[0].hint, known.feature.map(|feature| format!("build with `--features {feature}`")));
        }
    }

    #[test]
    fn every_engine_runs_as_it_comes() {
        for engine in engines() {
            let settings = check(&spec(&engine.name)).unwrap();
            let default = engine.promises.iter().find(|promise| promise.default).map(|promise| promise.class);
            assert_eq!(Some(settings.class), default, "{}", engine.name);
        }
    }
}
