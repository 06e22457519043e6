//! Draws static SVG pictures from the same chart descriptions as the HTML page; they are light and legible when scaled.

pub(super) mod flame;
mod panel;
mod scale;
pub(super) mod scene;
mod style;
mod svg;

use scene::Scene;
use style::colour;
use svg::{Svg, Type, fitted};

use super::chart::{Chart, Series};

/// The charts of a section below each other; `None` where it shows none.
pub(super) fn draw(scene: &Scene<'_>, title: &str, width: f64) -> Option<String> {
    let charts = scene.charts();
    if charts.is_empty() {
        return None;
    }
    let mut svg = Svg::default();
    let bold = Type { size: 17.0, bold: true, ..Type::default() };
    svg.text((16.0, 28.0), bold, &fitted(title, width - 40.0, 17.0));
    let series: Vec<&Series> = if scene.section.legend { scene.legend(&charts) } else { Vec::new() };
    let mut top = legend(&mut svg, &series, width) + 14.0;
    let mut said = Vec::new();
    for chart in &charts {
        top = panel::draw(&mut svg, scene, chart, (top, width), &mut said);
    }
    let words = |chart: &Chart| format!("{}: {}", chart.title, scene.words(chart).join("; "));
    let words: Vec<String> = charts.iter().map(|(chart, _)| words(chart)).collect();
    Some(svg.finish(width, top + 10.0, title, &words.join(". ")))
}

/// Draws the legend in as many lines as needed; returns the position below it.
fn legend(svg: &mut Svg, all: &[&Series], width: f64) -> f64 {
    let (mut x, mut y) = (16.0, 52.0);
    for series in all {
        let base = if series.baseline { " (baseline)" } else { "" };
        let name = fitted(&format!("{}{base}", series.name), width - 80.0, 12.0);
        let needs = 52.0 + name.chars().count() as f64 * 7.3;
        if x > 16.0 && x + needs > width - 10.0 {
            (x, y) = (16.0, y + 19.0);
        }
        let (dash, _) = style::line(series, super::chart::Stroke::Own);
        svg.path(&[(x, y - 4.0), (x + 28.0, y - 4.0)], colour(series.style), 2.5, dash);
        svg.mark((x + 14.0, y - 4.0), series.style.symbol, 3.6, colour(series.style), 1.0);
        svg.text((x + 34.0, y), Type::default(), &name);
        x += needs;
    }
    if all.is_empty() { 36.0 } else { y + 6.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::chart::{
        Axis, Choice, Columns, Control, Does, Kind, Lane, Mark, Of, Row, Said, Scale, Section, Style, Table, When,
    };

    fn variant(at: usize, name: &str) -> Series {
        let style = Style { colour: at.checked_sub(1), dash: 0, symbol: 0 };
        Series { name: name.to_owned(), style, baseline: at == 0, variants: vec![at], when: Vec::new() }
    }

    fn drawn(columns: &Columns, section: &Section) -> Option<String> {
        let variants = [variant(0, "a"), variant(1, "b")];
        draw(&Scene { columns, section, variants: &variants, trials: &[0, 0, 1] }, "t", 860.0)
    }

    fn numbers(svg: &str, attribute: &str) -> Vec<f64> {
        let mark = format!("<circle {attribute}=\"");
        svg.split(&mark).skip(1).map(|rest| rest[..rest.find('"').unwrap()].parse().unwrap()).collect()
    }

    #[test]
    fn points_are_at_their_values() {
        let mut columns = Columns::default();
        let x = columns.add([1.0, 10.0, 100.0]);
        let dots = Mark { kind: Kind::Dots, of: Of::Trials, x, y: x, ..Mark::default() };
        let between = Scale::Between { low: 1.0, high: 1000.0 };
        let axis = || Axis { scale: between.clone(), ..Axis::default() };
        let chart = Chart { x: axis(), y: axis(), height: 0.5, marks: vec![dots], ..Chart::default() };
        let svg = drawn(&columns, &Section { charts: vec![chart], ..Section::default() }).unwrap();
        let xs = numbers(&svg, "cx");
        let third = (860.0 - 66.0 - 18.0) / 3.0;
        assert!(
            xs.len() == 3 && xs.iter().enumerate().all(|(i, x)| (x - 66.0 - third * i as f64).abs() < 0.01),
            "{xs:?}"
        );
        assert!(svg.contains("<desc>") && svg.contains(">10<") && svg.contains(">1000<"), "marks of the axis");
    }

    #[test]
    fn lanes_are_ordered_by_rank_and_an_open_interval_reaches_the_end() {
        let mut columns = Columns::default();
        let (low, high) = (columns.add([2.0, 3.0]), columns.add([f64::NAN, 5.0]));
        let (y, z) = (columns.add([0.5, 1.5]), columns.add([4.0, 4.0]));
        let of = Of::Each(vec![0, 1]);
        let mark = Mark { kind: Kind::Intervals, of, x: low, x2: high, y, z, ..Mark::default() };
        let ended = Mark { kind: Kind::Ends, of: Of::Each(vec![1]), y: columns.add([1.5]), ..Mark::default() };
        let ended = Mark { text: vec!["2 failed".to_owned()], ..ended };
        let lane = |variant, rank| Lane { words: "slower".to_owned(), variant, rank: Some(rank), last: false };
        let lanes = Axis { scale: Scale::Lanes { lanes: vec![lane(0, 2.0), lane(1, 1.0)] }, ..Axis::default() };
        let row = Row::of(1, ["-".to_owned(), "3 to 5".to_owned()]);
        let table = Table::new(["Variant", "Ratio", "Interval"], [row]);
        let chart = Chart { y: lanes, height: 50.0, marks: vec![mark, ended], table, ..Chart::default() };
        let svg = drawn(&columns, &Section { charts: vec![chart], ..Section::default() }).unwrap();
        let (a, b) = (svg.find(">a \u{2013} slower<").unwrap(), svg.find(">b \u{2013} slower<").unwrap());
        assert!(b < a, "the least first");
        assert!(svg.contains("x2=\"842\"") && svg.contains("\u{2715} 2 failed"), "{svg}");
        assert!(svg.contains("b: Interval 3 to 5</desc>"), "what is not there is not said");
    }

    #[test]
    fn a_point_in_a_lane_that_is_not_shown_is_not_drawn() {
        let mut columns = Columns::default();
        let (x, y) = (columns.add([2.0, 3.0, 4.0]), columns.add([0.5, 1.5, 0.25]));
        let dots = Mark { kind: Kind::Dots, of: Of::Each(vec![0, 0, 0]), x, y, ..Mark::default() };
        let ends = Mark { kind: Kind::Ends, of: Of::Each(vec![0, 0]), y, ..Mark::default() };
        let ends = Mark { text: vec!["1 failed".to_owned(), "2 failed".to_owned()], ..ends };
        let lanes = Scale::Lanes { lanes: vec![Lane::default()] };
        let y = Axis { scale: lanes, ..Axis::default() };
        let chart = Chart { y, height: 50.0, marks: vec![dots, ends], ..Chart::default() };
        let svg = drawn(&columns, &Section { charts: vec![chart], ..Section::default() }).unwrap();
        assert_eq!(numbers(&svg, "cx").len(), 2, "{svg}");
        assert!(svg.contains("1 failed") && !svg.contains("2 failed") && !svg.contains("NaN"), "{svg}");
    }

    /// How the trials of the least level ended was `hed (signal 11)`.
    #[test]
    fn an_ending_at_the_first_level_lies_within_the_picture() {
        let mut columns = Columns::default();
        let (x, of) = (columns.add([1.0, 100.0]), Of::Each(vec![0, 0]));
        let text = ["6 crashed (signal 11)", "6 timed out"].map(str::to_owned).to_vec();
        let ends = Mark { kind: Kind::Ends, of, x, text, ..Mark::default() };
        let axis = || Axis { scale: Scale::Log, ..Axis::default() };
        let chart = Chart { x: axis(), y: axis(), height: 0.5, marks: vec![ends], ..Chart::default() };
        let svg = drawn(&columns, &Section { charts: vec![chart], ..Section::default() }).unwrap();
        let anchor = |text: &str| {
            let line = svg.lines().find(|line| line.contains(text)).unwrap();
            line.split("text-anchor=\"").nth(1).unwrap().split('"').next().unwrap()
        };
        assert_eq!([anchor("6 crashed"), anchor("6 timed out")], ["start", "end"], "{svg}");
    }

    #[test]
    fn a_picture_shows_what_is_chosen_at_first() {
        let mut columns = Columns::default();
        let (x, y) = (columns.steps(0.5, 2), columns.add([1.0, 2.0]));
        let line = |of, last| Mark { of, x, y, when: vec![When(0, 0, last)], ..Mark::default() };
        let shades = |of| Mark { kind: Kind::Bands, of, x: y, x2: y, ..Mark::default() };
        let said = |variant: usize, text: &str| Said { shaded: true, ..Said::of(&[variant], text) };
        let chart = Chart {
            caption: vec![said(0, "Shaded: a."), said(1, "Shaded: b."), Said::always("One trial.")],
            height: 0.3,
            marks: vec![shades(Of::Trial(0)), shades(Of::Trial(2)), line(Of::Trial(2), 0), line(Of::Trial(0), 3)],
            ..Chart::default()
        };
        let control = |does, options| Control { label: "c", does, options, chosen: 0 };
        let only_b = Choice { variants: vec![1], ..Choice::new("b") };
        let mut section = Section { legend: true, charts: vec![chart.clone(), chart], ..Section::default() };
        section.control(control(Does::Select, vec![Choice::new("first"), Choice::new("second")]));
        section.control(control(Does::Restrict, vec![only_b, Choice::new("all variants")]));
        let svg = drawn(&columns, &section).unwrap();
        assert_eq!(svg.matches("Shaded: b. One trial.").count(), 1, "not again below the second chart: {svg}");
        assert!(!svg.contains("Shaded: a.") && !svg.contains(">a (baseline)<") && svg.contains(">b<"));
        section.controls[0].chosen = 1;
        assert!(!drawn(&columns, &section).unwrap().contains("stroke=\"#0072b2\" stroke-width=\"1.8\""));
        section.charts.truncate(0);
        assert_eq!(drawn(&columns, &section), None);
    }
}
