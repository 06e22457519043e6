//! The chart of crash trials: how fast each variant writes, and what a crash loses of it.

use prony_analysis::crash;
use prony_analysis::verdicts::figure;
use prony_model::crash::{CrashSummary, CutKind, Spread};
use prony_model::metric::Metric;
use prony_model::number::count;
use prony_stats::summary::median;

use super::{Source, series};
use crate::cell_value::amount_of;
use crate::crash::{known, verdict};
use crate::plot::chart::{
    Axis, Chart, Choice, Columns, Control, Does, Kind, Mark, Of, Row, Said, Scale, Section, Table,
};
use crate::plot::format::Format;
use crate::variants::trials_of;
use crate::words::once;

/// A chart for each crash phase.
pub fn section(source: Source<'_>, columns: &mut Columns) -> Section {
    let all = crash::of(&source.data.experiment, &source.data.cuts);
    let phases: Vec<&str> = once(all.iter().map(|summary| summary.phase.as_str()));
    let of = |phase: &str| all.iter().filter(|summary| summary.phase == phase).collect::<Vec<_>>();
    let charts = phases.into_iter().filter_map(|phase| Some((phase, chart(source, columns, &of(phase))?)));
    let (phases, charts): (Vec<&str>, Vec<Chart>) = charts.unzip();
    let mut section = Section::default();
    let options: Vec<Choice> = phases.iter().map(|phase| Choice::new(*phase)).collect();
    // A process crash loses nothing of most modes.
    let is_power_cut = |phase: &&str| of(phase).iter().any(|summary| summary.kind == CutKind::PowerCut);
    let first = phases.iter().position(is_power_cut).unwrap_or(0);
    section.select(Control { label: "Crash phase", does: Does::Select, options, chosen: first }, charts);
    let drawn = all.iter().map(|summary| summary.variant);
    section.controls.extend(series::among(&source.data.experiment, drawn));
    section.legend = true;
    section
}

/// The median rate of the timed phase whose writes are repeated, where each of its operations writes too.
fn rate(source: Source<'_>, summary: &CrashSummary) -> Option<f64> {
    let trials = trials_of(source.data, summary.variant);
    if crash::changed_less(&source.data.experiment, summary, trials.clone()).is_some() {
        return None;
    }
    let metric = amount_of(&summary.during, Metric::Rate);
    median(&trials.filter_map(|trial| figure(trial, &metric)).collect::<Vec<f64>>())
}

/// Of one crash phase; `None` where no variant has both a rate and a cut that counts.
fn chart(source: Source<'_>, columns: &mut Columns, all: &[&CrashSummary]) -> Option<Chart> {
    let first = all.first()?;
    let (mut drawn, mut left_out) = (Vec::new(), Vec::new());
    for summary in all {
        match rate(source, summary).filter(|_| summary.cuts > 0) {
            Some(rate) => drawn.push((*summary, rate)),
            None => left_out.push(*summary),
        }
    }
    if drawn.is_empty() {
        return None;
    }
    let dots = dots(columns, &drawn);
    let corrupt: Vec<(&CrashSummary, f64)> = drawn.iter().copied().filter(|(summary, _)| summary.corrupt > 0).collect();
    let ends = Mark {
        kind: Kind::Ends,
        of: Of::Each(corrupt.iter().map(|(summary, _)| summary.variant).collect()),
        x: columns.add(corrupt.iter().map(|(_, rate)| *rate)),
        text: corrupt
            .iter()
            .map(|(summary, _)| format!("corrupt: {} of {}", summary.corrupt, summary.images))
            .collect(),
        ..Mark::default()
    };
    let what = match first.kind {
        CutKind::Kill => "the process is ended",
        CutKind::PowerCut => "the power is cut",
    };
    let mut caption = vec![Said::always(format!(
        "Across, the median rate of `{}` on the plain disk. Up, the most that was lost when {what}: how long before it the \
         oldest commit was acknowledged that is missing. No cut can lose more than the time since its first commit.",
        first.during
    ))];
    caption.extend(left_out.iter().map(|summary| {
        let name = source.name(summary.variant);
        Said::of(
            &[summary.variant],
            format!("Not drawn: {name}, which has no rate of such writes or no cut that counts."),
        )
    }));
    caption.extend(drawn.iter().filter_map(|(summary, _)| {
        let (name, known) = (source.name(summary.variant), known(summary, "image")?);
        let text = format!("What {name} lost is {known}; the others cannot be read, and may have lost more.");
        Some(Said::of(&[summary.variant], text))
    }));
    let rows = drawn.iter().map(|(summary, rate)| row(summary, *rate));
    let axis = |label: &str, format, scale| Axis { label: label.to_owned(), format, scale, ticks: Vec::new() };
    Some(Chart {
        title: format!("Rate and loss: {}", first.phase),
        caption,
        x: axis("rate", Format::PerSecond, Scale::Log),
        y: axis("most lost", Format::Nanos, Scale::Amount),
        height: 0.5,
        marks: vec![dots].into_iter().chain((!corrupt.is_empty()).then_some(ends)).collect(),
        table: Table::new(["Variant", "Rate", "Most lost commits", "Most lost", "Corrupt", "Finding"], rows),
        ..Chart::default()
    })
}

/// What is known to be lost: nothing of a variant of which no image can be read.
fn dots(columns: &mut Columns, drawn: &[(&CrashSummary, f64)]) -> Mark {
    let is_known =
        |(summary, rate): &(&CrashSummary, f64)| Some((summary.variant, *rate, summary.lost_time?.most, tip(summary)));
    let known: Vec<(usize, f64, f64, String)> = drawn.iter().filter_map(is_known).collect();
    Mark {
        kind: Kind::Dots,
        of: Of::Each(known.iter().map(|(variant, ..)| *variant).collect()),
        x: columns.add(known.iter().map(|(_, rate, ..)| *rate)),
        y: columns.add(known.iter().map(|(_, _, lost, _)| *lost)),
        tips: known.into_iter().map(|(.., tip)| tip).collect(),
        ..Mark::default()
    }
}

fn tip(summary: &CrashSummary) -> String {
    let known = known(summary, "image").map(|known| format!(", {known}"));
    format!(
        "{{x}}; lost {{y}} at most ({}{}); {} of {} corrupt; {}",
        summary.lost.map_or_else(|| "commits not known".to_owned(), |lost| count(lost.most as u64, "commit")),
        known.unwrap_or_default(),
        summary.corrupt,
        count(summary.images, "image"),
        verdict(summary)
    )
}

fn row(summary: &CrashSummary, rate: f64) -> Row {
    let known = known(summary, "image").map(|known| format!(" ({known})")).unwrap_or_default();
    let most = |spread: Option<Spread>, format: Format| {
        let most = spread.map_or_else(|| "-".to_owned(), |spread| format.text(spread.most));
        format!("{most}{known}")
    };
    Row::of(
        summary.variant,
        [
            Format::PerSecond.text(rate),
            most(summary.lost, Format::Count),
            most(summary.lost_time, Format::Nanos),
            format!("{} of {}", summary.corrupt, summary.images),
            verdict(summary),
        ],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::tests::summary;

    /// 4 of 80 images could be read, and `Most lost` stood there as if it were that of all.
    #[test]
    fn most_that_was_lost_says_of_how_many_images_that_is_known() {
        let (all, some, none) = (summary(80, 0), summary(80, 76), summary(80, 80));
        let texts = |of: &CrashSummary| [row(of, 100.0).cells[1].clone(), row(of, 100.0).cells[2].clone()];
        let most = [Format::Count.text(48.0), Format::Nanos.text(2e8)];
        assert_eq!(texts(&all), most);
        assert_eq!(texts(&some), most.map(|text| text + " (known of 4 of 80 images)"));
        assert!(tip(&some).contains("(48 commits, known of 4 of 80 images)"), "{}", tip(&some));
        assert!(!tip(&all).contains("known of"));
        let drawn = dots(&mut Columns::default(), &[(&all, 1.0), (&none, 2.0), (&some, 3.0)]);
        assert_eq!(drawn.of, Of::Each(vec![all.variant, some.variant]), "nothing is known of the second");
    }
}
