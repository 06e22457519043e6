//! `prony doctor`: shows what can be measured on this machine, the machine's limits, and how to enable the rest.

use std::path::{Path, PathBuf};

use comfy_table::Table;
use prony_model::error::chain;
use prony_model::reading::Reading;
use prony_model::record::host::Spread;
use prony_model::record::{Facts, MachineLimits, Mount};
use prony_model::units::{Bytes, PerSecond};
use prony_os::host::{Capability, State, capabilities, facts, machine_limits};
use prony_os::launch::Scratch;
use prony_os::limits;
use prony_os::sample::Tracepoints;
use prony_powercut::{Mounted, Settings};
use serde::Serialize;

use super::{Answer, Output, table};
use crate::error::Error;
use prony_report::shown;

/// Where, and how.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prony doctor
  prony doctor /srv/results --json
  prony doctor --repair")]
pub struct Arguments {
    /// Folder whose file system is examined: choose the one for results
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Mount tracefs if it is not mounted, so that sync calls such as `fsync` can be counted
    #[arg(long)]
    fix: bool,
    /// Remove mounts of `prony powercut` whose processes were killed; every access to them fails
    #[arg(long)]
    repair: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Findings {
    facts: Facts,
    limits: MachineLimits,
    capabilities: Vec<Capability>,
    notes: Vec<String>,
    stale: Vec<PathBuf>,
    stale_mounts: Vec<StaleMount>,
}

/// A mount of `prony powercut` whose server has ended.
#[derive(Serialize)]
struct StaleMount {
    point: PathBuf,
    removed: bool,
}

/// Examines the machine and prints what it finds; takes some seconds and writes a file of some MB that it removes.
///
/// # Errors
/// Where the folder cannot be used, or the output cannot be written.
pub fn run(arguments: &Arguments, output: &mut Output<'_>) -> Result<Answer, Error> {
    let tracepoints = Tracepoints::open(arguments.fix);
    let groups = limits::capability();
    let mut capabilities = capabilities(&tracepoints, &arguments.dir);
    capabilities.extend(group_capabilities(&groups));
    capabilities.push(simulated_disk(&arguments.dir)?);
    let findings = Findings {
        facts: facts(&arguments.dir),
        limits: machine_limits(&arguments.dir),
        capabilities,
        notes: groups.notes,
        stale: Scratch::sweep(&arguments.dir)?.removed,
        stale_mounts: stale_mounts(arguments.repair)?,
    };
    if arguments.json {
        output.print_json("what the doctor found", &findings)?;
    } else {
        output.print(&text(&findings, output.width))?;
    }
    Ok(Answer::Yes)
}

/// The mounts that are stale, removed with `repair`.
fn stale_mounts(repair: bool) -> Result<Vec<StaleMount>, Error> {
    let mount = |point: PathBuf| {
        if repair {
            prony_powercut::unmount(&point)?;
        }
        Ok(StaleMount { point, removed: repair })
    };
    prony_powercut::stale()?.into_iter().map(mount).collect()
}

/// Whether a disk whose power fails can be simulated: by a mount, since there are many reasons why none is possible.
fn simulated_disk(near: &Path) -> Result<Capability, Error> {
    let scratch = Scratch::create(near)?;
    let point = scratch.path().join("disk");
    let state = scratch.path().join("state");
    let start = |()| {
        let mounted = Mounted::start(Path::new("/proc/self/exe"), &point, &state, &Settings::default());
        mounted.map(drop).map_err(|error| (chain(&error), error.hint()))
    };
    let (state, hint) = match std::fs::create_dir(&point).map_err(|error| (error.to_string(), None)).and_then(start) {
        Ok(()) => (State::Yes, None),
        Err((why, hint)) => (State::No(why), hint),
    };
    Ok(Capability {
        name: "simulated power failures".to_owned(),
        purpose: "`powercut` phases, `prony powercut` (FUSE)".to_owned(),
        state,
        allow: hint.unwrap_or_else(|| "run as root, or install the package `fuse3`".to_owned()),
    })
}

fn group_capabilities(groups: &limits::Capability) -> Vec<Capability> {
    [
        ("memory limits", "`memory` in `[limits]`; detection of out-of-memory kills", &groups.memory),
        ("limits on processors", "`cpus` in `[limits]`", &groups.cpus),
        ("limits on processes", "`pids` in `[limits]`", &groups.pids),
        ("CPU time of a whole tree", "CPU time of children that their parent does not wait for", &groups.cpu_time),
        ("memory peak of a whole tree", "lower bound of the memory that a killed trial needs", &groups.memory_peak),
    ]
    .into_iter()
    .map(|(name, purpose, state)| Capability {
        name: name.to_owned(),
        purpose: purpose.to_owned(),
        state: state.clone(),
        allow: "run as root, or in a delegated control group (`systemd-run --user --scope -p Delegate=yes`)".to_owned(),
    })
    .collect()
}

fn text(findings: &Findings, width: Option<usize>) -> String {
    let mut text = String::from("The machine\n");
    text += &format!("{}\n", facts_table(&findings.facts, width));
    text += &format!("\nLimits of the machine, measured now\n{}\n", limits_table(&findings.limits, width));
    text += "\nWhat can be measured\n";
    text += &format!("{}\n", capability_table(&findings.capabilities, width));
    for capability in &findings.capabilities {
        if let State::No(why) = &capability.state {
            text += &format!("{}: no: {why}\nhint: {}\n", capability.name, capability.allow);
        }
    }
    findings.notes.iter().for_each(|note| text += &format!("note: {note}\n"));
    for stale in &findings.stale {
        text += &format!("removed `{}`, which a killed run had left\n", stale.display());
    }
    for StaleMount { point, removed } in &findings.stale_mounts {
        let point = point.display();
        text += &match removed {
            true => format!("removed the stale mount on `{point}`, whose processes were killed\n"),
            false => format!(
                "stale mount on `{point}`: its processes were killed\nhint: remove it: `prony doctor --repair`\n"
            ),
        };
    }
    text
}

fn capability_table(capabilities: &[Capability], width: Option<usize>) -> Table {
    let mut table = table(width);
    table.set_header(["", "here", "used for"]);
    for capability in capabilities {
        let here = if capability.state == State::Yes { "yes" } else { "no" };
        table.add_row([capability.name.as_str(), here, capability.purpose.as_str()]);
    }
    table
}

fn facts_table(facts: &Facts, width: Option<usize>) -> Table {
    let mut table = table(width);
    let text = |reading: &Reading<String>| shown(reading, Clone::clone);
    let amount = |reading: &Reading<Bytes>| shown(reading, ToString::to_string);
    let cores = shown(&facts.processor.logical, ToString::to_string);
    table.add_row(["processor".to_owned(), format!("{}, {cores} logical", text(&facts.processor.model))]);
    table.add_row(["frequency governor".to_owned(), text(&facts.processor.governor)]);
    table.add_row(["memory, swap".to_owned(), format!("{}, {}", amount(&facts.memory), amount(&facts.swap))]);
    table.add_row(["kernel".to_owned(), format!("{}, {}", text(&facts.kernel), facts.architecture)]);
    table.add_row(["C library, allocator".to_owned(), format!("{}, {}", text(&facts.libc), text(&facts.allocator))]);
    table.add_row(["virtualisation".to_owned(), text(&facts.virtualisation)]);
    table.add_row(["clock source".to_owned(), text(&facts.clock_source)]);
    table.add_row(["control groups".to_owned(), text(&facts.cgroups)]);
    table.add_row(["transparent huge pages".to_owned(), text(&facts.huge_pages)]);
    let mount = |mount: &Mount| format!("{} on {}, {}", mount.kind, mount.source, mount.options.join(","));
    table.add_row(["file system".to_owned(), shown(&facts.file_system, mount)]);
    for disk in &facts.disks {
        let what = format!(
            "read-ahead {}, scheduler {}, write cache {}",
            amount(&disk.read_ahead),
            text(&disk.scheduler),
            text(&disk.write_cache)
        );
        table.add_row([format!("disk `{}`", disk.name), what]);
    }
    table
}

fn limits_table(limits: &MachineLimits, width: Option<usize>) -> Table {
    let reads = |rate: &PerSecond| format!("{:.0} per second, by {}", rate.get(), limits.random_read_by);
    let rows = [
        ("reading the clock", limits.clock_cost.to_string()),
        ("resolution of the clock", limits.clock_step.to_string()),
        ("a sleep of 1 ms ends late by", shown(&limits.timer_lag, ToString::to_string)),
        ("write of 4 KiB and fdatasync", shown(&limits.fsync, spread)),
        ("sequential write, final fsync included", shown(&limits.sequential_write, bytes_a_second)),
        ("random reads of 4 KiB, one at a time", shown(&limits.random_read, reads)),
        ("copying memory", shown(&limits.memory_copy, bytes_a_second)),
        ("reading memory", shown(&limits.memory_read, bytes_a_second)),
        ("first touch of a page of 4 KiB", limits.first_touch.to_string()),
    ];
    let mut table = table(width);
    table.set_header(["", "measured"]);
    table.add_rows(rows.map(|(what, value)| [what.to_owned(), value]));
    table
}

fn spread(spread: &Spread) -> String {
    let Spread { min, p50, p90, max, count } = spread;
    format!("median {p50}, 90th percentile {p90}, range {min} to {max} ({count} measurements)")
}

fn bytes_a_second(rate: &PerSecond) -> String {
    format!("{} per second", Bytes::from_bytes(rate.get() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use prony_model::reading::Why;
    use prony_model::units::Nanos;

    #[test]
    fn what_could_not_be_measured_says_why() {
        let missing: Reading<Nanos> = Reading::Missing(Why::NotSupported("no disk".into()));
        assert_eq!(shown(&missing, ToString::to_string), "- (not supported: no disk)");
        assert_eq!(shown(&Reading::Measured(Nanos::from_millis(2)), ToString::to_string), "2.00 ms");
    }

    #[test]
    fn every_missing_ability_says_how_to_allow_it() {
        let why = || State::No("no such controller".to_owned());
        let groups = limits::Capability {
            memory: why(),
            cpus: State::Yes,
            pids: why(),
            cpu_time: why(),
            memory_peak: why(),
            notes: vec![],
        };
        let capabilities = group_capabilities(&groups);
        assert_eq!(capabilities.iter().filter(|c| matches!(c.state, State::No(_))).count(), 4);
        assert!(capabilities.iter().all(|c| !c.allow.is_empty()));
    }
}
