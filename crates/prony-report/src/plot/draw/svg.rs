//! SVG elements; every text is escaped, every number rounded to a hundredth of a pixel.

use std::fmt::Write as _;

use crate::escape::xml;
use crate::screen::is_unsafe;

/// Colour of text.
pub(super) const TEXT: &str = "#1b1f24";
/// Colour of what stands back.
pub(super) const SOFT: &str = "#57606a";
/// Colour of lines of the grid.
pub(super) const GRID: &str = "#e3e7eb";
/// Colour of what did not finish.
pub(super) const BAD: &str = "#b03a00";

/// Symbols other than the disc: corners, how far what lies between them is from the middle (0 for a straight line), how far
/// they are, and by how many degrees they are turned from upright.
const SYMBOLS: [Option<(u8, f64, f64, f64)>; 7] = [
    None,
    Some((3, 0.0, 1.3, 0.0)),
    Some((4, 0.0, 1.27, 45.0)),
    Some((4, 0.0, 1.3, 0.0)),
    Some((5, 0.6, 1.4, 0.0)),
    Some((4, 0.45, 1.5, 0.0)),
    Some((3, 0.45, 1.5, 180.0)),
];

/// Where a text's position is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    /// Its beginning.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

/// The style of a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Type<'a> {
    pub(super) anchor: Anchor,
    pub(super) size: f64,
    pub(super) bold: bool,
    pub(super) fill: &'a str,
}

impl Default for Type<'_> {
    fn default() -> Self {
        Self { anchor: Anchor::Start, size: 12.0, bold: false, fill: TEXT }
    }
}

/// A picture in the making.
#[derive(Debug, Default)]
pub(super) struct Svg {
    body: String,
}

impl Svg {
    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.body.write_fmt(element);
        self.body.push('\n');
    }

    /// A text with a white outline, so that it is legible on lines.
    pub(super) fn text(&mut self, (x, y): (f64, f64), style: Type<'_>, text: &str) {
        let anchor = match style.anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let weight = if style.bold { " font-weight=\"600\"" } else { "" };
        self.put(format_args!(
            "<text x=\"{}\" y=\"{}\" text-anchor=\"{anchor}\" font-size=\"{}\"{weight} fill=\"{}\" stroke=\"#fff\" \
             stroke-width=\"3\" paint-order=\"stroke\">{}</text>",
            n(x),
            n(y),
            style.size,
            style.fill,
            escape(text)
        ));
    }

    /// A straight line.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, width: f64) {
        self.put(format_args!(
            "<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" stroke=\"{stroke}\" stroke-width=\"{width}\"/>",
            n(from.0),
            n(from.1),
            n(to.0),
            n(to.1)
        ));
    }

    /// A filled box.
    pub(super) fn rect(&mut self, (x, y): (f64, f64), (width, height): (f64, f64), fill: &str, opacity: f64) {
        self.put(format_args!(
            "<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"{fill}\" fill-opacity=\"{opacity}\"/>",
            n(x),
            n(y),
            n(width.max(0.0)),
            n(height.max(0.0))
        ));
    }

    /// A line through points; a point that is no number breaks it.
    pub(super) fn path(&mut self, points: &[(f64, f64)], stroke: &str, width: f64, dash: &str) {
        let mut d = String::new();
        let mut pen = 'M';
        for (x, y) in points {
            if !(x.is_finite() && y.is_finite()) {
                pen = 'M';
                continue;
            }
            let _ = write!(d, "{pen}{} {}", n(*x), n(*y));
            pen = 'L';
        }
        let dash = if dash.is_empty() { String::new() } else { format!(" stroke-dasharray=\"{dash}\"") };
        self.put(format_args!(
            "<path d=\"{d}\" fill=\"none\" stroke=\"{stroke}\" stroke-width=\"{width}\" stroke-linejoin=\"round\"{dash}/>"
        ));
    }

    /// A symbol: each kind has its own form, so that colour is not needed.
    pub(super) fn mark(&mut self, (x, y): (f64, f64), kind: usize, radius: f64, fill: &str, opacity: f64) {
        let Some((corners, inner, outer, turn)) = SYMBOLS[kind % SYMBOLS.len()] else {
            self.put(format_args!(
                "<circle cx=\"{}\" cy=\"{}\" r=\"{radius}\" fill=\"{fill}\" fill-opacity=\"{opacity}\"/>",
                n(x),
                n(y)
            ));
            return;
        };
        let corner = |at: u8| {
            let angle = (f64::from(at) / f64::from(corners) * 180.0 + turn).to_radians();
            let far = radius * if at.is_multiple_of(2) { outer } else { inner };
            format!("{},{}", n(x + far * angle.sin()), n(y - far * angle.cos()))
        };
        let step = if inner > 0.0 { 1 } else { 2 };
        let at: Vec<String> = (0..2 * corners).step_by(step).map(corner).collect();
        self.put(format_args!("<polygon points=\"{}\" fill=\"{fill}\" fill-opacity=\"{opacity}\"/>", at.join(" ")));
    }

    /// An open ring.
    pub(super) fn ring(&mut self, (x, y): (f64, f64), radius: f64, stroke: &str) {
        self.put(format_args!(
            "<circle cx=\"{}\" cy=\"{}\" r=\"{radius}\" fill=\"#fff\" stroke=\"{stroke}\" stroke-width=\"2.5\"/>",
            n(x),
            n(y)
        ));
    }

    /// The whole picture, with its title and what it shows in words.
    pub(super) fn finish(self, width: f64, height: f64, title: &str, words: &str) -> String {
        let (width, height) = (width.ceil(), height.ceil());
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" role=\"img\" font-family=\"system-ui, -apple-system, 'Segoe UI', \
             'DejaVu Sans', sans-serif\">\n<title>{}</title>\n<desc>{}</desc>\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n{}</svg>\n",
            escape(title),
            escape(words),
            self.body
        )
    }
}

/// A number to a hundredth.
fn n(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// A text for XML; what XML cannot hold is left out.
fn escape(text: &str) -> String {
    xml(&text.chars().filter_map(shown).collect::<String>())
}

/// A character as pictures show it; `None` for those that XML does not allow or that change the direction of text.
pub(super) fn shown(c: char) -> Option<char> {
    match c {
        '\t' | '\n' => Some(' '),
        c if is_unsafe(c) || matches!(c, '\u{fffe}' | '\u{ffff}') => None,
        c => Some(c),
    }
}

/// The text cut to about so many pixels at a size.
pub(super) fn fitted(text: &str, pixels: f64, size: f64) -> String {
    let room = (pixels / (size * 0.6)).max(4.0) as usize;
    if text.chars().count() <= room {
        return text.to_owned();
    }
    text.chars().take(room - 1).chain(['\u{2026}']).collect()
}

/// The text in lines of about so many pixels.
pub(super) fn wrapped(text: &str, pixels: f64) -> Vec<String> {
    let room = (pixels / 5.7) as usize;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + word.chars().count() < room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_escaped_everywhere() {
        let mut svg = Svg::default();
        svg.text((0.0, 0.0), Type::default(), "</text><script>\u{202e}\u{0}&\"");
        let whole = svg.finish(10.0, 10.0, "<t>", "a & b");
        assert!(whole.contains("&lt;/text&gt;&lt;script&gt;&amp;&quot;</text>"), "{whole}");
        assert!(whole.contains("<title>&lt;t&gt;</title>") && whole.contains("<desc>a &amp; b</desc>"));
    }

    #[test]
    fn a_gap_breaks_the_line() {
        let mut svg = Svg::default();
        svg.path(&[(0.0, 1.0), (1.0, 1.0), (2.0, f64::NAN), (3.0, 1.0)], "#000", 1.0, "");
        assert!(svg.body.contains("d=\"M0 1L1 1M3 1\""), "{}", svg.body);
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(fitted("abcdefghijkl", 43.2, 12.0), "abcde\u{2026}");
        assert_eq!(fitted("abc", 43.2, 12.0), "abc");
    }
}
