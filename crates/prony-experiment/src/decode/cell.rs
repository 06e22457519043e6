//! Reads cells of report tables: text with metrics in braces, `{source.time + persist.time:s} ({source.time:s})`.

use super::compare::phase_fault;
use super::instance::PhaseNames;
use crate::design::{CellPart, Column};
use crate::expr;
use crate::node::Node;
use crate::placeholder::{Part, split};
use crate::problem::{Problem, Problems};
use prony_model::format::Format;
use prony_model::spelling::nearest;
use prony_model::units::Dimension;

/// The default format of bytes per second; their unit does not follow from the number.
const DEFAULT_FLOW: &str = "MB/s";

/// Reads the cells of one table.
pub(crate) struct Cells<'a, 'n, 't> {
    phases: &'a PhaseNames,
    /// The table's own format.
    format: Option<&'n Node>,
    /// Whether the table's format was used.
    format_used: bool,
    problems: &'a mut Problems<'t>,
}

impl<'a, 'n, 't> Cells<'a, 'n, 't> {
    /// For a table with this format of its own.
    pub(crate) fn new(phases: &'a PhaseNames, format: Option<&'n Node>, problems: &'a mut Problems<'t>) -> Self {
        Self { phases, format, format_used: false, problems }
    }

    pub(crate) fn add(&mut self, problem: Problem) {
        self.problems.add(problem);
    }

    /// A cell with its heading.
    pub(crate) fn cell(&mut self, heading: &str, node: &Node) -> Option<Column> {
        let parts = match split(node.text()?) {
            Ok(parts) => parts,
            Err(fault) => {
                self.problems.fault(&node.span, fault.message, "write `{{` and `}}` for braces that are meant as text");
                return None;
            }
        };
        let mut column = Column { title: heading.to_owned(), parts: Vec::new() };
        for part in parts {
            match part {
                Part::Text(text) => column.parts.push(CellPart::Text(text)),
                Part::Hole(figure, _) => match self.expression(&figure) {
                    Ok(part) => column.parts.push(part),
                    Err(problem) => self.problems.add(problem.at(node)),
                },
            }
        }
        Some(column)
    }

    /// A column that is one expression, which is also its heading; `names` are names that may have been meant.
    pub(crate) fn figure<'k>(&mut self, node: &Node, names: impl Iterator<Item = &'k str>) -> Option<Column> {
        let text = node.text()?;
        match self.expression(text) {
            Ok(part) => {
                let title = text.rsplit_once(':').map_or(text, |(figure, _)| figure);
                Some(Column { title: title.trim().to_owned(), parts: vec![part] })
            }
            Err(mut fault) => {
                let near = nearest(text, names).map(|near| format!("did you mean `{near}`?"));
                fault.hint = near.or(fault.hint);
                self.problems.add(fault.at(node));
                None
            }
        }
    }

    /// `expression` or `expression:format`.
    fn expression(&mut self, text: &str) -> Result<CellPart, CellFault> {
        let (figure, format) = match text.split_once(':') {
            Some((figure, format)) => (figure, Some(format.trim())),
            None => (text, None),
        };
        let expr = expr::parse(figure).map_err(CellFault::new)?;
        for name in expr::metrics(&expr) {
            if let Some((message, hint)) = phase_fault(name, self.phases) {
                return Err(CellFault { message, hint });
            }
        }
        let dimension = expr::dimension(&expr).map_err(CellFault::new)?;
        if let Some(format) = format {
            Format::check(format, dimension).map_err(CellFault::new)?;
        }
        let format = format.map(str::to_owned).or_else(|| self.table_format(dimension));
        let flow = (dimension == Dimension::BytesPerSecond).then(|| DEFAULT_FLOW.to_owned());
        Ok(CellPart::Figure { expr, format: format.or(flow) })
    }

    fn table_format(&mut self, dimension: Dimension) -> Option<String> {
        let text = self.format?.text()?;
        let fits = Format::check(text, dimension).is_ok();
        self.format_used |= fits;
        fits.then(|| text.to_owned())
    }

    /// A format that is never used is a mistake.
    pub(crate) fn finish(self) {
        if let Some(node) = self.format.filter(|_| !self.format_used) {
            let hint = "the table's format applies to values without a format of their own";
            self.problems.fault(&node.span, format!("the format `{}` fits no value of this table", node.label()), hint);
        }
    }
}

/// The fault of a cell; its place is the cell's text.
struct CellFault {
    message: String,
    hint: Option<String>,
}

impl CellFault {
    fn new(error: impl std::fmt::Display) -> Self {
        Self { message: error.to_string(), hint: None }
    }

    fn at(self, node: &Node) -> Problem {
        Problem::new(node.span.clone(), self.message).maybe_hint(self.hint)
    }
}
