//! Every trial a dot with the interval beside it, ordered by effect.

use prony_model::metric::MetricName;

use super::Canvas;
use super::format::Format;
use super::scale::Scale;
use super::style::{Style, styles};
use super::svg::{Anchor, BAD, GRID, SOFT, Svg, TEXT, Type, fitted};
use crate::plot::data::effects::{Effects, Row, effects, name, ratios, unfinished, values};
use prony_analysis::verdicts::{Comparisons, Verdicts};

const LANE: f64 = 52.0;
const TOP: f64 = 64.0;

/// A row with its dots.
struct Lane {
    row: Row,
    name: String,
    dots: Vec<f64>,
    unfinished: usize,
    style: Style,
}

/// The picture; `None` where no trial has the figure.
pub(in crate::plot) fn draw(canvas: Canvas<'_>, verdicts: &Verdicts, metric: &MetricName) -> Option<String> {
    let effects = effects(canvas.source, verdicts, &Comparisons::new(canvas.source.data), metric)?;
    let format = if effects.relative { Format::Times } else { Format::Unit(metric.key.metric.unit()) };
    let lanes = lanes(canvas, &effects, metric);
    let scale = scale(&lanes, effects.relative)?;
    let bottom = TOP + LANE * lanes.len() as f64;
    let mut svg = Svg::default();
    let title = if effects.relative { format!("{metric} beside the baseline") } else { metric.to_string() };
    svg.text(
        (16.0, 28.0),
        Type { size: 17.0, bold: true, ..Type::default() },
        &fitted(&title, canvas.width - 32.0, 17.0),
    );
    svg.text((16.0, 46.0), Type { size: 11.5, fill: SOFT, ..Type::default() }, explanation(&effects));
    let x = |value: f64| 28.0 + (canvas.width - 56.0) * scale.share(value).clamp(0.0, 1.0);
    for tick in scale.ticks((canvas.width / 80.0) as usize) {
        svg.line((x(tick), TOP - 6.0), (x(tick), bottom), GRID, 1.0);
        let style = Type { anchor: Anchor::Middle, size: 11.5, ..Type::default() };
        svg.text((x(tick), bottom + 18.0), style, &format.text(tick));
    }
    if effects.relative {
        let (low, high) = (x(1.0 / (1.0 + verdicts.margin)), x(1.0 + verdicts.margin));
        svg.rect((low, TOP - 6.0), (high - low, bottom - TOP + 6.0), SOFT, 0.14);
        svg.line((x(1.0), TOP - 6.0), (x(1.0), bottom), TEXT, 1.4);
    }
    for (at, lane) in lanes.iter().enumerate() {
        draw_lane(&mut svg, lane, TOP + LANE * at as f64, canvas.width, scale, x);
    }
    let label = if effects.relative { "times the baseline" } else { "" };
    let style = Type { anchor: Anchor::End, size: 11.5, fill: SOFT, ..Type::default() };
    svg.text((canvas.width - 18.0, bottom + 34.0), style, label);
    let words: Vec<String> = lanes.iter().map(|lane| in_words(lane, format)).collect();
    Some(svg.finish(canvas.width, bottom + 44.0, &title, &words.join("; ")))
}

const fn explanation(effects: &Effects) -> &'static str {
    match (effects.relative, effects.declared) {
        (true, true) => "A dot is a trial; the bar is the interval of the verdict; the band is the margin.",
        (true, false) => "A dot is a trial; the bar is a 95 % interval, uncorrected; the band is the margin.",
        (false, _) => "A dot is a trial; the bar is the 95 % interval of the median.",
    }
}

fn lanes(canvas: Canvas<'_>, effects: &Effects, metric: &MetricName) -> Vec<Lane> {
    let variants: Vec<usize> = effects.rows.iter().map(|row| row.variant).collect();
    let styles = styles(canvas.source, &variants);
    let lane = |(row, style): (&Row, Style)| Lane {
        name: name(canvas.source, row.variant),
        dots: match row.baseline {
            Some(baseline) => ratios(canvas.source, metric, row.variant, baseline),
            None => values(canvas.source, metric, row.variant),
        },
        unfinished: unfinished(canvas.source, metric, row.variant),
        row: row.clone(),
        style,
    };
    let mut lanes: Vec<Lane> = effects.rows.iter().zip(styles).map(lane).collect();
    // What equal arms look like stands below the effects.
    let key = |lane: &Lane| lane.row.center.unwrap_or(f64::INFINITY);
    lanes.sort_by(|a, b| a.row.itself.cmp(&b.row.itself).then(key(a).total_cmp(&key(b))));
    lanes
}

fn scale(lanes: &[Lane], relative: bool) -> Option<Scale> {
    let ends = lanes.iter().flat_map(|l| [l.row.low, l.row.high, l.row.center]).flatten();
    let all = lanes.iter().flat_map(|l| l.dots.iter().copied()).chain(ends).chain(relative.then_some(1.0));
    let known: Vec<f64> = all.filter(|v| v.is_finite() && *v > 0.0).collect();
    let low = known.iter().copied().reduce(f64::min)?;
    let high = known.iter().copied().reduce(f64::max)?;
    Some(if relative || high / low > 30.0 { Scale::log(low, high) } else { Scale::linear(0.0, high * 1.05) })
}

fn draw_lane(svg: &mut Svg, lane: &Lane, top: f64, width: f64, scale: Scale, x: impl Fn(f64) -> f64) {
    let words = lane.row.words.as_ref().map(|w| format!(" \u{2013} {w}")).unwrap_or_default();
    let heading = fitted(&format!("{}{words}", lane.name), width - 40.0, 12.0);
    svg.text((16.0, top + 8.0), Type { bold: true, ..Type::default() }, &heading);
    for (at, value) in lane.dots.iter().enumerate() {
        // Heights by turns, so that equal trials do not hide each other.
        let y = top + 22.0 + 3.4 * ((at % 5) as f64 - 2.0);
        svg.mark((x(*value), y), lane.style.mark, 3.2, lane.style.colour, 0.55);
    }
    let y = top + 38.0;
    if lane.row.low.is_some() || lane.row.high.is_some() {
        let (low, high) = (lane.row.low.unwrap_or(scale.domain.0), lane.row.high.unwrap_or(scale.domain.1));
        svg.line((x(low), y), (x(high), y), lane.style.colour, 5.0);
    }
    if let Some(center) = lane.row.center {
        svg.ring((x(center), y), 5.0, lane.style.colour);
    }
    if lane.unfinished > 0 {
        let style = Type { anchor: Anchor::End, bold: true, fill: BAD, ..Type::default() };
        svg.text((width - 18.0, top + 26.0), style, &format!("\u{2715} {} did not finish", lane.unfinished));
    }
}

fn in_words(lane: &Lane, format: Format) -> String {
    let center = lane.row.center.map_or_else(|| "no figure".to_owned(), |c| format.text(c));
    let end = |value: Option<f64>| value.map_or_else(|| "open".to_owned(), |v| format.text(v));
    format!("{}: {center} ({} to {})", lane.name, end(lane.row.low), end(lane.row.high))
}
