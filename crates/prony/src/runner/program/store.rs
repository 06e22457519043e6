//! Where a program keeps its data: their size on disk as length and as blocks (METHOD 1.9), and what the device did
//! beside the calls (METHOD 5.3).
//!
//! What a program writes is known to itself only: its directory may hold a tree of packages that takes seconds to walk,
//! while the program runs on. So the place is declared, and read where phases begin and end.

use std::path::{Path, PathBuf};

use prony_core::experiment::program::{Care, CopyOf, ProgramSpec};
use prony_core::reading::{Reading, Why};
use prony_core::units::Nanos;
use prony_probe::sample::Edge;
use serde_json::{Value, json};

use crate::runner::place::setting::with_directory;

/// Why nothing is known of the size.
const UNDECLARED: &str = "the program does not say where it keeps its data; `store = \"PATH\"` does";

/// Why nothing of the disk is known with light care.
const LIGHT: &str = "light care leaves out what is read of a disk at each begin and end of a phase";

/// What edges read of the disk, or why they do not.
#[derive(Clone, Debug, PartialEq)]
pub struct OnDisk {
    /// The program's data.
    pub store: Reading<PathBuf>,
    /// A path on the device that holds them; the directory it works in where it declares none.
    pub device: Reading<PathBuf>,
}

impl OnDisk {
    /// Of a program that works in `directory`.
    pub fn of(program: &ProgramSpec, directory: &Path, care: Care) -> Self {
        let missing = |why: &str| Reading::Missing(Why::NotSupported(why.to_owned()));
        if care == Care::Light {
            return Self { store: missing(LIGHT), device: missing(LIGHT) };
        }
        let path = program.store.as_deref().map(|store| resolved(store, directory));
        let device = path.as_deref().and_then(existing).unwrap_or(directory).to_path_buf();
        Self { store: path.map_or_else(|| missing(UNDECLARED), Reading::Measured), device: Reading::Measured(device) }
    }
}

/// The path that a program's `store` means.
fn resolved(store: &str, directory: &Path) -> PathBuf {
    directory.join(with_directory(store, directory))
}

/// The nearest directory above that is there: a store is made by its program, and lies where its parent does.
fn existing(path: &Path) -> Option<&Path> {
    path.ancestors().find(|path| path.exists())
}

/// What is known of the data beside the figures of phases, for the record; null where nothing was to be read.
pub fn told(program: &ProgramSpec, directory: &Path, care: Care, edges: &[Edge]) -> Value {
    let (Some(store), Care::Full) = (program.store.as_deref(), care) else { return Value::Null };
    let path = resolved(store, directory);
    let own = program.copy == CopyOf::Trial || program.directory.is_none();
    // The program is held at the first edge and gone at the last.
    let running = edges.get(1..edges.len().saturating_sub(1)).unwrap_or_default();
    let reading = running.iter().fold(Nanos::ZERO, |sum, edge| sum + edge.took);
    json!({
        "path": path,
        "at_begin": edges.first().and_then(|edge| edge.disk.measured()),
        "found": edges.iter().any(|edge| edge.disk.measured().is_some()),
        "of_the_trial": own && path.starts_with(directory),
        "reading_ns": reading.as_nanos(),
    })
}

#[cfg(test)]
mod tests {
    use prony_probe::cache::DiskUsage;

    use super::super::span::tests::edge;
    use super::*;

    fn program(keys: &str) -> ProgramSpec {
        let text = format!("[program.x]\ncommand = \"true\"\n{keys}");
        let experiment = crate::load::text(text, "x.toml", &Default::default()).unwrap();
        experiment.variants()[0].spec.subject.program().unwrap().clone()
    }

    #[test]
    fn paths_start_where_the_program_works() {
        let top = tempfile::tempdir().unwrap();
        let of = |store: &str| OnDisk::of(&program(&format!("store = \"{store}\"\n")), top.path(), Care::Full);
        let measured = |path: PathBuf| Reading::Measured(path);
        for store in ["data/x", "{dir}/data/x"] {
            let found = of(store);
            assert_eq!(found.store, measured(top.path().join("data/x")));
            assert_eq!(found.device, measured(top.path().to_path_buf()), "it is not there yet");
        }
        assert_eq!(of("/proc/self").device, measured("/proc/self".into()), "elsewhere is another device");
    }

    #[test]
    fn what_is_not_declared_or_not_wanted_is_missing_with_its_reason() {
        let at = Path::new("/somewhere");
        let why = |reading: Reading<PathBuf>| match reading {
            Reading::Missing(why) => why.to_string(),
            Reading::Measured(path) => panic!("{path:?}"),
        };
        let plain = OnDisk::of(&program(""), at, Care::Full);
        assert!(why(plain.store).contains("`store = \"PATH\"`"));
        assert_eq!(plain.device, Reading::Measured(at.to_path_buf()), "flushes need no declaration");
        let light = OnDisk::of(&program("store = \"data\"\n"), at, Care::Light);
        assert!(why(light.store).contains("light care") && why(light.device).contains("light care"));
    }

    #[test]
    fn the_record_says_what_was_there_before_and_what_reading_it_took() {
        let at = Path::new("/somewhere");
        let size = |n: u64| Reading::Measured(DiskUsage { files: n, ..DiskUsage::default() });
        let mut edges = vec![edge(0, 0, &[1]), edge(10, 1, &[1]), edge(20, 2, &[])];
        edges.iter_mut().for_each(|edge| edge.took = Nanos::from_millis(3));
        edges[2].disk = size(4);
        let told = |keys: &str, edges: &[Edge]| told(&program(keys), at, Care::Full, edges);
        let late = told("store = \"data\"\n", &edges);
        assert_eq!(
            (&late["path"], &late["at_begin"], &late["found"]),
            (&json!("/somewhere/data"), &json!(null), &json!(true))
        );
        assert_eq!(late["reading_ns"], 3_000_000, "what is read of a program that does not run disturbs nothing");
        edges[0].disk = size(2);
        assert_eq!(told("store = \"data\"\n", &edges)["at_begin"]["files"], 2);
        let own = |keys: &str| told(&format!("store = \"data\"\n{keys}"), &edges)["of_the_trial"].clone();
        assert_eq!(
            (own(""), own("directory = \"d\"\n"), own("directory = \"d\"\ncopy = \"trial\"\n")),
            (json!(true), json!(false), json!(true))
        );
        assert_eq!(told("store = \"/elsewhere\"\n", &edges)["of_the_trial"], false);
        edges.iter_mut().for_each(|edge| edge.disk = Reading::Missing(Why::NotApplicable));
        assert_eq!(told("store = \"data\"\n", &edges)["found"], false);
        assert_eq!(told("", &edges), Value::Null);
    }
}
