//! A plot with axes, lines and marks; pictures are panels below each other.

use super::format::Format;
use super::scale::Scale;
use super::style::Style;
use super::svg::{Anchor, BAD, GRID, SOFT, Svg, Type, fitted};

const LEFT: f64 = 66.0;
const RIGHT: f64 = 18.0;
/// Above the plot: the heading.
const HEAD: f64 = 37.0;
/// Below the plot: marks of the axis and its label.
const FOOT: f64 = 44.0;

/// A line through values.
pub(super) struct Line {
    /// x and y; not a number breaks it.
    pub(super) points: Vec<(f64, f64)>,
    /// Colour and dashes.
    pub(super) style: Style,
    /// Stroke in pixels.
    pub(super) width: f64,
}

/// A plot.
pub(super) struct Panel {
    /// Above it.
    pub(super) title: String,
    /// The horizontal axis and how it is written.
    pub(super) x: (Scale, Format),
    /// The vertical axis.
    pub(super) y: (Scale, Format),
    /// Below the horizontal axis.
    pub(super) x_label: String,
    /// Places of the marks of the horizontal axis with their texts, where round values will not do.
    pub(super) x_ticks: Option<Vec<(f64, String)>>,
    /// Named spans of the horizontal axis, shaded by turns.
    pub(super) spans: Vec<(String, f64, f64)>,
    /// Lines.
    pub(super) lines: Vec<Line>,
    /// Single marks: x, y, look.
    pub(super) marks: Vec<(f64, f64, Style)>,
    /// What did not finish: x and what to say, along the top.
    pub(super) ends: Vec<(f64, String, &'static str)>,
    /// Horizontal lines across the plot, with what they are.
    pub(super) levels: Vec<(f64, String)>,
    /// Words left of a place: x, y, text, colour.
    pub(super) labels: Vec<(f64, f64, String, &'static str)>,
    /// Height of the plot itself.
    pub(super) height: f64,
}

impl Panel {
    /// An empty plot.
    pub(super) fn new(title: impl Into<String>, x: (Scale, Format), y: (Scale, Format)) -> Self {
        Self {
            title: title.into(),
            x,
            y,
            x_label: String::new(),
            x_ticks: None,
            spans: Vec::new(),
            lines: Vec::new(),
            marks: Vec::new(),
            ends: Vec::new(),
            levels: Vec::new(),
            labels: Vec::new(),
            height: 170.0,
        }
    }

    /// Height with heading and axis.
    pub(super) fn outer(&self) -> f64 {
        HEAD + self.height + FOOT
    }

    /// Draws it below `top`.
    pub(super) fn draw(&self, svg: &mut Svg, top: f64, width: f64) {
        let frame = Frame { left: LEFT, top: top + HEAD, width: width - LEFT - RIGHT, height: self.height };
        svg.text((16.0, top + 16.0), Type { size: 13.5, bold: true, ..Type::default() }, &self.title);
        self.shades(svg, &frame);
        self.axes(svg, &frame);
        for line in &self.lines {
            let points: Vec<(f64, f64)> = line.points.iter().map(|p| frame.at(self, *p)).collect();
            svg.path(&points, line.style.colour, line.width, line.style.dash);
        }
        for (x, y, style) in &self.marks {
            svg.mark(frame.at(self, (*x, *y)), style.mark, 3.6, style.colour, 0.6);
        }
        self.words(svg, &frame);
        for (at, (x, text, colour)) in self.ends.iter().enumerate() {
            let place = (frame.x(self, *x) + 6.0, frame.top + 14.0 + 16.0 * at as f64);
            let style = Type { anchor: Anchor::End, bold: true, fill: colour, ..Type::default() };
            svg.text(place, style, &format!("\u{2715} {text}"));
        }
    }

    /// What stands at values: levels across the plot, and labels at places.
    fn words(&self, svg: &mut Svg, frame: &Frame) {
        let mut levels = self.levels.clone();
        levels.dedup();
        for (value, text) in levels {
            let y = frame.y(self, value);
            svg.path(&[(frame.left, y), (frame.left + frame.width, y)], BAD, 1.4, "8 3");
            svg.text((frame.left + 6.0, y - 5.0), Type { size: 11.5, bold: true, fill: BAD, ..Type::default() }, &text);
        }
        for (x, y, text, colour) in &self.labels {
            let (x, y) = frame.at(self, (*x, *y));
            svg.ring((x, y), 5.0, colour);
            svg.text(
                (x - 10.0, y + 15.0),
                Type { anchor: Anchor::End, size: 11.5, fill: colour, ..Type::default() },
                text,
            );
        }
    }

    fn shades(&self, svg: &mut Svg, frame: &Frame) {
        for (at, (name, from, to)) in self.spans.iter().enumerate() {
            let (left, right) = (frame.x(self, *from), frame.x(self, *to));
            let opacity = if at % 2 == 0 { 0.07 } else { 0.16 };
            svg.rect((left, frame.top), (right - left, frame.height), SOFT, opacity);
            if right - left > name.chars().count() as f64 * 6.5 {
                let style = Type { anchor: Anchor::Middle, size: 11.0, fill: SOFT, ..Type::default() };
                svg.text(((left + right) / 2.0, frame.top - 4.0), style, name);
            }
        }
    }

    fn axes(&self, svg: &mut Svg, frame: &Frame) {
        let bottom = frame.top + frame.height;
        for tick in self.y.0.ticks(5) {
            let y = frame.y(self, tick);
            svg.line((frame.left, y), (frame.left + frame.width, y), GRID, 1.0);
            let style = Type { anchor: Anchor::End, size: 11.5, ..Type::default() };
            svg.text((frame.left - 7.0, y + 4.0), style, &self.y.1.text(tick));
        }
        let ticks = self.x_ticks.clone().unwrap_or_else(|| {
            let most = (frame.width / 84.0) as usize;
            self.x.0.ticks(most).into_iter().map(|t| (t, self.x.1.text(t))).collect()
        });
        for (tick, text) in ticks {
            let x = frame.x(self, tick);
            svg.line((x, frame.top), (x, bottom), GRID, 1.0);
            svg.line((x, bottom), (x, bottom + 5.0), SOFT, 1.0);
            svg.text((x, bottom + 18.0), Type { anchor: Anchor::Middle, size: 11.5, ..Type::default() }, &text);
        }
        svg.line((frame.left, bottom), (frame.left + frame.width, bottom), SOFT, 1.0);
        let style = Type { anchor: Anchor::End, size: 11.5, fill: SOFT, ..Type::default() };
        svg.text((frame.left + frame.width, bottom + 34.0), style, &self.x_label);
    }
}

/// The plot's own rectangle.
struct Frame {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl Frame {
    fn x(&self, panel: &Panel, value: f64) -> f64 {
        self.left + self.width * panel.x.0.share(value).clamp(0.0, 1.0)
    }

    fn y(&self, panel: &Panel, value: f64) -> f64 {
        self.top + self.height * (1.0 - panel.y.0.share(value).clamp(0.0, 1.0))
    }

    fn at(&self, panel: &Panel, (x, y): (f64, f64)) -> (f64, f64) {
        if x.is_finite() && y.is_finite() { (self.x(panel, x), self.y(panel, y)) } else { (f64::NAN, f64::NAN) }
    }
}

/// A picture: title, legend, panels, a note below.
pub(super) struct Picture {
    pub(super) title: String,
    /// Names with their looks.
    pub(super) legend: Vec<(String, Style)>,
    pub(super) panels: Vec<Panel>,
    /// Below everything.
    pub(super) note: String,
}

impl Picture {
    /// The SVG; `None` without panels.
    pub(super) fn draw(&self, width: f64) -> Option<String> {
        if self.panels.is_empty() {
            return None;
        }
        let mut svg = Svg::default();
        svg.text(
            (16.0, 28.0),
            Type { size: 17.0, bold: true, ..Type::default() },
            &fitted(&self.title, width - 40.0, 17.0),
        );
        let mut top = self.legend(&mut svg, width) + 14.0;
        for panel in &self.panels {
            panel.draw(&mut svg, top, width);
            top += panel.outer();
        }
        for line in wrapped(&self.note, width - 32.0) {
            svg.text((16.0, top + 12.0), Type { size: 11.0, fill: SOFT, ..Type::default() }, &line);
            top += 15.0;
        }
        let words: Vec<&str> = self.legend.iter().map(|(name, _)| name.as_str()).collect();
        Some(svg.finish(width, top + 14.0, &self.title, &words.join("; ")))
    }

    /// Draws the legend in as many lines as it takes and says where it ends.
    fn legend(&self, svg: &mut Svg, width: f64) -> f64 {
        let (mut x, mut y) = (16.0, 52.0);
        for (name, style) in &self.legend {
            let name = fitted(name, width - 80.0, 12.0);
            let needs = 52.0 + name.chars().count() as f64 * 7.3;
            if x > 16.0 && x + needs > width - 10.0 {
                (x, y) = (16.0, y + 19.0);
            }
            svg.path(&[(x, y - 4.0), (x + 28.0, y - 4.0)], style.colour, 2.5, style.dash);
            svg.mark((x + 14.0, y - 4.0), style.mark, 3.6, style.colour, 1.0);
            svg.text((x + 34.0, y), Type::default(), &name);
            x += needs;
        }
        if self.legend.is_empty() { 36.0 } else { y + 6.0 }
    }
}

/// What did not finish is written in this colour where no series has its own.
pub(super) const ENDED: &str = BAD;

fn wrapped(text: &str, pixels: f64) -> Vec<String> {
    let room = (pixels / 5.9) as usize;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + word.len() < room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
