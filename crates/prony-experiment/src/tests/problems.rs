//! Tests files with deliberate faults, and the message for each.

use super::*;

/// A file without faults around `body`, which may have any sections but these.
fn completed(body: &str) -> String {
    let defaults = [
        ("[store]", "[store]\nengine = \"lmdb\"\n"),
        ("[data]", "[data]\nrecords = 100\n"),
        ("[[phase]]", "[[phase]]\nname = \"write\"\nput = {}\n"),
    ];
    let missing = defaults.iter().filter(|(section, _)| !body.contains(section)).map(|(_, text)| *text);
    format!("{body}\n{}", missing.collect::<String>())
}

fn faults_of_body(body: &str) -> String {
    faults(&completed(body))
}

#[test]
fn limit_of_processors_is_one_that_the_kernel_takes() {
    for cpus in ["1e308", "8193", "0.001", "0", "inf"] {
        let said = faults_of_body(&format!("[limits]\ncpus = {cpus}\n"));
        assert!(
            said.starts_with("2:8 `cpus` cannot be") && said.ends_with("a number from 0.01 to 8192"),
            "{cpus}: {said}"
        );
    }
    for cpus in ["0.01", "1", "8192", "2.5"] {
        sound(&completed(&format!("[limits]\ncpus = {cpus}\n")));
    }
}

#[test]
fn all_faults_of_a_file_are_said_at_once() {
    let text = r#"
[experiment]
titel = "x"
[factors]
engine = ["lmdb", "sqlit"]
sizes = [1, 2]
[compare]
baseline = { engine = "lmbd" }
margin = "5 percent"
[store]
engine = "{engine}"
durabilty = "strict"
[data]
records = "{size}"
value = { bytes = "40 kb" }
[[phase]]
name = "write"
put = { order = "shufled", threads = 0 }
[[phase]]
name = "read"
get = { transaction = { batch = true } }
[extra]
"#;
    insta::assert_snapshot!(faults(text), @r#"
    3:1 unknown key `titel` | did you mean `title`?
    5:19 unknown engine `sqlit` | did you mean `sqlite`?
    8:23 factor `engine` has no level `lmbd` | did you mean `lmdb`?
    9:10 `margin`: `percent` is not a unit of share; known: % | expected a share such as `"60%"` or a number from 0 to 1
    12:1 unknown key `durabilty` | did you mean `durability`?
    14:12 unknown placeholder `{size}` | did you mean `{sizes}`?
    15:19 `bytes`: `kb` is not a unit of memory or storage (did you mean `kB`?); known: B, kB, MB, GB, TB, KiB, MiB, GiB, TiB | expected an amount such as `"40 kB"` or a number of bytes
    18:17 `order` cannot be `shufled` | did you mean `shuffled`?
    18:38 `threads` cannot be `0` | expected a whole number from 1 to 1024
    21:33 `batch` cannot be `true` | expected a whole number of at least 1
    22:2 unknown key `extra` | known: `experiment`, `factors`, `design`, `compare`, `observe`, `limits`, `store`, `program`, `service`, `subject`, `data`, `phase`, `report`
    "#);
}

#[test]
fn syntax_faults_are_problems_too() {
    insta::assert_snapshot!(faults("[store\nengine = 'lmdb'\nx = = 2\n"), @"
    1:7 unclosed table, expected `]`
    3:5 extra `=`, expected nothing
    3:7 unexpected key or value, expected newline, `#`
    ");
}

#[test]
fn an_empty_file_says_what_it_needs() {
    insta::assert_snapshot!(faults(""), @"
    1:1 the file has nothing to measure | add `[store]`, `[program.NAME]` or `[[service]]`
    ");
}

#[test]
fn placeholders_are_checked_by_scope() {
    let text = r#"
[factors]
engine = ["lmdb"]
tmp = [1]
"bad name" = [1]
unused = [1]
[factors.chunk]
small = { batch = 1 }
large = { size = 2 }
nested = { batch = "{engine}" }
[store]
engine = "{engin}"
options = { journal = "a}b" }
[data]
records = 10
key = "k{i}{tmp.id}"
value = "{i.x} {{ok}} {chunk}"
[[phase]]
name = "write {i}"
put = { transaction = { batch = "{chunk.batch}" } }
"#;
    insta::assert_snapshot!(faults(text), @"
    4:1 a factor cannot be named `tmp`: other placeholders begin with this name | choose another name
    5:1 `bad name` is not a valid name of a factor | use letters, digits, `-` and `_`
    5:1 factor `bad name` is not used, so its levels make no difference | write `{bad name}` where its level belongs, or remove the factor
    6:1 factor `unused` is not used, so its levels make no difference | write `{unused}` where its level belongs, or remove the factor
    10:21 a level cannot hold the placeholder `{engine}` of a factor | write the text out in each level
    12:11 unknown placeholder `{engin}` | did you mean `{engine}`?
    13:25 `}` closes nothing | write `{{` and `}}` for braces that are meant as text
    16:12 level `1` of factor `tmp` has no `id`
    17:10 `{i.x}` has no meaning here | `{i}`, the number of a record, can be used in keys and values of `[data]`, and in requests
    17:23 `{chunk}` is a table, which cannot stand inside a text | name one setting of the level, as `{factor.setting}`, or make the placeholder the whole text
    19:15 `{i}` has no meaning here | `{i}`, the number of a record, can be used in keys and values of `[data]`, and in requests
    20:34 level `large` of factor `chunk` has no `batch`
    ");
}

#[test]
fn factors_and_levels_are_checked() {
    let text = r#"
[factors]
engine = "lmdb"
size = [1, 2, 1]
none = []
[design]
skip = [{ sise = 1 }, { size = 3 }, {}, { size = [1, 2], engine = "lmdb" }]
"#;
    insta::assert_snapshot!(faults_of_body(text), @r#"
    3:1 factor `engine` is not used, so its levels make no difference | write `{engine}` where its level belongs, or remove the factor
    3:10 factor `engine` is a text, not a list of levels | write `engine = ["lmdb"]`, or a table of labels and values
    4:1 factor `size` is not used, so its levels make no difference | write `{size}` where its level belongs, or remove the factor
    4:15 factor `size` has the level `1` twice
    5:1 factor `none` is not used, so its levels make no difference | write `{none}` where its level belongs, or remove the factor
    5:8 factor `none` has no levels
    7:11 unknown factor `sise` | did you mean `size`?
    7:32 factor `size` has no level `3` | known: `1`, `2`, `1`
    7:37 this table excludes every variant | name a level of a factor
    7:41 no variant has these levels, so nothing is skipped | remove the table, or correct its levels
    "#);
}

#[test]
fn designs_are_checked() {
    let head = "[factors]\na = [1, 2]\nb = [1, 2]\n[data]\nrecords = \"{a}\"\nkey = \"{b}{i}\"\n";
    let design = |text: &str| faults_of_body(&format!("{head}{text}"));
    insta::assert_snapshot!(design("[design]\nvary = \"one at a time\"\n"), @r#"8:8 `vary = "one at a time"` needs a baseline to vary around | write `[compare] baseline = { factor = level }`"#);
    insta::assert_snapshot!(design("[design]\nvary = \"all\"\n[[design.grid]]\na = 1\n"), @"
    8:1 `vary` and `grid` exclude each other
    8:8 `vary` cannot be `all` | known: `one at a time`
    ");
    insta::assert_snapshot!(design("[design]\nskip = [{ a = [1, 2] }]\n"), @"7:2 no variant is left to run | check `skip`, `grid`, `--set` and `--only`");
    insta::assert_snapshot!(design("[design]\nskip = [{ a = 1 }, { a = 1, b = 1 }, { a = 1, b = [] }]\n"), @"8:51 this list names no level of factor `b` | name a level, or leave the factor out");
    insta::assert_snapshot!(design("[compare]\nbaseline = { a = 1 }\n[design]\nskip = [{ a = 1 }]\n"), @"8:12 no variant is the baseline, so nothing can be compared | `[design]` excludes these levels: name other levels, or let these run");
    let big: Vec<String> = (0..17).map(|n| format!("f{n} = [1, 2]")).collect();
    let uses: Vec<String> = (0..17).map(|n| format!("{{f{n}}}")).collect();
    let text = format!(
        "[factors]\n{}\n[store]\nengine = \"lmdb\"\noptions = {{ journal = \"{}\" }}\n",
        big.join("\n"),
        uses.concat()
    );
    insta::assert_snapshot!(faults_of_body(&text), @"1:2 the factors make more than 100000 combinations");
}

#[test]
fn stores_are_checked_by_their_engine() {
    let store = |text: &str| faults_of_body(&format!("[store]\n{text}\n"));
    insta::assert_snapshot!(store("durability = \"strict\""), @"1:1 `store` needs the key `engine` | name of the engine, such as `lmdb`");
    insta::assert_snapshot!(store("engine = \"rocksdb\""), @"2:10 engine `rocksdb` is not in this build | build prony with `--features rocksdb`");
    insta::assert_snapshot!(store("engine = \"lmbd\""), @"2:10 unknown engine `lmbd` | did you mean `lmdb`?");
    insta::assert_snapshot!(store("engine = \"memory\"\ndurability = \"strict\""), @"3:14 `memory` does not offer durability `strict`; it offers `volatile` | choose a class that the engine offers, or leave the variant out with `[design] skip`");
    insta::assert_snapshot!(store("engine = \"lmdb\"\noptions = { no_snyc = true, map_size = \"-1\" }"), @"
    3:13 `lmdb` has no option `no_snyc` | see `prony engines`
    3:29 `map_size` cannot be below zero
    ");
    insta::assert_snapshot!(store("engine = \"lmdb\"\noptions = { no_sync = [1] }"), @"3:23 `no_sync` cannot be a list | expected `true`, `false`, a number or a text");
    insta::assert_snapshot!(store("use = \"lmdb\""), @r#"2:7 `use` cannot be a text | write a table with keys of `[store]`, or `"{NAME}"` for the levels of the factor NAME"#);
    insta::assert_snapshot!(store("use = \"{engin}\""), @r#"2:7 `{engin}` names no factor of `[factors]` | write a table with keys of `[store]`, or `"{NAME}"` for the levels of the factor NAME"#);
    let near = faults(
        "[factors.store]\na = { engine = \"memory\" }\n[store]\nuse = \"{stor}\"\n[data]\nrecords = 1\n[[phase]]\nput = {}",
    );
    assert!(near.contains("4:7 `{stor}` names no factor of `[factors]` | did you mean `{store}`?"), "{near}");
    insta::assert_snapshot!(store("engine = \"redb\"\nuse = { engine = \"lmdb\" }"), @"2:1 `engine` is set here and in the table of `use`");
}

#[test]
fn a_fault_in_a_level_points_at_the_level_and_its_use() {
    let text = "[factors.store]\nsync = { engine = \"lmdb\", durability = \"strikt\" }\n[store]\nuse = \"{store}\"\n";
    let text = completed(text);
    let problems = parse(&text, "x").and_then(|raw| check(&raw, &Engines, &Overrides::default())).unwrap_err();
    assert_eq!(problems.len(), 1);
    assert_eq!(&text[problems[0].span.clone()], "\"strikt\"");
    assert_eq!(&text[problems[0].labels[0].span.clone()], "\"{store}\"");
    assert_eq!(problems[0].note.as_deref(), Some("in the variant store = sync"));
}

#[test]
fn a_budget_cannot_be_zero() {
    insta::assert_snapshot!(faults_of_body("[compare]\nbudget = \"0 s\"\n"), @r#"2:10 `budget` cannot be zero | expected a time above zero such as `"5 s"`"#);
}

#[test]
fn data_is_checked() {
    let data = |text: &str| faults_of_body(&format!("[data]\nrecords = 5_000_000_000\n{text}\n"));
    insta::assert_snapshot!(data("key = \"same\"\nvalue = { bytes = { uniform = [\"2 kB\", \"1 kB\"] } }"), @"
    3:7 every record would have the same key | put `{i}`, the record's number, into the text
    4:31 the first length of `uniform` must be the shortest
    ");
    insta::assert_snapshot!(data("key = { integer = 4 }\nvalue = { bytes = { lognormal = { median = 10, sigma = 0, max = 5 } } }"), @"4:56 `sigma` cannot be `0` | expected a number above zero");
    insta::assert_snapshot!(data("key = { integer = 6 }\nvalue = { bytes = { lognormal = { median = 10, sigma = 1, max = 5 } } }"), @"
    3:19 `integer` cannot be `6` | expected 4 or 8
    4:33 `median` is above `max`
    ");
    insta::assert_snapshot!(data("key = { hashed = 16, prefix = \"user\", hex = true }"), @"3:9 a hashed key of 16 bytes is too short: prefix and 8 bytes of hash take 20 | write `hashed = 20` or more");
    insta::assert_snapshot!(data("key = { hashed = 600 }"), @"3:7 keys of 600 bytes are too long: `lmdb` allows at most 511 bytes | shorten the key, or leave the variant out with `[design] skip`");
    insta::assert_snapshot!(data("key = { hashed = 16, integer = 8, pad = 3 }"), @"3:9 `key` takes one of `integer` and `hashed`, not both");
    insta::assert_snapshot!(data("key = {}\nvalue = { compressible = \"120%\" }"), @r#"
    3:7 `key` needs one of `template`, `integer`, `hashed`
    4:9 `value` needs the key `bytes` | length of the value, fixed or random for each record
    4:26 `compressible`: `120%` is out of range: a share is from 0% to 100% | expected a share such as `"60%"` or a number from 0 to 1
    "#);
    insta::assert_snapshot!(data("value = { bytes = { uniform = [1] } }"), @r#"3:31 `uniform` cannot be a list | expected a list of two, each an amount such as `"40 kB"` or a number of bytes"#);
    insta::assert_snapshot!(faults("[store]\nengine = \"lmdb\"\n[[phase]]\nname = \"w\"\nput = {}"), @"5:1 `put` needs records, but the file has no `[data]` | add `[data] records = 10_000`");
}

#[test]
fn phases_are_checked() {
    let phases = |text: &str| faults_of_body(&format!("[[phase]]\n{text}\n"));
    insta::assert_snapshot!(phases("name = \"a.b\"\nput = {}\nget = {}"), @"4:1 `phase` takes one of `put` and `get`, not both");
    insta::assert_snapshot!(phases("name = \"a\""), @"1:1 `phase` needs one of `put`, `get`, `update`, `delete`, `scan`, `compute`, `mix`, `find`, `commit`, `persist`, `close`, `reopen`, `evict`, `settle`, `verify`, `pause`, `http`, `run`, `kill`, `powercut`");
    insta::assert_snapshot!(phases("name = \"a\"\nput = {}\n[[phase]]\nname = \"a\"\nget = {}"), @"5:8 two phases are named `a` | metrics are named by phase: give each phase a name of its own");
    insta::assert_snapshot!(phases("name = \"a\"\nput = { order = \"zipfian\" }\n[[phase]]\nname = \"b\"\nget = { order = { zipfian = 1.5 } }"), @"
    3:17 `put` inserts each record once, but this order repeats records | write `update` to overwrite, or `mix` with `insert`
    6:29 the exponent of `zipfian` must be below 1 | YCSB uses 0.99
    ");
    insta::assert_snapshot!(phases("name = \"a\"\nget = { count = 1, duration = \"1 s\", rate = \"0/s\", pause = { every = 1 } }"), @r#"
    3:45 `rate`: `0/s` is out of range | expected a rate such as `"5000/s"` or a number per second
    3:60 `pause` needs the key `for` | length of the pause; `"0 ms"` yields the processor once
    "#);
    insta::assert_snapshot!(phases("name = \"a\"\nmix = {}\n[[phase]]\nname = \"b\"\nscan = { length = { uniform = 0 } }"), @"
    3:7 every weight of this mix is zero | write for example `mix = { read = 0.95, update = 0.05 }`
    6:31 `uniform` cannot be `0` | expected a whole number of at least 1
    ");
    insta::assert_snapshot!(phases("name = \"a\"\nmix = { read = 1e308, update = 1 }"), @"3:16 `read` cannot be `1e308` | expected a number from 0 to 1000000000");
    insta::assert_snapshot!(phases("name = \"a\"\npause = 3\n[[phase]]\nname = \"b\"\ncommit = { x = 1 }"), @r#"
    3:9 `pause` cannot be `3` | expected a time above zero such as `"5 s"`
    6:12 unknown key `x`
    "#);
    insta::assert_snapshot!(phases("name = \"a\"\nput = {}\nwhen = { engine = \"lmdb\" }"), @"4:10 unknown factor `engine` | the file has no `[factors]`");
}

/// The timed part of a phase of 300 ms says how much of it is timed: an engine with 50 times less throughput took "79 % more
/// time".
#[test]
fn times_of_phases_that_last_a_given_time_are_not_compared() {
    let with = |compare: &str, rate: &str| {
        completed(&format!(
            "[compare]\nblocks = 6\n{compare}[[phase]]\nname = \"write\"\nput = {{ duration = \"300 ms\"{rate} }}\n"
        ))
    };
    let file = |compare: &str| with(compare, "");
    let primary = |text: &str| sound(text).compare().primary.as_ref().unwrap().to_string();
    assert_eq!(primary(&file("")), "write.rate");
    assert_eq!(primary(&file("metric = \"write.latency.p50\"\n")), "write.latency.p50");
    let open = ", rate = \"100/s\"";
    assert_eq!(primary(&with("", open)), "write.latency.p50", "30 operations have no higher percentile");
    assert_eq!(primary(&with("", ", rate = \"3400/s\"")), "write.latency.p99");
    assert_eq!(
        primary(&with("", ", rate = \"3340/s\"")),
        "write.latency.p95",
        "1002 operations, of which 1 % may be skipped"
    );
    assert_eq!(primary(&with("", ", rate = { rate = \"3400/s\", arrivals = \"poisson\" }")), "write.latency.p95");
    assert_eq!(primary(&with("", ", rate = \"400/s\"")), "write.latency.p90");
    assert!(faults(&with("metric = \"write.cpu\"\n", open)).contains("does not measure speed"));
    let time = faults(&with("metric = \"write.time\"\n", open));
    let said = "does not measure speed: `write` starts its operations on a schedule | compare its latencies, such as";
    assert!(time.contains(said), "{time}");
    let counted = with("metric = \"write.time\"\n", open).replace("duration = \"300 ms\"", "count = 2000");
    assert!(faults(&counted).contains("does not measure speed"));
    assert_eq!(primary(&counted.replace("metric = \"write.time\"\n", "")), "write.latency.p99");
    assert!(faults(&file("metric = \"write.cpu\"\n")).contains("does not measure speed"));
    insta::assert_snapshot!(faults(&file("metric = \"write.wall\"\nmetrics = [\"write.rate\", \"write.time\"]\n")), @"
    3:10 `write.wall` does not measure speed: `write` lasts a given time | compare its rate or latencies, such as `write.latency.p50`
    4:26 `write.time` does not measure speed: `write` lasts a given time | compare its rate or latencies, such as `write.latency.p50`
    ");
}

#[test]
fn transactions_that_stay_open_are_checked() {
    let engine = |name: &str, phases: &[&str]| {
        let phases: Vec<String> =
            phases.iter().enumerate().map(|(at, action)| format!("[[phase]]\nname = \"p{at}\"\n{action}\n")).collect();
        faults_of_body(&format!("[store]\nengine = \"{name}\"\n{}", phases.concat()))
    };
    let open = "put = { transaction = \"open\" }";
    let single = "put = { transaction = \"single\" }";
    insta::assert_snapshot!(engine("lmdb", &[open]), @"5:23 the transaction of phase `p0` is never committed | add a phase with `commit = {}` after it");
    insta::assert_snapshot!(engine("lmdb", &[single, "get = {}", "pause = \"1 s\"", "verify = {}", "commit = {}", "close = {}"]), @"no faults");
    insta::assert_snapshot!(engine("lmdb", &[single, "persist = {}", "commit = {}"]), @"8:1 `persist` cannot run while the transaction of phase `p0` is open | put a phase with `commit = {}` before it");
    insta::assert_snapshot!(engine("lmdb", &[single, "get = { transaction = \"each\" }", "update = { threads = 2 }", "commit = {}"]), @"
    8:23 phase `p1` cannot have transactions of its own while that of phase `p0` is open | leave `transaction` out: the phase runs inside the open one
    11:22 2 threads cannot share the one open transaction | write `threads = 1`, or group by `{ batch = N }`
    ");
    insta::assert_snapshot!(engine("fjall", &[single, "get = {}", "commit = {}"]), @"
    5:23 `fjall` cannot keep a transaction open over several phases | leave the variant out with `[design] skip`, or the phase with `when`
    8:1 `fjall` cannot read inside a write transaction | leave the variant out with `[design] skip`, or the phase with `when`
    ");
    insta::assert_snapshot!(engine("lmdb", &["get = { transaction = \"open\" }", "commit = {}"]), @r#"5:23 phase `p0` only reads, so it leaves nothing to commit | write `transaction = "single"`"#);
    insta::assert_snapshot!(engine("logfile", &["put = { transaction = { batch = 10 } }", "scan = {}", "mix = { scan = 1 }"]), @"
    5:23 `logfile` has no transactions of several operations | leave the variant out with `[design] skip`, or the phase with `when`
    8:1 `logfile` does not keep keys in order, so it cannot scan | leave the variant out with `[design] skip`, or the phase with `when`
    11:1 `logfile` does not keep keys in order, so it cannot scan | leave the variant out with `[design] skip`, or the phase with `when`
    ");
    insta::assert_snapshot!(engine("logfile", &["put = { transaction = { batch = 1 } }", "get = { transaction = \"single\" }"]), @"no faults");
    insta::assert_snapshot!(engine("memory", &["put = {}", "evict = {}", "reopen = {}", "close = {}"]), @"
    8:1 `memory` keeps no data when it is closed | leave the variant out with `[design] skip`, or the phase with `when`
    11:1 `memory` keeps no data when it is closed | leave the variant out with `[design] skip`, or the phase with `when`
    ");
    insta::assert_snapshot!(engine("lmdb", &["close = {}", "get = {}", "reopen = {}", "get = {}"]), @"8:1 `get` cannot run after phase `p0` has closed the store | put a phase with `reopen = {}` before it");
    insta::assert_snapshot!(engine("lmdb", &["close = {}", "evict = {}", "get = {}"]), @"no faults");
    insta::assert_snapshot!(engine("fjall", &["compute = {}", "compute = { transaction = { batch = 5 } }", "mix = { read_modify_write = 1 }"]), @"
    8:27 `fjall` cannot read inside a write transaction | leave the variant out with `[design] skip`, or the phase with `when`
    11:1 `fjall` cannot read inside a write transaction | leave the variant out with `[design] skip`, or the phase with `when`
    ");
}

/// Every operation was timed, and the record said that none was.
#[test]
fn open_loops_time_each_operation() {
    let of = |sample: &str| {
        let phase = format!("[[phase]]\nname = \"g\"\nget = {{ rate = \"100/s\", sample = {sample} }}\n");
        faults(&format!(
            "[store]\nengine = \"lmdb\"\n[data]\nrecords = 9\n[[phase]]\nname = \"p\"\nput = {{}}\n{phase}"
        ))
    };
    assert_eq!(of("\"every\""), "no faults");
    for sample in ["\"none\"", "{ one_in = 50 }", "{ operations = 10 }"] {
        assert!(of(sample).starts_with("10:34 with a `rate` each operation is timed"), "{}", of(sample));
    }
}

#[test]
fn comparisons_are_checked() {
    let head = "[factors]\nengine = [\"lmdb\", \"redb\"]\nsize = [1_000, 2_000]\n[store]\nengine = \"{engine}\"\n\
                [data]\nrecords = \"{size}\"\n[[phase]]\nname = \"load\"\ntimed = false\nput = {}\n[[phase]]\nname = \"read\"\nget = {}\n[compare]\n";
    let compare = |text: &str| faults(&format!("{head}{text}\n"));
    insta::assert_snapshot!(compare("metric = \"raed.time\"\nmetrics = [\"load.time\", \"read.tiem\", \"time\", \"read.x.time\"]"), @"
    16:10 `raed.time`: unknown phase `raed` | did you mean `read`?
    17:12 `load.time`: phase `load` has `timed = false`, so it has no metrics | remove `timed = false` from the phase
    17:25 `tiem` is not a metric; did you mean `read.time`?
    17:38 `time` names no phase; write `phase.metric`, for example `run.time` of a command
    17:46 `read.x.time` names the instance `x`, but instances exist only with `runtime`, `replicas` or `background`
    ");
    insta::assert_snapshot!(compare("metrics = [\"read.anon.peak\", \"read.pss.max\", \"read.rss.peak\", \"read.pss\"]"), @"
    16:12 `read.anon.peak`: exact peaks exist of resident memory (`rss.peak`) only | compare `read.anon.max`
    16:30 `read.pss.max`: PSS is read at boundaries of phases only | compare `read.pss.end`
    ");
    insta::assert_snapshot!(compare("blocks = { min = 9, max = 6 }"), @"16:10 `max`, 6, is below `min`, 9");
    insta::assert_snapshot!(compare("blocks = { size.3_000 = 1, sise.1_000 = 2, engine.lmdb = 0 }"), @"
    16:17 factor `size` has no level `3_000` | known: `1000`, `2000`
    16:28 unknown factor `sise` | did you mean `size`?
    16:58 `lmdb` cannot be `0` | expected a whole number from 1 to 10000
    ");
    insta::assert_snapshot!(compare("blocks = { default = 6, max = 7 }\nbaseline = { engine = [\"lmdb\"] }"), @"
    16:25 `max` and `default` exclude each other | write `default = { min = 6, max = 12 }`
    17:23 `engine` cannot be a list | expected `true`, `false`, a number or a text
    ");
    insta::assert_snapshot!(compare("blocks = { size.1_000 = 1, default = 3 }"), @"no faults");
}

#[test]
fn tables_are_checked() {
    let head = "[factors]\nengine = [\"lmdb\", \"redb\"]\n[store]\nengine = \"{engine}\"\n\
                [[phase]]\nname = \"page reads\"\nget = {}\n[[report.table]]\n";
    let table = |text: &str| faults_of_body(&format!("{head}{text}\n"));
    insta::assert_snapshot!(table("rows = \"engin\""), @r#"
    8:1 the table has no columns | write `columns = ["write.time"]`, or `cells`
    9:8 unknown factor `engin` | did you mean `engine`?
    "#);
    insta::assert_snapshot!(table("columns = [\"page read.time\", \"page reads.rss.end:MB.1\", \"engine\", \"engin\"]"), @"
    9:12 `page read.time`: unknown phase `page read` | did you mean `page reads`?
    9:67 `engin` names no phase; write `phase.metric`, for example `run.time` of a command | did you mean `engine`?
    ");
    insta::assert_snapshot!(table("cells = { a = \"{page reads.time + page reads.rss.end}\", b = \"{page reads.time:MB}\" }"), @"
    9:15 a time + an amount of bytes has no meaning
    9:61 `MB` does not print a time
    ");
    insta::assert_snapshot!(table("cells = { a = \"{page reads.time\", b = \"{page reads.time-page reads.cpu}\", c = \"{}\" }"), @"
    9:15 `{` is not closed | write `{{` and `}}` for braces that are meant as text
    9:39 `page reads.time-page reads.cpu` names the instance `time-page reads`, but instances exist only with `runtime`, `replicas` or `background` | put spaces around `-` if it means minus
    9:79 expected a metric such as `write.time`, a number or `(`, found the end
    ");
    insta::assert_snapshot!(table("format = \"mm:ss\"\ncells = { a = \"{page reads.rss.end}\" }\ncolumns = [\"b\"]"), @"
    9:10 the format `mm:ss` fits no value of this table | the table's format applies to values without a format of their own
    10:11 cell `a` is not among `columns` | add the cell to `columns`, or remove it
    11:12 `b` names no phase; write `phase.metric`, for example `run.time` of a command
    ");
    insta::assert_snapshot!(table("format = \"secs\"\nselect = { engine = \"lmbd\" }\ncolumns = [\"page reads.time\"]\nstatistic = \"avg\""), @"
    9:10 `secs` is not a format; known: ns, us, ms, s, min, h, mm:ss, mm:ss.ms, B, kB, MB, GB, TB, KiB, MiB, GiB, TiB, /s, B/s, kB/s, MB/s, GB/s, %, .N
    10:21 factor `engine` has no level `lmbd` | did you mean `lmdb`?
    12:13 `statistic` cannot be `avg` | known: `median`, `mean`, `min`, `max`
    ");
}

#[test]
fn the_command_line_is_checked_like_the_file() {
    let text = completed(
        "[factors]\nsize = [1, 2]\n[factors.store]\na = { engine = \"lmdb\" }\n[store]\nuse = \"{store}\"\n[data]\nrecords = \"{size}\"\n",
    );
    let pair = |factor: &str, level: &str| (factor.to_owned(), vec![level.to_owned()]);
    let set = |factor, level| faults_with(&text, &Overrides { set: vec![pair(factor, level)], ..Overrides::default() });
    let only =
        |factor, level| faults_with(&text, &Overrides { only: vec![pair(factor, level)], ..Overrides::default() });
    insta::assert_snapshot!(set("sise", "1"), @"1:1 --set sise: unknown factor `sise` | did you mean `size`?");
    insta::assert_snapshot!(set("size", "many"), @"2:1 `records` cannot be the text `many` | expected a whole number of at least 1");
    insta::assert_snapshot!(set("store", "b"), @"3:10 --set store=b: factor `store` has no level `b` | known: `a`");
    insta::assert_snapshot!(only("size", "3"), @"2:1 --only size=3: factor `size` has no level `3` | known: `1`, `2`");
    assert_eq!(set("size", "5_000"), "no faults");
}

#[test]
fn a_baseline_that_the_command_line_takes_out_is_named() {
    let text = completed(
        "[factors]\nsize = [1, 2]\n[compare]\nbaseline = { size = 2 }\n[store]\nengine = \"lmdb\"\n[data]\nrecords = \"{size}\"\n",
    );
    let pair = |levels: &[&str]| vec![("size".to_owned(), levels.iter().map(|l| (*l).to_owned()).collect())];
    let set = |levels: &[&str]| faults_with(&text, &Overrides { set: pair(levels), ..Overrides::default() });
    insta::assert_snapshot!(set(&["1", "7"]), @"4:21 --set size=1,7 removes the baseline `2`, so nothing would be compared | write `--set size=2,1,7`, or `--only` for a run without a comparison");
    assert_eq!(set(&["1", "2", "7"]), "no faults");
    let only = Overrides { only: pair(&["1"]), ..Overrides::default() };
    assert_eq!(faults_with(&text, &only), "no faults", "a part of the variants, without a comparison");
}

#[test]
fn records_larger_than_any_file_are_refused() {
    let data = |data: &str| {
        faults_of_body(&format!("[store]\nengine = \"lmdb\"\n[data]\n{data}\n[[phase]]\nname = \"p\"\nput = {{}}\n"))
    };
    insta::assert_snapshot!(data("records = 9_000_000_000_000_000_000\nvalue = { bytes = 100 }"), @"4:11 9000000000000000000 records of 100 bytes or more take 900.0 EB, but a file can have at most 9.2 EB | use fewer records");
    insta::assert_snapshot!(data("records = 100_000_000_000_000_000\nkey = { integer = 8 }\nvalue = { bytes = 100 }"), @"4:11 100000000000000000 records of 108 bytes or more take 10.8 EB, but a file can have at most 9.2 EB | use fewer records");
    assert_eq!(data("records = 10_000_000_000\nvalue = { bytes = 100 }"), "no faults");
}

/// New users wrote 5 for five percent, and numbers in quotes.
#[test]
fn numbers_in_another_form_have_a_hint_how_to_write_them() {
    let share = faults_of_body("[data]\nrecords = 10\nvalue = { bytes = 10, compressible = 50 }\n");
    assert!(
        share.contains("`50` is out of range: a share is from 0% to 100%, such as `50%` | for 50 percent: `\"50%\"`"),
        "{share}"
    );
    let quoted = faults_of_body("[data]\nrecords = \"1_000\"\n");
    assert!(quoted.contains("cannot be the text `1_000` | leave out the quotes: expected a whole"), "{quoted}");
}

#[test]
fn shares_that_decide_nothing_and_prefixes_that_do_not_fit_are_refused() {
    let of = |compare: &str| faults_of_body(&format!("[compare]\n{compare}\n"));
    for ok in ["margin = 0", "margin = \"99%\"", "alpha = \"49%\"", "alpha = 0.001"] {
        assert!(!of(ok).contains("cannot be"), "{ok}: {}", of(ok));
    }
    assert!(
        of("margin = 1.0").contains("`margin` cannot be `1.0` | expected a share below 1"),
        "{}",
        of("margin = 1.0")
    );
    for alpha in ["0.5", "\"99%\"", "0"] {
        assert!(of(&format!("alpha = {alpha}")).contains("expected a share above 0 and below a half"), "{alpha}");
    }
    let values = |bytes: &str, records: u64| {
        faults(&format!(
            "[store]\nengine = \"lmdb\"\n[data]\nrecords = {records}\nvalue = {{ bytes = {bytes}, prefix = \"abc{{i}}def\" }}\n\
             [[phase]]\nname = \"write\"\nput = {{}}\n"
        ))
    };
    // The number of the record is part of it.
    assert_eq!((values("7", 10), values("8", 11)), ("no faults".to_owned(), "no faults".to_owned()));
    assert!(values("6", 10).contains("a prefix of 7 bytes does not fit into values of 6 B"), "{}", values("6", 10));
    assert!(values("7", 11).contains("a prefix of 8 bytes does not fit into values of 7 B"), "{}", values("7", 11));
}
