//! Tests the static pictures: which charts a run offers, and that no text from outside is read as markup in them.

use std::collections::BTreeSet;

use prony_analysis::verdicts::{self, Comparisons};
use prony_experiment::design::Experiment;
use prony_model::latency::Recorder;
use prony_model::outcome::Outcome;
use prony_model::record::{Answer, Completion, Groups, HistogramRecord, LatencyKind, Throughput, TrialRecord};
use prony_model::trial::Label;
use prony_model::units::{Bytes, Nanos};
use prony_report::Error;
use prony_report::plot::chart::{COLOURS, Chart, Columns, Kind, Of, Said, Scale};
use prony_report::plot::data::effects::{self, Judged};
use prony_report::plot::data::{Source, growth, latency, samples, series, throughput, timeline};
use prony_report::plot::{Figure, Options, draw, figures};

use crate::compared::{against, trials};
use crate::pages;
use crate::synthetic::{experiment, not_reached, numbers, phase, texts};

fn offered(name: &str, (experiment, trials): &(Experiment, Vec<TrialRecord>)) -> Vec<&'static str> {
    let (database, run) = pages::stored(&format!("plots-{name}"), experiment, trials);
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("plots");
    std::fs::create_dir_all(&folder).unwrap();
    let found = figures(&database, run).unwrap();
    for figure in &found {
        let svg = draw(&database, run, *figure, &Options::default()).unwrap();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        let numbers = svg.replace("infinitely", "");
        assert!(!numbers.contains("NaN") && !numbers.contains("inf"), "{name} {}", figure.name());
        std::fs::write(folder.join(format!("{name}-{}.svg", figure.name())), svg).unwrap();
    }
    found.into_iter().map(Figure::name).collect()
}

#[test]
fn runs_offer_what_they_have() {
    assert_eq!(offered("cache", &pages::cache(200)), ["effects", "timeline", "samples", "throughput"]);
    assert_eq!(offered("sourcing", &pages::sourcing()), ["effects", "growth", "timeline", "latency", "throughput"]);
    assert_eq!(offered("alone", &pages::single()), ["effects"]);
    assert_eq!(offered("undeclared", &pages::undeclared()), ["effects", "samples", "throughput"]);
    assert_eq!(offered("nothing", &(pages::single().0, vec![])), [""; 0]);
}

/// The first difference of two pictures: their texts and elements must be equal, their numbers within half a pixel.
fn difference(stored: &str, drawn: &str) -> Option<String> {
    let parts = |svg: &str| -> Vec<String> {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        let mut parts: Vec<String> = Vec::new();
        for c in svg.chars() {
            match parts.last_mut().filter(|part| part.ends_with(is_number) == is_number(c)) {
                Some(part) => part.push(c),
                None => parts.push(c.to_string()),
            }
        }
        parts
    };
    let (stored, drawn) = (parts(stored), parts(drawn));
    let near = |a: &str, b: &str| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= 0.5,
        _ => a == b,
    };
    let differs = stored.iter().zip(&drawn).position(|(a, b)| !near(a, b));
    let at = differs.or_else(|| (stored.len() != drawn.len()).then(|| stored.len().min(drawn.len())))?;
    let near_it = |parts: &[String]| parts[at.saturating_sub(8).min(parts.len())..(at + 8).min(parts.len())].concat();
    Some(format!("stored: {}\ndrawn: {}", near_it(&stored), near_it(&drawn)))
}

#[test]
fn pictures_are_like_the_stored_ones() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/snapshots");
    for (name, figure) in [("effects", Figure::Effects), ("growth", Figure::Growth), ("latency", Figure::Latency)] {
        let (experiment, trials) = pages::sourcing();
        let (database, run) = pages::stored(&format!("plots-stored-{name}"), &experiment, &trials);
        let drawn = draw(&database, run, figure, &Options::default()).unwrap();
        let file = folder.join(format!("plot-{name}.svg"));
        if std::env::var_os("PRONY_STORE_PICTURES").is_some() {
            std::fs::write(&file, &drawn).unwrap();
        }
        let stored = std::fs::read_to_string(&file).unwrap();
        assert_eq!(
            difference(&stored, &drawn),
            None,
            "{name}: look at both; PRONY_STORE_PICTURES=1 stores the drawn one"
        );
    }
}

#[test]
fn pictures_differ_by_more_than_half_a_pixel_or_by_a_text() {
    let line = "<line x1=\"10.2\"/><text>a</text>";
    assert_eq!(difference(line, "<line x1=\"10.6\"/><text>a</text>"), None);
    assert!(difference(line, "<line x1=\"10.9\"/><text>a</text>").is_some());
    assert!(difference(line, "<line x1=\"10.2\"/><text>b</text>").is_some());
    assert!(difference(line, &format!("{line}<g/>")).is_some() && difference(&format!("{line}<g/>"), line).is_some());
}

#[test]
fn names_from_outside_are_text_in_pictures() {
    let (experiment, trials) = pages::hostile();
    let (database, run) = pages::stored("plots-hostile", &experiment, &trials);
    for figure in figures(&database, run).unwrap() {
        let svg = draw(&database, run, figure, &Options::default()).unwrap();
        for markup in ["<script", "<img", "<!--", "\u{202e}"] {
            assert!(!svg.contains(markup), "`{markup}` in {}", figure.name());
        }
    }
}

#[test]
fn trials_are_divided_by_the_baselines_of_their_own_sub_block() {
    let plain = experiment("ratios", &[texts("engine", &["a", "b"])], &[("write", true)], 2);
    let records = trials(&against(&plain, "engine", "a"), 2, |t| {
        let time = match (t.trial.variant, t.trial.label, t.trial.block) {
            (0, Label::A, block) => 2.0 + f64::from(block),
            (0, ..) => 8.0,
            // The second block's trial has no baseline in its sub-block.
            (_, _, block) => {
                t.trial.sub_block = block;
                12.0
            }
        };
        t.phases = vec![phase("write", &[("time", time)])];
    });
    let (database, run) = pages::stored("plots-ratios", &against(&plain, "engine", "a"), &records);
    let data = database.load_run(run).unwrap();
    let (verdicts, comparisons) = (verdicts::of(&data), Comparisons::new(&data));
    let judged =
        Judged { source: Source { database: &database, data: &data }, verdicts: &verdicts, comparisons: &comparisons };
    let mut columns = Columns::default();
    let section = effects::section(judged, &mut columns, &["write.time".parse().unwrap()]);
    let marks = &section.charts[0].marks;
    let dots = marks.iter().find(|mark| mark.kind == Kind::Dots).unwrap();
    let shown: Vec<Option<f64>> =
        columns.across(dots).into_iter().map(|x| x.is_finite().then(|| (x * 1e9).round() / 1e9)).collect();
    let itself = |first: f64| Some((8.0 / first * 1e9).round() / 1e9);
    assert_eq!(shown, [None, itself(2.0), Some(3.0), None, itself(3.0), None], "a, a again, b; block by block");
    assert_eq!(columns.numbers(dots.z), [2.0, 8.0, 12.0, 3.0, 8.0, 12.0], "the tip states the figure itself");
}

#[test]
fn variants_are_drawn_alike_only_in_what_they_share() {
    let levels = ["a", "b", "c", "d", "e"];
    let factors = [texts("store", &levels), texts("mode", &["x", "y"])];
    let all = against(&experiment("styles", &factors, &[("write", true)], 1), "store", "a");
    let variants: Vec<usize> = (0..all.variants().len()).collect();
    let styles: Vec<_> = series::of_variants(&all, &variants).into_iter().map(|series| series.style).collect();
    let distinct: BTreeSet<_> = styles.iter().map(|style| (style.colour, style.dash)).collect();
    assert_eq!(distinct.len(), 10);
    for (style, variant) in styles.iter().zip(all.variants()) {
        assert_eq!(style.colour.is_none(), variant.baseline, "baselines have the colour of text");
        assert_eq!(style.colour, styles[variant.id / 2 * 2].colour, "colours distinguish stores");
    }
}

#[test]
fn a_series_beyond_the_colours_has_one_and_a_symbol_of_its_own() {
    let names: Vec<String> = (0..16).map(|at| format!("s{at}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let factors = [texts("store", &names), numbers("records", &["10", "100", "1000"])];
    let plan = experiment("Many", &factors, &[("write", true)], 1);
    let records = trials(&plan, 1, |t| t.phases = vec![phase("write", &[("time", 1e9 + t.trial.variant as f64)])]);
    let (database, run) = pages::stored("plots-many-series", &plan, &records);
    let data = database.load_run(run).unwrap();
    let source = Source { database: &database, data: &data };
    let time = "write.time".parse().unwrap();
    let styles: Vec<_> =
        growth::section(source, &mut Columns::default(), &[time]).series.iter().map(|s| s.style).collect();
    assert_eq!(styles.len(), 16);
    assert!(styles.iter().all(|style| style.colour.is_none_or(|colour| colour < COLOURS)), "{styles:?}");
    // There are seven symbols, the same in the page and in pictures.
    let drawn: BTreeSet<_> = styles.iter().map(|style| (style.colour, style.dash, style.symbol % 7)).collect();
    assert_eq!(drawn.len(), styles.len(), "{styles:?}");
}

#[test]
fn one_stratum_of_many_variants_is_shown_at_first() {
    let choice = |sizes: bool| {
        let second = if sizes { numbers("documents", &["10", "20"]) } else { texts("mode", &["x", "y"]) };
        let factors = [texts("store", &["a", "b", "c", "d"]), second];
        let all = against(&experiment("among", &factors, &[("write", true)], 1), "store", "a");
        let control = series::among(&all, 0..8).unwrap();
        assert_eq!(control.options[2].text, "all variants");
        let chosen = &control.options[control.chosen];
        assert!(series::among(&all, 0..6).is_none(), "six are legible");
        (chosen.text.clone(), chosen.variants.clone())
    };
    assert_eq!(choice(false), ("mode=x".to_owned(), vec![0, 2, 4, 6]));
    assert_eq!(choice(true), ("documents=20".to_owned(), vec![1, 3, 5, 7]), "the largest says the most");
}

#[test]
fn captions_speak_of_each_variant_by_itself() {
    let factors = [texts("store", &["a", "b", "c"]), numbers("records", &["10", "100"])];
    let plan = experiment("Captions", &factors, &[("write", true)], 1);
    let records = trials(&plan, 1, |t| {
        let at = t.trial.variant;
        let mut write = phase("write", &[("time", 1e9), ("fsyncs", if at == 3 { 0.0 } else { 5.0 })]);
        // `b` alone has failed operations, outliers, figures of zero and longer steps.
        let kinds = [LatencyKind::Intended, LatencyKind::Actual];
        write.histograms = kinds.map(|kind| pages::histogram(kind, 1.0, 100, 1)).into();
        write.histograms.iter_mut().for_each(|histogram| histogram.failed = if at == 3 { 7 } else { 0 });
        let far = if at == 3 { 90_000 } else { 1_000 };
        let wall = (0..1_000).map(|n| if n < 6 { far } else { 1_000 }).collect();
        write.groups = Some(Groups { operations: 10, wall, cpu: vec![0; 1_000] });
        let interval = Nanos::from_millis(if at == 3 { 200 } else { 100 });
        write.throughput = Some(Throughput { interval, operations: vec![9; 10] });
        t.phases = vec![write];
    });
    let (database, run) = pages::stored("plots-captions", &plan, &records);
    let data = database.load_run(run).unwrap();
    let source = Source { database: &database, data: &data };
    let columns = &mut Columns::default();
    let fsyncs = ["write.fsyncs".parse().unwrap()];
    let all: Vec<usize> = (0..records.len()).collect();
    let sections = [
        latency::section(source, columns).unwrap(),
        samples::section(source, columns).unwrap(),
        throughput::section(source, columns, &all).unwrap(),
        growth::section(source, columns, &fsyncs),
    ];
    let said = |variant: usize| -> Vec<String> {
        let captions = sections.iter().flat_map(|section| &section.charts).flat_map(|chart| &chart.caption);
        captions.filter(|said| said.variants == [variant]).map(|said| said.text.clone()).collect()
    };
    assert_eq!(
        said(3),
        [
            "7 operations of store=b, records=100 failed; they count as infinitely slow, and curves end before them.",
            "0.6\u{a0}% of the groups of store=b, records=100 lie outside the axis.",
            "A step of store=b, records=100 is 200\u{a0}ms.",
            "Not drawn, since not above 0: 1 value of store=b, records=100; no power law is fitted.",
        ]
    );
    assert_eq!(said(0), ["A step of store=a, records=10 is 100\u{a0}ms."]);
    let always = sections.iter().flat_map(|section| &section.charts).flat_map(|chart| &chart.caption);
    let mut always = always.filter(|said| said.variants.is_empty()).map(|said| said.text.as_str());
    assert!(always.all(|text| !["failed", "outside", "A step", "above 0"].iter().any(|of| text.contains(of))));
}

#[test]
fn trials_with_a_wrong_answer_are_in_no_distribution() {
    let experiment = experiment("wrong", &[texts("engine", &["a"])], &[("write", true)], 4);
    let records = trials(&experiment, 4, |t| {
        let mut write = phase("write", &[("time", 1e9)]);
        write.groups = Some(Groups { operations: 10, wall: vec![5, 6, 7], cpu: vec![5, 6, 7] });
        write.histograms = vec![pages::histogram(LatencyKind::Service, 1.0, 100, 1)];
        t.phases = vec![write];
        if t.trial.block == 3 {
            t.ending.outcome = Outcome::WrongAnswer;
        }
    });
    let (database, run) = pages::stored("plots-wrong", &experiment, &records);
    let data = database.load_run(run).unwrap();
    let source = Source { database: &database, data: &data };
    let curves = latency::curves(source).unwrap();
    assert_eq!(curves.iter().map(|curve| (curve.succeeded, curve.failed)).collect::<Vec<_>>(), [(300, 3)]);
    let groups: Vec<usize> = samples::samples(source)
        .unwrap()
        .iter()
        .flat_map(|samples| &samples.panels)
        .flat_map(|panel| panel.curves.iter().map(|curve| curve.groups))
        .collect();
    assert_eq!(groups, [9, 9], "wall and CPU time of three trials");
}

#[test]
fn what_does_not_finish_is_marked() {
    let (experiment, trials) = pages::sourcing();
    let (database, run) = pages::stored("plots-ends", &experiment, &trials);
    let svg = draw(&database, run, Figure::Growth, &Options::default()).unwrap();
    assert!(svg.contains("\u{2715} 16 out of memory (limit)"));
    assert!(svg.contains("grows as documents to the power of"));
    let memory = Options { metric: Some("source.rss.peak".parse().unwrap()), ..Options::default() };
    assert!(draw(&database, run, Figure::Growth, &memory).unwrap().contains("source.rss.peak against documents"));
    let limited = Options { metric: Some("source.anon.max".parse().unwrap()), ..Options::default() };
    let svg = draw(&database, run, Figure::Growth, &limited).unwrap();
    std::fs::write(std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("plots/limited.svg"), &svg).unwrap();
    let text = svg.replace("</text>", " ");
    assert!(text.contains("limit 16\u{a0}GB") && text.contains("extrapolated"), "{svg}");
    assert!(svg.contains("stroke-dasharray=\"1 5\""), "beyond what was measured it is dotted");
}

/// Zero was said to be the first phase's begin also where a program runs for a second before that phase.
#[test]
fn zero_of_the_timeline_is_the_first_sample_or_phase() {
    let experiment = experiment("late", &[texts("engine", &["a"])], &[("load", true), ("work", true)], 1);
    let records = trials(&experiment, 1, |t| {
        t.phases = ["load", "work"].map(|name| phase(name, &[("time", 1e9)])).to_vec();
        t.series = vec![crate::synthetic::series(30, 7)];
    });
    let (database, run) = pages::stored("plots-late", &experiment, &records);
    let data = database.load_run(run).unwrap();
    let mut columns = Columns::default();
    let section = timeline::section(Source { database: &database, data: &data }, &mut columns, &[0]).unwrap();
    let zero = section.controls.iter().find(|control| control.label == "Zero is").unwrap();
    let options: Vec<&str> = zero.options.iter().map(|option| option.text.as_str()).collect();
    assert_eq!(options, ["the first sample or phase", "begin of load", "begin of work"]);
    let bars = section.charts[0].marks.iter().find(|mark| mark.kind == Kind::Bars).unwrap();
    let begin = columns.numbers(bars.x)[0];
    assert!(begin > 0.9, "the phase begins a second after the first sample: {begin}");
    assert_eq!(columns.numbers(bars.shifts), [0.0, begin, begin]);
}

/// A program whose memory was 0 and 100 MB in turn, 50 MB in `anon.mean`, had 72 MB: the mean of the largest samples.
#[test]
fn mean_of_a_timeline_is_that_of_its_samples() {
    let experiment = experiment("saw", &[texts("engine", &["a"])], &[("load", true)], 1);
    let records = trials(&experiment, 1, |t| {
        let mut series = crate::synthetic::series(4_000, 7);
        for (at, sample) in series.samples.iter_mut().enumerate() {
            sample.at = Nanos::from_millis(10 * at as u64);
            sample.anon = Bytes::from_bytes(if at % 2 == 0 { 0 } else { 100_000_000 });
        }
        t.phases = vec![phase("load", &[("time", 1e9)])];
        t.series = vec![series];
    });
    let (database, run) = pages::stored("plots-saw", &experiment, &records);
    let svg = draw(&database, run, Figure::Timeline, &Options::default()).unwrap();
    let memory = svg.split("Anonymous memory: ").nth(1).unwrap();
    assert!(memory.starts_with("all: Mean over time 50\u{a0}MB, Largest 100\u{a0}MB"), "{memory:.200}");
}

#[test]
fn the_baseline_beside_itself_is_drawn() {
    let (experiment, trials) = pages::cache(50);
    let (database, run) = pages::stored("plots-itself", &experiment, &trials);
    let svg = draw(&database, run, Figure::Effects, &Options::default()).unwrap();
    assert_eq!(svg.matches("\u{2013} A/A check</text>").count(), 2);
}

#[test]
fn a_figure_that_is_not_offered_is_refused_with_a_hint() {
    let (experiment, trials) = pages::single();
    let (database, run) = pages::stored("plots-refused", &experiment, &trials);
    let error = draw(&database, run, Figure::Growth, &Options::default()).unwrap_err();
    assert!(matches!(error, Error::NoFigure { .. }) && error.hint().unwrap().contains("prony plot 1"));
    assert!("grwoth".parse::<Figure>().unwrap_err().contains("known: effects, growth"));
}

/// A crashed trial's operations were drawn as the throughput of its phase, and trials that were left out of distributions
/// were said to be in them.
#[test]
fn trials_that_failed_are_in_no_curve_and_captions_count_them() {
    let experiment = experiment("failed", &[texts("engine", &["a", "b"])], &[("write", true)], 4);
    let records = trials(&experiment, 4, |t| {
        let mut write = phase("write", &[("time", 1e9)]);
        write.groups = Some(Groups { operations: 10, wall: vec![5, 6, 7], cpu: vec![5, 6, 7] });
        write.histograms = vec![pages::histogram(LatencyKind::Service, 1.0, 100, 1)];
        write.throughput = Some(Throughput { interval: Nanos::from_millis(100), operations: vec![9; 10] });
        if t.trial.variant == 1 && t.trial.block != 2 {
            t.ending.outcome = Outcome::Crashed { signal: 11 };
            write.completion = Completion::Partial;
        }
        t.phases = vec![write];
    });
    let (database, run) = pages::stored("plots-failed", &experiment, &records);
    let data = database.load_run(run).unwrap();
    let source = Source { database: &database, data: &data };
    let columns = &mut Columns::default();
    let all: Vec<usize> = (0..records.len()).collect();
    let sections = [
        latency::section(source, columns).unwrap(),
        samples::section(source, columns).unwrap(),
        throughput::section(source, columns, &all).unwrap(),
    ];
    let drawn: Vec<_> = sections[2].charts[0].marks.iter().map(|mark| mark.of.clone()).collect();
    assert_eq!(drawn, [Of::Trial(0), Of::Trial(5)], "of b the one that ended well");
    for chart in sections.iter().flat_map(|section| &section.charts) {
        let text = "3 of 4 trials of b are left out: 3 crashed (signal 11).";
        assert!(chart.caption.contains(&Said::of(&[1], text)), "{:?}", chart.caption);
        assert!(!chart.caption.iter().any(|said| said.text.contains("of a are left out")), "{:?}", chart.caption);
    }
}

/// A page had a chart with all dots on a line at zero.
#[test]
fn metric_that_is_zero_in_all_trials_has_no_chart() {
    let plain = experiment("two", &[texts("store", &["a", "b"])], &[("write", true)], 6);
    let experiment = against(&plain, "store", "a");
    let drawn = |of_b: f64| {
        let records = trials(&experiment, 6, |trial| {
            let errors = if trial.trial.variant == 1 { of_b } else { 0.0 };
            trial.phases = vec![phase("write", &[("time", 1e9), ("errors", errors)])];
        });
        let (database, run) = pages::stored("plots-zero", &experiment, &records);
        let options = Options { metric: Some("write.errors".parse().unwrap()), ..Options::default() };
        draw(&database, run, Figure::Effects, &options).map_err(|error| error.to_string())
    };
    assert!(drawn(3.0).unwrap().contains("write.errors"));
    assert_eq!(drawn(0.0), Err("run 1 has nothing to draw for the chart `effects` of `write.errors`".to_owned()));
}

/// The chart of effects of a metric, and the columns to which it refers.
fn effects_of(name: &str, (experiment, trials): &(Experiment, Vec<TrialRecord>), metric: &str) -> (Columns, Chart) {
    let (database, run) = pages::stored(&format!("plots-{name}"), experiment, trials);
    let data = database.load_run(run).unwrap();
    let (verdicts, comparisons) = (verdicts::of(&data), Comparisons::new(&data));
    let judged =
        Judged { source: Source { database: &database, data: &data }, verdicts: &verdicts, comparisons: &comparisons };
    let mut columns = Columns::default();
    let section = effects::section(judged, &mut columns, &[metric.parse().unwrap()]);
    (columns, section.charts.into_iter().next().unwrap())
}

/// The row of a variant in a chart's table, without its name.
fn row_of(chart: &Chart, variant: usize) -> &[String] {
    &chart.table.rows.iter().find(|row| row.variant == variant).unwrap().cells
}

#[test]
fn refused_comparison_has_no_ratios_in_the_chart_of_effects() {
    let plain = experiment("refused", &[texts("store", &["a", "b", "c"])], &[("write", true)], 6);
    let plan = against(&plain, "store", "a");
    let drawn = |rows: u64, metric: &str| {
        let records = trials(&plan, 6, |t| {
            let mut write = phase("write", &[("time", 2e9 + f64::from(t.trial.position)), ("cpu", 1e9)]);
            let rows = if t.trial.variant == 1 { rows } else { 10 };
            write.answer = Some(Answer { rows: Some(rows), digest: rows.to_string(), comparable: true });
            t.phases = vec![write];
        });
        let of: Vec<usize> = records.iter().map(|record| record.trial.variant).collect();
        let (columns, chart) = effects_of("refused-effects", &(plan.clone(), records), metric);
        let dots = columns.across(chart.marks.iter().find(|mark| mark.kind == Kind::Dots).unwrap());
        [1, 2].map(|variant| dots.iter().zip(&of).filter(|(x, of)| **of == variant && x.is_finite()).count())
    };
    // Only `write.time` has a verdict.
    for metric in ["write.time", "write.cpu"] {
        assert_eq!((drawn(10, metric), drawn(9, metric)), ([6, 6], [0, 6]), "{metric}");
    }
}

/// Trials without an error were missing in the chart of errors, and in its count of trials.
#[test]
fn chart_of_effects_draws_zeros_or_says_that_it_does_not() {
    let plain = experiment("zeros", &[texts("store", &["a", "b"])], &[("write", true)], 6);
    let of = |plan: &Experiment, errors: fn(&TrialRecord) -> f64| {
        let records = trials(plan, 6, |t| t.phases = vec![phase("write", &[("time", 1e9), ("errors", errors(t))])]);
        effects_of("zeros-effects", &(plan.clone(), records), "write.errors").1
    };
    let far = of(&plain, |t| [0.0, 1.0, 1000.0][t.trial.block as usize % 3]);
    assert_eq!((&far.x.scale, row_of(&far, 1)[3].as_str()), (&Scale::Amount, "6"), "not logarithmic");
    assert_eq!(far.caption.len(), 1, "{:?}", far.caption);
    assert_eq!(of(&plain, |t| [1.0, 1000.0][t.trial.block as usize % 2]).x.scale, Scale::Log);
    let plan = against(&plain, "store", "a");
    let some = of(&plan, |t| if t.trial.variant == 1 && t.trial.block < 2 { 0.0 } else { 5.0 });
    assert_eq!(row_of(&some, 1)[3], "4");
    assert_eq!(some.caption[1..], [Said::of(&[1], "Not drawn, since not above 0: 2 values of b.")]);
    let baseline = of(&plan, |t| if t.trial.variant == 0 && t.trial.block < 2 { 0.0 } else { 5.0 });
    assert_eq!(row_of(&baseline, 1)[3], "4");
    let text = "Not drawn, since not above 0: 4 values of a, nor the trials that are divided by them.";
    assert_eq!(baseline.caption[1..], [Said::of(&[0], text)]);
}

/// A variant all of whose requests failed was neither in the chart nor in its table, and nothing said that it failed.
#[test]
fn latency_names_variants_that_have_no_curve() {
    let variants = ["a", "failing", "few", "nearly"];
    let experiment = experiment("curves", &[texts("server", &variants)], &[("load", true)], 1);
    let (database, run) = pages::stored(
        "plots-no-curve",
        &experiment,
        &trials(&experiment, 1, |t| {
            let (succeeded, failed) = [(100, 0), (0, 50), (5, 0), (5, 95)][t.trial.variant];
            let mut recorder = Recorder::new();
            (0..succeeded).for_each(|_| recorder.record(Nanos::from_millis(2)));
            let mut load = phase("load", &[("time", 1e9)]);
            load.histograms = [LatencyKind::Intended, LatencyKind::Actual]
                .map(|kind| HistogramRecord { failed, ..recorder.to_record("request", kind).unwrap() })
                .into();
            t.phases = vec![load];
        }),
    );
    let data = database.load_run(run).unwrap();
    let section = latency::section(Source { database: &database, data: &data }, &mut Columns::default()).unwrap();
    let [chart] = section.charts.as_slice() else { panic!("one phase of one operation") };
    let drawn: Vec<_> = chart.marks.iter().map(|mark| mark.of.clone()).collect();
    assert_eq!(drawn, [Of::Together(vec![0]), Of::Together(vec![0])]);
    assert_eq!(row_of(chart, 1), ["intended", "0", "50", "-", "-", "-", "-", "-"]);
    let said = |variant: usize| {
        let of_variant = chart.caption.iter().filter(|said| said.variants == [variant]);
        of_variant.map(|said| said.text.as_str()).filter(|text| text.starts_with("Not drawn")).collect::<Vec<_>>()
    };
    assert_eq!(said(0), [""; 0]);
    assert_eq!(said(1), ["Not drawn: failing, all of whose operations failed."]);
    assert_eq!(said(2), ["Not drawn: few, which has too few operations for a curve: 5."]);
    assert_eq!(said(3), ["Not drawn: nearly, too many of whose operations failed for a curve."]);
    let svg = draw(&database, run, Figure::Latency, &Options::default()).unwrap();
    assert!(svg.contains("Not drawn: failing") && !svg.contains("NaN"), "{svg}");
}

/// The caption said of any line that its trial is the one nearest to the median, and nothing of a variant that was too short.
#[test]
fn throughput_names_variants_that_are_too_short_for_a_line() {
    let experiment = experiment("short", &[texts("engine", &["a", "b"])], &[("write", true)], 2);
    let records = trials(&experiment, 2, |t| {
        let mut write = phase("write", &[("time", 1e9)]);
        // The last step is incomplete.
        let steps = if t.trial.variant == 0 && t.trial.block == 1 { 5 } else { 4 };
        write.throughput = Some(Throughput { interval: Nanos::from_millis(100), operations: vec![9; steps] });
        t.phases = vec![write];
    });
    let (database, run) = pages::stored("plots-short", &experiment, &records);
    let data = database.load_run(run).unwrap();
    let all: Vec<usize> = (0..records.len()).collect();
    let source = Source { database: &database, data: &data };
    let section = throughput::section(source, &mut Columns::default(), &all).unwrap();
    let chart = &section.charts[0];
    let later = records.iter().position(|t| t.trial.variant == 0 && t.trial.block == 1).unwrap();
    assert_eq!(chart.marks.iter().map(|mark| mark.of.clone()).collect::<Vec<_>>(), [Of::Trial(later)]);
    assert_eq!(chart.table.rows.len(), 1);
    assert!(
        chart.caption.contains(&Said::of(&[1], "Not drawn: b, with fewer than four steps.")),
        "{:?}",
        chart.caption
    );
    assert!(chart.caption[0].text.contains("the first that has four steps"), "{:?}", chart.caption[0]);
}

/// "Each dot is a trial", and a trial without a baseline in its sub-block had no dot and no word.
#[test]
fn chart_of_effects_names_trials_that_no_baseline_divides() {
    let plan = against(&experiment("lonely", &[texts("store", &["a", "b"])], &[("write", true)], 6), "store", "a");
    let of = |without: u32| {
        let records = trials(&plan, 6, |t| {
            let time = if t.trial.variant == 1 { 3e9 } else { 2e9 };
            t.phases = vec![phase("write", &[("time", time)])];
            if t.trial.variant == 0 && t.trial.block < without {
                t.phases = vec![not_reached("write")];
            }
        });
        effects_of("lonely-effects", &(plan.clone(), records), "write.time").1
    };
    let (one, two) = (of(1), of(2));
    assert_eq!((row_of(&one, 1)[3].as_str(), row_of(&two, 1)[3].as_str()), ("5", "4"));
    let text = "Not drawn: 1 trial of b, in whose sub-block no baseline has a value.";
    assert_eq!(one.caption[1..], [Said::of(&[1], text)]);
    let text = "Not drawn: 2 trials of b, in whose sub-blocks no baseline has a value.";
    assert_eq!(two.caption[1..], [Said::of(&[1], text)]);
    assert_eq!(of(0).caption.len(), 1);
}

/// The column `50 %` had the latency at 53.6 %, the next point of the curve.
#[test]
fn table_of_latency_has_the_percentiles_that_it_names() {
    let experiment = experiment("percentiles", &[], &[("read", true)], 1);
    let mut recorder = Recorder::new();
    (1..=10_000).for_each(|micros| recorder.record(Nanos::from_micros(micros)));
    let records = trials(&experiment, 1, |t| {
        let mut read = phase("read", &[("time", 1e9)]);
        read.histograms = vec![recorder.to_record("get", LatencyKind::Service).unwrap()];
        t.phases = vec![read];
    });
    let (database, run) = pages::stored("plots-percentiles", &experiment, &records);
    let data = database.load_run(run).unwrap();
    let source = Source { database: &database, data: &data };
    let section = latency::section(source, &mut Columns::default()).unwrap();
    let cells = &row_of(&section.charts[0], 0)[2..];
    assert_eq!(cells, ["5\u{a0}ms", "9\u{a0}ms", "9.9\u{a0}ms", "9.99\u{a0}ms", "-"]);
}
