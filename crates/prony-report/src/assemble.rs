//! Builds the report of a run: decides which tables there are, and each table's rows, columns and footnotes.

use std::collections::{BTreeMap, BTreeSet};

use prony_experiment::design::{CellPart, Expr, Statistic, TableSpec};
use prony_experiment::expr::metrics;
use prony_model::format::Scale;
use prony_model::metric::{Metric, MetricKey, MetricName};
use prony_model::number::{count, percent};
use prony_model::record::TrialRecord;
use prony_model::spec::Durability;

use super::basis;
use super::cell_value::Summary;
use super::cells::{Plan, Said, Source, fill, planned, scales};
use super::closing::more;
use super::columns::{self, ColumnPlan};
use super::cpu_modes;
use super::crash;
use super::disagreements::disagreeing;
use super::floor;
use super::last_activity;
use super::layout::{Layout, Part, RowPart};
use super::left_out;
use super::machine;
use super::model::{Align, Column, FindingLine, Label, Report, Row, Table, Topic};
use super::notes::{self, Notes};
use super::nothing_measured::{nothing_measured, to_ignore};
use super::preface;
use super::processes;
use super::remarks::{brief_remarks, remarks};
use super::variants::{by_variant, factor_names, records_of};
use super::words::once;
use prony_analysis::verdicts::{self, Verdicts};
use prony_results::RunData;

/// What to show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Show these metrics instead of the experiment's tables or the derived ones.
    pub metrics: Vec<MetricName>,
    /// Show every metric that was measured.
    pub all_metrics: bool,
    /// Show the usual metrics of this phase instead.
    pub phase: Option<String>,
    /// Tables of each process as well.
    pub processes: bool,
    /// Show only what answers the experiment's question: how the trials ended, warnings, the verdicts, and one table of
    /// the metrics that get verdicts, with the memory of their phases. Tables that the experiment defines are kept.
    pub brief: bool,
    /// Also show metrics that only programs have, such as user and system time, heaps and garbage collections.
    pub programs: bool,
    /// The unit of times without a format of their own: `us`, `ms`, `s`, `min` or `h`; by default the one that fits each column.
    pub time_unit: Option<&'static str>,
    /// Names of variants in a brief table, where they are commands; empty where levels of factors name them.
    pub commands: Vec<String>,
    /// Sort rows by the median of the primary metric, the smallest first; rows without it come last.
    pub by_median: bool,
    /// The option by which printed commands find the results, such as ` --database x.db`; empty for the default.
    pub database: String,
    /// The command that runs the other trials of a run that was interrupted, such as `prony run --resume 7`.
    pub resume: Option<String>,
    /// Warnings about what the caller asked for, shown above those of guards.
    pub warnings: Vec<FindingLine>,
    /// Explain each term in the basis of every verdict, not of the first alone: where each basis is folded, the first may
    /// not be in view.
    pub folded: bool,
}

impl Options {
    /// Whether the caller names what to show.
    fn names_figures(&self) -> bool {
        self.all_metrics || self.phase.is_some() || !self.metrics.is_empty()
    }

    /// The phases of what the caller names; `None` where figures of any phase are shown.
    fn phases(&self) -> Option<Vec<&str>> {
        let phases: Vec<&str> =
            once(self.phase.iter().chain(self.metrics.iter().map(|metric| &metric.phase)).map(String::as_str));
        Some(phases).filter(|phases| !phases.is_empty() && !self.all_metrics)
    }
}

/// Where nothing was measured nothing was disturbed, and the headline says that trials failed.
fn is_of_use(finding: &FindingLine) -> bool {
    !["trials_failed", "disturbed_trials", "other_run"].iter().any(|guard| finding.is_of(guard))
}

/// The tables of figures that were asked for.
fn tables(data: &RunData, options: &Options) -> Vec<Table> {
    let maker = Maker::new(data);
    let mut tables = maker.tables(options);
    if options.processes {
        tables.extend(processes::tables(data, &maker.caption(Statistic::Median)));
    }
    tables
}

/// The report of a run.
pub fn build(data: &RunData, options: &Options) -> Report {
    let mut report = assembled(data, options);
    let Report { effects, floors, crashes, tables, .. } = &mut report;
    notes::number_apart(effects.iter_mut().chain(floors).chain(crashes).chain(tables));
    report
}

/// The report, in which each table numbers its footnotes from 1.
fn assembled(data: &RunData, options: &Options) -> Report {
    let tables = tables(data, options);
    let mut verdicts = verdicts::of(data);
    // That one variant is compared with nothing is no news.
    let is_single = data.experiment.variants().len() == 1;
    let mut findings = preface::findings(data);
    say_what_to_ignore(&mut findings, data, options);
    let mut closing = None;
    let too_early = basis::too_early(&verdicts.lines).filter(|_| options.brief);
    if too_early.is_some() {
        verdicts.lines.clear();
    }
    let phases = options.phases().filter(|_| options.brief);
    let judged_elsewhere = phases.and_then(|phases| judged_elsewhere(data, options, (&tables, &phases), &mut verdicts));
    if options.brief {
        basis::omit_detectable(&mut verdicts.lines);
        let all = findings.len();
        // Who names figures may see the CPU time of a phase that is not compared.
        let is_shown = |finding: &FindingLine| {
            let of = |phase: &&str| finding.text.starts_with(&format!("`coarse_cpu` in `{phase}`"));
            match options.phases() {
                Some(phases) => phases.iter().any(of),
                None => options.all_metrics && finding.is_of("coarse_cpu"),
            }
        };
        findings.retain(|finding| !finding.is_note() || is_shown(finding));
        // The hint of that warning refers to the basis of each verdict.
        let is_disturbed = findings.iter().any(|finding| finding.is_of("disturbed_trials"));
        let is_cut = !is_disturbed && basis::cut(&mut verdicts.lines);
        let left = (all - findings.len(), is_cut);
        closing = Some(more(data, left, &options.database, options.resume.as_ref(), options.phase.as_ref()));
    }
    basis::explain_once(&mut verdicts.lines, options.folded);
    findings.splice(0..0, options.warnings.iter().cloned());
    let question = data.experiment.question().map(str::to_owned);
    let is_plain = options.brief && !options.names_figures() && !options.processes;
    if let Some((headline, ended)) =
        nothing_measured(data, &options.commands, !options.warnings.is_empty()).filter(|_| is_plain)
    {
        findings.retain(is_of_use);
        findings.insert(options.warnings.len(), headline);
        let (title, preface, remarks) = (data.head.title.clone(), preface::brief(data), vec![ended]);
        let crashes = crash::tables(data, options.brief);
        let closing = options.resume.as_ref().map(|command| format!("to run the other trials: `{command}`"));
        return Report { title, question, preface, findings, crashes, remarks, closing, ..Report::default() };
    }
    Report {
        title: data.head.title.clone(),
        question,
        preface: if options.brief { preface::brief(data) } else { preface::preface(data, options.programs) },
        judged: too_early
            .or(judged_elsewhere)
            .or_else(|| judged(&verdicts).filter(|_| !options.brief || verdicts.lines.is_empty() && !is_single)),
        effects: left_out::tables(&data.experiment, &verdicts),
        floors: floor::tables(data),
        crashes: crash::tables(data, options.brief),
        remarks: if options.brief { brief_remarks(data, &verdicts, is_plain) } else { remarks(data, &verdicts) },
        verdicts,
        tables,
        findings,
        machine: machine::rows(&data.head, &data.trials),
        closing,
    }
}

/// Adds to the finding that trials failed how their exit code is ignored.
fn say_what_to_ignore(findings: &mut [FindingLine], data: &RunData, options: &Options) {
    let ignored = to_ignore(&data.experiment, &data.trials, !options.commands.is_empty());
    let failures = findings.iter_mut().filter(|finding| finding.is_of("trials_failed"));
    failures.for_each(|finding| finding.hint.extend(ignored.iter().flat_map(|text| ["; ", text])));
}

/// Leaves the verdicts on other phases than these out; where none is left, which phases have some.
fn judged_elsewhere(
    data: &RunData,
    options: &Options,
    (tables, phases): (&[Table], &[&str]),
    verdicts: &mut Verdicts,
) -> Option<String> {
    let column = tables.first().and_then(|table| table.columns.first()).map(Column::name);
    let metric = column.filter(|name| name.parse::<MetricName>().is_ok());
    let metric = metric.unwrap_or_else(|| format!("{}.METRIC", phases[0]));
    let show = format!("prony show {}{}", data.head.id, options.database);
    basis::elsewhere(&mut verdicts.lines, phases, (&data.experiment, &metric, &show))
}

/// The tables of a brief report.
pub(super) fn answer(data: &RunData) -> Vec<Table> {
    Maker::new(data).tables(&Options { brief: true, ..Options::default() })
}

/// Test, correction and margin, as every verdict must name them; or why nothing is judged.
fn judged(verdicts: &Verdicts) -> Option<String> {
    if verdicts.lines.is_empty() {
        return verdicts.silent.as_ref().map(|why| format!("No verdict: {why}."));
    }
    // Comparisons may have reached different analyses; those that reached none name no test, unless that is all of them.
    let reached = verdicts.lines.iter().any(|line| line.comparison.p.measured().is_some());
    let shown = verdicts.lines.iter().filter(|line| !reached || line.comparison.p.measured().is_some());
    let methods = once(shown.map(|line| line.comparison.method.as_str()));
    Some(format!(
        "How the verdicts were reached: {}; with probability {} none of the verdicts is false; a \
         difference whose interval lies within the margin of {} is said to be below it, without a direction.",
        methods.join("; or by: "),
        percent(1.0 - verdicts.alpha),
        percent(verdicts.margin),
    ))
}

/// What all tables of a run are made from.
struct Maker<'a> {
    data: &'a RunData,
    trials: BTreeMap<usize, Vec<&'a TrialRecord>>,
    /// Phases whose answers differ although the work was the same.
    disagreeing: BTreeSet<String>,
}

/// A table's columns and what they share.
struct Sheet {
    title: Option<String>,
    columns: Vec<ColumnPlan>,
    statistic: Statistic,
    /// Notes on the whole table.
    notes: Vec<String>,
    labelled: Labelled,
    /// What each variant is called, where rows are commands.
    commands: Vec<String>,
}

/// What the labels of a sheet's rows are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Labelled {
    /// Levels of factors.
    Levels,
    /// Phases, of one variant.
    Phases,
    /// Commands, as the caller names them.
    Commands,
}

impl Sheet {
    fn plan<'c>(&self, column: &'c ColumnPlan) -> Plan<'c> {
        Plan { parts: &column.parts, statistic: self.statistic, short: column.short }
    }
}

impl<'a> Maker<'a> {
    fn new(data: &'a RunData) -> Self {
        Self { data, trials: by_variant(&data.trials), disagreeing: disagreeing(data) }
    }

    fn tables(&self, options: &Options) -> Vec<Table> {
        let experiment = &self.data.experiment;
        let specs = experiment.tables();
        let asked = options.names_figures();
        if !asked && !specs.is_empty() {
            return specs.iter().flat_map(|spec| self.of_spec(spec, options)).collect();
        }
        let programs = experiment.variants().iter().all(|variant| variant.spec.subject.program().is_some());
        let is_one = options.brief && programs && !asked;
        let layout = if is_one { Layout::in_one_table(experiment) } else { Layout::derived(experiment) };
        let trials = &self.data.trials;
        let phases = columns::timed_phases(experiment, trials);
        let is_single = !asked && layout.rows.is_empty() && layout.tables.is_empty();
        let is_named = is_one && options.commands.len() == experiment.variants().len();
        let labelled = match (is_named && (!is_single || phases.len() == 1), is_single) {
            (true, _) => Labelled::Commands,
            (false, true) => Labelled::Phases,
            (false, false) => Labelled::Levels,
        };
        let by_phase = labelled == Labelled::Phases;
        let (mut columns, mut notes) = match options {
            Options { all_metrics: true, .. } => (columns::all(experiment, trials), vec![]),
            Options { phase: Some(phase), .. } => columns::derived(experiment, trials, std::slice::from_ref(phase)),
            _ if asked => (options.metrics.iter().cloned().map(columns::of_metric).collect(), vec![]),
            _ if by_phase => columns::per_phase(experiment, trials),
            _ if is_one => columns::of_programs(experiment, trials),
            Options { brief: true, .. } => (columns::judged(experiment, trials), vec![]),
            _ => columns::derived(experiment, trials, &phases),
        };
        if options.programs && programs && !asked {
            let (more, said) = columns::more_of_programs(experiment, trials, by_phase);
            let is_new = |column: &ColumnPlan| columns.iter().all(|known| known.parts != column.parts);
            let more: Vec<ColumnPlan> = more.into_iter().filter(is_new).collect();
            columns.extend(more);
            columns.sort_by_key(|column| column.topic);
            notes = once(notes.into_iter().chain(said));
        }
        let commands = options.commands.clone();
        let sheet = Sheet { title: None, columns, statistic: Statistic::Median, notes, labelled, commands };
        self.sheet(sheet, &layout, options)
    }

    fn of_spec(&self, spec: &TableSpec, options: &Options) -> Vec<Table> {
        let layout = Layout::asked(&self.data.experiment, spec);
        let plan =
            |(heading, parts)| ColumnPlan { group: String::new(), heading, topic: Topic::Asked, parts, short: false };
        let columns = spec.columns.iter().map(|column| plan((column.title.clone(), column.parts.clone()))).collect();
        let (title, statistic, labelled) = (spec.title.clone(), spec.statistic, Labelled::Levels);
        self.sheet(Sheet { title, columns, statistic, notes: vec![], labelled, commands: vec![] }, &layout, options)
    }

    /// Errors and refused operations are shown beside the metrics that they make look better, even where the report does not
    /// ask for them.
    fn not_done(&self, columns: &[ColumnPlan]) -> Vec<ColumnPlan> {
        [Metric::Errors, Metric::Refused].into_iter().flat_map(|metric| self.any_of(metric, columns)).collect()
    }

    /// A count of the phases of these columns, or of the backgrounds and kinds of requests that they are of, where it is not 0 and
    /// not among them.
    fn any_of(&self, metric: Metric, columns: &[ColumnPlan]) -> Vec<ColumnPlan> {
        let key = MetricKey::amount(metric);
        let counted = |read: &MetricName| {
            let instance = read.instance.clone().filter(|instance| columns::is_beside(instance));
            MetricName { phase: read.phase.clone(), instance, key }
        };
        let read = read(columns);
        let any = |count: &MetricName| {
            let instance = count.instance.as_deref().unwrap_or_default();
            let mut records = records_of(&self.data.trials, &count.phase);
            records.any(|record| record.amount_of(instance, metric).is_some_and(|n| n > 0.0))
        };
        once(read.iter().map(|name| counted(name)))
            .into_iter()
            .filter(|count| !read.contains(&count) && any(count))
            .map(columns::of_metric)
            .collect()
    }

    /// The tables of one sheet; they share units, decimals and the footnotes of durability.
    fn sheet(&self, mut sheet: Sheet, layout: &Layout, options: &Options) -> Vec<Table> {
        sheet.columns.extend(self.not_done(&sheet.columns));
        let parts = layout.parts(&self.data.experiment);
        let mut rows: Vec<Vec<Working>> = parts.iter().map(|part| self.rows(&sheet, part)).collect();
        if options.by_median {
            rows.iter_mut().for_each(|rows| self.sort_by_median(rows));
        }
        let sources: Vec<Source<'_>> = rows.iter().flatten().flat_map(|row| self.sources(row)).collect();
        let scales: Vec<Vec<Scale>> =
            sheet.columns.iter().map(|column| scales(&sheet.plan(column), &sources, options.time_unit)).collect();
        parts.iter().zip(rows).map(|(part, rows)| self.table(&sheet, &scales, layout, part, rows)).collect()
    }

    fn table(
        &self,
        sheet: &Sheet,
        scales: &[Vec<Scale>],
        layout: &Layout,
        part: &Part,
        mut rows: Vec<Working>,
    ) -> Table {
        let mut notes = Notes::default();
        self.row_marks(&mut rows, &mut notes);
        let mut columns = Vec::new();
        for (at, group) in part.groups.iter().enumerate() {
            let sources: Vec<Source<'_>> = rows.iter().map(|row| self.source(row, at)).collect();
            let mut said = vec![Said::default(); rows.len()];
            for (column, scales) in sheet.columns.iter().zip(scales) {
                let mut filled = fill(&sheet.plan(column), scales, &sources, &mut said, &mut notes);
                last_activity::mark(&read(std::slice::from_ref(column)), &sources, &mut filled.cells, &mut notes);
                if column.short && column.parts.len() > 1 {
                    cpu_modes::withhold(&column.group, &sources, &mut filled.cells, &mut notes);
                }
                let marks = self.column_marks(column, &rows, &mut notes);
                columns.push(heading(column, group, filled.unit, marks));
                rows.iter_mut().zip(filled.cells).for_each(|(row, cell)| row.row.cells.push(cell));
            }
        }
        sheet.notes.iter().for_each(|text| notes.general(text));
        Table {
            title: title(sheet.title.as_deref(), part),
            caption: self.caption(sheet.statistic),
            labels: self.labels(sheet, layout),
            columns,
            rows: rows.into_iter().map(|row| row.row).collect(),
            notes: notes.finish(),
        }
    }

    fn labels(&self, sheet: &Sheet, layout: &Layout) -> Vec<String> {
        match sheet.labelled {
            Labelled::Phases => vec!["phase".to_owned()],
            Labelled::Commands => vec!["command".to_owned()],
            Labelled::Levels => factor_names(&self.data.experiment, &layout.rows),
        }
    }

    /// Sorts rows by the median of the primary metric, which the table shows; their order is kept where no trial has it.
    fn sort_by_median(&self, rows: &mut [Working]) {
        let Some(primary) = verdicts::declared(&self.data.experiment).into_iter().next() else { return };
        let primary = Expr::Metric(primary);
        let median = |row: &Working| {
            let sources = self.sources(row);
            let medians = sources.iter().filter_map(|s| Summary::of(&primary, &s.trials).value(Statistic::Median));
            medians.reduce(f64::min).unwrap_or(f64::INFINITY)
        };
        rows.sort_by(|a, b| median(a).total_cmp(&median(b)));
    }

    fn rows(&self, sheet: &Sheet, part: &Part) -> Vec<Working> {
        let working = |labels: &[String], variants: &[Vec<usize>], phase: Option<String>| Working {
            row: Row { labels: labels.iter().map(Label::new).collect(), cells: vec![] },
            variants: variants.to_vec(),
            phase,
        };
        if sheet.labelled != Labelled::Phases {
            let row = |r: &RowPart| {
                let command = r.variants.iter().flatten().next().and_then(|v| sheet.commands.get(*v));
                let command = command.filter(|_| sheet.labelled == Labelled::Commands);
                working(command.map_or(&r.labels, std::slice::from_ref), &r.variants, None)
            };
            return part.rows.iter().map(row).collect();
        }
        let variants = part.rows.first().map(|r| r.variants.as_slice()).unwrap_or_default();
        let phases = columns::timed_phases(&self.data.experiment, &self.data.trials).into_iter();
        phases.map(|phase| working(std::slice::from_ref(&phase), variants, Some(phase.clone()))).collect()
    }

    fn sources(&self, row: &Working) -> Vec<Source<'a>> {
        (0..row.variants.len()).map(|group| self.source(row, group)).collect()
    }

    fn source(&self, row: &Working, group: usize) -> Source<'a> {
        let variants = &row.variants[group];
        Source {
            trials: variants.iter().filter_map(|v| self.trials.get(v)).flatten().copied().collect(),
            planned: variants.iter().map(|v| planned(&self.data.experiment, *v)).sum(),
            exists: !variants.is_empty(),
            phase: row.phase.clone(),
        }
    }

    fn caption(&self, statistic: Statistic) -> String {
        let what = match statistic {
            Statistic::Median => "Median",
            Statistic::Mean => "Mean",
            Statistic::Min => return "The smallest value of any trial.".to_owned(),
            Statistic::Max => return "The largest value of any trial.".to_owned(),
        };
        let counts = || self.trials.values().map(Vec::len);
        // A baseline runs twice in a block.
        let by_kind = |least, most| {
            let variants = self.data.experiment.variants();
            self.trials.iter().all(|(id, trials)| trials.len() == if variants[*id].baseline { most } else { least })
        };
        // Readers divide the medians and miss the ratio of the verdict.
        let ratio = " The ratio in a verdict, the sentence above, is taken within each block and differs from the ratio of these \
                     numbers: it is the one to report.";
        let judged = if self.data.experiment.compare().baseline.is_empty() { "" } else { ratio };
        match (counts().min().unwrap_or(0), counts().max().unwrap_or(0)) {
            (_, 0) => "No trial has ended.".to_owned(),
            (_, 1) => "One trial each: the variation between trials is not known.".to_owned(),
            (least, most) if least == most => {
                format!("{what} of {most} trials, in brackets the least and the greatest.{judged}")
            }
            (least, most) if by_kind(least, most) => format!(
                "{what} of {} ({most} of the baseline), in brackets the least and the greatest.{judged}",
                count(least, "trial")
            ),
            (least, most) => {
                format!("{what} of {least} to {most} trials, in brackets the least and the greatest.{judged}")
            }
        }
    }

    /// Footnotes of rows: durability classes where they differ, and effective settings that differ from the declared
    /// ones.
    fn row_marks(&self, rows: &mut [Working], notes: &mut Notes) {
        let classes: Vec<Vec<Durability>> = rows.iter().map(|row| self.of_row(row, class)).collect();
        // Sibling tables are compared too.
        let differ = self.data.trials.iter().filter_map(class).collect::<BTreeSet<_>>().len() > 1;
        for (row, classes) in rows.iter_mut().zip(classes) {
            let declared = self.of_row(row, |trial| self.not_as_declared(trial));
            let Some(label) = row.row.labels.last_mut() else { continue };
            if differ {
                label.marks.extend(classes.iter().map(|c| notes.mark(promise(*c))));
            }
            label.marks.extend(declared.into_iter().map(|text| notes.mark(text)));
        }
    }

    /// What the function says of a row's trials, each once.
    fn of_row<T: PartialEq>(&self, row: &Working, f: impl Fn(&TrialRecord) -> Option<T>) -> Vec<T> {
        let trials = row.variants.iter().flatten().filter_map(|v| self.trials.get(v)).flatten();
        once(trials.filter_map(|t| f(t)))
    }

    fn not_as_declared(&self, trial: &TrialRecord) -> Option<String> {
        let store = self.data.experiment.variants().get(trial.trial.variant)?.spec.subject.store()?;
        let (declared, effective) = (store.durability?, class(trial)?);
        (declared != effective).then(|| {
            let (declared, effective) = (declared.name(), effective.name());
            format!("the declared durability is `{declared}`, but the effective settings amount to `{effective}`")
        })
    }

    /// Footnotes of a column whose phase gave different answers although the work was the same.
    fn column_marks(&self, plan: &ColumnPlan, rows: &[Working], notes: &mut Notes) -> Vec<usize> {
        let mut marks = Vec::new();
        for name in read(std::slice::from_ref(plan)).into_iter().filter(|name| is_speed(name.key.metric)) {
            let phases = if name.phase.is_empty() {
                rows.iter().filter_map(|r| r.phase.as_deref()).collect()
            } else {
                vec![name.phase.as_str()]
            };
            for phase in phases.into_iter().filter(|p| self.disagreeing.contains(*p)) {
                let mark = notes.mark(format!(
                    "answers of `{phase}` differ between trials that did the same work: do not compare their speed"
                ));
                if !marks.contains(&mark) {
                    marks.push(mark);
                }
            }
        }
        marks
    }
}

/// Whether a metric says how fast the work was.
const fn is_speed(metric: Metric) -> bool {
    matches!(metric, Metric::Time | Metric::Wall | Metric::Rate | Metric::Cpu) || metric.is_of_one_operation()
}

/// A row under construction.
struct Working {
    row: Row,
    variants: Vec<Vec<usize>>,
    phase: Option<String>,
}

fn heading(plan: &ColumnPlan, group: &str, unit: &str, marks: Vec<usize>) -> Column {
    let groups: Vec<&str> = [group, plan.group.as_str()].into_iter().filter(|g| !g.is_empty()).collect();
    // An asked-for heading may hold its unit already.
    let unit = if plan.heading.ends_with(&format!(", {unit}")) { "" } else { unit };
    let (group, topic) = (groups.join(": "), plan.topic);
    Column { group, topic, marks, ..Column::new(&plan.heading, unit, Align::Right) }
}

fn read(columns: &[ColumnPlan]) -> Vec<&MetricName> {
    let figures = columns.iter().flat_map(|c| &c.parts).filter_map(|part| match part {
        CellPart::Figure { expr, .. } => Some(expr),
        CellPart::Text(_) => None,
    });
    figures.flat_map(metrics).collect()
}

fn title(asked: Option<&str>, part: &Part) -> Option<String> {
    let levels = part.levels.iter().map(|(factor, level)| format!("{factor} = {level}")).collect::<Vec<_>>().join(", ");
    let parts: Vec<&str> = asked.into_iter().chain([levels.as_str()]).filter(|part| !part.is_empty()).collect();
    (!parts.is_empty()).then(|| parts.join(": "))
}

/// The effective durability class, as the engine's driver reports it.
fn class(trial: &TrialRecord) -> Option<Durability> {
    Some(trial.store()?.durability)
}

fn promise(class: Durability) -> String {
    format!("durability `{}`: {}", class.name(), class.loss())
}
