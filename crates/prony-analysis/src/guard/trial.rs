//! Guards that check one trial.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::json;

use super::disturbances::{PAUSED, change, events};
use super::{
    Finding, NOT_COLD, STILL_CACHED, Severity, amount, beyond_records, bytes, gauge, nanos, percent,
    phases_not_observed, processes, program, questions, recorded, refusals, replicas, reported_values, requests,
    shared_pages, whose,
};
use prony_model::http::{HttpSpec, NOT_SENT};
use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::number;
use prony_model::reading::{Reading, Why};
use prony_model::record::host::Mount;
use prony_model::record::{Completion, Conditions, MetricKeyText, PhaseRecord, TrialRecord};
use prony_model::spec::{Action, BACKGROUND, PhaseSpec, Sign, TrialSpec};
use prony_model::units::{Bytes, Nanos};

/// Share of a phase's wall time outside timed sections above which it is reported (METHOD 2.1).
const GAPS: f64 = 0.05;

/// A phase must last at least as long as so many readings of the clock.
const CLOCK_READINGS: f64 = 10_000.0;

/// The kernel's peak of resident memory may exceed the largest sample by this share of it plus [`PEAK_BYTES`].
const PEAK_SHARE: f64 = 0.10;

/// See [`PEAK_SHARE`].
const PEAK_BYTES: Bytes = Bytes::from_mib(4);

/// A disk counts as nearly full below this share of free space.
const FREE_SHARE: f64 = 0.10;

/// A trial that writes no more than this share of the free space finds it wherever the file system has most of it.
const LITTLE_OF_FREE: f64 = 0.01;

/// Every guard that needs one trial only. `clock` is the cost of reading the clock once on this machine.
pub fn check(spec: &TrialSpec, record: &TrialRecord, clock: Nanos) -> Vec<Finding> {
    let mut findings = Vec::new();
    for phase in record.phases.iter().filter(|p| p.completion != Completion::NotReached) {
        let declared = questions::named(spec, &phase.name);
        let http = declared.and_then(|spec| spec.action.http());
        let instances = ["", BACKGROUND].into_iter();
        findings.extend(instances.clone().filter_map(|instance| errors_present(phase, instance, http)));
        let background = declared.and_then(|spec| spec.background.as_ref()).map_or("", |action| action.name());
        let actions = [("", phase.action.as_str()), (BACKGROUND, background)];
        findings.extend(actions.into_iter().filter_map(|of| nothing_found(phase, of)));
        findings.extend(instances.filter_map(|instance| refusals::many_refused(phase, instance)));
        findings.extend(gaps_between_batches(phase));
        findings.extend(phase_too_short(phase, clock));
        findings.extend(unsettled(phase));
        findings.extend(kernel_peak(phase));
    }
    findings.extend(beyond_records::check(spec, record));
    findings.extend(cache_state(spec, record));
    findings.extend(phases_not_observed::check(spec, record));
    findings.extend(program::check(spec, record));
    findings.extend(reported_values::too_long(record));
    findings.extend(replicas::check(record));
    findings.extend(processes::check(record));
    findings.extend(requests::check(spec, record));
    findings.extend(shared_pages::check(spec, record));
    findings.extend(swapped(record));
    findings.extend(processes_refused(spec, record));
    findings.extend(throttled(&record.conditions));
    findings
}

/// Operations failed: the throughput looks better than it is (METHOD 1.4). `expect` are the statuses that a phase of requests allows.
pub(crate) fn errors_present(phase: &PhaseRecord, instance: &str, http: Option<&HttpSpec>) -> Option<Finding> {
    let counted = phase.amount_of(instance, Metric::Errors).unwrap_or(0.0);
    let texts: BTreeMap<&str, u64> = phase.errors_of(instance).collect();
    let errors = counted.max(texts.values().sum::<u64>() as f64);
    if errors == 0.0 {
        return None;
    }
    let done = phase.amount_of(instance, Metric::Operations).unwrap_or(0.0);
    // What follows from other errors says least.
    let commonest = texts.iter().min_by_key(|(text, count)| (**text == NOT_SENT, Reverse(**count)));
    let unexpected = commonest.and_then(|(text, _)| unexpected(text, http?));
    let commonest = commonest.map_or(String::new(), |(text, _)| {
        format!(", most often: {}", unexpected.clone().unwrap_or_else(|| quoted(text)))
    });
    let of = whose(instance);
    let message = format!("{}{of} failed and {done:.0} succeeded{commonest}", number::count(errors, "operation"));
    let hint = match unexpected {
        Some(_) => {
            "if that answer is right, add its status to `expect`; otherwise look at the errors before the throughput"
        }
        None => "look at the errors before the throughput: failed operations may be cheaper than successful ones",
    };
    let found = Finding::of("errors_present", Severity::Warning, message, hint).in_phase(&phase.name);
    Some(found.with(json!({ "errors": errors, "operations": done, "texts": texts })))
}

/// `answered 201, and `expect` allows 200`, of an error that is a status.
fn unexpected(error: &str, http: &HttpSpec) -> Option<String> {
    let status: u16 = error.strip_prefix("status ")?.parse().ok()?;
    let first = &http.kinds.first()?.expect;
    let expected = match http.kinds.iter().all(|kind| kind.expect == *first) {
        true => format!("`expect` allows {first}"),
        false => "`expect` of that kind of request does not allow it".to_owned(),
    };
    Some(format!("answered {status}, and {expected}"))
}

/// The limit on processes and threads was reached: the program behaved differently because of it, or failed.
pub(crate) fn processes_refused(spec: &TrialSpec, record: &TrialRecord) -> Option<Finding> {
    let refused = record.conditions.memory.as_ref()?.forks_refused.measured().filter(|refused| **refused > 0)?;
    let limit = spec.limits.pids.map_or_else(|| "the limit".to_owned(), |limit| format!("`pids = {limit}`"));
    let message = format!("the kernel refused {refused} new processes or threads because of {limit}");
    let hint = "raise the limit, or take the measurements as those of a program that was refused processes or threads";
    Some(Finding::of("processes_refused", Severity::Warning, message, hint).with(json!({ "refused": refused })))
}

/// No read found a record: the phase measured only unsuccessful lookups.
pub(crate) fn nothing_found(phase: &PhaseRecord, (instance, action): (&str, &str)) -> Option<Finding> {
    let of = |metric| phase.amount_of(instance, metric);
    let done = of(Metric::Operations)?;
    if action == "delete" && done > 0.0 && of(Metric::Misses) == Some(done) {
        let message = format!("{done:.0} removals{} found no record at all", whose(instance));
        let hint = "check whether an earlier phase stores these records, and with the same keys";
        return Some(Finding::of("nothing_found", Severity::Warning, message, hint).in_phase(&phase.name));
    }
    let rows = of(Metric::Rows)?;
    if rows > 0.0 || done == 0.0 || (instance.is_empty() && !matches!(action, "get" | "scan" | "find" | "http")) {
        return None;
    }
    let (reads, hint) = match action {
        "mix" => ("operations", "check whether an earlier phase stores these records, and with the same keys"),
        "find" => ("operations", "check `where`, and whether an earlier phase stores the documents"),
        "http" => (
            "answers",
            "check the pattern of `rows`, and whether these answers have a body, as those to HEAD have none",
        ),
        _ => ("reads", "check whether an earlier phase stores these records, and with the same keys"),
    };
    let message = format!("{done:.0} {reads}{} found no row at all", whose(instance));
    Some(Finding::of("nothing_found", Severity::Warning, message, hint).in_phase(&phase.name))
}

/// The text in backticks, unless it contains backticks itself.
fn quoted(text: &str) -> String {
    if text.contains('`') { text.to_owned() } else { format!("`{text}`") }
}

/// Much of the phase's wall time lies outside its timed sections, where an engine's background work is not timed.
pub fn gaps_between_batches(phase: &PhaseRecord) -> Option<Finding> {
    // Where several processes share a phase, one's gaps lie beside sections of others: each is looked at by itself.
    let of = |readings: &BTreeMap<MetricKeyText, Reading<f64>>| {
        let amount = |metric| readings.get(&MetricKeyText(MetricKey::amount(metric)))?.measured().copied();
        Some((amount(Metric::Gap)?, amount(Metric::Wall)?))
    };
    let of_replica = |(name, readings): (&String, _)| of(readings).filter(|_| name.starts_with("replica."));
    let whole = (amount(phase, Metric::Gap).unwrap_or(0.0), amount(phase, Metric::Wall)?);
    let each = phase.readings.iter().filter_map(of_replica);
    let (gap, wall) = each.fold(whole, |most, one| if one.0 * most.1 > most.0 * one.1 { one } else { most });
    if !phase.timed || wall <= 0.0 || gap <= GAPS * wall {
        return None;
    }
    let message = format!("{} of the wall time of the phase lies between its timed sections", percent(gap / wall));
    let hint =
        "compare `wall` with `time`, or make values smaller or less compressible so that preparing them is cheap";
    let found = Finding::of("gaps_between_batches", Severity::Note, message, hint).in_phase(&phase.name);
    Some(found.with(json!({ "gap_ns": gap, "wall_ns": wall })))
}

/// A timed phase was too short for the resolution of the clock.
pub(crate) fn phase_too_short(phase: &PhaseRecord, clock: Nanos) -> Option<Finding> {
    let time = amount(phase, Metric::Time)?;
    let least = CLOCK_READINGS * clock.as_nanos() as f64;
    // A phase that did nothing at all (a commit with nothing open) has no rate to be wrong about.
    if !phase.timed
        || phase.completion != Completion::Complete
        || amount(phase, Metric::Operations)? == 0.0
        || time >= least
    {
        return None;
    }
    let message =
        format!("the phase lasted {}, less time than {CLOCK_READINGS} readings of the clock take", nanos(time));
    let hint = "give the phase more operations";
    let found = Finding::of("phase_too_short", Severity::Warning, message, hint).in_phase(&phase.name);
    Some(found.with(json!({ "time_ns": time, "clock_ns": clock.as_nanos() })))
}

/// The store or the program was still at work when `settle` gave up.
pub(crate) fn unsettled(phase: &PhaseRecord) -> Option<Finding> {
    let reading = phase.reading(MetricKey::amount(Metric::SettleTime))?;
    let Reading::Missing(why) = reading else { return unsettled_beside(phase) };
    let what = match (phase.action.as_str(), phase.completion) {
        ("settle", _) => "store",
        // A program that ended first is another matter, and so is a time that a suspension made unclear.
        ("observe", Completion::Complete | Completion::Uncounted)
            if matches!(why, Why::NotSettled(_) | Why::Failed(_)) =>
        {
            "program"
        }
        _ => return None,
    };
    let hint = "raise `within` (the longest wait for quiet): work of this phase continued after its end and is \
        measured in later phases";
    let message = format!("the {what} did not become quiet: {why}");
    Some(Finding::of("unsettled", Severity::Warning, message, hint).in_phase(&phase.name))
}

/// The signs of activity that count became quiet, but a sign in `beside`, which the phase only waits for, was still
/// active after `within`.
fn unsettled_beside(phase: &PhaseRecord) -> Option<Finding> {
    let reading = |sign: Sign| phase.reading(MetricKey::amount(sign.metric()));
    let active = Sign::ALL.into_iter().find_map(|sign| match reading(sign)? {
        Reading::Missing(why @ Why::NotSettled(text)) if text.starts_with("within") => Some(why),
        _ => None,
    })?;
    let message =
        format!("`settle.time` was measured, but a sign of activity in `beside` did not become quiet: {active}");
    let hint =
        "raise `within`, or remove the sign from `beside`; the measurements of later phases include this activity";
    Some(Finding::of("unsettled", Severity::Note, message, hint).in_phase(&phase.name))
}

/// The kernel's own peak of resident memory is far above the largest sample: other sampled maxima may be too low as
/// well.
pub(crate) fn kernel_peak(phase: &PhaseRecord) -> Option<Finding> {
    let (peak, sampled) = (gauge(phase, Metric::Rss, Stat::Peak)?, gauge(phase, Metric::Rss, Stat::Max)?);
    if peak <= sampled * (1.0 + PEAK_SHARE) + PEAK_BYTES.as_bytes() as f64 {
        return None;
    }
    let message =
        format!("resident memory peaked at {}, but the largest sample of it is {}", bytes(peak), bytes(sampled));
    let hint = "sample more often (`--hertz N` of `exec`, or `hertz` in `[observe]`); `anon.max` is sampled too, has no exact counterpart and may be too low by \
        as much";
    let found = Finding::of("kernel_peak_above_sampled", Severity::Note, message, hint).in_phase(&phase.name);
    Some(found.with(json!({ "peak": peak, "sampled": sampled })))
}

/// A store that was evicted is in the page cache when the next phase begins: its pages stayed, or opening it read them again.
pub(crate) fn cache_state(spec: &TrialSpec, record: &TrialRecord) -> Vec<Finding> {
    let after_evict = spec.phases.windows(2).filter(|pair| matches!(pair[0].action, Action::Evict));
    let findings = after_evict.filter_map(|pair| {
        let of = |spec: &PhaseSpec| recorded(record, &spec.name);
        let phase = of(&pair[1])?;
        let cached = amount(phase, Metric::Cached)?;
        if cached <= STILL_CACHED {
            return None;
        }
        let evict = &pair[0].name;
        let stayed = of(&pair[0]).and_then(|phase| amount(phase, Metric::Cached));
        let (why, hint) = match stayed {
            Some(stayed) if stayed > STILL_CACHED => (
                format!("{} of them stayed when `{evict}` evicted them", percent(stayed)),
                "some file systems never drop pages, and no pages are dropped that another process has mapped",
            ),
            _ => (
                format!("the engine read them when `{evict}` had evicted them and opened the store again"),
                "make the store larger (`records`): an engine reads a few pages when it opens a store, and the kernel reads \
                 further ones ahead; an engine that reads its journal has no cold reads of what is in it",
            ),
        };
        let message = format!(
            "declared cold, but {} of the store's pages were in the page cache at the begin of the phase: {why}",
            percent(cached)
        );
        let found = Finding::of(NOT_COLD, Severity::Warning, message, hint).in_phase(&phase.name);
        Some(found.with(json!({ "cached": cached, "stayed": stayed })))
    });
    findings.collect()
}

/// Memory was swapped out, of the trial's processes or elsewhere on the machine.
pub fn swapped(record: &TrialRecord) -> Option<Finding> {
    let most = record.series.iter().flat_map(|s| &s.samples).map(|s| s.swap).max().unwrap_or_default();
    let pages = events(change(&record.conditions).map(|change| &change.swapped));
    if most == Bytes::default() && pages == 0.0 {
        return None;
    }
    let message = format!(
        "up to {most} of a process's memory was in swap; during the trial the whole machine moved {pages:.0} pages to \
         or from swap"
    );
    let hint = "free memory on the machine, or set a memory limit below the free memory: swap is off inside the limit";
    let found = Finding::of("swapped", Severity::Warning, message, hint);
    Some(found.with(json!({ "swap": most.as_bytes(), "pages": pages })))
}

/// A trial was so long that only every `stride`-th round of samples was kept, of so many a second (METHOD 1.6).
pub fn samples_thinned(hertz: u32, stride: u64) -> Option<Finding> {
    let left = f64::from(hertz) / stride as f64;
    let message = format!("the trial had more samples than are kept: of {hertz} a second, {left} are left");
    let hint = "means and charts have these; the largest and the smallest of each process, of each role and of all together were kept, \
        those of several instances together may be missed; sample less often (`hertz` in `[observe]`), or end phases earlier";
    let found = Finding::of("samples_thinned", Severity::Note, message, hint);
    (stride > 1).then(|| found.with(json!({ "hertz": hertz, "left": left })))
}

/// Other runs of prony were running on the machine; at most `count` at the trial's begin or end.
pub fn other_run(count: usize) -> Finding {
    let what = match count {
        0 => "another run of prony began and ended".to_owned(),
        1 => "another run of prony was in progress".to_owned(),
        _ => format!("{count} other runs of prony were in progress"),
    };
    let message = format!("{what} on this machine during the trial");
    let hint = "the runs compete for processors, memory and disk: run them one after another";
    Finding::of("other_run", Severity::Warning, message, hint).with(json!({ "runs": count }))
}

/// A `conclude` step after a trial failed; `failed` says how.
pub fn conclude_failed(failed: String) -> Finding {
    let hint = "the measurements of the trial are kept; what `conclude` should have ended or removed may disturb later \
        trials";
    Finding::of("conclude_failed", Severity::Warning, failed, hint)
}

/// The processor or the control group throttled the trial.
pub(crate) fn throttled(conditions: &Conditions) -> Option<Finding> {
    let thermal = events(change(conditions).map(|change| &change.throttled_thermal));
    let limit = events(conditions.memory.as_ref().map(|evidence| &evidence.throttled));
    if thermal + limit == 0.0 {
        return None;
    }
    let message = format!(
        "the trial was throttled {} by heat and {} by a limit on CPU time",
        number::count(thermal, "time"),
        number::count(limit, "time")
    );
    let hint = "let the machine cool between trials, or raise `cpus`; if the limit is intended, the measured times \
        include it";
    let found = Finding::of("throttled", Severity::Warning, message, hint);
    Some(found.with(json!({ "thermal": thermal, "limit": limit })))
}

/// The store was closed after the last phase, which took a considerable part of the phases' time: `closing` of
/// `phases`, wall time both. Work at a close belongs to a phase (METHOD 2.4).
pub fn untimed_close(closing: Nanos, phases: Nanos) -> Option<Finding> {
    if closing.as_nanos() as f64 <= GAPS * phases.as_nanos() as f64 {
        return None;
    }
    let message =
        format!("closing the store after the last phase took {closing}, which is not included in any phase's time");
    let hint = "end with a `close` phase, so that work which an engine defers until it is closed is measured too";
    let found = Finding::of("untimed_close", Severity::Note, message, hint);
    Some(found.with(json!({ "closing_ns": closing.as_nanos(), "phases_ns": phases.as_nanos() })))
}

/// The disk of the store has little space left: file systems slow down near their end, which a trial shows that writes more
/// than a little of what is left. `next` is what it needs.
pub fn disk_nearly_full(free: Bytes, size: Bytes, next: Bytes) -> Option<Finding> {
    let [free_bytes, size_bytes, next_bytes] = [free, size, next].map(|bytes| bytes.as_bytes() as f64);
    let is_low = free_bytes < FREE_SHARE * size_bytes && next_bytes > LITTLE_OF_FREE * free_bytes;
    if !is_low && free > next {
        return None;
    }
    let message = format!("only {free} of {size} are free on the store's disk; a trial needs {next}");
    let found =
        Finding::of("disk_nearly_full", Severity::Warning, message, "free space, or use another working directory");
    Some(found.with(json!({ "free": free.as_bytes(), "size": size.as_bytes(), "next": next.as_bytes() })))
}

/// prony itself was stopped while it watched the trial, by SIGSTOP or by Ctrl-Z and `fg`: what it noticed then, it noticed late.
pub fn prony_stopped(paused: Nanos) -> Option<Finding> {
    if paused == Nanos::ZERO {
        return None;
    }
    let message = format!(
        "prony itself did not run for {paused} of the trial (Ctrl-Z, SIGSTOP, or a suspended machine): lines and marks were \
         noticed late, and samples are missing"
    );
    let hint = "let prony run undisturbed, and repeat the run: the trial counts as disturbed";
    Some(Finding::of(PAUSED, Severity::Warning, message, hint).with(json!({ "paused": paused })))
}

/// A service crashed, failed or had to be killed when all phases were over: `how` it ended.
pub fn service_failed_at_end(how: String) -> Finding {
    let hint = "what a server does to close its data is in no phase: let it exit with code 0 on SIGTERM, and see its own log for why \
        it did not";
    Finding::of("service_failed_at_end", Severity::Warning, how, hint)
}

/// The store is on a file system in memory (METHOD 5.4), where what a sync costs on a disk is not measured.
pub fn store_in_memory(mount: &Mount, record: &TrialRecord) -> Option<Finding> {
    let on_disk = |phase: &PhaseRecord| phase.amount_of("", Metric::Disk).is_some_and(|bytes| bytes > 0.0);
    if !mount.is_in_memory() || !record.phases.iter().any(on_disk) {
        return None;
    }
    let message = format!(
        "the store is on a {} at `{}`: a sync costs nothing there, a power failure leaves nothing of it, and its files count as memory",
        mount.kind,
        mount.point.display()
    );
    let hint = "name a folder on a disk by `--scratch`, or run prony in one";
    Some(Finding::of("store_in_memory", Severity::Warning, message, hint))
}
