//! Selects what a static picture shows of a section: the points under the first option of each control.

use crate::plot::chart::{Chart, Columns, Kind, Lane, Mark, Of, Scale, Section, Series, When};

/// A section with what its marks refer to.
pub(in crate::plot) struct Scene<'a> {
    pub(in crate::plot) columns: &'a Columns,
    pub(in crate::plot) section: &'a Section,
    /// A series for each variant that is shown.
    pub(in crate::plot) variants: &'a [Series],
    /// The variant of each trial.
    pub(in crate::plot) trials: &'a [usize],
}

/// A point of a mark; what it lacks is not a number.
pub(super) struct Point<'a> {
    pub(super) x: f64,
    pub(super) x2: f64,
    pub(super) y: f64,
    pub(super) z: f64,
    pub(super) series: Option<&'a Series>,
    pub(super) text: &'a str,
}

/// A mark with the points that are shown.
pub(super) type Shown<'a> = (&'a Mark, Vec<Point<'a>>);

impl<'a> Scene<'a> {
    fn is_chosen(&self, when: &[When]) -> bool {
        when.iter().all(|when| (when.1..=when.2).contains(&self.section.controls[when.0].chosen))
    }

    /// Whether a variant is shown.
    pub(super) fn shows(&self, variant: usize) -> bool {
        self.section.restricted().is_none_or(|choice| choice.variants.contains(&variant))
    }

    /// The charts that are shown, each with its marks.
    pub(super) fn charts(&self) -> Vec<(&'a Chart, Vec<Shown<'a>>)> {
        let charts = self.section.charts.iter().filter(|chart| self.is_chosen(&chart.when));
        let marks = charts.map(|chart| (chart, self.marks(chart)));
        marks.filter(|(_, marks)| marks.iter().flat_map(|m| &m.1).any(|point| point.series.is_some())).collect()
    }

    fn marks(&self, chart: &'a Chart) -> Vec<Shown<'a>> {
        let chosen = chart.marks.iter().filter(|mark| self.is_chosen(&mark.when));
        let mut shown: Vec<_> =
            chosen.map(|mark| (mark, self.points(mark))).filter(|shown| !shown.1.is_empty()).collect();
        let shades = |shown: &Shown<'_>| shown.0.kind == Kind::Bands && shown.0.of != Of::Nobody;
        let mut first = true;
        // Bands of several variants would lie on each other.
        shown.retain(|mark| !shades(mark) || std::mem::take(&mut first));
        shown
    }

    fn points(&self, mark: &'a Mark) -> Vec<Point<'a>> {
        let (x, x2) = (self.columns.across(mark), self.columns.numbers(mark.x2));
        let (y, z) = (self.columns.numbers(mark.y), self.columns.numbers(mark.z));
        let or_none = |numbers: &[f64], at: usize| numbers.get(at).copied().unwrap_or(f64::NAN);
        let point = |at: usize| {
            let variant = self.variant(&mark.of, at);
            let shown = mark.of == Of::Nobody || variant.is_some_and(|v| self.shows(v));
            shown.then(|| Point {
                x: or_none(&x, at),
                x2: or_none(&x2, at),
                y: or_none(&y, at),
                z: or_none(&z, at),
                series: variant.and_then(|v| self.series(v)),
                text: mark.text.get(at).map_or("", String::as_str),
            })
        };
        (0..x.len().max(y.len())).filter_map(point).collect()
    }

    /// The variant of a mark's point: of several the first that is shown.
    fn variant(&self, of: &Of, at: usize) -> Option<usize> {
        match of {
            Of::Nobody => None,
            Of::Trials => self.trials.get(at).copied(),
            Of::Trial(trial) => self.trials.get(*trial).copied(),
            Of::Each(variants) => variants.get(at).copied(),
            Of::Together(variants) => variants.iter().copied().find(|v| self.shows(*v)),
        }
    }

    fn series(&self, variant: usize) -> Option<&'a Series> {
        self.all().iter().find(|series| self.is_chosen(&series.when) && series.variants.contains(&variant))
    }

    /// What the series of a variant is called.
    pub(super) fn name(&self, variant: usize) -> &'a str {
        self.series(variant).map_or("", |series| &series.name)
    }

    /// The series that these charts show, in order.
    pub(super) fn legend(&self, charts: &[(&Chart, Vec<Shown<'a>>)]) -> Vec<&'a Series> {
        let points = || charts.iter().flat_map(|(_, marks)| marks).flat_map(|(_, points)| points);
        self.all().iter().filter(|series| points().any(|point| point.series == Some(series))).collect()
    }

    fn all(&self) -> &'a [Series] {
        if self.section.series.is_empty() { self.variants } else { &self.section.series }
    }

    /// The lanes that are shown with their numbers, in the order in which they stand.
    pub(super) fn lanes(&self, chart: &'a Chart) -> Vec<(usize, &'a Lane)> {
        let Scale::Lanes { lanes } = &chart.y.scale else { return Vec::new() };
        let mut shown: Vec<_> = lanes.iter().enumerate().filter(|(_, lane)| self.shows(lane.variant)).collect();
        let rank = |lane: &Lane| lane.rank.unwrap_or(f32::INFINITY);
        shown.sort_by(|(_, a), (_, b)| a.last.cmp(&b.last).then(rank(a).total_cmp(&rank(b))));
        shown
    }

    /// What stands below a chart's title.
    pub(super) fn caption(&self, chart: &'a Chart, shaded: Option<&Series>) -> Vec<&'a str> {
        let is_shaded = |variants: &[usize]| shaded.is_some_and(|series| series.variants == variants);
        let said = chart.caption.iter().filter(|said| match (said.shaded, said.variants.as_slice()) {
            (true, variants) => is_shaded(variants),
            (false, []) => true,
            (false, variants) => variants.iter().any(|v| self.shows(*v)),
        });
        said.map(|said| said.text.as_str()).collect()
    }

    /// The rows of a chart's table that are shown, each as words.
    pub(super) fn words(&self, chart: &Chart) -> Vec<String> {
        let rows = chart.table.rows.iter().filter(|row| self.shows(row.variant) && self.is_chosen(&row.when));
        let cell = |(head, cell): (&String, &String)| format!("{head} {cell}");
        let of = |cells: &[String]| -> Vec<String> {
            chart.table.heads[1..].iter().zip(cells).filter(|(_, cell)| *cell != "-").map(cell).collect()
        };
        rows.map(|row| format!("{}: {}", self.name(row.variant), of(&row.cells).join(", "))).collect()
    }
}
