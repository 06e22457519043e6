//! `prony engines`: lists the storage engines of this build with their durability promises and options.

use prony_engines::driver::{Capabilities, Description, OptionKind, OptionSpec, PowerCut, ProcessCrash, Promise};
use prony_engines::registry;

use super::{Answer, Output, table};
use crate::error::Error;

/// Which engine, and how.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prony engines
  prony engines lmdb")]
pub struct Arguments {
    /// Show only this engine, with its options and how its driver uses it
    #[arg(value_name = "ENGINE")]
    engine: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the table of drivers, or all about one.
///
/// # Errors
/// Where there is no such engine, or the output cannot be written.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    let mut engines = registry::engines();
    if let Some(name) = &arguments.engine {
        engines.retain(|engine| engine.name == *name);
        if engines.is_empty() {
            return Err(unknown(name));
        }
    }
    if arguments.json {
        output.print_json("the engines", &engines)?;
        return Ok(Answer::Yes);
    }
    let text = if arguments.engine.is_some() {
        engines.iter().map(|engine| detail(engine, output.width)).collect()
    } else {
        overview(&engines, output.width)
    };
    output.print(&format!("{}\n", text.trim_end()))?;
    Ok(Answer::Yes)
}

fn unknown(name: &str) -> Error {
    let known = registry::KNOWN.iter().find(|known| known.name == name);
    let hint = match known.and_then(|known| known.feature) {
        Some(feature) => format!("to include this engine, build prony with `--features {feature}`"),
        None => "`prony engines` lists the engines of this build".to_owned(),
    };
    Error::arguments(format!("no engine `{name}` in this build"), hint)
}

fn overview(engines: &[Description], width: Option<usize>) -> String {
    let mut table = table(width);
    table.set_header(["engine", "version", "through", "durability classes", "transactions"]);
    for engine in engines {
        let mut classes: Vec<String> = engine.promises.iter().map(class_name).collect();
        // One class may have several promises, each with settings of its own.
        classes.dedup();
        table.add_row([
            engine.name.clone(),
            engine.version.clone(),
            engine.library.clone(),
            classes.join(", "),
            transactions(engine.capabilities).to_owned(),
        ]);
    }
    let absent: Vec<String> = registry::KNOWN
        .iter()
        .filter(|known| !known.built)
        .filter_map(|known| Some(format!("{} (`--features {}`)", known.name, known.feature?)))
        .collect();
    let mut text = format!("{table}\n* the default durability class of the engine\n");
    if !absent.is_empty() {
        text += &format!("engines that are not in this build: {}\n", absent.join(", "));
    }
    text + "`prony engines ENGINE` shows the settings of each class, the options, and how the driver uses it\n"
}

fn class_name(promise: &Promise) -> String {
    format!("{}{}", promise.class.name(), if promise.default { "*" } else { "" })
}

const fn transactions(capabilities: Capabilities) -> &'static str {
    match (capabilities.batches, capabilities.reads_own_writes) {
        (false, _) => "one operation",
        (true, false) => "batches",
        (true, true) => "full",
    }
}

fn detail(engine: &Description, width: Option<usize>) -> String {
    let mut promises = table(width);
    promises.set_header(["class", "process crash loses", "power failure loses", "integrity", "settings"]);
    for promise in &engine.promises {
        promises.add_row([
            class_name(promise),
            crash(promise.process_crash).to_owned(),
            cut(promise.power_cut).to_owned(),
            if promise.integrity { "kept" } else { "not promised" }.to_owned(),
            promise.settings.clone(),
        ]);
    }
    let mut options = table(width);
    options.set_header(["option", "takes", "unless given", "what it does"]);
    for option in &engine.options {
        options.add_row([option.name.clone(), takes(option), option.default.clone(), option.doc.clone()]);
    }
    let Description { name, version, library, idiom, .. } = engine;
    let key = engine.capabilities.max_key.map(|most| format!("longest key: {most} bytes\n")).unwrap_or_default();
    let own = engine.capabilities.own_documents;
    let own = if own { "answers queries over JSON documents itself, with its own indexes\n" } else { "" };
    format!("{name} {version}, through {library}\n\n{idiom}\n\n{promises}\n* the default\n\n{options}\n{key}{own}")
}

const fn crash(crash: ProcessCrash) -> &'static str {
    match crash {
        ProcessCrash::Keeps => "nothing",
        ProcessCrash::LosesTail => "the most recent commits",
        ProcessCrash::Anything => "anything",
    }
}

const fn cut(cut: PowerCut) -> &'static str {
    match cut {
        PowerCut::Nothing => "no acknowledged commit",
        PowerCut::LastCommit => "at most the last commit",
        PowerCut::Tail => "the most recent commits",
        PowerCut::Anything => "anything",
    }
}

fn takes(option: &OptionSpec) -> String {
    match &option.kind {
        OptionKind::Bool => "true, false".to_owned(),
        OptionKind::Int { min, max } => format!("{min} to {max}"),
        OptionKind::Bytes => "a size, such as \"1 GiB\"".to_owned(),
        OptionKind::OneOf(words) => words.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_of_the_build_is_listed_with_its_default_class() {
        let text = overview(&registry::engines(), Some(120));
        for known in registry::KNOWN {
            assert!(text.contains(known.name), "{} is missing in:\n{text}", known.name);
        }
        for engine in registry::engines() {
            let defaults = engine.promises.iter().filter(|promise| promise.default).count();
            assert_eq!(defaults, 1, "{} has one default class", engine.name);
        }
        // Two promises of SQLite have the class `none`.
        assert!(!overview(&registry::engines(), None).contains("none, none"), "{text}");
    }

    #[test]
    fn an_engine_that_was_not_built_names_its_feature() {
        for known in registry::KNOWN.iter().filter(|known| !known.built) {
            assert!(unknown(known.name).text().contains("--features"));
        }
    }
}
