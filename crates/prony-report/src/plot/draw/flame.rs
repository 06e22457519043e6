//! Draws flame graphs with the crate `inferno`, from the folded stacks that `prony profile --format folded` writes: for
//! each profiled variant the phase with the most sampled time, with calls below their callers.

use std::io;

use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap, parse_hex_color};
use inferno::flamegraph::{Direction, Options, TextTruncateDirection, from_lines};
use prony_analysis::profile::{Selection, folded};

use super::style::nth;
use super::svg::{SOFT, shown};
use crate::error::Error;
use crate::plot::data::Source;
use crate::profiles::load;
use crate::words::place_of;

/// Narrower calls are left out, in pixels.
const NARROWEST: f64 = 1.5;

const WHITE: Color = Color { r: 255, g: 255, b: 255 };

/// The picture; `None` where nothing was sampled.
pub(in crate::plot) fn draw(source: Source<'_>, width: f64) -> Result<Option<String>, Error> {
    let profiles = load(source.database, source.data, |_| true)?;
    let (mut stacks, mut words, mut palette) = (Vec::new(), Vec::new(), Palette::default());
    for of in &profiles {
        let sampled = of.phases.iter().filter_map(|phase| Some((phase, of.samples_of(phase)?)));
        let Some((phase, selection)) = sampled.max_by_key(|(_, selection)| selection.busy) else { continue };
        if selection.samples == 0 {
            continue;
        }
        let title = format!("{}, phase {}", of.name, phase.name);
        words.push(format!(
            "{title}: {}{}, {}",
            of.record.profiler.name(),
            of.interval(),
            of.amount(phase, &selection)
        ));
        palette.add(&title, &selection);
        stacks.extend(folded(&selection, &title).lines().map(line));
    }
    if words.is_empty() {
        return Ok(None);
    }
    let failed = |source| Error::Write { what: "the flame graph".to_owned(), source };
    picture(&stacks, &words.join("; "), palette, width).map(Some).map_err(failed)
}

fn picture(stacks: &[String], below: &str, mut palette: Palette, width: f64) -> io::Result<String> {
    let mut options = Options::default();
    options.title = "Where the time goes".to_owned();
    options.subtitle = Some(below.chars().filter_map(shown).collect());
    options.count_name = "us".to_owned();
    options.image_width = Some(width as usize);
    options.min_width = 100.0 * NARROWEST / width;
    options.direction = Direction::Inverted;
    options.text_truncate_direction = TextTruncateDirection::Right;
    options.bgcolors = Some(BackgroundColor::Flat(WHITE));
    options.deterministic = true;
    options.palette_map = Some(&mut palette.colours);
    let mut svg = Vec::new();
    from_lines(&mut options, stacks.iter().map(String::as_str), &mut svg)?;
    String::from_utf8(svg).map_err(io::Error::other)
}

/// A folded stack whose names have no blanks: a name that ends in a blank and a number would be read as a second count.
fn line(stack: &str) -> String {
    let (calls, time) = stack.rsplit_once(' ').unwrap_or((stack, ""));
    format!("{} {time}", name(calls))
}

/// A name as it stands in the picture.
fn name(text: &str) -> String {
    text.chars().filter_map(shown).map(|c| if c == ' ' { '\u{a0}' } else { c }).collect()
}

/// Colours of functions by their package, the packages with the most time first; variants and threads are grey.
#[derive(Default)]
struct Palette {
    packages: Vec<String>,
    colours: PaletteMap,
}

impl Palette {
    fn add(&mut self, title: &str, selection: &Selection<'_>) {
        let profile = selection.profile;
        let threads = selection.threads().into_iter().map(|thread| profile.thread_name(thread));
        for grey in threads.chain([String::new(), title.to_owned()]) {
            self.insert(&grey, SOFT);
        }
        for share in selection.times().packages {
            place_of(&mut self.packages, profile.packages[share.of].clone());
        }
        for (function, label) in profile.functions.iter().zip(profile.labels()) {
            let rank = self.packages.iter().position(|package| *package == profile.packages[function.package]);
            self.insert(&label, rank.map_or(SOFT, |rank| nth(rank)));
        }
    }

    /// The name is that which [`folded`] makes of it.
    fn insert(&mut self, text: &str, colour: &str) {
        if let Some(colour) = parse_hex_color(colour) {
            self.colours.insert(name(&text.replace(';', ":")), pale(colour));
        }
    }
}

/// Three tenths of a colour on white, so that text on it is legible.
fn pale(colour: Color) -> Color {
    let channel = |c: u8| 255 - ((255 - u16::from(c)) * 3 / 10) as u8;
    Color { r: channel(colour.r), g: channel(colour.g), b: channel(colour.b) }
}

#[cfg(test)]
mod tests {
    use prony_analysis::profile::Builder;

    use super::*;

    #[test]
    fn calls_have_their_time_whatever_their_names_are() {
        let stacks = ["a;get 1 30", "a;\u{202e}b 60", "a 10"].map(line);
        let svg = picture(&stacks, "x < y", Palette::default(), 800.0).unwrap();
        for text in ["a (100 us, 100.00%)", "get\u{a0}1 (30 us, 30.00%)", "<title>b (60 us, 60.00%)", "x &lt; y"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
    }

    #[test]
    fn each_name_of_folded_stacks_has_a_colour() {
        let stack = |second: u32, folder: &str| {
            format!("x 7/7 {second}.000000001: 1000000 cpu-clock:\n\t 1a work (/usr/{folder}/libx.so)\n\n")
        };
        let mut builder = Builder::default();
        builder.add_perf_script(&(stack(1, "a") + &stack(2, "b"))).unwrap();
        let profile = builder.finish();
        let (selection, mut palette) = (profile.during(None), Palette::default());
        palette.add("t", &selection);
        let lines: Vec<String> = folded(&selection, "t").lines().map(line).collect();
        assert_eq!(lines, ["t;work\u{a0}(a/libx.so) 1000", "t;work\u{a0}(b/libx.so) 1000"]);
        let calls = lines.iter().filter_map(|line| line.rsplit_once(' ')).flat_map(|(calls, _)| calls.split(';'));
        calls.for_each(|call| assert!(palette.colours.get(call).is_some(), "{call}"));
    }

    #[test]
    fn colours_are_paler_and_not_white() {
        assert_eq!(pale(Color { r: 0, g: 114, b: 255 }), Color { r: 179, g: 213, b: 255 });
    }
}
