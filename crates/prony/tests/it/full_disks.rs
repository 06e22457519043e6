//! Tests full disks and values that do not fit into memory: each has an outcome of its own, and no speed.

use prony_model::outcome::Outcome;
use prony_model::record::TrialRecord;

use crate::bench::{Bench, PRONY};

/// A file system of 8 MB in memory, taken away in the end; `None`, said aloud, where none can be mounted.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"])
            .arg(dir.path())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self(dir));
        }
        assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "a small disk is required");
        println!("skipped: no file system can be mounted here");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// What running an experiment prints whose trials work on a small disk, and its trials; it ends with one of these exit codes.
fn on_a_small_disk(codes: &[i32], body: &str) -> Option<(String, Vec<TrialRecord>)> {
    let disk = SmallDisk::new()?;
    let bench = Bench::new();
    bench.write("full.toml", body);
    let output = bench.prony(&["run", "full.toml", "--quiet", "--scratch", disk.0.path().to_str().unwrap()]);
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    assert!(output.status.code().is_some_and(|code| codes.contains(&code)), "{said}");
    Some((said, bench.data().trials))
}

/// What `prony exec` prints where files may have so many blocks of 512 bytes, and its exit code.
fn with_small_files(bench: &Bench, blocks: u32, command: &str) -> (Option<i32>, String) {
    let line = format!("ulimit -f {blocks}; exec {PRONY} exec -r 1 -- {command}");
    let output = std::process::Command::new("sh")
        .args(["-c", &line])
        .current_dir(bench.dir.path())
        .env("PRONY_CACHE", bench.path("cache"))
        .env("PRONY_RUNS", bench.path("runs"))
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.code(), said)
}

/// The signal that the kernel sends with the refusal ended prony, without a word.
#[test]
fn results_beyond_the_limit_of_file_sizes_are_refused_with_a_message() {
    let (code, said) = with_small_files(&Bench::new(), 8, "true");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("error: cannot "), "{said}");
    assert!(
        said.contains("hint: files may have ") && said.contains("raise the limit (`ulimit -f unlimited`)"),
        "{said}"
    );
}

#[test]
fn subjects_are_ended_by_the_limit_of_file_sizes_as_without_prony() {
    let bench = Bench::new();
    let (code, said) = with_small_files(&bench, 8_000, "dd if=/dev/zero of=big bs=65536 count=128");
    assert_eq!(code, Some(1), "{said}");
    let outcomes: Vec<Outcome> = bench.data().trials.iter().map(|trial| trial.ending.outcome).collect();
    // SIGXFSZ.
    assert_eq!(outcomes, [Outcome::Crashed { signal: 25 }], "{said}");
}

#[test]
fn full_disk_is_named_and_gives_no_verdict_of_speed() {
    // `check` refuses records that cannot fit: these do, and not what both engines make of them, a page each.
    let body = "[factors]\nengine = [\"lmdb\", \"sqlite\"]\n[compare]\nbaseline = { engine = \"lmdb\" }\nblocks = 3\n\
                [store]\nengine = \"{engine}\"\n[data]\nrecords = 3_500\nvalue = { bytes = 2_048 }\n\
                [[phase]]\nname = \"write\"\nput = {}\n[[phase]]\nname = \"read\"\nget = {}\n";
    let Some((said, trials)) = on_a_small_disk(&[1], body) else { return };
    assert!(said.contains("9 of 9 trials failed: `lmdb`: 6 disk full; `sqlite`: 3 disk full"), "{said}");
    assert!(!said.contains("faster") && !said.contains("slower"), "{said}");
    assert!(said.contains("neither `engine=sqlite` nor `engine=lmdb` finishes"), "{said}");
    for trial in &trials {
        assert_eq!(trial.ending.outcome, Outcome::DiskFull, "{:?}", trial.ending);
        for metric in ["write.time", "write.rate", "read.time"] {
            assert!(trial.figure(&metric.parse().unwrap()).measured().is_none(), "{metric}: {:?}", trial.phases);
        }
    }
}

/// Both ended after 100 failures in a row, whatever was allowed: partial phases, without a count.
#[test]
fn counts_of_a_full_disk_stay_and_are_compared() {
    let run = |codes: &[i32], allowed: &str, amount: &str| {
        let body = format!(
            "[factors]\nengine = [\"lmdb\", \"sqlite\"]\n[observe]\ncare = \"light\"\n[compare]\n\
             baseline = {{ engine = \"lmdb\" }}\nblocks = 1\nmetric = \"write.errors\"\nmetrics = [\"write.operations\"]\n\
             errors = {allowed}\n[store]\nengine = \"{{engine}}\"\n[data]\nrecords = 3_500\nvalue = {{ bytes = 2_048 }}\n\
             [[phase]]\nname = \"write\"\nput = {{ {amount} }}\n"
        );
        on_a_small_disk(codes, &body).map(|(_, trials)| trials)
    };
    let figure = |trial: &TrialRecord, name: &str| trial.figure(&name.parse().unwrap()).measured().copied();
    for (code, allowed, all_may_fail) in [(0, "\"100%\"", true), (1, "0", false)] {
        let Some(trials) = run(&[code], allowed, "") else { return };
        assert_eq!(trials.len(), 3);
        for trial in &trials {
            let [errors, done] = ["write.errors", "write.operations"].map(|name| figure(trial, name).unwrap());
            assert!(errors > 0.0 && done > 0.0 && errors + done == 3500.0, "{allowed}: {errors} {done}");
            assert_eq!(trial.ending.outcome.is_ok(), all_may_fail, "{:?}", trial.ending);
            assert_eq!(figure(trial, "write.time").is_some(), all_may_fail, "{:?}", trial.phases);
        }
    }
    // On a busy machine the disk may not be full after the first of these times.
    let full = |trial: &TrialRecord| trial.ending.outcome == Outcome::DiskFull;
    let timed = ["1 s", "5 s", "25 s"].map(|time| format!("duration = \"{time}\"")).into_iter();
    let trials =
        timed.map(|amount| run(&[0, 1], "0", &amount).unwrap()).find(|trials| trials.iter().all(full)).unwrap();
    for trial in &trials {
        assert!(figure(trial, "write.errors") > Some(0.0) && figure(trial, "write.rate") > Some(0.0));
    }
}

/// redb says once that the disk is full, and then that an earlier operation failed: the phase after it had failed for no reason.
#[test]
fn full_disk_is_named_in_a_phase_after_it_began() {
    let body = "[store]\nengine = \"redb\"\n[compare]\nblocks = 1\n[data]\nrecords = 3_500\nvalue = { bytes = 2_048 }\n\
                [[phase]]\nname = \"load\"\ntimed = false\nput = {}\n[[phase]]\nname = \"sync\"\npersist = {}\n";
    let Some((said, trials)) = on_a_small_disk(&[1], body) else { return };
    for trial in &trials {
        assert_eq!(trial.ending.outcome, Outcome::DiskFull, "{said}: {:?}", trial.ending);
    }
}

/// LMDB calls a write that the disk cut short an I/O error.
#[test]
fn full_disk_is_named_where_one_large_commit_of_lmdb_meets_it() {
    let body = "[observe]\ncare = \"light\"\n[store]\nengine = \"lmdb\"\n[compare]\nblocks = 1\n\
                [data]\nrecords = 3_500\nvalue = { bytes = 2_048 }\n\
                [[phase]]\nname = \"write\"\nput = { transaction = \"single\" }\n";
    let Some((_, trials)) = on_a_small_disk(&[1], body) else { return };
    let ending = &trials[0].ending;
    assert_eq!(ending.outcome, Outcome::DiskFull, "{ending:?}");
    assert!(ending.evidence.iter().any(|line| line.contains("committing: Input/output error")), "{ending:?}");
}

/// LMDB with `write_map` stores into a sparse file's map, where no call can fail: the kernel ends the worker.
#[test]
fn full_disk_is_named_where_lmdb_writes_through_its_map() {
    let body = "[observe]\ncare = \"light\"\n[store]\nengine = \"lmdb\"\noptions = { write_map = true }\n\
                [compare]\nblocks = 1\n[data]\nrecords = 3_500\nvalue = { bytes = 2_048 }\n\
                [[phase]]\nname = \"write\"\nput = { transaction = \"single\" }\n";
    let Some((_, trials)) = on_a_small_disk(&[1], body) else { return };
    let ending = &trials[0].ending;
    assert_eq!((ending.outcome, ending.phase.as_deref()), (Outcome::DiskFull, Some("write")), "{ending:?}");
    assert!(ending.evidence.iter().any(|line| line.contains("ended by signal 7")), "{ending:?}");
}

#[test]
fn memory_in_which_nothing_starts_and_values_larger_than_memory_are_faults_of_the_file() {
    let bench = Bench::new();
    let check = |limits: &str, bytes: &str| {
        let body = format!(
            "[store]\nengine = \"memory\"\n{limits}\n[data]\nrecords = 2\nvalue = {{ bytes = {bytes} }}\n\
             [[phase]]\nname = \"write\"\nput = {{}}\n"
        );
        bench.write("faulty.toml", body);
        let output = bench.prony(&["check", "faulty.toml"]);
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    for memory in ["1", "\"1 kB\"", "\"900 kB\""] {
        let (code, said) = check(&format!("[limits]\nmemory = {memory}"), "10");
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("faulty.toml:4:10") && said.contains("a store needs at least 1.0 MB to start"), "{said}");
    }
    let (code, said) = check("", "\"10 TB\"");
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("values of 10.00 TB do not fit") && said.contains("faulty.toml:6:19"), "{said}");
    assert_eq!(check("[limits]\nmemory = \"1 MB\"", "\"10 kB\"").0, Some(0));
    let exec = bench.prony(&["exec", "--memory", "1 kB", "--", "true"]);
    assert_eq!(exec.status.code(), Some(2), "{}", String::from_utf8_lossy(&exec.stderr));
    assert!(String::from_utf8_lossy(&exec.stderr).contains("a program needs at least 256.00 kB to start"));
}

#[test]
fn data_of_a_service_that_do_not_fit_are_an_error_that_names_the_file() {
    let Some(disk) = SmallDisk::new() else { return };
    let bench = Bench::new();
    bench.write("loaded/large", vec![1; 9 << 20]);
    bench.write(
        "e.toml",
        "[[service]]\nname = \"db\"\ndata = { from = \"loaded\" }\ncommand = [\"sleep\", \"100\"]\n\
         env = { DATA = \"{data}\" }\n[[phase]]\nname = \"work\"\nrun = [\"true\"]\n",
    );
    let scratch = disk.0.path().to_str().unwrap();
    let output = bench.prony(&["run", "e.toml", "--quiet", "--blocks", "1", "--scratch", scratch]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("loaded/large`") && text.contains("No space left on device"), "{text}");
    assert!(text.contains("hint: free space on the file system of scratch"), "{text}");
    assert_eq!(std::fs::read_dir(disk.0.path()).unwrap().count(), 0, "nothing is left there");
}
