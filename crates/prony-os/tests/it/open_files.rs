//! Tests of a sampler that would keep more files open than the usual limit permits (`ulimit -n`): processes beyond it had been
//! in no figure, without a sign.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on must say where")]

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::reading::Reading;
use prony_model::record::MetricKeyText;
use prony_os::launch::{Launch, LaunchSpec, Output};
use prony_os::sample::{Root, Sampler, Settings, phase_readings};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::launch_roles::{command, launcher, release};

/// Fewer files than a sampler keeps open for [`SLEEPERS`].
const LIMIT: u64 = 128;
const SLEEPERS: usize = 60;

fn sleepers() -> Vec<Child> {
    let sleep = |_| Command::new("sleep").arg("600").stdin(Stdio::null()).spawn().unwrap();
    (0..SLEEPERS).map(sleep).collect()
}

fn end(sleepers: &mut [Child]) {
    for sleeper in sleepers {
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
    }
}

fn sampler() -> Sampler {
    let root = Root { own: false, ..Root::subject(std::process::id(), "worker") };
    Sampler::idle(vec![root], Settings::default())
}

/// Counts this process and [`SLEEPERS`] children at the end of a phase.
fn count() -> f64 {
    let mut sleepers = sleepers();
    let sampler = sampler();
    let readings = phase_readings(&sampler.snapshot(), &sampler.snapshot(), &[], "");
    end(&mut sleepers);
    match &readings[&MetricKeyText(MetricKey::gauge(Metric::Processes, Stat::End))] {
        Reading::Measured(count) => *count,
        Reading::Missing(why) => panic!("{why}"),
    }
}

/// In a process of its own: the limit is raised for the sampler, and what is launched then has that of the user.
pub(crate) fn observe() {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(LIMIT), ..limit }).unwrap();
    assert_eq!(count(), SLEEPERS as f64 + 1.0);
    assert_eq!(getrlimit(Resource::Nofile).current, limit.maximum);
    let mut spec = LaunchSpec::new("/bin/sh", std::env::temp_dir());
    spec.args = ["-c", "test $(ulimit -n) = $0"].map(Into::into).into();
    spec.args.push(LIMIT.to_string().into());
    (spec.stdout, spec.stderr) = (Output::Null, Output::Null);
    let mut running = release(launcher().start(spec).unwrap()).unwrap();
    let end = running.wait(None).unwrap().unwrap();
    assert_eq!(end.status, prony_os::launch::Status::Exited(0), "a subject has the limit of the user");
}

/// In a process of its own: where the limit cannot be raised, files are opened for each reading.
pub(crate) fn observe_with_few() {
    setrlimit(Resource::Nofile, Rlimit { current: Some(LIMIT), maximum: Some(LIMIT) }).unwrap();
    assert_eq!(count(), SLEEPERS as f64 + 1.0);
}

/// In a process of its own: where no file can be opened at all, what cannot be read is missing.
pub(crate) fn observe_with_none() {
    setrlimit(Resource::Nofile, Rlimit { current: Some(LIMIT), maximum: Some(LIMIT) }).unwrap();
    let mut sleepers = sleepers();
    let sampler = sampler();
    let begin = sampler.snapshot();
    let open: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let full = sampler.snapshot();
    drop(open);
    end(&mut sleepers);
    for key in [MetricKey::gauge(Metric::Anon, Stat::Max), MetricKey::amount(Metric::MinorFaults)] {
        let reading = &phase_readings(&begin, &full, &[], "")[&MetricKeyText(key)];
        assert!(matches!(reading, Reading::Missing(why) if why.to_string().contains("`ulimit -Hn`")), "{reading:?}");
    }
}

#[test]
fn subject_has_the_limit_of_the_user_while_that_of_the_sampler_is_raised() {
    assert!(command("open-files", Path::new("/")).status().unwrap().success());
}

#[test]
fn processes_beyond_a_limit_that_cannot_be_raised_are_measured() {
    assert!(command("few-open-files", Path::new("/")).status().unwrap().success());
}

#[test]
fn processes_that_cannot_be_read_make_the_metrics_of_their_tree_missing() {
    assert!(command("no-open-files", Path::new("/")).status().unwrap().success());
}
