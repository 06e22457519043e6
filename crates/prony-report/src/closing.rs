//! The last line of a brief report.

use prony_analysis::verdicts;
use prony_model::number::count;
use prony_results::RunData;

use super::columns;

/// What a brief report leaves out, and which options show it; first, how an interrupted run goes on.
pub(super) fn more(
    data: &RunData,
    (notes, is_cut): (usize, bool),
    database: &str,
    resume: Option<&String>,
    shown: Option<&String>,
) -> String {
    let run = data.head.id;
    let resume = resume.map(|command| format!("to run the other trials: `{command}`; "));
    let resume = resume.unwrap_or_default();
    let basis = if is_cut { ", the basis of each verdict" } else { "" };
    let notes = match notes {
        0 => basis.to_owned(),
        n => format!("{basis} and {}", count(n, "note")),
    };
    let mut phases = columns::timed_phases(&data.experiment, &data.trials);
    phases.retain(|phase| shown != Some(phase));
    let declared = verdicts::declared(&data.experiment);
    let (compared, not_compared): (Vec<&String>, Vec<&String>) =
        phases.iter().partition(|phase| declared.iter().any(|metric| metric.phase == **phase));
    let option = |phase: &&String| format!("`--phase {}`", shell_words::quote(phase));
    let phase = match (not_compared.as_slice(), compared.first()) {
        ([], Some(phase)) if phases.len() > 1 => format!("{} (one phase), ", option(phase)),
        ([], _) => String::new(),
        (not_compared, _) => {
            let options = not_compared.iter().map(option).collect::<Vec<_>>();
            format!("{} (measured and not compared), ", options.join(", "))
        }
    };
    let metric = compared.first().or(not_compared.first()).map(|phase| format!("{phase}.cpu"));
    let metric = metric.as_deref().map_or("PHASE.METRIC".into(), shell_words::quote);
    format!(
        "{resume}all tables{notes}: `prony show {run} --all{database}`; less than all, in place of `--all`: {phase}`--metric {metric}` \
         (one metric)"
    )
}
