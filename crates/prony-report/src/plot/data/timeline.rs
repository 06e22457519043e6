//! The timeline charts: CPU, memory and I/O of a trial's whole process tree over time, with its phases.

use std::collections::{BTreeMap, BTreeSet};

use prony_model::metric::Metric;
use prony_model::number;
use prony_model::outcome::Outcome;
use prony_model::reading::Why;
use prony_model::record::{Completion, ProcessSample, ProcessSeries, TICK, TrialRecord};

use super::downsample::{Point, largest, rates};
use super::{STEPS, Source, ended, not_nearest, series, steps, time_axis};
use crate::error::Error;
use crate::plot::chart::{
    Axis, Chart, Choice, Columns, Control, Does, Kind, Lane, Mark, Of, Row, Said, Scale, Section, Table, When,
};
use crate::plot::format::Format;
use crate::words::once;

/// At most so many trials of a variant can be chosen.
const DEEPEST: usize = 30;

/// One trial's timeline in equal steps.
struct Timeline {
    trial: usize,
    variant: usize,
    /// The how many-th of its variant it is.
    nth: usize,
    /// Seconds a step.
    step: f64,
    phases: Vec<Span>,
    /// How the trial ended.
    outcome: Outcome,
    /// Whether it ended before the end of one of its phases.
    cut: bool,
    /// By quantity, in the order of [`QUANTITIES`]; each as many values as there are steps.
    values: Vec<Vec<Option<f64>>>,
    /// By quantity, the mean over all of its samples.
    means: Vec<Option<f64>>,
}

impl Timeline {
    /// The values of a quantity in the steps that have one.
    fn known(&self, quantity: usize) -> impl Iterator<Item = f64> {
        self.values[quantity].iter().flatten().copied()
    }
}

/// A phase's time within a trial, in seconds since the origin.
struct Span {
    name: String,
    begin: f64,
    end: f64,
    /// `false` for set-up.
    timed: bool,
    /// Whether the trial ended before the phase did, so that its duration is a lower bound.
    partial: bool,
    /// Why its time does not count; `None` where it does.
    excluded: Option<String>,
}

/// What a timeline shows.
pub(crate) struct Quantity {
    /// As a column of numbers is called.
    column: &'static str,
    title: &'static str,
    format: Format,
    kind: Course,
    /// How it is taken from a sample; `None` where it was not readable.
    take: fn(&ProcessSample) -> Option<f64>,
    /// How steps are made of samples.
    how: &'static str,
}

/// What the samples of a quantity are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Course {
    /// CPU time, which the kernel counts once a tick: [`CPU_APART`].
    Cpu,
    /// A level at an instant.
    Level,
    /// A cumulative counter.
    Counter,
}

/// Everything that a timeline shows.
pub(crate) const QUANTITIES: [Quantity; 5] = [
    Quantity {
        column: "cpu [cores]",
        title: "CPU of the process tree, cores",
        format: Format::Plain,
        kind: Course::Cpu,
        take: |s| Some(s.on_cpu.unwrap_or(s.cpu_user + s.cpu_system).as_secs_f64()),
        how: "Mean over each step, of samples that are at least 50 ms apart where the trial is longer: the kernel counts the \
            time of a running thread once a tick of its scheduler, 1 to 10 ms.",
    },
    Quantity {
        column: "anon [bytes]",
        title: "Anonymous memory",
        format: Format::Bytes,
        kind: Course::Level,
        take: |s| Some(s.anon.as_bytes() as f64),
        how: "Largest sample of each step, summed over processes; peaks are sampled.",
    },
    Quantity {
        column: "file [bytes]",
        title: "Mapped and other file-backed memory",
        format: Format::Bytes,
        kind: Course::Level,
        take: |s| Some(s.file.as_bytes() as f64),
        how: "Largest sample of each step, summed over processes: a page that several processes map is counted for \
            each of them.",
    },
    Quantity {
        column: "read [bytes/s]",
        title: "Bytes read from the device",
        format: Format::BytesPerSecond,
        kind: Course::Counter,
        take: |s| s.read.map(|b| b.as_bytes() as f64),
        how: "Mean over each step, as the kernel counts it for the processes.",
    },
    Quantity {
        column: "written [bytes/s]",
        title: "Bytes of pages that became dirty",
        format: Format::BytesPerSecond,
        kind: Course::Counter,
        take: |s| s.written.map(|b| b.as_bytes() as f64),
        how: "Mean over each step, as the kernel counts it for the processes: when pages become dirty, not when the device \
            writes them.",
    },
];

/// The phases of these trials and a chart of each quantity. Of each variant one trial is shown: the first unless another is
/// chosen.
///
/// # Errors
/// Those of the database.
pub fn section(source: Source<'_>, columns: &mut Columns, trials: &[usize]) -> Result<Section, Error> {
    let mut all: Vec<Timeline> = Vec::new();
    let mut beside: BTreeSet<String> = BTreeSet::new();
    for trial in trials {
        let record = &source.data.trials[*trial];
        let series = source.database.load_series(source.data.head.id, record.trial.position)?;
        let nth = all.iter().filter(|known| known.variant == record.trial.variant).count();
        let variant = source.data.experiment.variants().get(record.trial.variant);
        let is_measured = |process: &&ProcessSeries| variant.is_none_or(|of| of.spec.measures(&process.role));
        let (measured, other): (Vec<&ProcessSeries>, Vec<&ProcessSeries>) = series.iter().partition(is_measured);
        // An instance of several is numbered: `mongo.2`.
        beside.extend(other.iter().filter_map(|process| process.role.split('.').next()).map(str::to_owned));
        let timeline = of_series(record, &series, &measured, STEPS);
        all.extend(timeline.map(|timeline| Timeline { trial: *trial, nth, ..timeline }));
    }
    if all.is_empty() {
        return Ok(Section::default());
    }
    all.sort_by_key(|of| (of.variant, of.nth));
    let mut section = Section { legend: true, ..Section::default() };
    section.controls.extend(series::among(&source.data.experiment, all.iter().map(|of| of.variant)));
    let rounds = section.control(rounds(&all));
    let zeros = zeros(&all);
    section.control(Control {
        label: "Zero is",
        does: Does::Shift,
        options: [Choice::new("the first sample or phase")].into_iter().chain(zeros.iter().map(begin)).collect(),
        chosen: 0,
    });
    section.control(shading(source, &all));
    let drawn: Vec<Drawn<'_>> = all.iter().map(|of| Drawn::new(columns, of, &all, rounds, &zeros)).collect();
    let axis = time_axis(all.iter().map(|of| (of.variant, of.step, of.step * of.values[0].len() as f64)));
    let (shown, level): (Vec<usize>, Vec<usize>) =
        (0..QUANTITIES.len()).filter(|at| all.iter().any(|of| of.known(*at).next().is_some())).partition(|at| {
            // A point alone is no line, and zero throughout is said in fewer words than a chart takes.
            all.iter().any(|of| of.known(*at).nth(1).is_some() && of.known(*at).any(|value| value != 0.0))
        });
    let mut ribbons = ribbons(source, columns, &drawn, trials);
    ribbons.caption.extend(ended(source));
    if !shown.is_empty() {
        ribbons.caption.extend(steps(source, all.iter().map(|of| (of.variant, of.step))));
    }
    ribbons.caption.extend(level.into_iter().map(|at| not_drawn(&all, at)));
    section.charts.push(ribbons);
    section.charts.extend(shown.into_iter().map(|at| panel(source, columns, &drawn, at)));
    let without = not_of_the_subject(&beside);
    section.charts.iter_mut().for_each(|chart| chart.caption.extend(without.clone()));
    section.charts.iter_mut().for_each(|chart| chart.x = axis.clone());
    Ok(section)
}

/// Whose processes ran in the trials and are not drawn; `None` where all are.
fn not_of_the_subject(roles: &BTreeSet<String>) -> Option<Said> {
    let names: Vec<String> = roles.iter().map(|role| format!("`{role}`")).collect();
    let text = format!("Not drawn: the processes of {}, which have metrics of their own.", names.join(", "));
    (!names.is_empty()).then(|| Said::always(text))
}

/// What a quantity without a chart was.
fn not_drawn(all: &[Timeline], quantity: usize) -> Said {
    let largest = all.iter().flat_map(|of| of.known(quantity)).fold(0.0, f64::max);
    let Quantity { title, format, .. } = QUANTITIES[quantity];
    Said::always(match largest {
        0.0 => format!("Not drawn: {title}, 0 throughout."),
        largest => format!("Not drawn: {title}, sampled once a trial; largest {}.", format.text(largest)),
    })
}

fn begin(phase: &String) -> Choice {
    Choice::new(format!("begin of {phase}"))
}

fn rounds(all: &[Timeline]) -> Control {
    let deepest = all.iter().map(|of| of.nth + 1).max().unwrap_or(1).min(DEEPEST);
    let option = |nth: usize| match nth {
        0 => Choice::new("nearest to the median"),
        1 => Choice::new("2nd nearest"),
        2 => Choice::new("3rd nearest"),
        nth => Choice::new(format!("{}th nearest", nth + 1)),
    };
    Control { label: "Trials", does: Does::Select, options: (0..deepest).map(option).collect(), chosen: 0 }
}

/// The phases at whose begin time may be zero.
fn zeros(all: &[Timeline]) -> Vec<String> {
    let names = once(all.iter().flat_map(|of| &of.phases).map(|phase| phase.name.clone()));
    if names.len() < 2 { Vec::new() } else { names }
}

fn shading(source: Source<'_>, all: &[Timeline]) -> Control {
    let variants: BTreeSet<usize> = all.iter().map(|of| of.variant).collect();
    let options = variants.into_iter().map(|v| Choice { variants: vec![v], ..Choice::new(source.name(v)) });
    let options = [Choice::new("the first shown")].into_iter().chain(options).collect();
    Control { label: "Shade phases of", does: Does::Shade, options, chosen: 0 }
}

/// A timeline with what all of its marks share.
struct Drawn<'a> {
    of: &'a Timeline,
    mark: Mark,
}

impl<'a> Drawn<'a> {
    fn new(columns: &mut Columns, of: &'a Timeline, all: &[Timeline], rounds: usize, zeros: &[String]) -> Self {
        let last = !all.iter().any(|other| other.variant == of.variant && other.nth > of.nth);
        // A variant with fewer trials than were chosen shows its last.
        let when = vec![When(rounds, of.nth, if last { DEEPEST - 1 } else { of.nth })];
        let begin = |name: &String| of.phases.iter().find(|p| p.name == *name).map_or(0.0, |p| p.begin);
        let shifts = columns.add([0.0].into_iter().chain(zeros.iter().map(begin)));
        let mark = Mark { of: Of::Trial(of.trial), when, shifts, ..Mark::default() };
        Self { of, mark }
    }

    /// A row of a table.
    fn row<const N: usize>(&self, cells: [String; N]) -> Row {
        Row { when: self.mark.when.clone(), ..Row::of(self.of.variant, cells) }
    }

    /// The phases as boxes or as shades.
    fn phases(&self, columns: &mut Columns, kind: Kind) -> Mark {
        let phases = &self.of.phases;
        Mark {
            kind,
            x: columns.add(phases.iter().map(|p| p.begin)),
            x2: columns.add(phases.iter().map(|p| p.end)),
            text: phases.iter().map(|p| p.name.clone()).collect(),
            ..self.mark.clone()
        }
    }
}

/// The phases of each variant as bars above each other, and how the trials ended that did not end well.
fn ribbons(source: Source<'_>, columns: &mut Columns, drawn: &[Drawn<'_>], chosen: &[usize]) -> Chart {
    let variants: BTreeSet<usize> = drawn.iter().map(|drawn| drawn.of.variant).collect();
    let lane = |variant: usize| Lane { variant, ..Lane::default() };
    let (height, top) = if drawn.iter().all(|drawn| drawn.of.outcome.is_ok()) { LANE } else { LANE_OF_ENDS };
    let bars = |drawn: &Drawn<'_>| {
        let lane = variants.range(..drawn.of.variant).count();
        let failed = (!drawn.of.outcome.is_ok()).then(|| Mark {
            kind: Kind::Ends,
            y: columns.add([lane as f64 + ENDS]),
            text: vec![drawn.of.outcome.to_string()],
            ..drawn.mark.clone()
        });
        let set_up = |p: &Span| if p.timed { "" } else { ", not timed" };
        let why = |p: &Span| p.excluded.as_ref().map(|why| format!(", {why}")).unwrap_or_default();
        let said = drawn.of.phases.iter().map(|p| format!("{}: {}{}{}", p.name, lasting(p), set_up(p), why(p)));
        let y = columns.add(drawn.of.phases.iter().map(|_| lane as f64 + top));
        [Mark { y, tips: said.collect(), ..drawn.phases(columns, Kind::Bars) }].into_iter().chain(failed)
    };
    let marks = drawn.iter().flat_map(bars).collect();
    let row = |(drawn, phase): (&Drawn<'_>, &Span)| {
        let trial = (source.data.trials[drawn.of.trial].trial.position + 1).to_string();
        let begin = Format::Seconds.text(phase.begin);
        let ended = phase.excluded.clone().unwrap_or_else(|| Outcome::Ok.to_string());
        drawn.row([trial, phase.name.clone(), begin, lasting(phase), ended])
    };
    let phases = drawn.iter().flat_map(|drawn| drawn.of.phases.iter().map(move |phase| (drawn, phase)));
    let mut caption =
        vec![Said::always("One trial of each variant: by default the one nearest to its variant's median.")];
    caption.extend(not_nearest(source, &variants, chosen));
    let left_out = source.data.trials.len() - chosen.len();
    if left_out > 0 {
        let more = number::count(left_out, "more trial");
        caption.push(Said::always(format!("The results database has the timelines of {more}.")));
    }
    Chart {
        title: "Phases".to_owned(),
        caption,
        y: Axis { scale: Scale::Lanes { lanes: variants.iter().copied().map(lane).collect() }, ..Axis::default() },
        height,
        marks,
        table: Table::new(["Variant", "Trial", "Phase", "Begin", "Duration", "Outcome"], phases.map(row)),
        ..Chart::default()
    }
}

/// Height of a lane, and where in it the bars begin, where every trial ended well.
const LANE: (f64, f64) = (38.0, 0.42);

/// The same where one did not.
const LANE_OF_ENDS: (f64, f64) = (54.0, 0.57);

/// Where in such a lane stands how a trial ended: between the variant's name and the bars.
const ENDS: f64 = 0.4;

fn lasting(phase: &Span) -> String {
    at_least(phase.partial, Format::Seconds.text(phase.end - phase.begin))
}

/// What grew until a trial's end came before that of its phase is a lower bound.
fn at_least(partial: bool, text: String) -> String {
    if partial { format!(">= {text}") } else { text }
}

fn panel(source: Source<'_>, columns: &mut Columns, drawn: &[Drawn<'_>], quantity: usize) -> Chart {
    let Quantity { column, title, format, how, .. } = QUANTITIES[quantity];
    let sampled: Vec<&Drawn<'_>> = drawn.iter().filter(|drawn| drawn.of.known(quantity).next().is_some()).collect();
    let mut marks: Vec<Mark> = drawn.iter().map(|drawn| drawn.phases(columns, Kind::Bands)).collect();
    let line = |drawn: &&Drawn<'_>| Mark {
        x: columns.steps(drawn.of.step, drawn.of.values[quantity].len()),
        y: columns.add(drawn.of.values[quantity].iter().map(|value| value.unwrap_or(f64::NAN))),
        tip: if column.ends_with("[cores]") { "{y} cores\nat {x}" } else { "{y}\nat {x}" }.to_owned(),
        ..drawn.mark.clone()
    };
    marks.extend(sampled.iter().map(line));
    let row = |drawn: &&Drawn<'_>| {
        let largest = format.text(drawn.of.known(quantity).fold(0.0, f64::max));
        let cut = drawn.of.cut;
        let mean = drawn.of.means[quantity].filter(|_| !cut).map_or_else(|| "-".to_owned(), |mean| format.text(mean));
        drawn.row([mean, at_least(cut, largest)])
    };
    let mut caption = vec![Said::always(how)];
    let firsts = drawn.iter().filter(|drawn| drawn.of.nth == 0);
    caption.extend(firsts.map(|drawn| Said {
        text: format!("Shaded: the phases of {}.", source.name(drawn.of.variant)),
        variants: vec![drawn.of.variant],
        shaded: true,
    }));
    Chart {
        title: title.to_owned(),
        column: column.to_owned(),
        caption,
        y: Axis { format, ..Axis::default() },
        height: 0.24,
        marks,
        table: Table::new(["Variant", "Mean over time", "Largest"], sampled.iter().map(row)),
        ..Chart::default()
    }
}

/// The timeline of a trial, from the series of all of its processes, and of those that are measured.
fn of_series(
    record: &TrialRecord,
    series: &[ProcessSeries],
    measured: &[&ProcessSeries],
    steps: usize,
) -> Option<Timeline> {
    let instants = || series.iter().flat_map(|s| &s.samples).map(|s| s.at.as_nanos());
    let sampled = (instants().min()?, instants().max()?);
    let phases: Vec<(u64, u64)> =
        record.phases.iter().filter_map(|p| Some((p.begin?.as_nanos(), p.end?.as_nanos()))).collect();
    let origin = phases.iter().map(|p| p.0).min().map_or(sampled.0, |begin| begin.min(sampled.0));
    let end = phases.iter().map(|p| p.1).max().map_or(sampled.1, |end| end.max(sampled.1));
    let span = end.saturating_sub(origin).max(1);
    let longest = series.iter().map(|s| s.samples.len()).max().unwrap_or(0);
    let steps = steps.min(longest).max(1);
    let of_quantity = |quantity: &Quantity| {
        let points = total(measured, origin, quantity);
        let values = match quantity.kind {
            Course::Cpu => rates(&spaced(&points, CPU_APART), span, steps),
            Course::Level => largest(&points, span, steps),
            Course::Counter => rates(&points, span, steps),
        };
        (values, mean(&points, quantity.kind))
    };
    let (values, means) = QUANTITIES.iter().map(of_quantity).unzip();
    Some(Timeline {
        trial: 0,
        nth: 0,
        variant: record.trial.variant,
        step: span as f64 / 1e9 / steps as f64,
        phases: spans(record, origin),
        outcome: record.ending.outcome,
        cut: !record.ending.outcome.is_ok()
            && record
                .phases
                .iter()
                .any(|phase| matches!(phase.completion, Completion::Partial | Completion::NotReached)),
        values,
        means,
    })
}

/// The mean over time of a level that changes evenly between samples, or the rise per second of a counter. Steps show the
/// largest sample of a level, so that their mean would be too large.
fn mean(points: &[Point], kind: Course) -> Option<f64> {
    let (first, last) = (points.first()?, points.last()?);
    let span = (last.at - first.at) as f64;
    match kind {
        Course::Level if span == 0.0 => Some(first.value),
        Course::Level => {
            let area = |w: &[Point]| (w[0].value + w[1].value) / 2.0 * (w[1].at - w[0].at) as f64;
            Some(points.windows(2).map(area).sum::<f64>() / span)
        }
        Course::Cpu | Course::Counter => (span > 0.0).then(|| (last.value - first.value) / span * 1e9),
    }
}

/// How far apart samples are at least between which a rate of CPU time is computed: nearer ones show more cores than the
/// machine has.
const CPU_APART: u64 = 5 * TICK.as_nanos();

/// The first point, the last, and those between that are so far apart.
fn spaced(points: &[Point], apart: u64) -> Vec<Point> {
    let last = points.last().copied();
    let mut chosen: Vec<Point> = Vec::new();
    for &point in points {
        if chosen.last().is_none_or(|before| point.at - before.at >= apart) {
            chosen.push(point);
        }
    }
    // The last takes the place of one that is nearer.
    if chosen.len() > 1 && last.is_some_and(|last| chosen.last().is_some_and(|before| last.at - before.at < apart)) {
        chosen.pop();
    }
    chosen.extend(last.filter(|last| chosen.last() != Some(last)));
    chosen
}

fn spans(record: &TrialRecord, origin: u64) -> Vec<Span> {
    let seconds = |at: u64| at.saturating_sub(origin) as f64 / 1e9;
    let span = |phase: &prony_model::record::PhaseRecord| {
        let (begin, end) = (seconds(phase.begin?.as_nanos()), seconds(phase.end?.as_nanos()));
        let outcome = record.ending.outcome;
        let text = |why: Why| if outcome.is_ok() { why.to_string() } else { outcome.to_string() };
        let (partial, excluded) = (phase.completion == Completion::Partial, record.excluded(phase, Metric::Time));
        Some(Span { name: phase.name.clone(), begin, end, timed: phase.timed, partial, excluded: excluded.map(text) })
    };
    record.phases.iter().filter_map(span).collect()
}

/// The sum over the processes after each sweep of the sampler. A process that has ended has no memory, and its
/// counters keep their last values; those of a process that appears later begin at zero.
fn total(series: &[&ProcessSeries], origin: u64, quantity: &Quantity) -> Vec<Point> {
    let mut events: Vec<(u64, usize, Option<f64>)> = Vec::new();
    for (process, one) in series.iter().enumerate() {
        let read =
            one.samples.iter().filter_map(|s| Some((s.at.as_nanos() - origin, process, Some((quantity.take)(s)?))));
        events.extend(read);
        if quantity.kind == Course::Level
            && let Some(last) = one.samples.last()
        {
            // In the sweep after its last sample, which it must not hide.
            events.push((last.at.as_nanos() - origin + SWEEP, process, None));
        }
    }
    events.sort_by_key(|(at, ..)| *at);
    let end = events.iter().rev().find(|e| e.2.is_some()).map_or(0, |e| e.0);
    let mut now: BTreeMap<usize, f64> = BTreeMap::new();
    let mut points: Vec<Point> = Vec::new();
    for (at, process, value) in events.into_iter().filter(|e| e.0 <= end) {
        match value {
            Some(value) => now.insert(process, value),
            None => now.remove(&process),
        };
        // Samples of one sweep are one instant: a later one of it replaces the sum.
        let value = now.values().sum();
        match points.last_mut() {
            Some(last) if at - last.at < SWEEP => last.value = value,
            _ => points.push(Point { at, value }),
        }
    }
    points
}

/// Samples nearer than this belong to one sweep over the tree: 2 ms.
const SWEEP: u64 = 2_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::units::{Bytes, Nanos};

    fn process(pid: u32, from: u64, count: u64, anon: u64) -> ProcessSeries {
        let sample = |i: u64| ProcessSample {
            at: Nanos::from_millis(from + 100 * i),
            cpu_user: Nanos::from_millis(50 * i),
            anon: Bytes::from_bytes(anon),
            ..ProcessSample::default()
        };
        ProcessSeries { pid, role: "w".into(), command: "c".into(), samples: (0..count).map(sample).collect() }
    }

    #[test]
    fn memory_of_processes_is_added_while_they_are_alive() {
        let series = [process(1, 0, 11, 100), process(2, 301, 3, 50)];
        let points = total(&series.each_ref(), 0, &QUANTITIES[1]);
        let values: Vec<f64> = points.iter().map(|p| p.value).collect();
        assert_eq!(values, [[100.0; 3].as_slice(), &[150.0; 3], &[100.0; 6]].concat());
    }

    #[test]
    fn timeline_includes_cpu_of_ended_processes() {
        let series = [process(1, 0, 11, 0), process(2, 0, 3, 0)];
        let points = total(&series.each_ref(), 0, &QUANTITIES[0]);
        assert!((points.last().unwrap().value - 0.6).abs() < 1e-9);
        assert!(points.windows(2).all(|w| w[0].value <= w[1].value));
    }

    /// A program that wrote 64 MB to the page cache showed them as handed to the device, which had written 1 MB.
    #[test]
    fn written_bytes_are_called_what_their_metric_is() {
        assert!(Metric::Written.doc().starts_with(QUANTITIES[4].title), "{}", QUANTITIES[4].title);
    }

    #[test]
    fn what_could_not_be_read_has_no_points() {
        assert!(total(&[&process(1, 0, 5, 1)], 0, &QUANTITIES[3]).is_empty());
    }

    /// A thread that runs on one core all the time, as the kernel counts it: once a tick.
    #[test]
    fn cores_are_not_computed_of_samples_nearer_than_the_kernel_counts() {
        let counted = |ms: u64| Point { at: ms * 1_000_000, value: (ms / 10 * 10) as f64 / 1e3 };
        let points: Vec<Point> = (1..200).step_by(2).map(counted).collect();
        let most = |points: &[Point]| rates(points, 200_000_000, 100).into_iter().flatten().fold(0.0, f64::max);
        assert!(most(&points) > 2.0, "a tick within a step");
        let spaced = spaced(&points, CPU_APART);
        assert_eq!(spaced.iter().map(|point| point.at / 1_000_000).collect::<Vec<_>>(), [1, 51, 101, 199]);
        assert!(most(&spaced) < 1.25, "a tick more or less in 50 ms");
        assert_eq!(super::spaced(&[counted(0), counted(2)], CPU_APART).len(), 2, "a short trial has its mean");
    }
}
