//! Prints the tables of `docs/verdicts.md`: `[CAMPAIGNS [TABLE [NOISE]]]`, with `all` for every table. With `record
//! [RUNS]` it records noise instead and writes it as JSON to standard output; the file that it syncs is in the working
//! directory.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use prony_bench_verdicts::measure::{self, INSIDE, LASTING, Null, SEQUENTIAL};
use prony_bench_verdicts::noise::recorded;
use prony_bench_verdicts::record;
use prony_stats::simulation::{Campaigns, Noise, Rate, Rng, Setting, Simulation, Variant, draw, family};
use prony_stats::{InterimAnalyses, compare_family};

const FAMILIES: [usize; 3] = [1, 5, 20];
const EFFECTS: [f64; 5] = [0.02, 0.05, 0.1, 0.5, 10.0];

/// A table's name, how it is printed, and the part of the campaigns it gets.
type Table = (&'static str, fn(&[Noise], u32), u32);

/// Runs of a recording by default.
const RUNS: usize = 3000;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    if arguments.next().as_deref() == Some("record") {
        let runs = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(RUNS);
        let recording = record::record(runs, std::path::Path::new("."))?;
        println!("{}", serde_json::to_string(&recording)?);
        return Ok(());
    }
    tables();
    Ok(())
}

fn tables() {
    let many = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(2000);
    let only = std::env::args().nth(2).filter(|table| table != "all");
    let of = std::env::args().nth(3).unwrap_or_default();
    let noises: Vec<Noise> = recorded().into_iter().filter(|noise| noise.name.starts_with(&of)).collect();
    println!("Exact 95 % intervals in brackets\n");
    // The table that carries the promise gets the most campaigns.
    let tables: [Table; 8] = [
        ("false", false_verdicts, 1),
        ("budget", budget, 10),
        ("budget-margin", budget_margin, 10),
        ("injected", injected, 5),
        ("smallest", smallest, 4),
        ("candidates", candidates, 4),
        ("others", recordings, 4),
        ("speed", speed, 1),
    ];
    for (_, print, part) in tables.iter().filter(|(name, ..)| only.as_deref().is_none_or(|o| o == *name)) {
        print(&noises, many / part);
    }
}

fn false_verdicts(noises: &[Noise], many: u32) {
    println!("## False verdicts of whole campaigns, 6 to 30 blocks with interim analyses ({many} campaigns a cell)\n");
    println!("| noise | variants | family of 1 | of 5 | of 20 | mean blocks |\n|---|---|---|---|---|---|");
    let analyses = InterimAnalyses::new(6, 30);
    for noise in noises {
        for null in measure::nulls(noise) {
            let mut cells = Vec::new();
            let mut blocks = Vec::new();
            for size in FAMILIES {
                let mut rng = Rng::new(size as u64);
                let all = Simulation::new(noise, &analyses).campaigns(&null.setting(size), many, &mut rng);
                cells.push(all.any_difference.to_string());
                blocks.push(format!("{:.0}", all.mean_blocks()));
            }
            println!("| {} | {} | {} | {} |", noise.name, null.name, cells.join(" | "), blocks.join(", "));
        }
    }
}

fn budget(noises: &[Noise], many: u32) {
    println!("\n## False verdicts of runs that a time budget ends, duration being what is compared ({many} a cell)\n");
    budgeted(noises, many, measure::nulls, |all| all.any_difference);
}

fn budget_margin(noises: &[Noise], many: u32) {
    println!("\n## The same with a ratio of exactly the margin: beyond it, or within it, is false ({many} a cell)\n");
    budgeted(noises, many, measure::at_the_margin, |all| all.off_margin);
}

/// All variants of a recording together, and the one with the most.
fn budgeted(noises: &[Noise], many: u32, variants: fn(&Noise) -> Vec<Null>, wrong: fn(&Campaigns) -> Rate) {
    println!(
        "| noise | budget, blocks | family of 1 | the most | of 5 | the most | mean blocks |\n|---|---|---|---|---|---|---|"
    );
    for noise in noises {
        for lasting in LASTING {
            let mut cells = Vec::new();
            let mut blocks = Vec::new();
            for size in [1, 5] {
                let of = |null: Null| measure::budgeted(noise, &null.setting(size), lasting, many, &mut Rng::new(53));
                let found: Vec<Campaigns> = variants(noise).into_iter().map(of).collect();
                let rates: Vec<Rate> = found.iter().map(wrong).collect();
                let all = rates.iter().fold(Rate::default(), |a, b| Rate { hits: a.hits + b.hits, of: a.of + b.of });
                let most = rates.iter().map(|rate| rate.share()).fold(0.0, f64::max);
                cells.push(format!("{all} | {:.1} %", 100.0 * most));
                blocks.push(found.iter().map(Campaigns::mean_blocks).sum::<f64>() / found.len() as f64);
            }
            let (name, [one, five]) = (noise.name, [blocks[0], blocks[1]]);
            println!("| {name} | {lasting} | {} | {one:.0}, {five:.0} |", cells.join(" | "));
        }
    }
}

fn injected(noises: &[Noise], many: u32) {
    println!("\n## Injected slowdowns, 6 to 30 blocks with interim analyses ({many} campaigns a cell)\n");
    println!("| noise | family | slower by | detected | beyond the margin | mean blocks |\n|---|---|---|---|---|---|");
    let analyses = InterimAnalyses::new(6, 30);
    for noise in noises {
        for size in FAMILIES {
            for effect in EFFECTS {
                let setting = Setting::of(Variant::PLAIN, Variant::PLAIN.slower(effect), size);
                let all = Simulation::new(noise, &analyses).campaigns(&setting, many, &mut Rng::new(7));
                let (name, percent) = (noise.name, 100.0 * effect);
                let (worse, beyond, blocks) = (all.worse, all.beyond_margin, all.mean_blocks());
                println!("| {name} | {size} | {percent:.0} % | {worse} | {beyond} | {blocks:.1} |");
            }
        }
    }
}

fn smallest(noises: &[Noise], many: u32) {
    println!("\n## Detection at the advertised smallest effect ({many} campaigns a cell)\n");
    println!(
        "| noise | family | blocks | advertised (median) | detected, same runs | detected, anywhere |\n|---|---|---|---|---|---|"
    );
    for noise in noises {
        for size in FAMILIES {
            for blocks in [6, 8, 11, 15, 20, 30] {
                let analyses = InterimAnalyses::new(blocks, blocks);
                let found = |same| Simulation::new(noise, &analyses).advertised(size, same, many, &mut Rng::new(11));
                let (here, anywhere) = (found(true), found(false));
                let (name, percent) = (noise.name, 100.0 * here.effect.unwrap_or(f64::NAN));
                println!("| {name} | {size} | {blocks} | {percent:.1} % | {} | {} |", here.detected, anywhere.detected);
            }
        }
    }
}

fn candidates(noises: &[Noise], many: u32) {
    println!("\n## False verdicts of what was tried inside blocks ({many} campaigns a cell)\n");
    println!(
        "| noise | variants | family | blocks | {} |\n|---|---|---|---|{}",
        INSIDE.join(" | "),
        "---|".repeat(INSIDE.len())
    );
    for noise in noises {
        for null in measure::nulls(noise) {
            for (size, blocks) in [(1, 10), (1, 30), (20, 7), (20, 30)] {
                let rates = measure::inside(noise, &null.setting(size), blocks, many, &mut Rng::new(13));
                let cells: Vec<String> = rates.iter().map(ToString::to_string).collect();
                println!("| {} | {} | {size} | {blocks} | {} |", noise.name, null.name, cells.join(" | "));
            }
        }
    }
    println!("\n## Slowdowns that each method detects inside blocks, family of 1\n");
    println!("| noise | slower by | blocks | {} |\n|---|---|---|{}", INSIDE.join(" | "), "---|".repeat(INSIDE.len()));
    for noise in noises {
        for (effect, blocks) in [(0.05, 10), (0.05, 30), (0.2, 10), (0.2, 30), (0.5, 10)] {
            let setting = Setting::of(Variant::PLAIN, Variant::PLAIN.slower(effect), 1);
            let rates = measure::inside(noise, &setting, blocks, many, &mut Rng::new(17));
            let cells: Vec<String> = rates.iter().map(ToString::to_string).collect();
            println!("| {} | {:.0} % | {blocks} | {} |", noise.name, 100.0 * effect, cells.join(" | "));
        }
    }
}

fn recordings(noises: &[Noise], many: u32) {
    println!("\n## Other tools' ways: all runs of one command, then all of the same again ({many} a cell)\n");
    println!(
        "| noise | family | runs | {} |\n|---|---|---|{}",
        SEQUENTIAL.join(" | "),
        "---|".repeat(SEQUENTIAL.len())
    );
    for noise in noises {
        for size in [1, 5, 20] {
            for runs in [10, 20, 30] {
                let rates = measure::sequential(noise, Variant::PLAIN, size, runs, many, &mut Rng::new(19));
                let cells: Vec<String> = rates.iter().map(ToString::to_string).collect();
                println!("| {} | {size} | {runs} | {} |", noise.name, cells.join(" | "));
            }
        }
    }
}

/// How long it takes to compare 11,200 trials: 20 variants in 400 blocks of 4 sub-blocks with two baselines each.
fn speed(noises: &[Noise], _: u32) {
    let setting = Setting::of(Variant::PLAIN, Variant::PLAIN, 5);
    let analyses = InterimAnalyses::new(6, 400);
    let mut whole = family(&[], &analyses);
    for _ in 0..4 {
        let values = draw(&noises[0], &setting, 400, 0, &mut Rng::new(47));
        whole.members.extend(family(&values, &analyses).members);
    }
    let began = Instant::now();
    let found = compare_family(&whole);
    println!("\n## Speed\n\n{} comparisons over 11,200 trials: {:?}", found.len(), began.elapsed());
}
