//! Flame graphs: of each profiled variant the phase in which the most time was sampled, calls below their callers.

use std::cmp::Reverse;

use prony_core::profile::{Flame, FlameNode, Selection, What};

use super::Canvas;
use super::look::nth;
use super::svg::{SOFT, Svg, Type, fitted};
use crate::error::Error;
use crate::profiles::{VariantProfile, load, others};

const MARGIN: f64 = 16.0;
const ROW: f64 = 17.0;
/// Rows of a graph, at most.
const DEEPEST: usize = 40;
/// Narrower calls are left out, in pixels.
const NARROWEST: f64 = 1.5;

/// A call with its place: left edge and row.
struct Placed<'f> {
    node: &'f FlameNode,
    left: f64,
    row: usize,
}

/// The picture; `None` where nothing was sampled.
pub(in crate::plot) fn draw(canvas: Canvas<'_>) -> Result<Option<String>, Error> {
    let profiles = load(canvas.source.database, canvas.source.data, |_| true)?;
    let (mut svg, mut y, mut words) = (Svg::default(), MARGIN, Vec::new());
    for of in &profiles {
        let sampled = of.phases.iter().filter_map(|phase| Some((phase, of.samples_of(phase)?)));
        let Some((phase, selection)) = sampled.max_by_key(|(_, selection)| selection.busy) else { continue };
        if selection.samples == 0 {
            continue;
        }
        let title = format!("{}, phase {}", of.name, phase.name);
        words.push(format!("{title}: {}", of.amount(phase, &selection)));
        y = one(&mut svg, canvas.width, y, &title, of, &selection);
    }
    if words.is_empty() {
        return Ok(None);
    }
    Ok(Some(svg.finish(canvas.width, y, "Where the time goes", &words.join("; "))))
}

/// Draws one graph; returns where the next may begin.
fn one(svg: &mut Svg, width: f64, top: f64, title: &str, of: &VariantProfile, selection: &Selection<'_>) -> f64 {
    let inner = width - 2.0 * MARGIN;
    let below = format!("{}{}, {}", of.record.profiler.name(), of.interval(), selection.busy);
    svg.text((MARGIN, top + 14.0), Type { bold: true, size: 14.0, ..Type::default() }, &fitted(title, inner, 14.0));
    svg.text((MARGIN, top + 32.0), Type { fill: SOFT, ..Type::default() }, &fitted(&below, inner, 12.0));
    let flame = Flame::of(selection, NARROWEST / inner);
    let packages = selection.times().packages;
    let scale = inner / selection.busy.as_nanos().max(1) as f64;
    let mut rows = 0;
    for Placed { node, left, row } in places(&flame) {
        rows = rows.max(row + 1);
        let at = (MARGIN + left * scale, top + 42.0 + row as f64 * ROW);
        let wide = node.total.as_nanos() as f64 * scale;
        let (text, colour) = match node.what {
            What::Thread(thread) => (selection.profile.thread_name(thread), SOFT),
            What::Others(threads) => (others(threads), SOFT),
            What::Function(function) => {
                let function = &selection.profile.functions[function];
                let rank = packages.iter().position(|share| share.of == function.package);
                (function.name.clone(), nth(rank.unwrap_or_default()).colour)
            }
        };
        svg.rect(at, (wide - 0.6, ROW - 1.0), colour, 0.3);
        if wide > 40.0 {
            svg.text(
                (at.0 + 3.0, at.1 + 12.0),
                Type { size: 11.0, ..Type::default() },
                &fitted(&text, wide - 4.0, 11.0),
            );
        }
    }
    top + 42.0 + rows as f64 * ROW + 2.0 * MARGIN
}

/// Where each call lies, in nanoseconds from the left; of those side by side, the one with the most time first.
fn places(flame: &Flame) -> Vec<Placed<'_>> {
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); flame.nodes.len()];
    let mut roots = Vec::new();
    for (at, node) in flame.nodes.iter().enumerate() {
        node.parent.map_or(&mut roots, |parent| &mut children[parent]).push(at);
    }
    let mut placed = Vec::new();
    let mut open = vec![(roots, 0.0, 0)];
    while let Some((mut siblings, mut left, row)) = open.pop() {
        siblings.sort_by_key(|at| Reverse(flame.nodes[*at].total));
        for at in siblings {
            let node = &flame.nodes[at];
            if row + 1 < DEEPEST {
                open.push((std::mem::take(&mut children[at]), left, row + 1));
            }
            placed.push(Placed { node, left, row });
            left += node.total.as_nanos() as f64;
        }
    }
    placed
}

#[cfg(test)]
mod tests {
    use prony_core::units::Nanos;

    use super::*;

    #[test]
    fn calls_lie_within_their_callers_and_beside_each_other() {
        let node = |parent, total| FlameNode {
            parent,
            what: What::Function(0),
            total: Nanos::from_nanos(total),
            own: Nanos::ZERO,
        };
        let nodes = vec![node(None, 100), node(Some(0), 30), node(Some(0), 60), node(Some(2), 10), node(None, 5)];
        let flame = Flame { nodes, left_out: 0 };
        let mut found: Vec<(u64, f64, usize)> =
            places(&flame).iter().map(|p| (p.node.total.as_nanos(), p.left, p.row)).collect();
        found.sort_by_key(|(total, ..)| Reverse(*total));
        assert_eq!(found, [(100, 0.0, 0), (60, 0.0, 1), (30, 60.0, 1), (10, 0.0, 2), (5, 100.0, 0)]);
    }
}
