//! Tests the content of a copy, and that no write into it changes the user's own files.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use prony_model::event::Log;
use prony_model::program::{OutwardLinks, ProgramSpec};
use prony_os::cache::resident;
use prony_os::interrupt::Interrupt;
use prony_os::launch::Launcher;
use proptest::prelude::*;

use crate::copy::{close, copy_plan, copy_tree};
use crate::data::on_disk;
use crate::error::Error;
use crate::links::{Manifest, Plan, Rules};
use crate::place::{Means, progress};

/// The program of an experiment file.
pub(crate) fn program(text: &str) -> ProgramSpec {
    let raw = prony_experiment::parse(text, "x.toml").unwrap();
    let experiment = prony_experiment::check(&raw, &prony_engines::catalog::Catalog, &Default::default()).unwrap();
    experiment.variants()[0].spec.subject.program().unwrap().clone()
}

fn rules(outward: OutwardLinks) -> Rules {
    Rules { outward, ..Rules::default() }
}

fn made(original: &Path, copy: &Path, outward: OutwardLinks) -> Result<(), Error> {
    let original = &fs::canonicalize(original).unwrap();
    let plan = Plan::of(original, &rules(outward))?.allowed(original, None)?;
    copy_plan(original, &plan, copy, &mut |_, _| Ok(()))
}

#[test]
fn copy_is_complete_and_does_not_change_the_original() {
    let top = tempfile::tempdir().unwrap();
    let (site, copy) = (top.path().join("site"), top.path().join("copy"));
    fs::create_dir_all(site.join("a/b")).unwrap();
    fs::create_dir(site.join(".prony-run-1-2-3")).unwrap();
    fs::write(site.join("a/b/run"), "x").unwrap();
    fs::set_permissions(site.join("a/b/run"), fs::Permissions::from_mode(0o755)).unwrap();
    for (directory, mode) in [("a", 0o2775), ("a/b", 0o1777), ("a/b/c", 0o555)] {
        fs::create_dir_all(site.join(directory)).unwrap();
        fs::set_permissions(site.join(directory), fs::Permissions::from_mode(mode)).unwrap();
    }
    symlink("b/run", site.join("a/near")).unwrap();
    symlink(site.join("a/b"), site.join("inside")).unwrap();
    symlink("../site/a", site.join("around")).unwrap();
    symlink("a/missing", site.join("dangling")).unwrap();
    symlink("loop", site.join("loop")).unwrap();
    made(&site, &copy, OutwardLinks::Refuse).unwrap();
    fs::write(copy.join("inside/run"), "changed").unwrap();
    assert_eq!(fs::read_to_string(copy.join("a/near")).unwrap(), "changed");
    assert_eq!(fs::read_to_string(copy.join("around/near")).unwrap(), "changed");
    assert_eq!(fs::read_to_string(site.join("a/b/run")).unwrap(), "x");
    assert_eq!(fs::metadata(copy.join("a/b/run")).unwrap().permissions().mode() & 0o777, 0o755);
    let modes = ["a", "a/b", "a/b/c"].map(|path| fs::metadata(copy.join(path)).unwrap().permissions().mode() & 0o7777);
    assert_eq!(modes, [0o2775, 0o1777, 0o555]);
    let links = ["a/near", "inside", "around", "dangling", "loop"];
    let written = links.map(|link| fs::read_link(copy.join(link)).unwrap());
    assert_eq!(written.each_ref().map(|path| path.to_str().unwrap()), ["b/run", "a/b", "a", "a/missing", "loop"]);
    assert!(!copy.join(".prony-run-1-2-3").exists());
}

/// By their times build tools decide what is older than its source.
#[test]
fn files_links_and_directories_of_a_copy_have_the_times_of_the_original() {
    let top = tempfile::tempdir().unwrap();
    let (site, copy, again) = (top.path().join("site"), top.path().join("copy"), top.path().join("again"));
    fs::create_dir_all(site.join("a/b")).unwrap();
    fs::write(site.join("a/b/file"), "x").unwrap();
    fs::write(site.join("a/secret"), "x").unwrap();
    symlink("b/file", site.join("a/link")).unwrap();
    let paths = ["a/b/file", "a/secret", "a/link", "a/b", "a", ""];
    for (n, path) in paths.iter().enumerate() {
        let at = format!("@{}.{:09}", 1_000_000_000 - n, 123_456_789 - n);
        let touch = std::process::Command::new("touch").args(["-h", "-m", "-d", &at]).arg(site.join(path)).status();
        assert!(touch.unwrap().success(), "{path}");
    }
    for (path, mode) in [("a/secret", 0o400), ("a/b", 0o555)] {
        fs::set_permissions(site.join(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    made(&site, &copy, OutwardLinks::Refuse).unwrap();
    copy_tree(&copy, &again, &mut |_, _| Ok(())).unwrap();
    for (n, path) in paths.iter().enumerate() {
        for copy in [&copy, &again] {
            let about = copy.join(path).symlink_metadata().unwrap();
            let n = i64::try_from(n).unwrap();
            assert_eq!((about.mtime(), about.mtime_nsec()), (1_000_000_000 - n, 123_456_789 - n), "{path}");
        }
    }
}

/// They were lost silently: a server that may listen on port 80 did not start from its copy.
#[test]
fn files_and_directories_of_a_copy_have_the_extended_attributes_of_the_original() {
    use rustix::fs::{XattrFlags, lgetxattr, lsetxattr};
    let top = tempfile::tempdir().unwrap();
    let (site, copy) = (top.path().join("site"), top.path().join("copy"));
    fs::create_dir_all(site.join("a")).unwrap();
    fs::write(site.join("a/file"), "x").unwrap();
    // Another user may read the file: version 2, then entries of tag, rights and number.
    let entries: [(u16, u16, u32); 5] = [(1, 4, !0), (2, 4, 12_345), (4, 0, !0), (0x10, 4, !0), (0x20, 0, !0)];
    let acl = entries
        .iter()
        .flat_map(|(tag, rights, id)| [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat());
    let acl: Vec<u8> = [2, 0, 0, 0].into_iter().chain(acl).collect();
    // Of version 2, to listen on ports below 1024.
    let capability: Vec<u8> = [0x0200_0001_u32, 1 << 10, 0, 0, 0].iter().flat_map(|part| part.to_le_bytes()).collect();
    let mut given = vec![
        ("", "user.top", vec![1]),
        ("a", "user.directory", vec![0, 255]),
        ("a/file", "user.file", Vec::new()),
        ("a/file", "system.posix_acl_access", acl),
        ("a/file", "security.capability", capability),
    ];
    // Not every file system has each of them, and not every user may give them.
    given.retain(|(path, name, value)| lsetxattr(site.join(path), *name, value, XattrFlags::empty()).is_ok());
    if given.is_empty() {
        return eprintln!("SKIPPED: no extended attribute can be given here");
    }
    fs::set_permissions(site.join("a/file"), fs::Permissions::from_mode(0o440)).unwrap();
    made(&site, &copy, OutwardLinks::Refuse).unwrap();
    for (path, name, value) in given {
        let mut found = vec![0; 1000];
        let size =
            lgetxattr(copy.join(path), name, &mut found[..]).unwrap_or_else(|errno| panic!("{path} {name}: {errno}"));
        assert_eq!(found[..size], value, "{path} {name}");
    }
    assert_eq!(fs::metadata(copy.join("a/file")).unwrap().mode(), fs::metadata(site.join("a/file")).unwrap().mode());
}

#[test]
fn preserved_link_has_the_same_target_in_the_copy() {
    let top = tempfile::tempdir().unwrap();
    let (site, copy) = (top.path().join("site"), top.path().join("elsewhere/deeper/copy"));
    fs::create_dir(&site).unwrap();
    fs::create_dir_all(copy.parent().unwrap()).unwrap();
    fs::create_dir(top.path().join("modules")).unwrap();
    fs::write(top.path().join("modules/file"), "x").unwrap();
    symlink("../modules", site.join("modules")).unwrap();
    symlink("loop", site.join("loop")).unwrap();
    made(&site, &copy, OutwardLinks::Keep).unwrap();
    assert_eq!(fs::read_to_string(copy.join("modules/file")).unwrap(), "x");
    assert_eq!(fs::read_link(copy.join("loop")).unwrap(), Path::new("loop"));
}

#[test]
fn a_copy_into_the_original_ends() {
    let top = tempfile::tempdir().unwrap();
    fs::write(top.path().join("file"), "x").unwrap();
    copy_tree(top.path(), &top.path().join("copy"), &mut |_, _| Ok(())).unwrap();
    assert!(top.path().join("copy/file").exists() && !top.path().join("copy/copy").exists());
}

#[test]
fn copy_of_what_a_step_linked_to_ends_when_the_user_asks() {
    let program = &program("[program.x]\ncommand = \"true\"\ndirectory = \"site\"\nlinks = \"copy\"\n");
    let top = tempfile::tempdir().unwrap();
    fs::create_dir(top.path().join("shared")).unwrap();
    fs::write(top.path().join("shared/file"), "x").unwrap();
    let [first, second] = ["first", "second"].map(|name| top.path().join(name));
    let (launcher, interrupt, mut log) = (Launcher::this_program(["supervise"]), Interrupt::default(), Log::default());
    let means = Means { launcher: &launcher, near: top.path(), interrupt: &interrupt };
    for copy in [&first, &second] {
        fs::create_dir(copy).unwrap();
        symlink("../shared", copy.join("lib")).unwrap();
    }
    close(&first, program, "`build`", &mut progress(means, program, &mut log)).unwrap();
    assert!(!first.join("lib").is_symlink() && first.join("lib/file").exists());
    interrupt.ask();
    let closed = close(&second, program, "`build`", &mut progress(means, program, &mut log));
    let copied = copy_tree(&first, &top.path().join("own"), &mut progress(means, program, &mut log));
    for ended in [closed, copied] {
        assert!(ended.unwrap_err().text().contains("interrupted by the user"));
    }
    assert!(second.join("lib").is_symlink(), "it is as it was");
}

/// `prepare` evicted the files, and the search for links read each again whose length is that of a database: `cat` of 2,000 files took
/// 0.2 s in place of 1.9 s.
#[test]
fn files_that_a_step_evicted_are_not_in_memory_when_the_copy_is_closed() {
    let program = &program("[program.x]\ncommand = \"true\"\ndirectory = \".\"\n");
    let top = tempfile::tempdir().unwrap();
    let files: Vec<PathBuf> = (0..50).map(|n| top.path().join(format!("file{n}"))).collect();
    files.iter().for_each(|file| fs::write(file, [7; 8192]).unwrap());
    symlink("file0", top.path().join("link")).unwrap();
    on_disk(top.path()).unwrap();
    let cached = || resident(top.path()).measured().map(|pages| pages.cached);
    if cached() != Some(0) {
        eprintln!("skipped: the file system of {} keeps its pages", top.path().display());
        return;
    }
    close(top.path(), program, "`prepare`", &mut |_, _| Ok(())).unwrap();
    assert_eq!(cached(), Some(0));
    assert!(files[0].exists() && top.path().join("link").is_symlink());
}

#[test]
fn what_is_missing_is_named() {
    let error = copy_tree(Path::new("/nowhere/at/all"), Path::new("/nowhere/else"), &mut |_, _| Ok(())).unwrap_err();
    assert_eq!(error.to_string(), "cannot copy `/nowhere/at/all`");
}

#[test]
fn every_link_that_leads_out_is_counted_and_one_that_contains_the_directory_is_never_copied() {
    let top = tempfile::tempdir().unwrap();
    let (site, copy) = (top.path().join("site"), top.path().join("copy"));
    fs::create_dir(&site).unwrap();
    symlink("..", site.join("up")).unwrap();
    symlink("/nowhere", site.join("far")).unwrap();
    let error = made(&site, &copy, OutwardLinks::Refuse).unwrap_err();
    assert!(error.to_string().ends_with("to `/nowhere`; 1 more link out of it"), "{error}");
    let error = made(&site, &copy, OutwardLinks::Copy).unwrap_err();
    assert!(error.text().contains("`up` leads out") || error.text().contains("/up` leads out"), "{}", error.text());
    assert!(error.hint().unwrap().contains("contains the directory itself"), "{}", error.text());
    assert!(!copy.exists(), "everything is decided before anything is written");
}

#[test]
fn linked_trees_that_lead_to_each_other_are_copied_once() {
    let top = tempfile::tempdir().unwrap();
    let dir = |name: &str| top.path().join(name);
    ["site", "one", "two"].iter().for_each(|name| fs::create_dir(dir(name)).unwrap());
    fs::write(dir("two/file"), "x").unwrap();
    symlink("../one", dir("site/a")).unwrap();
    symlink("../two", dir("one/b")).unwrap();
    symlink("../one", dir("two/c")).unwrap();
    symlink(dir("site"), dir("two/home")).unwrap();
    symlink("../two/file", dir("site/same")).unwrap();
    made(&dir("site"), &dir("copy"), OutwardLinks::Copy).unwrap();
    fs::write(dir("copy/a/b/c/b/home/a/b/file"), "changed").unwrap();
    assert_eq!(fs::read_to_string(dir("copy/a/b/file")).unwrap(), "changed");
    assert_eq!(fs::read_to_string(dir("two/file")).unwrap(), "x");
    assert!(dir("copy/a/b").symlink_metadata().unwrap().is_dir());
    assert_eq!(fs::read_link(dir("copy/a/b/c")).unwrap(), Path::new(".."));
}

#[test]
fn the_database_and_what_lies_beside_it_are_not_copied() {
    let top = tempfile::tempdir().unwrap();
    let names = ["r.db", "r.db-wal", "r.db-shm", "r.db-journal", "r.db-run-7", "r.dbx", "r.db-notes", "other.db-wal"];
    names.iter().for_each(|name| fs::write(top.path().join(name), "x").unwrap());
    let own = fs::canonicalize(top.path().join("r.db")).unwrap();
    let rules = Rules { own: vec![own], ..rules(OutwardLinks::Refuse) };
    let plan = Plan::of(&fs::canonicalize(top.path()).unwrap(), &rules).unwrap();
    let copied: Vec<_> = plan.entries.iter().map(|entry| entry.to.to_str().unwrap()).collect();
    assert_eq!(copied, ["other.db-wal", "r.db-notes", "r.dbx"]);
}

/// To read one would remove the locks of SQLite on the database.
#[test]
fn what_this_process_writes_is_copied_by_none_of_its_names() {
    let top = tempfile::tempdir().unwrap();
    let (site, copy) = (top.path().join("site"), top.path().join("copy"));
    fs::create_dir(&site).unwrap();
    let _database = prony_results::Database::create(&top.path().join("own.db")).unwrap();
    fs::hard_link(top.path().join("own.db"), site.join("hard link")).unwrap();
    fs::hard_link(top.path().join("own.db-shm"), site.join("shared memory")).unwrap();
    symlink("../own.db", site.join("link")).unwrap();
    fs::write(site.join("file"), "x").unwrap();
    made(&site, &copy, OutwardLinks::Copy).unwrap();
    assert_eq!(below(&copy), [copy.join("file")]);
}

/// Only the database of the run itself was left out.
#[test]
fn results_databases_of_other_runs_are_not_copied() {
    let top = tempfile::tempdir().unwrap();
    let other = prony_results::Database::create(&top.path().join("mine.sqlite")).unwrap();
    fs::write(top.path().join("mine.sqlite-run-7"), "").unwrap();
    assert!(top.path().join("mine.sqlite-wal").exists(), "it is open");
    let of_another_program = [&b"SQLite format 3\0"[..], &[0; 496]].concat();
    fs::write(top.path().join("theirs.sqlite"), of_another_program).unwrap();
    fs::write(top.path().join("theirs.sqlite-wal"), "x").unwrap();
    let plan = Plan::of(&fs::canonicalize(top.path()).unwrap(), &rules(OutwardLinks::Refuse)).unwrap();
    let copied: Vec<_> = plan.entries.iter().map(|entry| entry.to.to_str().unwrap()).collect();
    assert_eq!(copied, ["theirs.sqlite", "theirs.sqlite-wal"]);
    drop(other);
}

#[test]
fn holes_stay_holes_and_data_between_them_are_copied() {
    let top = tempfile::tempdir().unwrap();
    fs::create_dir(top.path().join("site")).unwrap();
    let (from, to) = (top.path().join("site/sparse"), top.path().join("copy/sparse"));
    let (length, places) = (5_u64 << 30, [0_u64, 1 << 30, (3 << 30) + 12_345]);
    let file = fs::File::create(&from).unwrap();
    file.set_len(length).unwrap();
    places.iter().for_each(|at| file.write_all_at(b"data", *at).unwrap());
    file.sync_all().unwrap();
    drop(file);
    let blocks = |path: &Path| fs::metadata(path).unwrap().blocks() * 512;
    assert!(blocks(&from) < 1 << 20, "the file system of {} has no holes", top.path().display());
    let mut reports = Vec::new();
    let site = fs::canonicalize(top.path().join("site")).unwrap();
    let plan = Plan::of(&site, &rules(OutwardLinks::Refuse)).unwrap();
    copy_plan(&site, &plan, &top.path().join("copy"), &mut |done, of| {
        reports.push((done, of));
        Ok(())
    })
    .unwrap();
    assert!(blocks(&to) < 1 << 20, "{} bytes of blocks", blocks(&to));
    let mut copy = fs::File::open(&to).unwrap();
    assert_eq!(copy.metadata().unwrap().len(), length);
    for at in places {
        let mut read = [0; 5];
        copy.seek(SeekFrom::Start(at)).unwrap();
        copy.read_exact(&mut read).unwrap();
        assert_eq!(&read, b"data\0");
    }
    assert_eq!(reports.last(), Some(&(length, length)));
}

/// `b` leads out, to a directory with a link that leads back through `b` in a circle. At the point where resolving was
/// given up there was a directory, which was copied in its place, with the same link in it, without end.
#[test]
fn link_that_leads_in_a_circle_through_one_that_is_copied_is_left_out() {
    let top = tempfile::tempdir().unwrap();
    let (site, other, copy) = (top.path().join("site"), top.path().join("other/d"), top.path().join("copy"));
    fs::create_dir_all(&other).unwrap();
    fs::create_dir(&site).unwrap();
    fs::write(other.join("file"), "x").unwrap();
    symlink("../other/d", site.join("b")).unwrap();
    symlink("../../site/b/d/../../other/new", other.join("b")).unwrap();
    symlink("b/c", other.join("d")).unwrap();
    made(&site, &copy, OutwardLinks::Copy).unwrap();
    assert_eq!(fs::read_to_string(copy.join("b/file")).unwrap(), "x");
    assert!(copy.join("b/b").symlink_metadata().is_err());
}

#[test]
fn a_copy_that_is_interrupted_ends() {
    let top = tempfile::tempdir().unwrap();
    fs::create_dir(top.path().join("site")).unwrap();
    fs::write(top.path().join("site/file"), "x").unwrap();
    let site = fs::canonicalize(top.path().join("site")).unwrap();
    let plan = Plan::of(&site, &rules(OutwardLinks::Refuse)).unwrap();
    let stop = || Err(Error::Setup { doing: "go on", source: std::io::ErrorKind::Interrupted.into() });
    let ended = copy_plan(&site, &plan, &top.path().join("copy"), &mut |_, _| stop());
    assert!(matches!(ended, Err(Error::Setup { doing: "go on", .. })));
}

#[test]
fn a_manifest_names_what_is_changed_added_removed_and_linked_elsewhere() {
    let top = tempfile::tempdir().unwrap();
    let dir = fs::canonicalize(top.path()).unwrap();
    let manifest = || Manifest::of(&Plan::of(&dir, &rules(OutwardLinks::Refuse)).unwrap());
    fs::create_dir_all(dir.join("sub/.git")).unwrap();
    for name in ["a", "b", "sub/c", "sub/.git/index"] {
        fs::write(dir.join(name), name).unwrap();
    }
    symlink("a", dir.join("link")).unwrap();
    let before = manifest();
    assert!(manifest().differences(&before).is_empty());
    assert_eq!(manifest().digest(), before.digest());
    fs::create_dir(dir.join(".prony-run-1-2-3")).unwrap();
    fs::write(dir.join("sub/.git/index"), "read").unwrap();
    assert!(manifest().differences(&before).is_empty(), "scratch, and what git keeps for itself");
    let modified = fs::metadata(dir.join("a")).unwrap().modified().unwrap();
    fs::write(dir.join("a"), "A").unwrap();
    // As `cp -p` does.
    fs::File::options().write(true).open(dir.join("a")).unwrap().set_modified(modified).unwrap();
    fs::remove_file(dir.join("b")).unwrap();
    fs::write(dir.join("sub/new"), "").unwrap();
    fs::remove_file(dir.join("link")).unwrap();
    symlink("sub", dir.join("link")).unwrap();
    let changed = manifest();
    let paths: Vec<_> = changed.differences(&before).into_iter().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(paths, ["a", "b", "link", "sub/new"]);
    assert_ne!(changed.digest(), before.digest());
}

/// What may be made in the user's folder: where, by which of a few names, what, and what it leads to.
type Making = (u8, u8, u8, u8);

/// The user's folder: `site`, which is copied, and `other`, which is not. Makings that fail are left out.
fn build(home: &Path, makings: &[Making]) {
    for dir in ["site/d", "other/d"] {
        fs::create_dir_all(home.join(dir)).unwrap();
        fs::write(home.join(dir).join("f"), dir).unwrap();
    }
    let mut paths: Vec<PathBuf> =
        ["site", "site/d", "other", "other/d", "site/d/f", "other/d/f"].map(PathBuf::from).into();
    for (parent, name, what, which) in makings {
        // Never outside of the folder, whatever leads there.
        let ours =
            |path: &Path| fs::canonicalize(home.join(path)).is_ok_and(|path| path.is_dir() && path.starts_with(home));
        let dirs: Vec<&PathBuf> = paths.iter().filter(|path| ours(path)).collect();
        let path = dirs[usize::from(*parent) % dirs.len()].join(["a", "b", "c", "d", "f"][usize::from(*name) % 5]);
        let other = &paths[usize::from(*which) % paths.len()];
        let up: PathBuf = path.components().skip(1).map(|_| "..").collect();
        let done = match what % 10 {
            0 => fs::create_dir(home.join(&path)),
            1 => OpenOptions::new()
                .write(true)
                .create_new(true)
                .open(home.join(&path))
                .and_then(|mut f| f.write_all(b"find")),
            2 => fs::hard_link(home.join(other), home.join(&path)),
            3 => symlink(home.join(other), home.join(&path)),
            4 | 5 => symlink(up.join(other), home.join(&path)),
            6 => symlink(["a", "b/c", "../a", "../../b", "."][usize::from(*which) % 5], home.join(&path)),
            7 => symlink(home.join(other).join("missing"), home.join(&path)),
            8 => symlink(up.join(other).join("../../other/new"), home.join(&path)),
            _ => symlink(
                ["..", "../..", "f", "d/../..", "missing/../../../other/n"][usize::from(*which) % 5],
                home.join(&path),
            ),
        };
        if done.is_ok() {
            paths.push(path);
        }
    }
}

/// Everything in a folder but scratch: kind, mode, inode, time of change and content.
fn fingerprint(top: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    for path in below(top) {
        let about = path.symlink_metadata().unwrap();
        let content = if about.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
        let times = (about.mtime(), about.mtime_nsec(), about.ctime(), about.ctime_nsec());
        let target = fs::read_link(&path).ok();
        found.insert(path, format!("{:o} {} {times:?} {target:?} {content:?}", about.mode(), about.ino()));
    }
    found
}

/// Every path below, links not followed; not scratch, nor the directory whose times its coming and going changes.
fn below(top: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut open = vec![top.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).unwrap().flatten() {
            if entry.file_name().to_string_lossy().starts_with(".prony-run-") {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            }
            found.push(entry.path());
        }
    }
    found
}

/// Writes wherever a copy lets a program write: through every path of it, and into everything that one leads to.
fn write_everywhere(copy: &Path) {
    for path in below(copy) {
        for path in [path.clone(), path.join("missing"), path.join("d/f"), path.join("../new"), path.join("a/b")] {
            let _ =
                OpenOptions::new().append(true).create(true).open(&path).and_then(|mut file| file.write_all(b"evil"));
            let _ = path.metadata().map(|about| {
                let _ = fs::set_permissions(&path, fs::Permissions::from_mode(about.mode() ^ 0o1));
            });
            let _ = fs::create_dir(path.join("made"));
            let _ = fs::write(path.join("made/file"), "evil");
        }
    }
    for path in below(copy) {
        let _ = OpenOptions::new().write(true).truncate(true).open(&path);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever links there are: a copy that is made has no way out, reads as the original does, and no writing into it,
    /// by prony's own steps or by a program, changes anything of the user's.
    #[test]
    fn nothing_written_into_a_copy_reaches_what_is_the_users(
        makings in prop::collection::vec(any::<Making>(), 0..14),
        copies in any::<bool>(),
        beside in any::<bool>(),
    ) {
        let (home, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // Links lead up to two directories up from `site`: what they reach must be the test's own too.
        let top = fs::canonicalize(home.path()).unwrap().join("user");
        build(&top, &makings);
        let site = top.join("site");
        let scratch = if beside { site.join(".prony-run-1-2-3") } else { elsewhere.path().join("scratch") };
        fs::create_dir(&scratch).unwrap();
        let before = fingerprint(&top);
        let copy = scratch.join("copy");
        let outward = if copies { OutwardLinks::Copy } else { OutwardLinks::Refuse };
        match made(&site, &copy, outward) {
            Err(Error::LinkOut { link, to, .. }) => {
                prop_assert!(link.symlink_metadata().unwrap().is_symlink());
                prop_assert!(!to.starts_with(&site) || fs::metadata(&link).is_err());
                prop_assert!(!copies || site.starts_with(&to), "{link:?} to {to:?} could be copied");
            }
            Err(error) => prop_assert!(false, "{}", error.text()),
            Ok(()) => {
                let real = fs::canonicalize(&copy).unwrap();
                prop_assert_eq!(Plan::of(&real, &Rules::default()).unwrap().outward, Vec::new());
                for path in below(&copy) {
                    let reached = fs::canonicalize(&path);
                    prop_assert!(reached.as_ref().map_or(true, |reached| reached.starts_with(&real)), "{path:?}: {reached:?}");
                }
                for path in below(&site) {
                    let theirs = fs::read(&path).ok();
                    let ours = fs::read(copy.join(path.strip_prefix(&site).unwrap())).ok();
                    prop_assert_eq!(theirs, ours, "{:?}", path);
                }
                write_everywhere(&copy);
            }
        }
        let after = fingerprint(&top);
        for (path, state) in &before {
            prop_assert_eq!(Some(state), after.get(path), "{:?}", path);
        }
        prop_assert_eq!(before.len(), after.len());
    }
}
