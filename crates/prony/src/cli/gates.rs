//! `--fail-if` and `--summary`: conditions on verdicts that decide a command's exit code, and a file for both.

use std::path::PathBuf;

use prony_analysis::verdicts;
use prony_analysis::verdicts::gate::{self, Gate, Verdicted};
use prony_experiment::design::Experiment;
use prony_model::metric::MetricName;
use prony_model::number::count;
use prony_place::startable::Written;
use prony_report::Report;
use prony_report::render::summary::summary;
use prony_results::RunData;

use super::Answer;
use crate::error::Error;
use crate::output_file::{OutputFile, OutputFiles, Present};

/// The conditions that fail a command, and the file to which their answers are written.
#[derive(Debug, clap::Args)]
pub(crate) struct GateArguments {
    /// Exit with code 1 if a verdict meets this condition, such as 'write.time slower 5%' (with `exec`, 'run.time slower
    /// 5%'), or if a trial of the variant failed by itself. Exit with code 2 if the condition cannot be judged because
    /// a trial of the baseline failed, the machine ended a trial, or the two are not compared. May be given several times
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<Gate>,
    /// Exit with code 1 also if a condition of --fail-if cannot be decided
    #[arg(long, requires = "fail_if")]
    fail_unsure: bool,
    /// Append the verdicts, the answers of --fail-if and, folded, the whole report in Markdown to this file, such as
    /// "$GITHUB_STEP_SUMMARY" or the text of a comment
    #[arg(long, value_name = "FILE")]
    summary: Option<PathBuf>,
}

/// How a run ended, as far as its verdicts do not say it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// Before all trials had run.
    pub interrupted: bool,
    /// What is wrong whatever was to be compared.
    pub wrong: Option<&'static str>,
    /// Trials that failed.
    pub failed: u32,
    /// Whether each `cleanup` succeeded.
    pub cleaned: bool,
}

/// What a run means for the command that made it.
#[derive(Debug)]
pub(crate) struct Judged {
    /// What the command answers.
    pub answer: Answer,
    /// The answers of the conditions, each with its reasons, and why the command ends with its exit code.
    pub texts: Vec<String>,
}

impl GateArguments {
    /// The conditions, which a run decides before it ends early.
    pub(crate) fn all(&self) -> &[Gate] {
        &self.fail_if
    }

    /// Opens the file for the verdicts, where one is named.
    ///
    /// # Errors
    /// As [`OutputFiles::open`].
    pub(crate) fn open_summary(&self, files: &mut OutputFiles) -> Result<Option<OutputFile>, Error> {
        self.summary.as_ref().map(|path| files.open(path, Present::Continued)).transpose()
    }

    /// Judges a run that has ended.
    pub(crate) fn judge(&self, data: &RunData, ended: Ended) -> Judged {
        let (gates, mut texts) = self.of_run(data);
        let (answer, why) = self.answer(ended, &gates);
        texts.extend((ended.wrong.is_some() || !gates.is_empty()).then(|| ending(answer, &why, ended.cleaned)));
        Judged { answer, texts }
    }

    /// The answers of the conditions for the run, and their texts.
    fn of_run(&self, data: &RunData) -> (Vec<Verdicted>, Vec<String>) {
        if self.fail_if.is_empty() {
            return Default::default();
        }
        let lines = verdicts::of(data).lines;
        let of = |gate| Verdicted::of_run(gate, &lines, data);
        let gates: Vec<Verdicted> = self.fail_if.iter().map(of).collect();
        let variants = data.experiment.variants().iter().filter(|variant| !variant.baseline).count();
        let judged = |gate: &Verdicted| verdicts::to_be_judged(&data.experiment, &gate.gate.metric).unwrap_or(0);
        let texts = gates.iter().map(|gate| text(gate, judged(gate), variants)).collect();
        (gates, texts)
    }

    /// What the command ends with, and why: "no" before "cannot judge", since one failure of the change is enough. A
    /// failed trial that no gate speaks of counts as without gates.
    fn answer(&self, ended: Ended, gates: &[Verdicted]) -> (Answer, String) {
        let Ended { interrupted, wrong, failed, .. } = ended;
        let any = |wanted| gates.iter().any(|gate| gate.answer() == wanted);
        let unsure = any(gate::Answer::Unsure);
        let (answer, why) = match (any(gate::Answer::Fails), wrong) {
            _ if interrupted => (Answer::No, "the run was interrupted"),
            (true, _) => (Answer::No, "a gate fails"),
            (false, Some(why)) => (Answer::No, why),
            _ if self.fail_unsure && unsure => (Answer::No, "a gate is not decided, and `--fail-unsure` is given"),
            _ if any(gate::Answer::CannotJudge) => (Answer::CannotJudge, "a gate cannot be judged"),
            _ if failed > 0 => return (Answer::No, format!("{} failed", count(failed, "trial"))),
            _ if unsure => (Answer::Yes, "no gate fails; with `--fail-unsure`, a gate that is not decided fails"),
            _ => (Answer::Yes, "every gate passes"),
        };
        (answer, why.to_owned())
    }

    /// Conditions must name metrics that get verdicts, in a plan that can have one: known before anything runs.
    ///
    /// # Errors
    /// Where a condition is on another metric, or the plan has too few blocks for a verdict.
    pub(crate) fn can_be_judged(&self, experiment: &Experiment, written: Written) -> Result<(), Error> {
        let declared = verdicts::declared(experiment);
        if let Some(gate) = self.fail_if.iter().find(|gate| !declared.contains(&gate.metric)) {
            return Err(Error::arguments(
                format!("`--fail-if`: there is no verdict on `{}`; nothing was run", gate.metric),
                to_compare(written, &declared, &gate.metric),
            ));
        }
        let single = matches!(written, Written::AsOptions) && experiment.variants().len() < 2;
        for gate in &self.fail_if {
            verdicts::to_be_judged(experiment, &gate.metric).map_err(|(why, hint)| {
                Error::arguments(
                    format!("`--fail-if` cannot judge `{}`: {why}; nothing was run", gate.metric),
                    if single { "a condition needs a second command: `A --vs B`".to_owned() } else { hint },
                )
            })?;
        }
        Ok(())
    }
}

impl Judged {
    /// Prints the answers, calls `write`, and names the exit code last, which is another one where that fails.
    ///
    /// # Errors
    /// Those of `print` and `write`.
    pub(crate) fn print(
        &self,
        mut print: impl FnMut(&str) -> Result<(), Error>,
        write: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (answers, ending) = self.texts.split_at(self.texts.len().saturating_sub(1));
        answers.iter().try_for_each(|text| print(text))?;
        write()?;
        ending.iter().try_for_each(|text| print(text))
    }

    /// Appends the run's verdicts, with these answers and its report, to a file.
    ///
    /// # Errors
    /// Where the file cannot be written.
    pub(crate) fn append(&self, data: &RunData, report: &Report, file: &OutputFile) -> Result<(), Error> {
        let mut text = Vec::new();
        summary(data, report, &self.texts, &mut text).map_err(Error::write("the report"))?;
        file.write_bytes(&text)
    }
}

/// A gate's answer, and on how many of the run's variants it is where some are compared with nothing, or in too few blocks.
fn text(gate: &Verdicted, judged: usize, variants: usize) -> String {
    let part = if judged < variants {
        format!("  {judged} of {} judged\n", count(variants, "variant"))
    } else {
        String::new()
    };
    format!("{gate}\n{part}")
}

/// What to write so that a metric is compared.
fn to_compare(written: Written, declared: &[MetricName], metric: &MetricName) -> String {
    if let (Written::AsOptions, Some(compared)) = (written, declared.first()) {
        return format!("commands are compared in `{compared}`; `--metric {metric}` compares them in this metric too");
    }
    if declared.is_empty() {
        return format!("in `[compare]`, set `baseline`, and `metric = \"{metric}\"`");
    }
    let all: Vec<String> = declared.iter().chain([metric]).map(|name| format!("\"{name}\"")).collect();
    format!("in `[compare]`, write `metrics = [{}]`", all.join(", "))
}

/// The last line of a command with conditions.
fn ending(answer: Answer, why: &str, cleaned: bool) -> String {
    if !cleaned && answer != Answer::No {
        return "exit code 2: a `cleanup` failed\n".to_owned();
    }
    format!("exit code {}: {why}\n", answer.code())
}
