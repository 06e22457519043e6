//! Assembles the HTML page from its parts.

use super::encode::deflated;
use super::sections;
use super::text::{html, sentence};
use crate::model::{Report, Table};
use prony_results::RunData;

const SCRIPT: &str = include_str!("assets/app.js");
const STYLE: &str = include_str!("assets/app.css");
/// SHA-256 of the script in base64, made with it: the policy lets this script run and no other.
const SCRIPT_HASH: &str = include_str!("assets/app.js.sha256");

/// Sections whose charts the script draws: id and heading.
const FIGURES: [(&str, &str); 8] = [
    ("effects", "Every trial"),
    ("growth", "Growth"),
    ("durability", "Rate and loss"),
    ("timeline", "Over time"),
    ("throughput", "Throughput over time"),
    ("latency", "Latency"),
    ("samples", "Sampled operations"),
    ("profiles", "Where the time goes"),
];

/// The whole page, with the tables that answer the experiment's question and the script's data.
pub(super) fn page(data: &RunData, report: &Report, answer: &[Table], json: &str) -> String {
    let title = html(&report.title);
    let body = body(data, report, answer);
    let data = deflated(json);
    let hash = SCRIPT_HASH.trim();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'sha256-{hash}'; \
         style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>{title} - prony</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{body}\n\
         <script type=\"text/plain\" id=\"data\">{data}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n"
    )
}

fn body(data: &RunData, report: &Report, answer: &[Table]) -> String {
    let preface: String = report.preface.iter().map(|line| format!("<p>{}</p>", sentence(line))).collect();
    let figures: String = FIGURES
        .iter()
        .map(|(id, heading)| {
            format!("<section id=\"{id}\" class=\"plot\" hidden><h2>{heading}</h2><div class=\"body\"></div></section>")
        })
        .collect();
    let all = section("tables", "Tables", &sections::tables(&report.tables, data.trials.len()));
    // All tables stand below the charts, unless there are no others than those that answer. Without trials none
    // answers.
    let (answer, tables) = if data.trials.is_empty() || answer == report.tables {
        (all, String::new())
    } else {
        (section("answer", "Results", &sections::all_tables(answer)), all)
    };
    format!(
        "<a class=\"skip\" href=\"#verdicts\">Skip to the verdicts</a>\n<header><h1>{}</h1><button type=\"button\" \
         id=\"theme\" hidden></button><nav aria-label=\"Sections\" id=\"nav\"></nav></header>\n<main>\n<section \
         id=\"verdicts\">{}<h2>What the comparison says</h2>{}{}{}{}{}<div \
         class=\"preface\">{preface}</div></section>\n{answer}<noscript><p class=\"fine\">The charts need JavaScript; \
         verdicts, findings and tables do not.</p></noscript>\n{figures}\n<section id=\"findings\"><h2>What the guards \
         found</h2>{}</section>\n{tables}<section id=\"machine\"><h2>The machine</h2>{}</section>\n<section \
         id=\"experiment\"><h2>The experiment</h2>{}<pre tabindex=\"0\"><code \
         id=\"source\">{}</code></pre></section>\n<section id=\"raw\"><h2>Raw data</h2><div \
         class=\"body\"></div></section>\n</main>\n<footer><p>Made by prony {}. Nothing on this page was loaded from \
         elsewhere.</p></footer>",
        html(&report.title),
        report.question.iter().map(|asked| format!("<p class=\"question\">{}</p>", html(asked))).collect::<String>(),
        sections::warnings(&report.findings),
        sections::verdicts(&report.verdicts),
        sections::all_tables(&report.effects),
        sections::all_tables(&[report.floors.as_slice(), &report.crashes].concat()),
        sections::remarks(&report.remarks),
        sections::findings(&report.findings),
        sections::machine(&report.machine),
        experiment_line(data),
        html(data.experiment.source()),
        html(&data.head.version),
    )
}

fn section(id: &str, heading: &str, body: &str) -> String {
    format!("<section id=\"{id}\"><h2>{heading}</h2>{body}</section>\n")
}

fn experiment_line(data: &RunData) -> String {
    format!("<p class=\"fine\">Seed {}, digest <code>{}</code>.</p>", data.head.seed, html(&data.head.hash))
}
