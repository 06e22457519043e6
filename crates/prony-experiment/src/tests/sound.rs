use super::*;
use crate::design::AllowedErrors;
use prony_model::spec::{Action, Amount, Grouping, KeySpec, Order, Sampling, Size, Subject, ValueSpec};
use prony_model::units::{Bytes, Fraction, Nanos};

/// DESIGN 4, the cache, but for the power cut.
pub(super) const CACHE: &str = r#"
[experiment]
title = "What durability costs a cache"

[factors]
transaction = ["each", "single"]
[factors.store]
lmdb-sync        = { engine = "lmdb", durability = "strict" }
lmdb-nometasync  = { engine = "lmdb", durability = "bounded" }
lmdb-nosync      = { engine = "lmdb", durability = "none" }
lmdb-nosync-nometasync = { engine = "lmdb", options = { no_sync = true, no_meta_sync = true } }
sqlite-wal       = { engine = "sqlite", durability = "strict", options = { journal = "wal" } }
redb             = { engine = "redb", durability = "strict" }
fjall            = { engine = "fjall", durability = "relaxed" }

[design]
skip = [{ store = "fjall", transaction = "single" }]

[compare]
baseline = { store = "lmdb-sync", transaction = "each" }
margin   = "5%"
blocks   = { min = 6, max = 30 }

[store]
use = "{store}"

[data]
records = 20_000
key     = "{i}"
value   = { bytes = 128, compressible = "0%" }

[[phase]]
name    = "write"
compute = { transaction = "{transaction}", sample = { operations = 10 } }

[[phase]]
name   = "commit"
commit = {}

[[phase]]
name = "read"
get  = { order = "shuffled", transaction = "{transaction}", sample = { operations = 10 } }
"#;

/// DESIGN 4, sourcing, with key and value instead of documents.
pub(super) const SOURCING: &str = r#"
[factors]
engine    = ["memory", "lmdb"]
documents = [1_000, 10_000, 100_000, 1_000_000, 10_000_000]
[factors.chunking]
large = { batch = 10_000, pause = "0 ms" }
small = { batch = 50, pause = "3 ms" }
[compare]
baseline = { engine = "memory" }
blocks = { min = 6, max = 8, documents.10_000_000 = 1 }
[limits]
memory = "16 GiB"
time   = { trial = "30 min" }
[store]
engine  = "{engine}"
[data]
records = "{documents}"
key     = "/path/{i}/"
value   = { bytes = "40 kB", compressible = "60%" }
[[phase]]
name = "source"
put  = { transaction = { batch = "{chunking.batch}" }, pause = { every = "{chunking.batch}", for = "{chunking.pause}" } }
[[phase]]
name    = "persist"
persist = {}
[[report.table]]
rows  = "documents"
tables = ["engine", "chunking"]
cells = { "source, s" = "{source.time + persist.time:s} ({source.time:s})" }
columns = ["source, s", "source.rss.end", "source.rss.peak", "source.anon.end", "source.file.end"]
"#;

#[test]
fn the_cache_of_the_design_is_read_in_full() {
    let experiment = sound(CACHE);
    assert_eq!(experiment.title(), "What durability costs a cache");
    assert_eq!(experiment.variants().len(), 13, "fourteen less the one that is skipped");
    let baselines: Vec<&_> = experiment.variants().iter().filter(|variant| variant.baseline).collect();
    assert_eq!(baselines.len(), 1);
    assert!(experiment.variants().iter().all(|variant| variant.stratum == 0 && variant.blocks.max == 30));
    assert_eq!(experiment.compare().primary.as_ref().unwrap().to_string(), "write.time");
    let single = experiment.variants().iter().find(|variant| variant.levels == [1, 3]).unwrap();
    let Subject::Store(store) = &single.spec.subject else { panic!("no store") };
    assert_eq!((store.durability, store.options["no_meta_sync"].clone()), (None, OptionValue::Bool(true)));
    let phases = &single.spec.phases;
    let Action::Compute(write) = &phases[0].action else { panic!("{:?}", phases[0].action) };
    assert_eq!(write.transaction, Grouping::Open, "it stays open until `commit`");
    assert_eq!((write.order, write.sample, write.amount), (Order::Record, Sampling::Group(10), Amount::Records));
    assert_eq!(phases[2].action.ops().unwrap().transaction, Grouping::Single);
    let each = experiment.variants().iter().find(|variant| variant.baseline).unwrap();
    assert_eq!(each.spec.phases[0].action.ops().unwrap().transaction, Grouping::Each);
    let data = &each.spec.data[0];
    assert_eq!(data.key, KeySpec::Template { parts: vec![String::new(), String::new()], pad: 0 });
    let ValueSpec::Bytes(value) = &data.value else { panic!("{data:?}") };
    assert_eq!(value.bytes, Size::Fixed(Bytes::from_bytes(128)));
}

#[test]
fn sourcing_of_the_design_is_read_in_full() {
    let experiment = sound(SOURCING);
    assert_eq!(experiment.variants().len(), 20);
    assert_eq!(experiment.variants().iter().filter(|variant| variant.baseline).count(), 10);
    assert_eq!(experiment.factors()[1].levels[4].number, Some(1e7));
    let largest: Vec<_> = experiment.variants().iter().filter(|variant| variant.levels[1] == 4).collect();
    assert!(largest.iter().all(|variant| (variant.blocks.min, variant.blocks.max) == (1, 1)));
    let small = &experiment.variants()[1];
    assert_eq!((small.levels.as_slice(), small.blocks.max), ([0, 0, 1].as_slice(), 8));
    let ops = small.spec.phases[0].action.ops().unwrap();
    assert_eq!(ops.transaction, Grouping::Batch(50));
    assert_eq!(ops.pause.unwrap().time, Nanos::from_millis(3));
    assert_eq!(small.spec.limits.trial, Some(Nanos::from_secs(1800)));
    assert_eq!(small.spec.data[0].records, 1000);
    assert_eq!(small.stratum, experiment.variants()[11].stratum, "memory and lmdb at the same size and chunking");
}

/// A file without faults, with these sections before `[store]`, `[data]` and phases of its own.
fn small(head: &str, phases: &str) -> String {
    format!("{head}\n[store]\nengine = \"lmdb\"\n[data]\nrecords = 100\nkey = \"{{a}}{{b}}-{{i}}\"\n{phases}")
}

const TWO: &str = "[factors]\na = [1, 2, 3]\nb = [\"x\", \"y\"]\n";
const PUT: &str = "[[phase]]\nname = \"write\"\nput = {}\n";

fn levels(experiment: &Experiment) -> Vec<[usize; 2]> {
    experiment.variants().iter().map(|variant| [variant.levels[0], variant.levels[1]]).collect()
}

/// Calls that throw are judged by what the file says, and not by what it leaves out.
#[test]
fn errors_that_the_file_states_differ_from_those_that_it_does_not() {
    let stated = |keys: &str| sound(&small(&format!("{TWO}[compare]\n{keys}\n"), PUT)).compare().stated_errors();
    assert_eq!((stated(""), stated("errors = 0")), (None, Some(AllowedErrors::Count(0))));
    assert_eq!(stated("errors = \"1%\""), Fraction::new(0.01).map(AllowedErrors::Share));
    assert_eq!(stated("errors = 0.01"), Fraction::new(0.01).map(AllowedErrors::Share));
}

/// `"1"` was a share of 100 %: every operation could fail.
#[test]
fn errors_that_may_be_a_number_or_a_share_are_refused() {
    for errors in ["\"1\"", "1.0", "\"1.0\""] {
        let said = faults(&small(&format!("{TWO}[compare]\nerrors = {errors}\n"), PUT));
        let written = errors.trim_matches('"');
        assert!(said.contains(&format!("`errors`: `{written}` may be a number of operations or a share")), "{said}");
    }
    // A part of one operation is no number of them.
    let allowed =
        |errors: &str| sound(&small(&format!("{TWO}[compare]\nerrors = \"{errors}\"\n"), PUT)).compare().clone();
    assert_eq!(allowed("0.5"), allowed("50%"));
}

/// The baseline ended after 6 blocks, and 14 blocks of another variant were compared with nothing.
#[test]
fn a_baseline_runs_in_as_many_blocks_as_any_variant_that_is_compared_with_it() {
    let blocks = |blocks: &str| {
        let text = format!("{TWO}[compare]\nbaseline = {{ a = 1 }}\nblocks = {blocks}\n");
        let experiment = sound(&small(&text, PUT));
        let mut all: Vec<_> =
            experiment.variants().iter().map(|of| (of.baseline, of.blocks.min, of.blocks.max)).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    assert_eq!(blocks("{ a.2 = 20 }"), [(false, 6, 6), (false, 20, 20), (true, 20, 20)]);
    assert_eq!(blocks("{ default = 9, a.1 = 6 }"), [(false, 9, 9), (true, 9, 9)]);
    let fewer = [(false, 6, 6), (false, 9, 9), (true, 9, 9)];
    assert_eq!(blocks("{ default = 9, a.2 = 6 }"), fewer, "a level with fewer blocks of its own keeps them");
    let ranges = [(false, 6, 30), (false, 20, 20), (true, 20, 30)];
    assert_eq!(blocks("{ default = { min = 6, max = 30 }, a.2 = 20 }"), ranges);
}

#[test]
fn the_design_says_which_combinations_run() {
    let design = |text: &str| levels(&sound(&small(&format!("{TWO}{text}"), PUT)));
    assert_eq!(design(""), [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]], "the last factor is fastest");
    assert_eq!(design("[design]\nskip = [{ a = [1, 3], b = \"y\" }]"), [[0, 0], [1, 0], [1, 1], [2, 0]]);
    let grids = "[[design.grid]]\na = [3, 1]\nb = \"x\"\n[[design.grid]]\na = 1\n";
    assert_eq!(design(grids), [[0, 0], [0, 1], [2, 0]], "duplicates are merged");
    let star = "[design]\nvary = \"one at a time\"\n[compare]\nbaseline = { a = 2, b = \"x\" }";
    assert_eq!(design(star), [[0, 0], [1, 0], [1, 1], [2, 0]]);
}

#[test]
fn strata_share_the_levels_that_the_baseline_does_not_name() {
    let experiment = sound(&small(&format!("{TWO}[compare]\nbaseline = {{ a = 2 }}"), PUT));
    let strata: Vec<(usize, bool)> = experiment.variants().iter().map(|v| (v.stratum, v.baseline)).collect();
    assert_eq!(strata, [(0, false), (1, false), (0, true), (1, true), (0, false), (1, false)]);
    let skipped = format!("{TWO}[compare]\nbaseline = {{ a = 2 }}\n[design]\nskip = [{{ a = 2, b = \"y\" }}]");
    let experiment = sound(&small(&skipped, PUT));
    assert_eq!(experiment.variants().iter().filter(|variant| variant.baseline).count(), 1, "a stratum may have none");
}

/// 8 factors with 5 levels each were refused: all their combinations are 390,625.
#[test]
fn variants_that_differ_in_one_factor_are_counted_without_all_other_combinations() {
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let of = |per_factor: &dyn Fn(&str) -> String| names.map(per_factor).join("");
    let factors = of(&|name| format!("{name} = [1, 2, 3, 4, 5]\n"));
    let baseline = names.map(|name| format!("{name} = 3")).join(", ");
    let file = |baseline: &str, design: &str| {
        format!(
            "[factors]\n{factors}[compare]\nbaseline = {{ {baseline} }}\n[design]\n{design}\n[program.x]\ncommand = \"x {}\"\n",
            of(&|name| format!(" {{{name}}}"))
        )
    };
    let star = sound(&file(&baseline, "vary = \"one at a time\""));
    assert_eq!(star.variants().len(), 1 + 8 * 4);
    assert_eq!(star.variants().iter().filter(|variant| variant.baseline).count(), 1);
    let partial = names[1..].iter().map(|name| format!("{name} = 3")).collect::<Vec<_>>().join(", ");
    let partial = sound(&file(&partial, "vary = \"one at a time\""));
    assert_eq!(partial.variants().len(), 5 * (1 + 7 * 4), "a star within each level of the factor that is left open");
    let ones = names[1..].iter().map(|name| format!("{name} = 1")).collect::<Vec<_>>().join(", ");
    assert_eq!(sound(&file("a = 3", &format!("grid = [{{ {ones} }}]"))).variants().len(), 5);
    assert!(faults(&file("a = 3", "")).contains("the factors make more than 100000 combinations"));
    let small = small(&format!("{TWO}[compare]\nbaseline = {{ a = 1 }}\n[design]\nvary = \"one at a time\"\n"), PUT);
    assert!(faults(&small).contains("`vary` excludes no variant"), "{}", faults(&small));
}

#[test]
fn the_command_line_changes_levels_blocks_and_seed() {
    let text = small(&format!("{TWO}[compare]\nbaseline = {{ a = 3 }}\nblocks = {{ default = 9, a.3 = 2 }}"), PUT);
    let pair = |factor: &str, levels: &[&str]| (factor.to_owned(), levels.iter().map(|l| (*l).to_owned()).collect());
    let overrides = Overrides {
        set: vec![pair("a", &["3", "7"])],
        only: vec![pair("b", &["y"])],
        blocks: Some(4),
        seed: Some(99),
        ..Overrides::default()
    };
    let experiment = sound_with(&text, &overrides);
    let labels: Vec<&str> = experiment.factors()[0].levels.iter().map(|level| level.label.as_str()).collect();
    assert_eq!((labels, experiment.factors()[1].levels.len()), (vec!["3", "7"], 1));
    assert_eq!(levels(&experiment), [[0, 0], [1, 0]], "indices count only what runs");
    assert_eq!(experiment.seed(), 99);
    let blocks: Vec<u32> = experiment.variants().iter().map(|variant| variant.blocks.max).collect();
    assert_eq!(blocks, [4, 4], "a baseline runs beside all");
    let keys: Vec<&KeySpec> = experiment.variants().iter().map(|v| &v.spec.data[0].key).collect();
    assert_eq!(keys[1], &KeySpec::Template { parts: vec!["7y-".into(), String::new()], pad: 0 });
}

#[test]
fn when_and_limits_make_phases_differ() {
    let phases = "[[phase]]\nname = \"load {b}\"\ntimed = false\nlimit = \"1 min\"\nput = { transaction = \"single\" }\n\
                  [[phase]]\nname = \"commit\"\nwhen = { b = \"x\", a = [1, 3] }\ncommit = {}\n\
                  [[phase]]\nname = \"read\"\nget = {}\n";
    let limits =
        "[limits]\nmemory = \"1 GiB\"\ncpus = 1.5\npids = 64\ntime = { trial = \"5 min\", phase = \"30 s\" }\n";
    let experiment = sound(&small(&format!("{TWO}{limits}"), phases));
    let names = |id: usize| experiment.variants()[id].spec.phases.iter().map(|p| p.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(0), ["load x", "commit", "read"]);
    assert_eq!(names(1), ["load y", "read"]);
    let grouping = |id: usize| experiment.variants()[id].spec.phases[0].action.ops().unwrap().transaction.clone();
    assert_eq!((grouping(0), grouping(1)), (Grouping::Open, Grouping::Single), "no commit follows in the second");
    let spec = &experiment.variants()[0].spec;
    assert_eq!((spec.phases[0].limit, spec.phases[2].limit), (Some(Nanos::from_secs(60)), Some(Nanos::from_secs(30))));
    assert_eq!((spec.limits.memory, spec.limits.pids), (Some(Bytes::from_mib(1024)), Some(64)));
    assert_eq!(
        experiment.compare().primary.as_ref().unwrap().to_string(),
        "read.time",
        "not every variant has `commit`"
    );
}

#[test]
fn every_action_and_option_is_read() {
    let phases = r#"
[[phase]]
name = "mix"
mix = { read = 95, insert = 5, scan_length = { uniform = 10 }, duration = "2 s", order = "latest", threads = 4, rate = { rate = "200/s", arrivals = "poisson" }, touch = false }
[[phase]]
name = "scan"
scan = {}
[[phase]]
name = "short scans"
scan = { length = 5, count = 7, sample = { one_in = 100 }, order = { hotspot = { records = "20%", operations = 0.8 } } }
[[phase]]
name = "settle"
settle = { quiet = "1 s" }
[[phase]]
name = "update"
update = { order = { zipfian = 0.5 }, sample = "none", pause = { every = 10, for = "1 ms" } }
[[phase]]
name = "wait"
pause = "3 s"
"#;
    let text = format!(
        "[store]\nengine = \"lmdb\"\n[data]\nrecords = 9\nkey = {{ template = \"k{{i}}\", pad = 4 }}\nvalue = \"v {{i}}\"\n{phases}"
    );
    let experiment = sound(&text);
    let spec = &experiment.variants()[0].spec;
    let lines: Vec<String> = spec.phases.iter().map(|phase| format!("{:?}", phase.action)).collect();
    insta::assert_snapshot!(format!("{:?}\n{}", spec.data, lines.join("\n")), @r#"
    [CollectionSpec { name: None, records: 9, key: Template { parts: ["k", ""], pad: 4 }, value: Bytes(BytesSpec { bytes: Fixed(Bytes(0)), compressible: Fraction(0.0), prefix: ["v ", ""] }) }]
    Mix(MixSpec { ops: Ops { collection: None, amount: Duration(Nanos(2000000000)), transaction: Each, order: Latest { theta: 0.99 }, replicas: None, threads: 4, share: Equal, pause: None, rate: Some(Arrivals { rate: PerSecond(200.0), poisson: true }), sample: Every, touch: false, references: Ignored }, weights: MixWeights { read: 95.0, update: 0.0, insert: 5.0, scan: 0.0, read_modify_write: 0.0, delete: 0.0 }, scan_length: UniformTo(10) })
    Scan(ScanSpec { ops: Ops { collection: None, amount: Count(1), transaction: Each, order: Shuffled, replicas: None, threads: 1, share: Equal, pause: None, rate: None, sample: Every, touch: true, references: Ignored }, length: None })
    Scan(ScanSpec { ops: Ops { collection: None, amount: Count(7), transaction: Each, order: Hotspot { records: Fraction(0.2), operations: Fraction(0.8) }, replicas: None, threads: 1, share: Equal, pause: None, rate: None, sample: OneIn(100), touch: true, references: Ignored }, length: Some(Fixed(5)) })
    Settle(SettleSpec { quiet: Nanos(1000000000), within: Nanos(600000000000), cpu: Fraction(0.02), bytes: Bytes(1000000), of: ["cpu", "written", "disk"], beside: ["dirty"] })
    Update(Ops { collection: None, amount: Records, transaction: Each, order: Zipfian { theta: 0.5 }, replicas: None, threads: 1, share: Equal, pause: Some(PauseEvery { every: 10, time: Nanos(1000000) }), rate: None, sample: None, touch: true, references: Ignored })
    Pause(Nanos(3000000000))
    "#);
}

#[test]
fn tables_are_read_in_order() {
    let tables = |text: &str| sound(&format!("{SOURCING}{text}")).tables().to_vec();
    let table = &tables("")[0];
    assert_eq!(
        (table.rows.as_slice(), table.tables.as_slice()),
        (["documents".to_owned()].as_slice(), ["engine".to_owned(), "chunking".to_owned()].as_slice())
    );
    let titles: Vec<&str> = table.columns.iter().map(|column| column.title.as_str()).collect();
    assert_eq!(titles, ["source, s", "source.rss.end", "source.rss.peak", "source.anon.end", "source.file.end"]);
    assert_eq!(table.columns[0].parts.len(), 4, "figure, text, figure, text");
    let more = "[[report.table]]\nselect = { documents = 1_000_000 }\nformat = \"mm:ss.ms\"\nstatistic = \"mean\"\n\
                columns = [\"engine\", \"source.time\", \"source.written / source.time\", \"source.rss.end:MB.1\"]\n";
    let table = &tables(more)[1];
    assert_eq!(
        (table.columns_by.as_slice(), table.rows.as_slice()),
        (["engine".to_owned()].as_slice(), ["chunking".to_owned()].as_slice()),
        "what is left over makes the rows"
    );
    assert_eq!(table.select["documents"], ["1000000"]);
    let formats: Vec<Option<&str>> = table
        .columns
        .iter()
        .map(|column| match &column.parts[0] {
            crate::design::CellPart::Figure { format, .. } => format.as_deref(),
            crate::design::CellPart::Text(_) => None,
        })
        .collect();
    assert_eq!(formats, [Some("mm:ss.ms"), Some("MB/s"), Some("MB.1")]);
}

#[test]
fn an_experiment_is_read_back_from_json() {
    let experiment = sound(SOURCING);
    let json = serde_json::to_string(&experiment).unwrap();
    assert_eq!(serde_json::from_str::<Experiment>(&json).unwrap(), experiment);
}

#[test]
fn a_key_of_the_levels_takes_values_from_the_command_line() {
    let text = small("[factors.a]\nl = { k = 2, p = \"0 ms\" }\ns = { k = 5, p = \"3 ms\" }\n", PUT)
        .replace("{a}", "{a.k}")
        .replace("{b}", "{a.p}");
    let pair = |factor: &str, levels: &[&str]| (factor.to_owned(), levels.iter().map(|l| (*l).to_owned()).collect());
    let over = |set: Vec<(String, Vec<String>)>, only| Overrides { set, only, ..Overrides::default() };
    let labels = |overrides: &Overrides| {
        let levels = sound_with(&text, overrides).factors()[0].levels.clone();
        levels.into_iter().map(|level| (level.label, level.value.to_string())).collect::<Vec<_>>()
    };
    let one = labels(&over(vec![pair("a.k", &["2", "7"]), pair("a.p", &["1 ms"])], vec![pair("a", &["l"])]));
    let said: Vec<&str> = one.iter().map(|(label, _)| label.as_str()).collect();
    assert_eq!(said, ["l p=1 ms", "l k=7 p=1 ms"], "labels say what differs from the file");
    assert_eq!(one[1].1, r#"{"k":7,"p":"1 ms"}"#);
    let both = labels(&over(vec![pair("a.k", &["7"])], vec![]));
    assert_eq!(both.len(), 2, "each level that runs");
    let wrong = faults_with(&text, &over(vec![pair("a.q", &["7"])], vec![pair("a", &["l"])]));
    assert!(wrong.contains("--set a.q: level `l` of `a` has no key `q`"), "{wrong}");
}

#[test]
fn a_search_lays_out_its_own_values_whatever_the_design_says_of_them() {
    let runs = |head: &str, free: &[&str]| {
        let set = vec![("a".to_owned(), vec!["7".to_owned()])];
        let free = free.iter().map(|name| (*name).to_owned()).collect();
        let text = small(&format!("{TWO}{head}"), PUT);
        let raw = parse(&text, "test.toml").unwrap();
        let checked = check(&raw, &Engines, &Overrides { set, free, ..Overrides::default() });
        checked.map(|experiment| experiment.variants().len()).unwrap_or(0)
    };
    let grid = "[[design.grid]]\na = [1, 2]\nb = \"x\"\n";
    assert_eq!((runs(grid, &[]), runs(grid, &["a"])), (0, 1), "the grid still chooses among the other factor's levels");
    let star = "[design]\nvary = \"one at a time\"\n[compare]\nbaseline = { a = 1, b = \"x\" }\n";
    assert_eq!((runs(star, &[]), runs(star, &["a"])), (0, 2), "without a search it would set the baseline aside");
    let skip = "[design]\nskip = [{ a = [1, 2, 3], b = \"x\" }, { b = \"y\" }]\n";
    assert_eq!(runs(skip, &["a"]), 1, "a skip of only the other factor applies");
}

/// 0.29 of 100 was 28.999999999999996, and 29 failed operations were too many.
#[test]
fn a_share_of_errors_allows_the_number_that_it_is() {
    for percent in 0..=100 {
        let share = AllowedErrors::Share(Fraction::new(f64::from(percent) / 100.0).unwrap());
        for offered in [100, 1_000_000, 10_000_000_000] {
            let bound = offered / 100 * u64::try_from(percent).unwrap();
            assert!(share.allows(bound, offered) && !share.allows(bound + 1, offered), "{percent} % of {offered}");
        }
    }
}
