//! `prony powercut`: the commands, and the end of the process that serves a mount.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use prony_model::random::Stream;
use prony_model::units::Fraction;
use prony_os::clock::monotonic;
use prony_powercut::{CutSettings, Policy, Unit};
use prony_results::{Database, RunId};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// How long something that must happen may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn prony(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prony"));
    command.arg("powercut").args(arguments).env("NO_COLOR", "1");
    command
}

/// The same with a limit, as options of `ulimit`.
fn limited(limit: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit {limit} && exec \"$0\" powercut \"$@\""), env!("CARGO_BIN_EXE_prony")]);
    command.args(arguments).env("NO_COLOR", "1");
    command
}

fn output(arguments: &[&str]) -> Output {
    prony(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Says why a test is skipped, on standard error itself, since the test runner hides what tests print.
#[allow(clippy::disallowed_methods, reason = "the test runner's own output")]
fn skip(why: &str) {
    let name = std::thread::current().name().unwrap_or_default().to_owned();
    let _ = writeln!(std::io::stderr(), "SKIPPED: {name}: {why}");
}

/// The only child of a process.
fn child_of(process: u32) -> Option<u32> {
    fs::read_to_string(format!("/proc/{process}/task/{process}/children")).ok()?.trim().parse().ok()
}

fn signal(process: u32, signal: Signal) {
    kill_process(Pid::from_raw(process.cast_signed()).unwrap(), signal).unwrap();
}

/// The next line of a process, and no byte of the one after it.
fn line_of(child: &mut Child) -> String {
    let (mut line, mut byte) = (Vec::new(), [0]);
    let out = child.stdout.as_mut().unwrap();
    while line.last() != Some(&b'\n') && out.read(&mut byte).unwrap() > 0 {
        line.push(byte[0]);
    }
    text(&line)
}

struct Mount {
    top: TempDir,
    child: Child,
}

impl Mount {
    /// A process that owns a mount; `None` where FUSE is missing.
    fn start() -> Option<Self> {
        Self::start_over(&[])
    }

    /// The same, where the mount point has entries.
    fn start_over(entries: &[&str]) -> Option<Self> {
        Self::start_by(&prony, entries)
    }

    /// The same, with a limit, as options of `ulimit`.
    fn start_limited(limit: &str) -> Option<Self> {
        Self::start_by(&|arguments| limited(limit, arguments), &[])
    }

    fn start_by(prony: &dyn Fn(&[&str]) -> Command, entries: &[&str]) -> Option<Self> {
        let top = tempfile::tempdir().unwrap();
        fs::create_dir(top.path().join("point")).unwrap();
        entries.iter().for_each(|name| fs::write(top.path().join("point").join(name), b"mine").unwrap());
        let path = |name: &str| top.path().join(name).display().to_string();
        let mut command = prony(&["mount", &path("point"), "--state", &path("state")]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let line = line_of(&mut child);
        if line.starts_with("mounted on") {
            return Some(Self { top, child });
        }
        let output = child.wait_with_output().unwrap();
        let why = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{why}");
        // A machine without `/dev/fuse` cannot run these tests, whatever is required of it.
        let is_required = Path::new("/dev/fuse").exists() && std::env::var("PRONY_REQUIRE_ALL").as_deref() == Ok("1");
        assert!(
            why.contains("cannot mount a file system") && !is_required,
            "FUSE is required where `/dev/fuse` is: {why}"
        );
        skip(&why);
        None
    }

    fn path(&self, name: &str) -> String {
        self.top.path().join(name).display().to_string()
    }

    fn is_mounted(&self) -> bool {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        mounts.lines().any(|line| line.split(' ').nth(4) == Some(&self.path("point")))
    }

    fn end(&mut self, signal: Signal) -> Option<i32> {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap().code()
    }

    fn wait_for_removal(&self) {
        let until = Instant::now() + PATIENCE;
        while self.is_mounted() {
            assert!(Instant::now() < until, "the mount is still there");
            sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = output(&["unmount", &self.path("point")]);
    }
}

#[test]
fn number_of_an_image_that_no_cut_has_is_refused_with_the_range() {
    let said = text(&output(&["replay", "x", "--image", "100000", "--seed", "1"]).stderr);
    assert_eq!(said, "error: invalid value `100000` for `--image <N>`\nhint: write a whole number from 0 to 99999\n");
}

#[test]
fn powercut_shows_what_was_pending_and_makes_images() {
    let Some(mut mount) = Mount::start() else { return };
    fs::write(mount.path("point/a"), b"durable").unwrap();
    let synced = output(&["sync", &mount.path("point")]);
    assert_eq!(text(&synced.stdout), "made durable: 2 operations (1 of metadata), 7 B of data\n");
    fs::write(mount.path("point/a"), b"pending data").unwrap();
    let (point, into) = (mount.path("point"), mount.path("images"));
    let options = ["cut", &point, "--into", &into, "--images", "3", "--policy", "none,prefix", "--json"];
    let before = monotonic();
    let cut = output(&options);
    let after = monotonic();
    let report: serde_json::Value = serde_json::from_slice(&cut.stdout).unwrap();
    let at = report["at"].as_u64().unwrap();
    assert!((before.as_nanos()..after.as_nanos()).contains(&at), "{at}, {before:?}, {after:?}");
    assert_eq!(report["pending"]["bytes"], 12, "{report}");
    let policies: Vec<&str> =
        report["images"].as_array().unwrap().iter().map(|image| image["policy"].as_str().unwrap()).collect();
    assert_eq!(policies, ["none", "prefix", "none"]);
    let first = report["images"][0]["path"].as_str().unwrap();
    assert_eq!(fs::read(Path::new(first).join("a")).unwrap(), b"durable");
    let again = output(&["cut", &point, "--into", &into]);
    assert_eq!(again.status.code(), Some(2));
    let hint = format!("hint: name a directory that does not exist yet, or remove `{into}` first");
    let said = text(&again.stderr);
    assert!(said.contains("cannot create") && said.contains(&hint), "{said}");
    let deep = text(&output(&["cut", &point, "--into", &mount.path("a/b")]).stderr);
    assert!(
        deep.contains(&format!("hint: make the directory above it first: `mkdir -p {}`", mount.path("a"))),
        "{deep}"
    );
    let shown = output(&["cut", &point, "--into", &mount.path("more"), "--policy", "none"]);
    assert!(text(&shown.stdout).starts_with("pending at the cut: 2 operations (1 of metadata), 12 B of data\n"));
    assert!(text(&shown.stdout).contains("image-001"), "{}", text(&shown.stdout));
    assert_eq!(mount.end(Signal::TERM), Some(0));
    assert!(!mount.is_mounted());
    // With nothing mounted, the saved cut makes the same image.
    let saved = report["saved"].as_str().unwrap();
    let made = output(&["images", saved, "--into", &mount.path("again"), "--policy", "none"]);
    assert!(
        text(&made.stdout).starts_with("pending at the cut: 2 operations (1 of metadata), 12 B of data\n"),
        "{made:?}"
    );
    let again = text(&output(&["images", saved, "--into", &mount.path("more again")]).stdout);
    assert!(again.contains(&format!("instant of the cut: {at} ns of `CLOCK_MONOTONIC`\n")), "{again}");
    assert_eq!(fs::read(mount.path("again/image-001/a")).unwrap(), b"durable");
    let none = output(&["images", &mount.path("again"), "--into", &mount.path("none")]);
    assert!(text(&none.stderr).contains("is no saved cut: it has no file `cut.json`"), "{none:?}");
    assert!(fs::read_dir(mount.path("state")).unwrap().next().is_none(), "nothing remains");
}

/// Each file of a saved cut was open at once: with the usual limit of 1024, a cut of 1000 files failed and was deleted.
#[test]
fn cut_of_more_files_than_may_be_open_has_images() {
    let Some(mount) = Mount::start() else { return };
    let (point, into) = (mount.path("point"), mount.path("images"));
    (0..150).for_each(|n| fs::write(mount.path(&format!("point/file-{n}")), b"durable").unwrap());
    output(&["sync", &point]);
    let made = limited("-n 100", &["cut", &point, "--into", &into, "--policy", "none"]).output().unwrap();
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    let made = limited("-n 100", &["images", &format!("{into}/cut"), "--into", &mount.path("again")]).output().unwrap();
    assert_eq!(made.status.code(), Some(0), "{made:?}");
    for image in ["images/image-001", "again/image-001"] {
        let files: Vec<_> = fs::read_dir(mount.path(image)).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(files.len() == 150 && files.iter().all(|file| fs::read(file).unwrap() == b"durable"), "{image}");
    }
}

/// At half the hard limit of open files, the program got `EMFILE` and no cut could be made any more.
#[test]
fn files_beyond_the_hard_limit_of_open_files_are_refused_and_counted() {
    let Some(mount) = Mount::start_limited("-n 300") else { return };
    let mut made = 0;
    let refused = (0..400).find_map(|n| {
        let file = fs::File::create_new(mount.path(&format!("point/file-{n}")));
        made += usize::from(file.is_ok());
        file.and_then(|file| file.sync_all()).err()
    });
    let cut = output(&["cut", &mount.path("point"), "--into", &mount.path("images"), "--policy", "none", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&cut.stdout).unwrap();
    assert_eq!(fs::read_dir(mount.path("images/image-001")).unwrap().count(), made);
    match refused {
        Some(error) => {
            assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
            assert_eq!((made, &report["limits"]["refused"]), (118, &1.into()), "{report}");
        }
        // Root may raise the limit.
        None => assert_eq!((made, &report["limits"]["refused"]), (400, &0.into()), "{report}"),
    }
}

#[test]
fn cut_whose_images_cannot_be_made_is_saved() {
    let Some(mount) = Mount::start() else { return };
    let (point, into) = (mount.path("point"), mount.path("images"));
    fs::write(mount.path("point/a"), [1; 1 << 16]).unwrap();
    output(&["sync", &point]);
    let failed = limited("-f 8", &["cut", &point, "--into", &into]).output().unwrap();
    let said = text(&failed.stderr);
    let saved = format!("{into}/cut");
    assert_eq!(failed.status.code(), Some(2), "{said}");
    assert!(said.contains(&format!("the cut is saved in `{saved}`, but images of it cannot be made")), "{said}");
    assert!(said.contains(&format!("hint: make them later: `prony powercut images {saved} --into DIR`")), "{said}");
    assert!(!Path::new(&into).join("image-001").exists(), "a part of an image");
    assert_eq!(output(&["images", &saved, "--into", &mount.path("again")]).status.code(), Some(0));
    assert_eq!(fs::read(mount.path("again/image-001/a")).unwrap(), [1; 1 << 16]);
}

#[test]
fn mount_is_removed_by_interrupt_while_a_file_is_open() {
    let Some(mut mount) = Mount::start() else { return };
    let _open = fs::File::create(mount.path("point/a")).unwrap();
    assert_eq!(mount.end(Signal::INT), Some(0));
    assert!(!mount.is_mounted());
}

#[test]
fn mount_is_removed_where_its_process_is_killed() {
    let Some(mut mount) = Mount::start() else { return };
    let open = fs::OpenOptions::new().read(true).write(true).create_new(true).open(mount.path("point/a")).unwrap();
    open.set_len(1 << 20).unwrap();
    let mut map = prony_os::SharedMap::new(&open, 0, 1 << 20).unwrap();
    (0..256).for_each(|page| map.write(page * 4096, b"dirty"));
    assert_eq!(mount.end(Signal::KILL), None);
    mount.wait_for_removal();
    assert!(fs::read_dir(mount.path("point")).unwrap().next().is_none());
    let missing = output(&["unmount", &mount.path("point")]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("no file system of `prony powercut mount` is mounted on"));
}

#[test]
fn stale_mount_is_named_and_removed() {
    let Some(mut mount) = Mount::start() else { return };
    let owner = mount.child.id();
    let Some(keeper) = child_of(owner) else { return skip("the kernel has no lists of children") };
    let server = child_of(keeper).unwrap();
    // All of them at once, so that none can remove the mount.
    for process in [owner, keeper, server] {
        signal(process, Signal::STOP);
    }
    for process in [server, keeper] {
        signal(process, Signal::KILL);
    }
    assert_eq!(mount.end(Signal::KILL), None);
    assert!(mount.is_mounted());
    let (point, into) = (mount.path("point"), mount.path("images"));
    assert!(fs::read_dir(&point).is_err(), "an access fails at once");
    let cut = output(&["cut", &point, "--into", &into]);
    assert_eq!(cut.status.code(), Some(2));
    let said = text(&cut.stderr);
    assert!(said.contains("has ended; its mount is stale"), "{said}");
    assert!(said.contains(&format!("hint: remove it: `prony doctor --repair`, or `prony powercut unmount {point}`")));
    let doctor = |options: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_prony"));
        text(&command.arg("doctor").args(options).current_dir(mount.top.path()).output().unwrap().stdout)
    };
    let said = doctor(&[]);
    assert!(said.lines().any(|line| line.contains("simulated power failures") && line.contains("yes")), "{said}");
    let expected =
        format!("stale mount on `{point}`: its processes were killed\nhint: remove it: `prony doctor --repair`\n");
    assert!(said.contains(&expected), "{said}");
    assert!(mount.is_mounted(), "it is removed on request only");
    let said = doctor(&["--repair"]);
    assert!(said.contains(&format!("removed the stale mount on `{point}`")), "{said}");
    assert!(!mount.is_mounted());
    assert!(!doctor(&[]).contains(&point));
    // The state directory can be used again.
    let mut again = prony(&["mount", &point, "--state", &mount.path("state")]);
    mount.child = again.stdout(Stdio::piped()).spawn().unwrap();
    let line = line_of(&mut mount.child);
    assert!(line.starts_with("mounted on"), "{line}");
}

#[test]
fn unmount_ends_the_process_that_serves_and_its_directories_can_be_used_again_at_once() {
    let Some(mut mount) = Mount::start() else { return };
    let (point, state) = (mount.path("point"), mount.path("state"));
    let removed = format!("the mount on `{point}` was removed by `prony powercut unmount` or `umount`\n");
    for _ in 0..3 {
        fs::write(mount.path("point/a"), b"lost").unwrap();
        assert_eq!(output(&["unmount", &point]).status.code(), Some(0));
        let mut again = prony(&["mount", &point, "--state", &state]);
        let again = again.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut before = std::mem::replace(&mut mount.child, again);
        let line = line_of(&mut mount.child);
        assert!(line.starts_with("mounted on"), "{line}");
        // It notices the removal a moment later, and must leave the new mount alone.
        let mut said = String::new();
        before.stdout.as_mut().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!((before.wait().unwrap().code(), said.as_str()), (Some(0), removed.as_str()));
        assert!(mount.is_mounted() && fs::read_dir(&point).unwrap().next().is_none());
    }
}

#[test]
fn mount_names_the_entries_that_it_hides() {
    let Some(mut mount) = Mount::start_over(&["mine", "other"]) else { return };
    assert!(fs::read_dir(mount.path("point")).unwrap().next().is_none());
    let note =
        format!("note: `{}` is empty now: the mount hides 2 entries that are in this directory\n", mount.path("point"));
    assert_eq!(line_of(&mut mount.child), note);
    assert_eq!(mount.end(Signal::TERM), Some(0));
    assert_eq!(fs::read_dir(mount.path("point")).unwrap().count(), 2);
}

#[test]
fn mount_without_fuse_says_why() {
    let top = tempfile::tempdir().unwrap();
    let (point, state) = (top.path().join("point"), top.path().join("state"));
    fs::create_dir(&point).unwrap();
    let script = "mount -t tmpfs none /dev && exec \"$0\" powercut mount \"$1\" --state \"$2\"";
    let hidden = Command::new("unshare")
        .args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_prony")])
        .args([&point, &state])
        .output();
    let Some(hidden) = hidden.ok().filter(|output| output.status.code() == Some(2)) else {
        return skip("no mount namespace can be made");
    };
    assert_eq!(hidden.status.code(), Some(2));
    let expected = format!(
        "error: cannot mount a file system on `{}`: there is no `/dev/fuse`\nhint: load the kernel's module: `modprobe fuse`\n",
        point.display()
    );
    assert_eq!(text(&hidden.stderr), expected);
    let script = "mount -t tmpfs none /dev && exec \"$0\" doctor \"$1\"";
    let mut doctor = Command::new("unshare");
    doctor.args(["--mount", "sh", "-c", script, env!("CARGO_BIN_EXE_prony")]).arg(&point);
    let said = text(&doctor.output().unwrap().stdout);
    assert!(
        said.contains("simulated power failures: no: ") && said.contains("there is no `/dev/fuse`\nhint: load the"),
        "{said}"
    );
}

/// How many trials have ended, as any other process sees it; 0 before the run has begun.
fn finished(database: &Path) -> u32 {
    let run = Database::open(database).and_then(|database| database.run(RunId(1)));
    run.map_or(0, |run| run.finished)
}

#[test]
fn results_keep_every_finished_trial_through_power_failures() {
    let Some(mount) = Mount::start() else { return };
    let cuts: u32 = std::env::var("PRONY_CUTS").map_or(10, |cuts| cuts.parse().unwrap());
    let store = "[store]\nengine = \"memory\"\n[data]\nrecords = 10\n[[phase]]\nname = \"put\"\nput = {}\n";
    fs::write(mount.path("e.toml"), format!("[compare]\nblocks = 10_000\n{store}")).unwrap();
    let database = mount.path("point/prony.db");
    let mut run = Command::new(env!("CARGO_BIN_EXE_prony"));
    run.args(["run", &mount.path("e.toml"), "--quiet", "--database", &database, "--scratch", &mount.path(".")]);
    run.current_dir(mount.top.path()).env("PRONY_RUNS", mount.path("runs"));
    let said = fs::File::create(mount.path("said")).unwrap();
    let mut run = run.stdout(Stdio::null()).stderr(said).spawn().unwrap();
    let said = || fs::read_to_string(mount.path("said")).unwrap();
    let until = Instant::now() + PATIENCE;
    while finished(Path::new(&database)) == 0 {
        assert!(Instant::now() < until && run.try_wait().unwrap().is_none(), "no trial has ended: {}", said());
        sleep(Duration::from_millis(20));
    }
    let (mut random, mut more) = (Stream::new(3), 0);
    for cut in 0..cuts {
        sleep(Duration::from_millis(random.below(300)));
        let before = finished(Path::new(&database));
        let into = mount.path(&format!("cut-{cut}"));
        let policies = [Policy::None, Policy::Prefix, Policy::Subset, Policy::Torn];
        let chances = (Fraction::new(0.5).unwrap(), Unit::Page);
        let settings = CutSettings::check(Path::new(&into), 4, &policies, chances, cut.into()).unwrap();
        let report = prony_powercut::cut(Path::new(&mount.path("point")), &settings).unwrap();
        for image in report.images {
            let path = image.path.join("prony.db");
            let connection = rusqlite::Connection::open(&path).unwrap();
            let check: String = connection.query_row("PRAGMA integrity_check", (), |row| row.get(0)).unwrap();
            drop(connection);
            let found = finished(&path);
            if cut % 10 == 0 {
                let read = Database::open(&path).unwrap().load_run(RunId(1)).unwrap();
                assert_eq!(read.trials.len(), found as usize);
            }
            assert!(check == "ok" && found >= before, "cut {cut}, {:?}: {found} of {before}, {check}", image.policy);
            more += u32::from(found > before);
        }
        fs::remove_dir_all(&into).unwrap();
    }
    signal(run.id(), Signal::INT);
    run.wait().unwrap();
    assert!(!said().contains("error"), "{}", said());
    let trials = finished(Path::new(&database));
    println!("{cuts} cuts during {trials} trials; {more} images had trials that ended after the count");
    assert!(trials > 1);
}
