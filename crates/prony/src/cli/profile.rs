//! `prony profile`: shows or exports the profiles of a run, which say where the time goes.

use std::io::Write;
use std::path::{Path, PathBuf};

use prony_analysis::profile::{Selection, folded, speedscope};
use prony_model::profile::ProfileFile;

use super::Output;
use super::run_selection::{DatabaseArg, RunChoice};
use crate::error::Error;
use crate::output_file::{OutputFiles, Present};
use prony_report::profile::text;
use prony_report::profiles::{VariantProfile, is_named, load};
use prony_results::{Database, RunData};

/// Show where the time of a profiled run goes
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  prony profile
  prony profile 3 --phase write --top 40")]
pub struct ProfileArgs {
    /// Number of the run; `-2` is the run before the latest
    #[arg(value_name = "RUN", default_value = "latest", allow_negative_numbers = true)]
    pub run: RunChoice,
    /// Where the results are
    #[command(flatten)]
    pub database: DatabaseArg,
    /// Show only variants with these levels, such as `store=lmdb,documents=1000`
    #[arg(long, value_name = "LEVELS")]
    pub variant: Option<String>,
    /// Show only this phase; may be given several times
    #[arg(long, value_name = "PHASE")]
    pub phase: Vec<String>,
    /// Number of functions and of packages to show for each phase
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub top: usize,
    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    pub format: ProfileFormat,
    /// File to write, or folder if there are several files; default: standard output
    #[arg(long, short, value_name = "PATH")]
    pub output: Option<PathBuf>,
}

/// What a profile is written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ProfileFormat {
    /// The functions and packages with the most time of their own
    #[default]
    Text,
    /// Folded stacks: frames separated by semicolons, then microseconds; for flame graph tools
    Folded,
    /// One file for speedscope.app
    Speedscope,
    /// The files as the profilers wrote them: `.cpuprofile` of V8, text of `perf script`; speedscope opens both
    #[value(alias = "cpuprofile")]
    Raw,
}

/// Writes the profiles to `--output`, or else to `output`.
///
/// # Errors
/// Those of the database, [`Error::Arguments`] where nothing fits, [`Error::Write`].
pub fn profile(args: &ProfileArgs, output: &mut Output<'_>) -> Result<(), Error> {
    if args.format == ProfileFormat::Raw && !args.phase.is_empty() {
        return Err(Error::arguments(
            "`--phase` cannot be used with `--format raw`, which writes the profilers' files unchanged",
            "leave --phase out, or use another format",
        ));
    }
    let database = Database::open(&args.database.database)?;
    let data = database.load_run(args.run.find(&database)?)?;
    let profiles = chosen(args, &database, &data)?;
    let text = match args.format {
        ProfileFormat::Text if args.output.is_none() => return output.print(&texts(args, &data, &profiles)),
        ProfileFormat::Text => texts(args, &data, &profiles),
        ProfileFormat::Folded => stacks(args, &profiles)?,
        ProfileFormat::Speedscope => one_file(args, &data, &profiles)?,
        ProfileFormat::Raw => return raw(args, &database, &data, &profiles, &mut output.data()),
    };
    write(&database, args.output.as_deref(), text.as_bytes(), &mut output.data())
}

fn chosen(args: &ProfileArgs, database: &Database, data: &RunData) -> Result<Vec<VariantProfile>, Error> {
    let wanted = args.variant.as_deref();
    let fits = |variant: &_| wanted.is_none_or(|text| is_named(&data.experiment, variant, text));
    let profiles = load(database, data, fits)?;
    if profiles.is_empty() {
        let known = load(database, data, |_| true)?;
        let names: Vec<&str> = known.iter().map(|profile| profile.name.as_str()).collect();
        return Err(match (names.as_slice(), wanted) {
            ([_, ..], Some(text)) => Error::arguments(
                format!("run {} has no profile of a variant `{text}`", data.head.id),
                format!("the profiles of this run: `{}`", names.join("`, `")),
            ),
            _ => Error::arguments(
                format!("run {} has no profiles", data.head.id),
                "to record profiles: `[observe] profile = \"cpu\"` in the experiment, or `prony exec --profile`",
            ),
        });
    }
    let has = |name: &String| profiles.iter().any(|of| of.phases.iter().any(|phase| phase.name == *name));
    match args.phase.iter().find(|name| !has(name)) {
        Some(name) => Err(Error::arguments(
            format!("no profile has a phase `{name}`"),
            format!("the profiles have these phases: `{}`", phases(&profiles).join("`, `")),
        )),
        None => Ok(profiles),
    }
}

fn phases(profiles: &[VariantProfile]) -> Vec<&str> {
    let mut names: Vec<&str> = profiles.iter().flat_map(|of| &of.phases).map(|phase| phase.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn shows(args: &ProfileArgs, phase: &str) -> bool {
    args.phase.is_empty() || args.phase.iter().any(|name| name == phase)
}

fn texts(args: &ProfileArgs, data: &RunData, profiles: &[VariantProfile]) -> String {
    let each = profiles.iter().map(|of| text(of, |phase| shows(args, phase), args.top));
    format!("run {}: profiles\n\n{}", data.head.id, each.collect::<Vec<_>>().join("\n"))
}

/// Each phase that is asked for, named by variant and phase as far as there are several.
fn selections<'p>(
    args: &ProfileArgs,
    profiles: &'p [VariantProfile],
) -> Vec<(&'p VariantProfile, String, Selection<'p>)> {
    let several = profiles.len() > 1;
    let of_phase = |of: &'p VariantProfile| {
        of.phases.iter().filter(|phase| shows(args, &phase.name)).filter_map(move |phase| {
            let name = if several { format!("{}: {}", of.name, phase.name) } else { phase.name.clone() };
            Some((of, name, of.samples_of(phase)?))
        })
    };
    profiles.iter().flat_map(of_phase).collect()
}

fn stacks(args: &ProfileArgs, profiles: &[VariantProfile]) -> Result<String, Error> {
    let chosen = selections(args, profiles);
    let above = |name: &str| if chosen.len() > 1 { name.to_owned() } else { String::new() };
    let text: String = chosen.iter().map(|(_, name, selection)| folded(selection, &above(name))).collect();
    if text.is_empty() { Err(nothing(profiles)) } else { Ok(text) }
}

/// Speedscope's file has one list of functions, so it holds one variant.
fn one_file(args: &ProfileArgs, data: &RunData, profiles: &[VariantProfile]) -> Result<String, Error> {
    let with_profile: Vec<&VariantProfile> = profiles.iter().filter(|of| of.profile.measured().is_some()).collect();
    let [one] = with_profile.as_slice() else {
        if with_profile.is_empty() {
            return Err(nothing(profiles));
        }
        let names: Vec<&str> = with_profile.iter().map(|of| of.name.as_str()).collect();
        return Err(Error::arguments(
            "a file for speedscope holds the profile of one variant",
            format!("choose one: `--variant '{}'`", names.join("'`, `--variant '")),
        ));
    };
    let chosen: Vec<(String, Selection<'_>)> = selections(args, profiles)
        .into_iter()
        .filter(|(of, _, selection)| of.record.variant == one.record.variant && !selection.chosen().is_empty())
        .map(|(_, name, selection)| (name, selection))
        .collect();
    let Some((_, first)) = chosen.first() else { return Err(nothing(profiles)) };
    let title = format!("{}: {}", data.head.title, one.name);
    Ok(format!("{}\n", speedscope(&title, first.profile, &chosen)))
}

fn nothing(profiles: &[VariantProfile]) -> Error {
    let why = profiles.iter().find_map(|of| match &of.profile {
        prony_model::reading::Reading::Missing(why) => Some(why.to_string()),
        prony_model::reading::Reading::Measured(_) => None,
    });
    Error::arguments(
        "the profiles have no sample to write",
        why.unwrap_or_else(|| "the phases were too short, or nothing ran in them".to_owned()),
    )
}

fn raw(
    args: &ProfileArgs,
    database: &Database,
    data: &RunData,
    profiles: &[VariantProfile],
    out: &mut dyn Write,
) -> Result<(), Error> {
    let mut files: Vec<(String, ProfileFile)> = Vec::new();
    for of in profiles {
        for file in database.profile_files(data.head.id, of.record.variant)? {
            files.push((format!("variant-{}-{}", of.record.variant + 1, file.name), file));
        }
    }
    match (files.as_slice(), &args.output) {
        ([], _) => Err(nothing(profiles)),
        ([(_, file)], output) if !output.as_ref().is_some_and(|path| path.is_dir()) => {
            write(database, output.as_deref(), &file.body, out)
        }
        (several, Some(folder)) => {
            std::fs::create_dir_all(folder).map_err(Error::write_file(folder))?;
            several.iter().try_for_each(|(name, file)| write(database, Some(&folder.join(name)), &file.body, out))
        }
        (several, None) => Err(Error::arguments(
            format!("cannot write {} profile files to standard output", several.len()),
            "name a folder for the files: `-o FOLDER`",
        )),
    }
}

fn write(database: &Database, path: Option<&Path>, bytes: &[u8], out: &mut dyn Write) -> Result<(), Error> {
    let Some(path) = path else {
        let written = out.write_all(bytes).and_then(|()| out.flush());
        return written.map_err(Error::write("the profile"));
    };
    OutputFiles::of(Some(database.path()), []).open(path, Present::Replaced)?.write_bytes(bytes)
}
