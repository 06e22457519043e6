//! `prony powercut`: a file system that simulates power failures.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use prony_model::number::count;
use prony_model::units::{Bytes, Fraction, Nanos, parse_bytes, parse_fraction, parse_span, parse_time};
use prony_os::launch::Scratch;
use prony_powercut::{
    Cut, CutReport, CutSettings, End, Limits, MetadataOrder, Mounted, Pending, Policy, Settings, Unit,
};
use serde::de::DeserializeOwned;

use super::{Answer, Output, listen};
use crate::error::Error;

/// How often `mount` checks whether it is to end.
const PAUSE: Duration = Duration::from_millis(50);

/// The commands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Mount an empty file system on a directory, until this command is ended (Ctrl-C or SIGTERM)
    Mount(Box<MountArguments>),
    /// Save a cut at this moment, and make images of it: the disk as it may look after a power failure now
    Cut(CutArguments),
    /// Make images of a saved cut again, or more of them; nothing need be mounted
    Images(ImagesArguments),
    /// Make an image of a crash trial again, and open a shell in it
    Replay(ReplayArguments),
    /// Make everything durable that is pending
    Sync(PointArguments),
    /// Remove a mount, also one whose process was killed, and wait until its state directory is free
    Unmount(PointArguments),
}

/// A mount point.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  prony powercut sync /tmp/mount
  prony powercut unmount /tmp/mount")]
pub struct PointArguments {
    /// Mount point
    #[arg(value_name = "DIR")]
    point: PathBuf,
}

/// What is mounted, and how it behaves.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  mkdir /tmp/mount && prony powercut mount /tmp/mount --state /var/tmp/powercut --writeback 5s")]
pub struct MountArguments {
    /// Directory to mount on
    #[arg(value_name = "DIR")]
    point: PathBuf,
    /// Directory for contents and pending data while it is mounted; nothing remains in it
    #[arg(long, value_name = "DIR")]
    state: PathBuf,
    /// Order in which changes of directories, attributes and sizes survive: of ext4's journal, with or without its option
    /// `auto_da_alloc`, or only what POSIX promises
    #[arg(long, value_name = "ORDER", default_value = "ext4",
        value_parser = named::<MetadataOrder>(&["ext4", "ext4-no-auto-da-alloc", "posix"]))]
    metadata: MetadataOrder,
    /// Memory for pending operations, files and names; beyond it, data are written to the state directory
    #[arg(long, value_name = "SIZE", default_value = "256 MiB", value_parser = parse_bytes)]
    memory: Bytes,
    /// Pending data at most; beyond it the oldest become durable, as at a kernel's limit of dirty pages
    #[arg(long, value_name = "SIZE", default_value = "4 GiB", value_parser = parse_bytes)]
    pending: Bytes,
    /// Interval at which all pending operations become durable by themselves; default: never
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    writeback: Option<Nanos>,
    /// Size of the file system: a write beyond it fails with `ENOSPC`; default: what the state directory has
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    quota: Option<Bytes>,
    /// Time added to each request of the kernel
    #[arg(long, value_name = "TIME", default_value = "0 s", value_parser = parse_time)]
    latency: Nanos,
    /// Time added to each `fsync`, `fdatasync`, `msync` and synchronous write
    #[arg(long, value_name = "TIME", default_value = "0 s", value_parser = parse_time)]
    sync_latency: Nanos,
    /// Time after which the mount is removed where the process that serves it does not answer, or no request makes progress
    #[arg(long, value_name = "TIME", default_value = "30 s", value_parser = parse_time)]
    patience: Nanos,
}

/// What is cut, and which images are made.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  prony powercut cut /tmp/mount --images 10 --into /tmp/images --seed 7 --policy none,subset,torn")]
pub struct CutArguments {
    /// Mount point of the file system
    #[arg(value_name = "DIR")]
    point: PathBuf,
    /// Directory for the images and the saved cut; it is created, and must not exist
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    #[command(flatten)]
    images: ImageOptions,
}

/// A saved cut, and which images are made.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  prony powercut images /tmp/images/cut --images 10 --into /tmp/more --seed 8")]
pub struct ImagesArguments {
    /// Directory of the saved cut: `cut`, beside the images of `prony powercut cut`
    #[arg(value_name = "DIR")]
    saved: PathBuf,
    /// Directory for the images; it is created, and must not exist
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    #[command(flatten)]
    images: ImageOptions,
}

/// An image of a crash trial, as the finding of `prony run` names it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  prony powercut replay prony.db-cuts/run-1/variant-0-crash-0-cut-3 --image 2 --seed 7")]
pub struct ReplayArguments {
    /// Directory of the saved cut
    #[arg(value_name = "DIR")]
    saved: PathBuf,
    /// Number of the image, from 0
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=99_999))]
    image: u32,
    /// Seed of the cut
    #[arg(long, value_name = "N")]
    seed: u64,
    /// Directory below which the image is made; it is removed when the shell ends
    #[arg(long, value_name = "DIR", default_value = ".")]
    near: PathBuf,
}

/// Which images are made.
#[derive(Debug, clap::Args)]
struct ImageOptions {
    /// Number of images
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    images: u32,
    /// What survives of the operations that are not durable; the images take the policies in turn
    #[arg(long, value_name = "POLICY", value_delimiter = ',', default_value = "subset",
        value_parser = named::<Policy>(&["none", "prefix", "subset", "torn"]))]
    policy: Vec<Policy>,
    /// By the policy `subset`, the probability that a page has not its durable state but a later one; with `mount --metadata
    /// posix` also that a change of metadata survives
    #[arg(long, value_name = "SHARE", default_value = "50%", value_parser = parse_fraction)]
    keep: Fraction,
    /// What the disk writes whole: a sector of 512 bytes or a page of 4096
    #[arg(long, value_name = "UNIT", default_value = "page", value_parser = named::<Unit>(&["sector", "page"]))]
    unit: Unit,
    /// Seed: the same cut and seed make the same images
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Reads one of a type's names, as it is serialised.
fn named<T>(names: &'static [&'static str]) -> impl TypedValueParser<Value = T>
where
    T: DeserializeOwned + Clone + Send + Sync + 'static,
{
    PossibleValuesParser::new(names.iter().copied()).try_map(|name: String| serde_json::from_value(name.into()))
}

/// Runs a command.
///
/// # Errors
/// Where FUSE is missing, a directory cannot be used, or no file system is mounted there.
pub fn run(command: &Command, output: &mut Output<'_>) -> Result<Answer, Error> {
    match command {
        Command::Mount(arguments) => arguments.serve(output)?,
        Command::Cut(CutArguments { point, into, images }) => {
            let report = prony_powercut::cut(point, &images.settings(into)?)?;
            images.print(&report, output)?;
        }
        Command::Images(ImagesArguments { saved, into, images }) => {
            let settings = images.settings(into)?;
            let report = Cut::open(saved)?.images(&settings)?;
            images.print(&report, output)?;
        }
        Command::Replay(arguments) => arguments.shell(output)?,
        Command::Sync(PointArguments { point }) => {
            let pending = prony_powercut::sync(point)?;
            output.print(&format!("made durable: {}\n", words(&pending)))?;
        }
        Command::Unmount(PointArguments { point }) => prony_powercut::unmount(point)?,
    }
    Ok(Answer::Yes)
}

fn words(Pending { operations, metadata, bytes }: &Pending) -> String {
    format!("{} ({metadata} of metadata), {} of data", count(*operations, "operation"), Bytes::from_bytes(*bytes))
}

impl MountArguments {
    /// Mounts, and waits until it is ended.
    fn serve(&self, output: &mut Output<'_>) -> Result<(), Error> {
        let interrupt = listen()?;
        // One that cannot be read is no empty directory either: the mount fails and says why.
        let hidden = std::fs::read_dir(&self.point).map_or(0, Iterator::count);
        // Also where the file was replaced meanwhile.
        let program = Path::new("/proc/self/exe");
        let mut mounted = Mounted::start(program, &self.point, &self.state, &self.settings())?;
        let point = mounted.point().display().to_string();
        output.print(&format!("mounted on `{point}`; Ctrl-C removes the mount and everything in it\n"))?;
        if hidden > 0 {
            let what = if hidden == 1 { "1 entry that is".to_owned() } else { format!("{hidden} entries that are") };
            output.print(&format!("note: `{point}` is empty now: the mount hides {what} in this directory\n"))?;
        }
        output.flush()?;
        while !interrupt.asked() {
            if let Some(End { was_removed, why }) = mounted.ended() {
                if was_removed {
                    return output.print(&format!(
                        "the mount on `{point}` was removed by `prony powercut unmount` or `umount`\n"
                    ));
                }
                let point = mounted.point().to_path_buf();
                return Err(prony_powercut::Error::Ended { point, why }.into());
            }
            std::thread::sleep(PAUSE);
        }
        // Where it was removed this instant, nothing is known of it.
        let pending = mounted.status().unwrap_or_default().pending;
        mounted.unmount()?;
        output.print(&format!("removed the mount on `{point}`; not durable: {}\n", words(&pending)))
    }

    fn settings(&self) -> Settings {
        Settings {
            metadata: self.metadata,
            memory: self.memory,
            pending: self.pending,
            writeback: self.writeback,
            quota: self.quota,
            latency: self.latency,
            sync_latency: self.sync_latency,
            patience: self.patience,
        }
    }
}

impl ReplayArguments {
    /// Makes the image, runs the user's shell in it until that ends, and removes it.
    fn shell(&self, output: &mut Output<'_>) -> Result<(), Error> {
        let cut = Cut::open(&self.saved)?;
        let scratch = Scratch::create(&self.near)?;
        let number = self.image + 1;
        let settings = CutSettings::of_trials(scratch.path(), number, self.seed)?;
        let image = cut.image(&settings.draw(number), &settings.path(number))?;
        let shell = std::env::var_os("SHELL").unwrap_or_else(|| "/bin/sh".into());
        output.print(&format!(
            "image {} of policy {} is in `{}`; it is removed when this shell ends\n",
            self.image,
            name(&image.policy),
            image.path.display()
        ))?;
        output.flush()?;
        let ended = std::process::Command::new(&shell).current_dir(&image.path).status();
        scratch.remove()?;
        ended.map(drop).map_err(Error::setup("start the shell that `SHELL` names"))
    }
}

impl ImageOptions {
    fn settings(&self, into: &Path) -> Result<CutSettings, Error> {
        let into = std::path::absolute(into).map_err(Error::read_file(into))?;
        let chances = (self.keep, self.unit);
        Ok(CutSettings::check(&into, self.images, &self.policy, chances, self.seed)?)
    }

    fn print(&self, report: &CutReport, output: &mut Output<'_>) -> Result<(), Error> {
        if self.json {
            return output.print_json("the cut", report);
        }
        output.print(&format!("pending at the cut: {}\n", words(&report.status.pending)))?;
        output.print(&format!("instant of the cut: {} ns of `CLOCK_MONOTONIC`\n", report.at.as_nanos()))?;
        output.print(&remarks(&report.status.limits))?;
        output.print(&format!("saved in `{}`\n", report.saved.display()))?;
        output.table(&["image", "policy", "metadata that survived", "data that survived"], &rows(report))
    }
}

/// What makes the images less severe than a power failure could be.
fn remarks(Limits { made_durable, refused, parts_as_whole, unsent_maps }: &Limits) -> String {
    let remark = |number: u64, what: &str| if number == 0 { String::new() } else { format!("note: {number} {what}\n") };
    remark(*made_durable, "operations were made durable early, at the limit of `--memory` or `--pending`")
        + &remark(*refused, "new names were refused with `ENOSPC`, at the limit of `--memory` or of open files")
        + &remark(
            *parts_as_whole,
            "syncs may have been an `msync` of a part of a file, and made all of the file durable",
        )
        + &remark(
            *unsent_maps,
            "maps may have changed pages that no image has: opening their files needs `CAP_SYS_ADMIN` or `CAP_CHECKPOINT_RESTORE`",
        )
}

fn rows(report: &CutReport) -> Vec<Vec<String>> {
    let of = |part: u64, whole: u64, show: &dyn Fn(u64) -> String| format!("{} of {}", show(part), show(whole));
    let (number, bytes) = (|n: u64| n.to_string(), |n| Bytes::from_bytes(n).to_string());
    let row = |image: &prony_powercut::Image| {
        vec![
            image.path.display().to_string(),
            name(&image.policy),
            of(image.metadata, report.status.pending.metadata, &number),
            of(image.bytes, report.status.pending.bytes, &bytes),
        ]
    };
    report.images.iter().map(row).collect()
}

/// A policy as it is typed.
fn name(policy: &Policy) -> String {
    serde_json::to_value(policy).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}
