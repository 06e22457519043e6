//! Profiles for the HTML page: for each phase the functions and packages with the most time, and a flame graph.

use std::collections::BTreeMap;

use prony_analysis::profile::{Flame, FlameNode, Profile, Selection, Share, What};
use prony_model::reading::Reading;
use prony_model::units::Nanos;
use serde::Serialize;

use crate::error::Error;
use crate::plot::data::Source;
use crate::profiles::{PhaseProfile, VariantProfile, load, rest};
use crate::words::cut;

/// Rows of the tables.
const ROWS: usize = 25;
/// Calls below this share of a phase are left out of the picture.
const SMALLEST: f64 = 0.001;
/// Calls of one picture, at most: a page stays small.
const CALLS: usize = 4_000;
/// Characters of a name: signatures may fill pages.
const LONGEST: usize = 160;

/// The profile of one variant.
#[derive(Serialize)]
pub(super) struct ProfileOf {
    variant: usize,
    /// Who took the samples, how often, and what their time is.
    about: String,
    /// Why there is none.
    missing: Option<String>,
    notes: Vec<String>,
    phases: Vec<PhaseOf>,
}

/// One phase. Times are shares of its busy time.
#[derive(Serialize)]
struct PhaseOf {
    phase: String,
    overhead: String,
    amount: String,
    /// Seconds for which its samples stand.
    busy: f64,
    /// Names that rows and calls point to.
    names: Vec<Name>,
    packages: Vec<String>,
    /// Name, own and total share.
    functions: Vec<(usize, f64, f64)>,
    /// Functions that have no row.
    more: usize,
    /// Package, own and total share.
    by_package: Vec<(usize, f64, f64)>,
    /// Caller (-1 for none), name, own and total share of each call; callers first.
    calls: Vec<(i64, usize, f64, f64)>,
    left_out: usize,
    /// The least share that is drawn.
    smallest: f64,
}

#[derive(Serialize)]
struct Name {
    text: String,
    /// Its package; none for a thread.
    package: Option<usize>,
    place: String,
}

/// The profiles of a run.
pub(super) fn profiles(source: Source<'_>) -> Result<Vec<ProfileOf>, Error> {
    let all = load(source.database, source.data, |_| true)?;
    Ok(all.iter().map(of_variant).collect())
}

fn of_variant(of: &VariantProfile) -> ProfileOf {
    let profiler = of.record.profiler;
    let (missing, accuracy) = match &of.profile {
        Reading::Missing(why) => (Some(why.to_string()), String::new()),
        Reading::Measured(Profile { uncertainty: Nanos::ZERO, .. }) => (None, String::new()),
        Reading::Measured(profile) => (None, format!("; instants to within {}", profile.uncertainty)),
    };
    ProfileOf {
        variant: of.record.variant,
        about: format!("{}{}: {}{accuracy}", profiler.name(), of.interval(), profiler.meaning()),
        missing,
        notes: of.notes(),
        phases: of.phases.iter().filter_map(|phase| Some(of_phase(of, phase, &of.samples_of(phase)?))).collect(),
    }
}

fn of_phase(of: &VariantProfile, phase: &PhaseProfile, selection: &Selection<'_>) -> PhaseOf {
    let times = selection.times();
    let (flame, smallest) = flame(selection);
    let mut names = Names::new(selection.profile);
    let share = |time: Nanos| (time.as_secs_f64() / selection.busy.as_secs_f64() * 1e6).round() / 1e6;
    let functions = times.functions.iter().take(ROWS).map(|s| (names.function(s.of), share(s.own), share(s.total)));
    let functions = functions.collect();
    let call = |node: &FlameNode| {
        let name = match node.what {
            What::Thread(thread) => names.thread(&selection.profile.thread_name(thread)),
            What::Rest(threads) => names.thread(&rest(threads)),
            What::Function(function) => names.function(function),
        };
        (node.parent.map_or(-1, |at| at as i64), name, share(node.own), share(node.total))
    };
    let calls = flame.nodes.iter().map(call).collect();
    let package = |s: &Share| (names.package(s.of), share(s.own), share(s.total));
    let by_package = times.packages.iter().take(ROWS).map(package).collect();
    PhaseOf {
        phase: phase.name.clone(),
        overhead: phase.overhead.to_string(),
        amount: of.amount(phase, selection),
        busy: selection.busy.as_secs_f64(),
        names: names.names,
        packages: names.packages,
        functions,
        more: times.functions.len().saturating_sub(ROWS),
        by_package,
        calls,
        left_out: flame.left_out,
        smallest,
    }
}

/// The picture; where a tenth of a percent still makes too many calls, more is left out. This ends: what is smaller than
/// the whole is left out in the end, and small threads are one root.
fn flame(selection: &Selection<'_>) -> (Flame, f64) {
    let mut smallest = SMALLEST;
    loop {
        let flame = Flame::of(selection, smallest);
        if flame.nodes.len() <= CALLS {
            return (flame, smallest);
        }
        smallest *= 2.0;
    }
}

/// Numbers the names that are used.
struct Names<'p> {
    profile: &'p Profile,
    names: Vec<Name>,
    packages: Vec<String>,
    of_function: BTreeMap<usize, usize>,
    of_package: BTreeMap<usize, usize>,
}

impl<'p> Names<'p> {
    fn new(profile: &'p Profile) -> Self {
        let (of_function, of_package) = (BTreeMap::new(), BTreeMap::new());
        Self { profile, names: Vec::new(), packages: Vec::new(), of_function, of_package }
    }

    fn package(&mut self, package: usize) -> usize {
        *self.of_package.entry(package).or_insert_with(|| {
            self.packages.push(self.profile.packages[package].clone());
            self.packages.len() - 1
        })
    }

    fn function(&mut self, function: usize) -> usize {
        if let Some(known) = self.of_function.get(&function) {
            return *known;
        }
        let of = &self.profile.functions[function];
        let package = Some(self.package(of.package));
        self.names.push(Name { text: cut(&of.name, LONGEST), package, place: cut(&of.place(), LONGEST) });
        self.of_function.insert(function, self.names.len() - 1);
        self.names.len() - 1
    }

    /// A name without a package: of threads.
    fn thread(&mut self, text: &str) -> usize {
        self.names.push(Name { text: cut(text, LONGEST), package: None, place: String::new() });
        self.names.len() - 1
    }
}

#[cfg(test)]
mod tests {
    use prony_analysis::profile::Builder;

    use super::*;

    #[test]
    fn a_picture_of_more_threads_than_calls_is_small() {
        let one = |tid: usize| {
            format!("worker 1/{tid} 10.000000001: 1000000 cpu-clock: \n\t {tid:x} call{tid} (/usr/bin/prony)\n\n")
        };
        let mut builder = Builder::default();
        builder.add_perf_script(&(2..CALLS + 1_002).map(one).collect::<String>()).unwrap();
        let profile = builder.finish();
        let (flame, smallest) = flame(&profile.during(None));
        assert_eq!((flame.nodes.len(), flame.left_out), (1, CALLS + 1_000), "at {smallest}");
        assert_eq!(flame.nodes[0].what, What::Rest(CALLS + 1_000));
    }
}
