//! Tests subjects that run as another user, or change their user.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use prony_model::metric::{Metric, MetricKey, Stat};
use prony_model::outcome::Outcome;
use prony_model::reading::{Reading, Why};
use prony_model::record::{Completion, TrialRecord};
use prony_results::Database;

use crate::bench::{Bench, PRONY, alive, amount, guards, phase, reading, said, scratches, shell, unless_late, version};

/// Becomes a user who owns nothing, and executes what follows.
const AS: &str = "setpriv --reuid=65534 --regid=65534 --clear-groups";

/// A bench that every user may enter; `None`, said aloud, where nobody else can be become here. With
/// `PRONY_REQUIRE_ALL=1` that is a failure.
fn bench() -> Option<Bench> {
    let mut words = AS.split(' ');
    let mut become_other = Command::new(words.next().unwrap());
    let can = become_other.args(words).arg("true").output().is_ok_and(|output| output.status.success());
    if !can {
        assert_ne!(std::env::var("PRONY_REQUIRE_ALL").as_deref(), Ok("1"), "root and `setpriv` are required");
        println!("SKIPPED: another user needs root and `setpriv`");
        return None;
    }
    let mut bench = Bench::new();
    bench.shared = true;
    fs::set_permissions(bench.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    Some(bench)
}

/// With a supervisor that several trials share, and with a control group of the trial's own.
const LIMITS: [&str; 2] = ["syncs = true\n", "syncs = true\n[limits]\npids = 100\n"];

fn errors(trial: &TrialRecord) -> &str {
    &trial.program().unwrap().output.stderr.first
}

/// A figure; `None` where it is missing because it is not permitted, a process ended while it was read, it was too late, or the
/// kernel counts whole folios as written, which light care does not compare with the device.
fn permitted(trial: &TrialRecord, name: &str, key: MetricKey) -> Option<f64> {
    match phase(trial, name).reading(key) {
        Some(Reading::Missing(Why::NotPermitted(_))) => None,
        Some(Reading::Missing(Why::Failed(why))) if why.contains("No such process") => None,
        Some(Reading::Missing(Why::NotSupported(why))) if why.contains("(a large folio)") => None,
        _ => unless_late(trial, name, key),
    }
}

/// A program in whose script `$OTHER` begins a command that another user executes: the shell text `work`.
fn program(script: &str, work: &str) -> String {
    format!("{}env = {{ OTHER = \"{AS} sh -c\", WORK = '''{work}''' }}\n", shell(script))
}

/// Says who it is, works in a phase with 20 MB of memory and one sync, and leaves files behind. It pauses at both
/// boundaries: a process that went while it is read would have no share of memory.
const WORK: &str = "echo user $(id -u); echo 'work begin' >> $PRONY_MARKS; sleep 0.3
    head -c 3000000 /dev/zero > $TMPDIR/x; sync $TMPDIR/x
    x=$(head -c 20000000 /dev/zero | tr '\\0' a); sleep 0.3
    echo 'work end' >> $PRONY_MARKS; sleep 0.3; mkdir -m 700 $TMPDIR/y; : > $TMPDIR/y/z; sleep 0.1";

/// What must hold of [`WORK`] whoever does it.
fn worked(trial: &TrialRecord) {
    assert_eq!((trial.ending.outcome, errors(trial)), (Outcome::Ok, ""), "{:?}", trial.ending);
    assert_eq!(said(trial), "user 65534\n");
    assert_eq!(trial.phases[0].completion, Completion::Complete);
    assert_eq!(guards(trial), [""; 0], "{:?}", trial.findings);
    let figure = |metric| unless_late(trial, "work", MetricKey::amount(metric));
    assert!(figure(Metric::Wall).is_none_or(|wall| wall >= 3e8) && figure(Metric::Cpu).is_none_or(|cpu| cpu > 0.0));
    let anon = unless_late(trial, "work", MetricKey::gauge(Metric::Anon, Stat::Max));
    assert!(anon.is_none_or(|anon| anon > 20e6), "{anon:?}");
    let pss = permitted(trial, "work", MetricKey::gauge(Metric::Pss, Stat::End));
    assert!(pss.is_none_or(|pss| pss > 20e6), "{pss:?}");
    let written = permitted(trial, "work", MetricKey::amount(Metric::Written));
    assert!(written.is_none_or(|written| written == 0.0 || written >= 3e6), "nothing where it is memory: {written:?}");
    let syncs = reading(trial, "work", MetricKey::amount(Metric::Fsyncs));
    assert!(syncs.is_none_or(|syncs| syncs == 1.0), "{syncs:?}");
}

const PHASE: &str = "[[phase]]\nname = \"work\"\nmark = \"work\"\n";

#[test]
fn a_program_that_becomes_another_user_is_measured_like_any_other() {
    let Some(bench) = bench() else { return };
    for limits in LIMITS {
        worked(&bench.trial(&format!("{limits}{}{PHASE}", program("exec $OTHER \"$WORK\"", WORK))));
        assert_eq!(scratches(&bench.path("")), Vec::<PathBuf>::new(), "what it left is removed");
    }
}

#[test]
fn so_is_a_child_that_becomes_one() {
    let Some(bench) = bench() else { return };
    for limits in LIMITS {
        worked(&bench.trial(&format!("{limits}{}{PHASE}", program("$OTHER \"$WORK\" & wait", WORK))));
        assert_eq!(scratches(&bench.path("")), Vec::<PathBuf>::new());
    }
}

#[test]
fn the_next_trial_finds_nothing_of_another_users() {
    let Some(bench) = bench() else { return };
    let work = ": > $TMPDIR/x; mkdir -m 700 $TMPDIR/y; : > $TMPDIR/y/z";
    for limits in LIMITS {
        let body = program("ls -A $TMPDIR; $OTHER \"$WORK\"; ls -A $TMPDIR | wc -l", work);
        let data = bench.run(&format!("{limits}{body}[compare]\nblocks = 3\n"));
        let all: Vec<(&str, &str)> = data.trials.iter().map(|trial| (said(trial), errors(trial))).collect();
        assert_eq!(all, [("2\n", ""); 3]);
    }
}

#[test]
fn a_tree_of_another_users_is_ended_whole() {
    let Some(bench) = bench() else { return };
    let stay = "trap '' TERM; setsid sleep 600 & echo $! $$; while :; do sleep 1; done";
    for limits in ["[limits]\n", LIMITS[1]] {
        let body = program("exec $OTHER \"$WORK\"", stay);
        let phase = "[[phase]]\nname = \"stays\"\nbegin = { line = '^[0-9]' }\nlimit = \"100 ms\"\n";
        let trial = bench.trial(&format!("{limits}{body}{phase}"));
        assert_eq!(trial.ending.outcome, Outcome::TimedOut, "{:?}", trial.ending);
        let pids: Vec<&str> = said(&trial).split_whitespace().collect();
        assert!(pids.len() == 2 && !pids.into_iter().any(alive), "{}", said(&trial));
    }
    let leave = program("$OTHER \"$WORK\"", "setsid sleep 600 >/dev/null 2>&1 & echo $!");
    let trial = bench.trial(&leave);
    assert_eq!((trial.ending.outcome, guards(&trial)), (Outcome::Ok, vec!["left_behind"]));
    assert!(!alive(said(&trial)));
}

/// A server that drops its rights when it has started: its probe speaks on, and it can be suspended.
#[test]
fn a_runtime_that_drops_its_rights_is_still_probed() {
    let (Some(bench), Some(_)) = (bench(), version("node")) else { return };
    fs::create_dir(bench.path("site")).unwrap();
    let main = "process.setgroups([]); process.setgid(65534); process.setuid(65534); require('./work.js').work();";
    let work =
        "exports.work = () => { console.log(process.getuid()); exports.kept = Buffer.alloc(1e6).toString('hex'); };";
    bench.write("site/main.js", main);
    bench.write("site/work.js", work);
    for limits in LIMITS {
        let trial = bench.trial(&format!(
            "{limits}[program.x]\ncommand = [\"node\", \"main.js\"]\nruntime = \"node\"\ndirectory = \"site\"\ncopy = \"none\"\n\
             [[phase]]\nname = \"work\"\ncall = \"work.js#work\"\nat_end = {{ collect = true }}\n"
        ));
        assert_eq!((trial.ending.outcome, said(&trial)), (Outcome::Ok, "65534\n"), "{}", errors(&trial));
        assert_eq!(guards(&trial), [""; 0], "{:?}", trial.findings);
        assert_eq!(amount(&trial, "work", Metric::Operations), 1.0);
        let heap = |stat| reading(&trial, "work", MetricKey::gauge(Metric::HeapUsed, stat));
        assert!(heap(Stat::End).is_some() && heap(Stat::Before).is_some(), "it was suspended and collected");
    }
}

/// Executes commands as an ordinary user in the folder `home`, which is his.
fn by_another(bench: &Bench) -> impl Fn(&[&str]) -> Output {
    let home = bench.path("home");
    fs::copy(PRONY, bench.path("prony")).unwrap();
    fs::create_dir(&home).unwrap();
    std::os::unix::fs::chown(&home, Some(65534), Some(65534)).unwrap();
    move |words| {
        let mut command = Command::new("setpriv");
        let command = command.args(AS.split(' ').skip(1)).args(words).current_dir(&home).env("HOME", &home);
        command.env("PRONY_SHARED", "1").output().unwrap()
    }
}

/// What `prony run` of an ordinary user says of an experiment in which `asroot` begins a command that root executes;
/// `None`, said aloud, where programs cannot be given root's rights.
fn run_by_another(bench: &Bench, body: &str) -> Option<Output> {
    let (prony, asroot, by_other) = (bench.path("prony"), bench.path("asroot"), by_another(bench));
    let setpriv = ["/usr/bin/setpriv", "/bin/setpriv"].into_iter().find(|path| Path::new(path).exists())?;
    fs::copy(setpriv, &asroot).unwrap();
    fs::set_permissions(&asroot, fs::Permissions::from_mode(0o4755)).unwrap();
    let root = format!("{} --reuid=0 --regid=0 --clear-groups", asroot.display());
    bench.write("home/e.toml", body.replace("asroot", &root));
    let who = by_other(&[&root.split(' ').collect::<Vec<_>>()[..], &["id", "-u"]].concat());
    if who.stdout != b"0\n" {
        assert_ne!(
            std::env::var("PRONY_REQUIRE_ALL").as_deref(),
            Ok("1"),
            "set-user-ID programs are required: {who:?}"
        );
        println!("SKIPPED: set-user-ID programs have no effect here");
        return None;
    }
    Some(by_other(&[prony.to_str().unwrap(), "run", "e.toml", "--quiet"]))
}

#[test]
fn processes_of_root_are_out_of_an_ordinary_users_reach_and_are_named() {
    let Some(bench) = bench() else { return };
    let script = "asroot sh -c 'echo $$; exec sleep 600'";
    let body = format!(
        "[compare]\nblocks = 1\n[observe]\ncare = \"light\"\nhertz = 100\n{}\
         [[phase]]\nname = \"early\"\nend = {{ line = \"^[0-9]\" }}\n\
         [[phase]]\nname = \"late\"\nbegin = {{ after = \"early\" }}\nlimit = \"100 ms\"\n",
        shell(&format!("{script}\n"))
    );
    let Some(output) = run_by_another(&bench, &body) else { return };
    let database = Database::open(&bench.path("home/prony.db")).unwrap();
    let trial = database.load_run(database.runs().unwrap()[0].id).unwrap().trials.remove(0);
    let pid = said(&trial).trim().to_owned();
    let ran_on = alive(&pid);
    // It is root's, as this test is.
    let ended = Command::new("kill").args(["-KILL", &pid]).status().unwrap();
    assert!(ran_on && ended.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(trial.ending.outcome, Outcome::TimedOut, "{:?}", trial.ending);
    let named = |text: &&String| text.contains(&pid) && text.contains("run as another user");
    assert_eq!(trial.ending.evidence.iter().filter(named).count(), 1, "{:?}", trial.ending);
}

fn trials_of_home(bench: &Bench) -> Vec<TrialRecord> {
    let database = Database::open(&bench.path("home/prony.db")).unwrap();
    let runs = database.runs().unwrap();
    runs.iter().flat_map(|run| database.load_run(run.id).unwrap().trials).collect()
}

/// A cache of Go modules has such directories: their removal ended the run, and each resumption of it.
#[test]
fn scratch_with_directories_that_its_user_may_not_write_is_removed() {
    let Some(bench) = bench() else { return };
    let (by_other, prony) = (by_another(&bench), bench.path("prony"));
    let script =
        "mkdir -p $TMPDIR/mod/x; : > $TMPDIR/mod/x/f; ln -s /etc $TMPDIR/mod/etc; chmod 555 $TMPDIR/mod/x $TMPDIR/mod";
    let made = by_other(&["sh", "-c", "mkdir -p site/sub; : > site/sub/f; chmod 555 site/sub site"]);
    assert!(made.status.success(), "{made:?}");
    for care in ["light", "full"] {
        for place in ["", "directory = \"site\"\n", "directory = \"site\"\ncopy = \"trial\"\n"] {
            let body = format!("[compare]\nblocks = 2\n[observe]\ncare = \"{care}\"\n{}{place}", shell(script));
            bench.write("home/e.toml", body);
            let output = by_other(&[prony.to_str().unwrap(), "run", "e.toml", "--quiet"]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(0), "{care} {place}: {said}");
            assert!(!said.contains("cannot remove"), "{care} {place}: {said}");
            assert_eq!(scratches(&bench.path("home")), Vec::<PathBuf>::new(), "{care} {place}");
        }
    }
    let trials = trials_of_home(&bench);
    assert!(trials.len() == 12 && trials.iter().all(|trial| trial.ending.evidence.is_empty()), "{trials:?}");
}

#[test]
fn scratch_that_cannot_be_removed_is_said_and_takes_no_trial_away() {
    let Some(bench) = bench() else { return };
    let script = "asroot mkdir -m 700 $TMPDIR/y; asroot touch $TMPDIR/y/z";
    let body = format!("[compare]\nblocks = 2\n[observe]\ncare = \"full\"\n{}", shell(script));
    let Some(output) = run_by_another(&bench, &body) else { return };
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let trials = trials_of_home(&bench);
    assert!(trials.len() == 2 && trials.iter().all(|trial| trial.ending.outcome == Outcome::Ok), "{trials:?}");
    let left = scratches(&bench.path("home"));
    assert_eq!(left.len(), 2, "{said}");
    for path in &left {
        assert!(said.contains(&format!("cannot remove `{}`: Permission denied", path.display())), "{said}");
    }
    let prony = bench.path("prony");
    let again = Command::new("setpriv")
        .args(AS.split(' ').skip(1))
        .args([prony.to_str().unwrap(), "run", "e.toml", "--quiet"])
        .current_dir(bench.path("home"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&again.stderr);
    assert_eq!(again.status.code(), Some(0), "{said}");
    for path in &left {
        assert!(said.contains(&format!("/{}`", path.file_name().unwrap().display())), "a sweep says so, too: {said}");
    }
}

/// What is closed to a user stays closed: that is between him and the folder in which results are kept.
#[test]
fn a_folder_that_is_closed_to_the_user_says_so() {
    let Some(bench) = bench() else { return };
    fs::set_permissions(bench.path(""), fs::Permissions::from_mode(0o700)).unwrap();
    let trial =
        bench.trial(&format!("{}{PHASE}", program("$OTHER \"$WORK\"", "echo 'work begin' >> $PRONY_MARKS; id -u")));
    assert_eq!((said(&trial), trial.phases[0].completion), ("65534\n", Completion::NotReached));
    assert!(errors(&trial).contains("Permission denied"), "{}", errors(&trial));
    assert_eq!(guards(&trial), ["phase_never_began"]);
}

#[test]
fn copied_data_of_a_service_belong_to_its_user() {
    let Some(bench) = bench() else { return };
    bench.write("loaded/sub/x", "");
    fs::set_permissions(bench.path("loaded"), fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::symlink("sub/x", bench.path("loaded/link")).unwrap();
    let trial = bench.trial(
        "[[service]]\nname = \"db\"\nuser = \"nobody\"\ndata = { from = \"loaded\" }\ncommand = [\"sleep\", \"100\"]\n\
         env = { DATA = \"{data}\" }\nprepare = \"test $(stat -c %U%a $DATA) = nobody700 && echo >> $DATA/sub/x && \
         test $(stat -c %U $DATA/link) = nobody && touch $DATA/sub/y\"\n[[phase]]\nname = \"work\"\nrun = [\"true\"]\n",
    );
    assert_eq!(trial.ending.outcome, Outcome::Ok, "{:?}", trial.ending);
}
