//! Sums over processes that may count pages of several of them more than once (METHOD 3.3): a finding of the trial, by which
//! verdicts on such sums are refused.

use std::collections::BTreeMap;

use prony_model::metric::{Metric, MetricKey, MetricName, Stat};
use prony_model::record::{Completion, PhaseRecord, ProcessSample, TrialRecord};
use prony_model::service::ALL;
use prony_model::spec::TrialSpec;
use prony_model::units::Nanos;
use serde_json::json;

use super::variant_trials::{Compared, VariantTrials};
use super::{Finding, Severity, bytes, is_part_of};

/// The guard's name.
const GUARD: &str = "shared_pages";

/// Its name where anonymous memory is concerned.
const FORKED: &str = "forked_pages";

/// The share of a sum that may be counted repeatedly.
const MOST: f64 = 0.1;

/// And so many bytes: all processes map a few libraries.
const LEAST: f64 = 10e6;

/// Of each phase and instance whose processes together map much that they may share, unless the proportional set size, in which
/// each page counts once, shows that they share little.
pub(super) fn check(spec: &TrialSpec, record: &TrialRecord) -> Vec<Finding> {
    let complete = record.phases.iter().filter(|phase| phase.completion == Completion::Complete);
    let of_instance =
        |phase, of| finding(spec, record, (phase, of)).into_iter().chain(forked(spec, record, (phase, of)));
    complete.flat_map(|phase| phase.readings.keys().flat_map(move |of| of_instance(phase, of))).collect()
}

/// Anonymous memory of processes that together have more of it than their control group ever had of all memory, which counts each
/// page once: that of pages which a fork has not copied. The group is that of the program, its processes and its replicas.
fn forked(spec: &TrialSpec, record: &TrialRecord, (phase, of): (&PhaseRecord, &str)) -> Option<Finding> {
    // Each service has a group of its own, whose peak is in the record only where the service ended the trial: then in place of
    // that of the program.
    let may_be_of_service = !spec.services.is_empty() && !record.ending.outcome.is_ok();
    if spec.measures_servers() || may_be_of_service || of == ALL || is_of_service(spec, of) {
        return None;
    }
    let most = *phase.reading_of(of, MetricKey::gauge(Metric::Anon, Stat::Max))?.measured()?;
    let peak = record.conditions.memory.as_ref()?.peak.measured()?.as_bytes() as f64;
    if most - peak < LEAST.max(MOST * peak) {
        return None;
    }
    let (whose, max, group) = (whose(of), bytes(most), bytes(peak));
    let message = format!(
        "`anon` and `rss`{whose} count pages once for each process that has them since a fork: `anon.max` is {max}, and the control \
         group never had more than {group} of all memory"
    );
    let hint = "compare `pss.end` of a phase that ends while the processes live, in which each page counts once";
    let data = json!({ "instance": of, "anon": most, "peak": peak });
    Some(Finding::of(FORKED, Severity::Warning, message, hint).in_phase(&phase.name).with(data))
}

fn finding(spec: &TrialSpec, record: &TrialRecord, (phase, of): (&PhaseRecord, &str)) -> Option<Finding> {
    let at_end = |metric| phase.reading_of(of, MetricKey::gauge(metric, Stat::End))?.measured().copied();
    let (repeated, sum) = most_repeated(spec, record, (phase, of))?;
    let once = at_end(Metric::Rss).zip(at_end(Metric::Pss));
    let is_little = |(sum, once): (f64, f64)| sum - once < LEAST.max(MOST * once);
    if repeated < LEAST.max(MOST * sum) || once.is_some_and(is_little) {
        return None;
    }
    let message = format!(
        "`rss`, `file` and `shared`{} count pages once for each process that has them: up to {} of {} may be counted repeatedly",
        whose(of),
        bytes(repeated),
        bytes(sum)
    );
    // Of a phase that ends with its processes no PSS is read: nobody could compare it.
    let hint = match at_end(Metric::Pss) {
        Some(_) => "compare `anon`, or `pss.end`, in which each page counts once",
        None => "compare `anon.max`",
    };
    let data = json!({ "instance": of, "repeated": repeated, "sum": sum });
    Some(Finding::of(GUARD, Severity::Note, message, hint).in_phase(&phase.name).with(data))
}

/// Whether a role or an instance is a service, one of its instances or a role in one.
fn is_of_service(spec: &TrialSpec, role: &str) -> bool {
    spec.services.iter().any(|service| is_part_of(role, service.name()))
}

/// After the name of a metric, the instance to which it belongs.
fn whose(instance: &str) -> String {
    if instance.is_empty() { String::new() } else { format!(" of `{instance}`") }
}

/// The most bytes of files and shared memory that processes have beside the process with the most of them, at any instant of the
/// phase, and all resident memory then.
fn most_repeated(spec: &TrialSpec, record: &TrialRecord, (phase, of): (&PhaseRecord, &str)) -> Option<(f64, f64)> {
    let (begin, end) = (phase.begin?, phase.end?);
    let is_meant = |role: &str| match of {
        ALL => true,
        "" => spec.measures(role),
        _ => is_part_of(role, of),
    };
    let mut instants: BTreeMap<Nanos, Vec<&ProcessSample>> = BTreeMap::new();
    for process in record.series.iter().filter(|process| is_meant(&process.role)) {
        for sample in process.samples.iter().filter(|sample| (begin..=end).contains(&sample.at)) {
            instants.entry(sample.at).or_default().push(sample);
        }
    }
    let shareable = |sample: &&ProcessSample| (sample.file.as_bytes() + sample.shared.as_bytes()) as f64;
    let at = |samples: &Vec<&ProcessSample>| {
        let most = samples.iter().map(shareable).fold(0.0, f64::max);
        let sum: f64 = samples.iter().map(shareable).sum();
        (sum - most, sum + samples.iter().map(|sample| sample.anon.as_bytes() as f64).sum::<f64>())
    };
    instants.values().map(at).max_by(|a, b| a.0.total_cmp(&b.0))
}

/// Why resident memory, or a part of it, is not compared.
pub(crate) fn counted_repeatedly([baseline, variant]: Compared<'_>, name: &MetricName) -> Option<String> {
    let instance = name.instance.as_deref().unwrap_or_default();
    let metric = name.key.metric;
    let said = |of: &VariantTrials<'_>| {
        let is_meant = |finding: &&Finding| {
            let is_of_metric = match finding.guard.as_ref() {
                GUARD => matches!(metric, Metric::Rss | Metric::File | Metric::Shared),
                FORKED => matches!(metric, Metric::Rss | Metric::Anon),
                _ => false,
            };
            let of = finding.data["instance"].as_str();
            // What the program counts repeatedly is in its sum with the services too.
            let is_in_sum = instance == ALL && finding.guard == FORKED && of == Some("");
            is_of_metric && finding.phase.as_deref() == Some(&name.phase) && (of == Some(instance) || is_in_sum)
        };
        let found = of.trials.iter().flat_map(|trial| &trial.findings).find(is_meant)?;
        Some(format!("`{of}`: {}; {}", found.message, found.hint))
    };
    [variant, baseline].into_iter().find_map(|of| match metric {
        Metric::Rss | Metric::File | Metric::Shared => said(of),
        // Pages that a fork has copied nothing of yet are anonymous memory of both.
        Metric::Anon => said(of).or_else(|| {
            let at_end = |metric| of.median(&MetricName { key: MetricKey::gauge(metric, Stat::End), ..name.clone() });
            let (anon, once) = (at_end(Metric::Anon)?, at_end(Metric::Pss)?);
            (anon - once > LEAST.max(MOST * once)).then(|| {
                let (anon, once) = (bytes(anon), bytes(once));
                format!(
                    "`{name}` of `{of}` counts pages once for each process that has them since a fork: at the phase's end it is {anon}, \
                     and all memory, each page counted once, is {once}: compare `pss.end`"
                )
            })
        }),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use prony_model::outcome::Outcome;
    use prony_model::reading::Reading;
    use prony_model::record::{MemoryEvidence, MetricKeyText, ProcessSeries};
    use prony_model::units::Bytes;

    use super::super::tests::{Engines, phase, record, spec, variant_trials};
    use super::*;

    /// A trial whose processes have these bytes of anonymous memory and of files in the midst of the phase, and these figures at
    /// its end.
    fn trial(processes: &[(f64, f64)], at_end: &[(Metric, f64)]) -> TrialRecord {
        let mut load = phase("load", &[]);
        (load.begin, load.end) = (Some(Nanos::from_secs(1)), Some(Nanos::from_secs(3)));
        let at_end = at_end
            .iter()
            .map(|(metric, value)| (MetricKeyText(MetricKey::gauge(*metric, Stat::End)), Reading::Measured(*value)));
        load.readings = BTreeMap::from([(String::new(), at_end.collect())]);
        let mut record = record(vec![load]);
        let bytes = |bytes: f64| Bytes::from_bytes(bytes as u64);
        let sample = |at, anon, file| ProcessSample {
            at: Nanos::from_secs(at),
            anon: bytes(anon),
            file: bytes(file),
            ..ProcessSample::default()
        };
        let process = |(pid, (anon, file)): (u32, &(f64, f64))| ProcessSeries {
            pid,
            role: "site".to_owned(),
            command: "node".to_owned(),
            // After the phase it has more.
            samples: vec![sample(2, *anon, *file), sample(9, *anon, 9.0 * file)],
        };
        record.series = (1..).zip(processes).map(process).collect();
        let findings = check(&spec("lmdb"), &record);
        record.findings = findings;
        record
    }

    #[test]
    fn more_anonymous_memory_than_the_control_group_ever_had_is_not_compared() {
        let of = |peak: Option<f64>| {
            let mut forked = trial(&[], &[]);
            let anon = (MetricKeyText(MetricKey::gauge(Metric::Anon, Stat::Max)), Reading::Measured(335e6));
            forked.phases[0].readings = BTreeMap::from([(String::new(), [anon].into())]);
            forked.conditions.memory = peak.map(|peak| MemoryEvidence {
                peak: Reading::Measured(Bytes::from_bytes(peak as u64)),
                ..MemoryEvidence::default()
            });
            forked.findings = check(&spec("lmdb"), &forked);
            forked
        };
        let forked = of(Some(80e6));
        let expected = "`b`: `anon` and `rss` count pages once for each process that has them since a fork: `anon.max` is 335.0 MB, and the \
                        control group never had more than 80.0 MB of all memory; compare `pss.end` of a phase that ends while the processes \
                        live, in which each page counts once";
        for metric in ["load.anon.max", "load.anon.mean", "load.rss.max"] {
            assert_eq!(refused(&forked, metric).as_deref(), Some(expected), "{metric}");
        }
        for other in ["load.file.max", "load.pss.end", "load.main.anon.max"] {
            assert_eq!(refused(&forked, other), None, "{other}");
        }
        for unknown in [of(None), of(Some(326e6))] {
            assert_eq!(refused(&unknown, "load.anon.max"), None);
        }
    }

    /// A PostgreSQL of 400 MB was said to count pages repeatedly, since a program of 60 MB had a peak of 80 MB.
    #[test]
    fn memory_of_services_is_not_judged_by_the_peak_of_the_program() {
        let beside: TrialSpec = {
            let text =
                "[[service]]\nname = \"pg\"\ncommand = [\"pg\", \"{port}\"]\n[program.app]\ncommand = [\"app\"]\n";
            let raw = prony_experiment::parse(text, "x.toml").unwrap();
            prony_experiment::check(&raw, &Engines, &Default::default()).unwrap().variants()[0].spec.clone()
        };
        let found = |own: f64| {
            let mut record = trial(&[], &[]);
            let anon = |bytes| [(MetricKeyText(MetricKey::gauge(Metric::Anon, Stat::Max)), Reading::Measured(bytes))];
            let instances = [("", own), ("replica.1", own), ("pg", 400e6), ("pg.main", 400e6), (ALL, 400e6 + own)];
            record.phases[0].readings =
                instances.into_iter().map(|(name, bytes)| (name.to_owned(), anon(bytes).into())).collect();
            let peak = Reading::Measured(Bytes::from_bytes(80_000_000));
            record.conditions.memory = Some(MemoryEvidence { peak, ..MemoryEvidence::default() });
            record.findings = check(&beside, &record);
            record
        };
        let of = |record: &TrialRecord| -> Vec<String> {
            record.findings.iter().map(|found| found.data["instance"].as_str().unwrap().to_owned()).collect()
        };
        let (small, forked) = (found(60e6), found(335e6));
        assert_eq!(of(&small), [""; 0]);
        assert_eq!(of(&forked), ["", "replica.1"]);
        let mut failed = forked.clone();
        failed.ending.outcome = Outcome::Failed { code: None };
        assert_eq!(check(&beside, &failed), [], "the peak may be that of a service which failed");
        assert!(
            refused(&forked, "load.all.anon.max").unwrap().contains("`anon.max` is 335.0 MB"),
            "they are in the sum"
        );
        assert_eq!(refused(&forked, "load.pg.anon.max"), None);
        assert_eq!(refused(&small, "load.all.anon.max"), None);
    }

    fn refused(several: &TrialRecord, metric: &str) -> Option<String> {
        let (spec, one) = (spec("lmdb"), trial(&[(5e6, 80e6)], &[]));
        let (a, b) = (variant_trials("a", &spec, &one), variant_trials("b", &spec, several));
        let of = |a, b| counted_repeatedly([a, b], &metric.parse().unwrap());
        assert_eq!(of(&a, &b), of(&b, &a));
        of(&a, &b)
    }

    #[test]
    fn sums_of_what_processes_may_share_are_not_compared() {
        let four = [(7e6, 80e6); 4];
        let expected = "`b`: `rss`, `file` and `shared` count pages once for each process that has them: up to 240.0 MB of 348.0 MB may be \
                        counted repeatedly; compare `anon.max`";
        let ended = trial(&four, &[]);
        for metric in ["load.rss.max", "load.rss.end", "load.file.end", "load.shared.max"] {
            assert_eq!(refused(&ended, metric).as_deref(), Some(expected), "{metric}: nothing was alive at the end");
        }
        assert_eq!((refused(&ended, "load.anon.max"), refused(&ended, "load.pss.end")), (None, None));
        let figures = |rss, pss| [(Metric::Rss, rss), (Metric::Pss, pss)];
        let alive = refused(&trial(&four, &figures(348e6, 108e6)), "load.rss.max").unwrap();
        assert!(alive.ends_with("compare `anon`, or `pss.end`, in which each page counts once"), "{alive}");
        assert_eq!(refused(&trial(&four, &figures(348e6, 345e6)), "load.rss.max"), None, "each maps its own file");
    }

    #[test]
    fn what_one_process_shares_with_the_rest_of_the_machine_is_no_matter() {
        let with_a_shell = [(5e6, 80e6), (1e6, 3e6)];
        assert_eq!(refused(&trial(&with_a_shell, &[(Metric::Rss, 89e6), (Metric::Pss, 48e6)]), "load.rss.max"), None);
        assert_eq!(refused(&trial(&[(5e6, 80e6)], &[(Metric::Rss, 85e6), (Metric::Pss, 45e6)]), "load.rss.max"), None);
    }

    #[test]
    fn anonymous_memory_above_all_memory_is_not_compared() {
        let figures = |anon, pss| [(Metric::Anon, anon), (Metric::Pss, pss)];
        assert!(refused(&trial(&[], &figures(290e6, 80e6)), "load.anon.max").is_some());
        assert_eq!(refused(&trial(&[], &figures(79e6, 80e6)), "load.anon.max"), None);
    }
}
