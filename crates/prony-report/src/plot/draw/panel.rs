//! Draws one chart as a plot with axes; a picture consists of plots below each other.

use super::scale::Scale;
use super::scene::{Point, Scene, Shown};
use super::style::{colour, line};
use super::svg::{Anchor, BAD, GRID, SOFT, Svg, TEXT, Type, fitted, wrapped};
use crate::plot::chart::{Axis, Chart, Column, Kind, Lane, Of, Scale as Spans, Stroke};
use crate::words::place_of;

const LEFT: f64 = 66.0;
const RIGHT: f64 = 18.0;
/// Above the plot: labels of bands.
const HEAD: f64 = 18.0;
/// Below the plot: marks of the axis and its label.
const FOOT: f64 = 44.0;
/// Height of a line of the caption.
const LINE: f64 = 14.0;

/// Draws a chart below `top`, without sentences that are in `said` already; returns the position below it.
pub(super) fn draw(
    svg: &mut Svg,
    scene: &Scene<'_>,
    (chart, marks): &(&Chart, Vec<Shown<'_>>),
    (top, width): (f64, f64),
    said: &mut Vec<String>,
) -> f64 {
    let bold = Type { size: 13.5, bold: true, ..Type::default() };
    svg.text((16.0, top + 16.0), bold, &fitted(&chart.title, width - 32.0, 13.5));
    let mut top = top + 18.0;
    let shaded = marks.iter().find(|(mark, _)| mark.kind == Kind::Bands).and_then(|(_, points)| points[0].series);
    let mut caption = scene.caption(chart, shaded);
    caption.retain(|text| !said.iter().any(|known| known == text));
    said.extend(caption.iter().map(|text| (*text).to_owned()));
    for text in wrapped(&caption.join(" "), width - 32.0) {
        top += LINE;
        svg.text((16.0, top), Type { size: 11.0, fill: SOFT, ..Type::default() }, &text);
    }
    let plot = Plot::new(scene, chart, marks, top + HEAD, width);
    plot.axes(svg, chart);
    for shown in marks {
        plot.mark(svg, shown);
    }
    plot.headings(svg, scene, width);
    plot.bottom() + FOOT
}

/// The plot's own rectangle with its scales.
struct Plot<'a> {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    /// Of the axis across.
    label: String,
    x: Scale,
    y: Scale,
    /// Where there are lanes, they take the place of the vertical scale.
    lanes: Vec<(usize, &'a Lane)>,
}

impl<'a> Plot<'a> {
    fn new(scene: &Scene<'a>, chart: &'a Chart, marks: &[Shown<'_>], top: f64, width: f64) -> Self {
        let lanes = scene.lanes(chart);
        let has_lanes = matches!(chart.y.scale, Spans::Lanes { .. });
        let left = if has_lanes { 24.0 } else { LEFT };
        let height = if has_lanes {
            chart.height * lanes.len() as f64
        } else {
            chart.height * width.clamp(700.0, 1150.0) - HEAD - FOOT
        };
        let (label, across_scale) = chart.x.drawn(|variant| scene.shows(variant));
        let ys = marks.iter().flat_map(|(_, points)| points).map(|point| point.y);
        let ends = marks.iter().any(|(mark, _)| mark.kind == Kind::Ends);
        Self {
            left,
            top,
            width: width - left - RIGHT,
            height,
            label,
            x: Scale::of(&across_scale, &across(scene, marks), false),
            y: Scale::of(&chart.y.scale, &ys.collect::<Vec<_>>(), ends),
            lanes,
        }
    }

    fn bottom(&self) -> f64 {
        self.top + self.height
    }

    fn right(&self) -> f64 {
        self.left + self.width
    }

    fn x(&self, value: f64) -> f64 {
        self.left + self.width * self.x.share(value).clamp(0.0, 1.0)
    }

    /// Not a number where the lane is not shown.
    fn y(&self, value: f64) -> f64 {
        if self.lanes.is_empty() {
            return self.top + self.height * (1.0 - self.y.share(value).clamp(0.0, 1.0));
        }
        let lane = self.lanes.iter().position(|(number, _)| *number as f64 == value.floor());
        let place = lane.map_or(f64::NAN, |lane| lane as f64 + value.fract());
        self.top + place * self.height / self.lanes.len() as f64
    }

    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        (self.x(x), self.y(y))
    }

    fn axes(&self, svg: &mut Svg, chart: &Chart) {
        let marks = Type { size: 11.5, ..Type::default() };
        if self.lanes.is_empty() {
            for tick in self.y.ticks(6) {
                let y = self.y(tick);
                svg.line((self.left, y), (self.right(), y), GRID, 1.0);
                let text = chart.y.format.text(tick);
                svg.text((self.left - 7.0, y + 4.0), Type { anchor: Anchor::End, ..marks }, &text);
            }
        }
        let bottom = self.bottom();
        for (tick, text) in self.ticks(&chart.x) {
            let x = self.x(tick);
            svg.line((x, self.top), (x, bottom), GRID, 1.0);
            svg.line((x, bottom), (x, bottom + 5.0), SOFT, 1.0);
            svg.text((x, bottom + 18.0), Type { anchor: Anchor::Middle, ..marks }, &text);
        }
        svg.line((self.left, bottom), (self.right(), bottom), SOFT, 1.0);
        let style = Type { anchor: Anchor::End, fill: SOFT, ..marks };
        svg.text((self.right(), bottom + 34.0), style, &self.label);
    }

    fn ticks(&self, axis: &Axis) -> Vec<(f64, String)> {
        if !axis.ticks.is_empty() {
            return axis.ticks.clone();
        }
        let round = self.x.ticks((self.width / 84.0) as usize);
        round.into_iter().map(|tick| (tick, axis.format.text(tick))).collect()
    }

    /// The heading of each lane.
    fn headings(&self, svg: &mut Svg, scene: &Scene<'_>, width: f64) {
        for (number, lane) in &self.lanes {
            let words = if lane.words.is_empty() { String::new() } else { format!(" \u{2013} {}", lane.words) };
            let text = fitted(&format!("{}{words}", scene.name(lane.variant)), width - 40.0, 12.0);
            svg.text((16.0, self.y(*number as f64) + 10.0), Type { bold: true, ..Type::default() }, &text);
        }
    }

    fn mark(&self, svg: &mut Svg, (mark, points): &Shown<'_>) {
        match mark.kind {
            Kind::Line | Kind::Area => self.lines(svg, points, mark.stroke),
            Kind::Bands => self.bands(svg, points, mark.of == Of::Nobody),
            Kind::Ends => self.ends(svg, points),
            kind => {
                let placed = points.iter().filter(|point| mark.y.is_none() || self.y(point.y).is_finite());
                placed.enumerate().for_each(|(at, point)| self.point(svg, kind, at, point));
            }
        }
    }

    fn point(&self, svg: &mut Svg, kind: Kind, nth: usize, point: &Point<'_>) {
        let (x, y) = self.at(point.x, point.y);
        let ink = point.series.map_or(TEXT, |series| colour(series.style));
        match kind {
            Kind::Dots if self.x.share(point.x).is_finite() && self.y.share(point.y).is_finite() => {
                let symbol = point.series.map_or(0, |series| series.style.symbol);
                svg.mark((x, y), symbol, 3.4, ink, 0.55);
            }
            Kind::Intervals => {
                if point.x.is_finite() || point.x2.is_finite() {
                    let high = if point.x2.is_finite() { self.x(point.x2) } else { self.right() };
                    let low = if point.x.is_finite() { x } else { self.left };
                    svg.line((low, y), (high, y), ink, 5.0);
                }
                if point.z.is_finite() {
                    svg.ring((self.x(point.z), y), 5.0, ink);
                }
            }
            Kind::Bars => {
                let (width, height) = (self.x(point.x2) - x, self.y(point.y.floor() + 0.94) - y);
                svg.rect((x, y), (width, height), ink, if nth.is_multiple_of(2) { 0.42 } else { 0.22 });
                self.inside(svg, (x, width), y + height / 2.0 + 4.0, point.text, TEXT);
            }
            Kind::Rules => {
                let (dash, width) = if point.series.is_some() { ("1 3", 1.0) } else { ("", 1.4) };
                svg.path(&[(x, self.top), (x, self.bottom())], ink, width, dash);
            }
            Kind::Limits => {
                svg.path(&[(self.left, y), (self.right(), y)], BAD, 1.4, "8 3");
                let style = Type { size: 11.5, bold: true, fill: BAD, ..Type::default() };
                svg.text((self.left + 6.0, y - 5.0), style, point.text);
            }
            Kind::Rings => {
                svg.ring((x, y), 5.0, ink);
                let style = Type { anchor: Anchor::End, size: 11.5, fill: ink, ..Type::default() };
                svg.text((x - 10.0, y + 15.0), style, point.text);
            }
            _ => {}
        }
    }

    /// A line for each series, which a point that is no number breaks.
    fn lines(&self, svg: &mut Svg, points: &[Point<'_>], stroke: Stroke) {
        let mut rest: Vec<&Point<'_>> = points.iter().collect();
        while let Some(series) = rest.first().and_then(|point| point.series) {
            let (own, next): (Vec<_>, Vec<_>) = rest.into_iter().partition(|point| point.series == Some(series));
            rest = next;
            let place = |point: &&Point<'_>| {
                let known = point.x.is_finite() && point.y.is_finite();
                let at = |x: f64| if known { self.at(x, point.y) } else { (f64::NAN, f64::NAN) };
                let end = point.x2.is_finite().then(|| at(point.x2));
                [at(point.x)].into_iter().chain(end)
            };
            let (dash, width) = line(series, stroke);
            svg.path(&own.iter().flat_map(place).collect::<Vec<_>>(), colour(series.style), width, dash);
        }
    }

    fn bands(&self, svg: &mut Svg, points: &[Point<'_>], margin: bool) {
        for (at, point) in points.iter().enumerate() {
            let (left, right) = (self.x(point.x), self.x(point.x2));
            let opacity = if margin { 0.14 } else { [0.07, 0.16][at % 2] };
            svg.rect((left, self.top), (right - left, self.height), SOFT, opacity);
            self.inside(svg, (left, right - left), self.top - 4.0, point.text, SOFT);
        }
    }

    /// A text in the middle of what it names, where there is room.
    fn inside(&self, svg: &mut Svg, (left, width): (f64, f64), y: f64, text: &str, fill: &'static str) {
        if width > text.chars().count() as f64 * 6.5 {
            let style = Type { anchor: Anchor::Middle, size: 11.0, fill, ..Type::default() };
            svg.text((left + width / 2.0, y), style, text);
        }
    }

    /// What did not finish: at the right of a lane, or at the top, a line for each series.
    fn ends(&self, svg: &mut Svg, points: &[Point<'_>]) {
        let mut lines = Vec::new();
        for point in points.iter().filter(|point| self.lanes.is_empty() || self.y(point.y).is_finite()) {
            let line = place_of(&mut lines, point.series);
            let ink = point.series.filter(|_| self.lanes.is_empty()).map_or(BAD, |series| colour(series.style));
            let text = format!("\u{2715} {}", point.text);
            let (place, anchor) = if self.lanes.is_empty() {
                let (x, y) = (self.x(point.x), self.top + 14.0 + 16.0 * line as f64);
                // To the left of the first values there is no room: the number of trials was cut off.
                let fits = x > text.chars().count() as f64 * 7.0;
                if fits { ((x + 6.0, y), Anchor::End) } else { ((x - 6.0, y), Anchor::Start) }
            } else {
                ((self.right(), self.y(point.y) + 4.0), Anchor::End)
            };
            svg.text(place, Type { anchor, bold: true, fill: ink, ..Type::default() }, &text);
        }
    }
}

/// The places across that the scale has to hold: all but those of the margin.
fn across(scene: &Scene<'_>, marks: &[Shown<'_>]) -> Vec<f64> {
    let mut values = Vec::new();
    for (mark, points) in marks.iter().filter(|(mark, _)| mark.kind != Kind::Bands || mark.of != Of::Nobody) {
        match mark.x.map(|id| scene.columns.get(id)) {
            Some(Column::Steps { step, count }) => values.extend([0.0, step * *count as f64]),
            _ => values.extend(points.iter().flat_map(|point| [point.x, point.x2])),
        }
        if mark.kind == Kind::Intervals {
            values.extend(points.iter().map(|point| point.z));
        }
    }
    values
}
