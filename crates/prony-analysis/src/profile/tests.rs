use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use prony_model::profile::{Format, ProfileFile};
use prony_model::units::Nanos;

/// A `.cpuprofile` of stacks, each with the microseconds until the next sample.
fn cpuprofile(stacks: &[(&[&str], u64)], start: u64) -> String {
    let call = |name: &str| match name.split_once('@') {
        Some((name, url)) => {
            json!({"functionName": name, "scriptId": "1", "url": url, "lineNumber": 4, "columnNumber": 2})
        }
        None => json!({"functionName": name, "scriptId": "0", "url": "", "lineNumber": -1, "columnNumber": -1}),
    };
    let mut nodes = vec![json!({"id": 1, "callFrame": call("(root)"), "children": []})];
    let mut known: BTreeMap<Vec<&str>, u64> = BTreeMap::from([(vec![], 1)]);
    let (mut samples, mut deltas) = (Vec::new(), vec![0]);
    for (stack, micros) in stacks {
        for depth in 1..=stack.len() {
            let path = stack[..depth].to_vec();
            if known.contains_key(&path) {
                continue;
            }
            let id = nodes.len() as u64 + 1;
            nodes.push(json!({"id": id, "callFrame": call(stack[depth - 1]), "children": []}));
            let above = known[&path[..depth - 1]];
            nodes[above as usize - 1]["children"].as_array_mut().unwrap().push(json!(id));
            known.insert(path, id);
        }
        samples.push(known[&stack.to_vec()]);
        deltas.push(*micros);
    }
    let end = start + deltas.iter().sum::<u64>();
    deltas.pop();
    json!({"nodes": nodes, "startTime": start, "endTime": end, "samples": samples, "timeDeltas": deltas}).to_string()
}

fn of(stacks: &[(&[&str], u64)]) -> Profile {
    let mut builder = Builder::default();
    builder.add_cpuprofile(&cpuprofile(stacks, 1_000)).unwrap();
    builder.finish()
}

/// Own and total microseconds by name.
fn by_name(profile: &Profile, shares: &[Share]) -> BTreeMap<String, (u64, u64)> {
    let micros = |time: Nanos| time.as_nanos() / 1_000;
    let name = |share: &Share| profile.functions[share.of].name.clone();
    shares.iter().map(|share| (name(share), (micros(share.own), micros(share.total)))).collect()
}

const BUILD: &[(&[&str], u64)] = &[
    (&["main@file:///site/build.js"], 5),
    (&["main@file:///site/build.js", "walk@file:///site/build.js"], 10),
    (&["main@file:///site/build.js", "walk@file:///site/build.js", "walk@file:///site/build.js"], 20),
    (&["main@file:///site/build.js", "put@file:///site/node_modules/lmdb/index.js"], 40),
    (&["main@file:///site/build.js", "put@file:///site/node_modules/lmdb/index.js", "(garbage collector)"], 3),
    (&["(idle)"], 100),
    (&["(program)"], 2),
];

#[test]
fn own_and_total_times_by_function_count_recursion_once() {
    let profile = of(BUILD);
    let selection = profile.during(None);
    assert_eq!(
        (selection.samples, selection.busy, selection.idle),
        (6, Nanos::from_micros(80), Nanos::from_micros(100))
    );
    let times = selection.times();
    let expected = [
        ("main", (5, 78)),
        ("walk", (30, 30)),
        ("put", (40, 43)),
        ("(garbage collector)", (3, 3)),
        ("(program)", (2, 2)),
    ];
    let expected: BTreeMap<String, (u64, u64)> = expected.into_iter().map(|(n, t)| (n.to_owned(), t)).collect();
    assert_eq!(by_name(&profile, &times.functions), expected);
    let order: Vec<&str> = times.functions.iter().map(|s| profile.functions[s.of].name.as_str()).collect();
    assert_eq!(order, ["put", "walk", "main", "(garbage collector)", "(program)"]);
}

#[test]
fn packages_have_the_time_of_all_that_they_call() {
    let profile = of(BUILD);
    let packages = profile.during(None).times().packages;
    let summary: Vec<(&str, u64, u64)> = packages
        .iter()
        .map(|s| (profile.packages[s.of].as_str(), s.own.as_nanos() / 1_000, s.total.as_nanos() / 1_000))
        .collect();
    assert_eq!(
        summary,
        [("lmdb", 40, 43), ("the program", 35, 78), ("(garbage collector)", 3, 3), ("(program)", 2, 2)]
    );
}

#[test]
fn phases_have_the_samples_that_began_in_them() {
    let profile = of(BUILD);
    // Samples at 1000, 1005, 1015, 1035, 1075, 1078, 1178 microseconds.
    let span = |from, to| Nanos::from_micros(from)..Nanos::from_micros(to);
    let first = profile.during(Some(&span(1_000, 1_035)));
    let second = profile.during(Some(&span(1_035, 2_000)));
    assert_eq!((first.samples, second.samples), (3, 3));
    assert_eq!(first.busy + second.busy, profile.during(None).busy);
    assert_eq!((first.idle, second.idle), (Nanos::ZERO, Nanos::from_micros(100)));
    assert_eq!(profile.during(Some(&span(1_001, 1_005))).samples, 0, "its end is not within");
}

#[test]
fn functions_have_their_places() {
    let profile = of(BUILD);
    let put = profile.functions.iter().find(|f| f.name == "put").unwrap();
    assert_eq!((put.file.as_str(), put.line, put.column), ("/site/node_modules/lmdb/index.js", Some(5), Some(3)));
    assert_eq!(put.label(), "put (index.js:5)");
    let program = profile.functions.iter().find(|f| f.name == "(program)").unwrap();
    assert_eq!((program.line, program.label().as_str()), (None, "(program)"));
}

/// Functions of one name in line 1 of `a/index.js` and of `b/index.js` were one line of folded stacks.
#[test]
fn labels_of_functions_are_distinct() {
    let function = |(name, file, line, column): (&str, &str, Option<u32>, Option<u32>)| Function {
        name: name.into(),
        file: file.into(),
        line,
        column,
        package: 0,
        idle: false,
    };
    let labels = [
        (("work", "/s/a/index.js", Some(1), Some(24)), "work (a/index.js:1)"),
        (("work", "/s/b/index.js", Some(1), Some(24)), "work (b/index.js:1)"),
        (("work", "/s/b/index.js", Some(2), Some(24)), "work (index.js:2)"),
        (("main", "/s/b/index.js", Some(1), Some(1)), "main (index.js:1)"),
        (("get", "/s/x/lib/get.js", Some(3), Some(1)), "get (x/lib/get.js:3)"),
        (("get", "/s/y/lib/get.js", Some(3), Some(1)), "get (y/lib/get.js:3)"),
        (("(anonymous)", "/s/min.js", Some(1), Some(70)), "(anonymous) (min.js:1:70)"),
        (("(anonymous)", "/s/min.js", Some(1), Some(9)), "(anonymous) (min.js:1:9)"),
        (("load", "fs.js", Some(1), Some(9)), "load (fs.js:1)"),
        (("load", "/fs.js", Some(1), Some(9)), "load (/fs.js:1)"),
        (("put", "/usr/lib/libx.so", None, None), "put (lib/libx.so)"),
        (("put", "/opt/libx.so", None, None), "put (opt/libx.so)"),
        (("(program)", "", None, None), "(program)"),
        (("compiled", "", Some(3), Some(9)), "compiled (line 3)"),
        (("twice", "", Some(3), Some(9)), "twice (line 3:9)"),
        (("twice", "", Some(3), Some(70)), "twice (line 3:70)"),
    ];
    let functions = labels.iter().map(|(of, _)| function(*of)).collect();
    let profile = Profile { functions, ..Profile::default() };
    assert_eq!(profile.labels(), labels.map(|(_, label)| label));
    assert_eq!(profile.functions[0].place(), "/s/a/index.js:1:24");
}

#[test]
fn folded_stacks_do_not_merge_functions() {
    let profile = of(&[(&["work@file:///s/a/index.js"], 3), (&["work@file:///s/b/index.js"], 5)]);
    assert_eq!(folded(&profile.during(None), ""), "work (a/index.js:5) 3\nwork (b/index.js:5) 5\n");
}

/// As Node 20 writes them: builtins and native functions have no line, and what is compiled at run time has no file.
#[test]
fn functions_that_are_compiled_at_run_time_have_lines_and_a_package() {
    let call = |name: &str, line: i64, column: i64| json!({"functionName": name, "scriptId": "82", "url": "", "lineNumber": line, "columnNumber": column});
    let nodes = json!([
        {"id": 1, "callFrame": call("(root)", -1, -1), "children": [2, 3]},
        {"id": 2, "callFrame": call("", 0, 19)},
        {"id": 3, "callFrame": call("push", -1, -1)},
    ]);
    let file = json!({"nodes": nodes, "startTime": 0, "endTime": 9, "samples": [2, 3], "timeDeltas": [1, 4]});
    let mut builder = Builder::default();
    builder.add_cpuprofile(&file.to_string()).unwrap();
    let perf = "node 7/7 1.000000001: 1000 cpu-clock:\n\t 1a JS:*work :1:15 (/tmp/perf-7.map)\n\n";
    builder.add_perf_script(perf).unwrap();
    let profile = builder.finish();
    let of = |label: &str| {
        let at = profile.labels().iter().position(|known| known == label).unwrap();
        profile.packages[profile.functions[at].package].as_str()
    };
    assert_eq!(of("(anonymous) (line 1)"), "(compiled at run time)");
    assert_eq!(of("work (line 1)"), "(compiled at run time)");
    assert_eq!(of("push"), "native");
}

#[test]
fn time_never_runs_backwards() {
    let mut value: Value = serde_json::from_str(&cpuprofile(BUILD, 1_000)).unwrap();
    value["timeDeltas"][2] = json!(-7);
    let mut builder = Builder::default();
    builder.add_cpuprofile(&value.to_string()).unwrap();
    let profile = builder.finish();
    assert!(profile.samples.windows(2).all(|pair| pair[0].at <= pair[1].at));
    assert_eq!(profile.samples.len(), BUILD.len());
}

#[test]
fn the_readings_of_the_preload_say_how_sure_instants_are() {
    let mut value: Value = serde_json::from_str(&cpuprofile(BUILD, 1_000)).unwrap();
    value["prony"] = json!({"pid": 42, "thread": 3, "name": "build.js",
                            "started": [990_000, 1_200_000], "stopped": [1_179_000, 1_181_000]});
    let mut builder = Builder::default();
    builder.add_cpuprofile(&value.to_string()).unwrap();
    let profile = builder.finish();
    assert_eq!(profile.uncertainty, Nanos::from_micros(1));
    assert_eq!(profile.thread_name(0), "build.js [42, thread 3]");
    assert_eq!(profile.samples[0].at, Nanos::from_micros(1_000));
}

#[test]
fn damage_is_an_error_and_says_where() {
    for (text, what) in [
        ("{}", "missing field"),
        ("not json", "expected"),
        (r#"{"nodes":[],"startTime":1,"endTime":2,"samples":[7],"timeDeltas":[0]}"#, "node 7, which does not exist"),
    ] {
        let error = Builder::default().add_cpuprofile(text).unwrap_err();
        assert!(error.to_string().contains(what), "{error}");
    }
    let file = ProfileFile { name: "x".into(), format: Format::PerfScript, body: b"hello".to_vec() };
    let error = Profile::from_files(&[file]).unwrap_err();
    assert_eq!(error.to_string(), "this is not a valid profile: `x`: line 1: not the first line of a sample: `hello`");
    let twice = json!({"nodes": [
        {"id": 1, "callFrame": {"functionName": "(root)"}, "children": [2, 2]},
        {"id": 2, "callFrame": {"functionName": "a"}}], "startTime": 0, "endTime": 1});
    assert!(Builder::default().add_cpuprofile(&twice.to_string()).is_err());
}

const PERF: &str = "\
# what perf says first
sh 7/7 10.000000001:    5000000 cpu-clock:\x20
\tffffffff816b7f72 __x64_sys_close ([kernel.kallsyms])
\t           f89f0 __close (/usr/lib/libc.so.6)
\t            742c main (/usr/bin/sh)

my prog 8/9 10.005000001:    5000000 cpu-clock:\x20
\t 10 <redb::Tree<K> as x::Y>::put (/usr/bin/prony)
\t 11 main (/usr/bin/prony)

my prog 8/9 10.010000001:    5000000 cpu-clock:\x20

";

#[test]
fn the_text_of_perf_becomes_stacks() {
    let mut builder = Builder::default();
    builder.add_perf_script(PERF).unwrap();
    let profile = builder.finish();
    let selection = profile.during(None);
    assert_eq!((selection.samples, selection.busy), (3, Nanos::from_millis(15)));
    assert_eq!(profile.threads.len(), 2);
    let packages: Vec<&str> = profile.packages.iter().map(String::as_str).collect();
    assert_eq!(packages, ["sh", "libc.so.6", "kernel", "prony", "prony: redb", "unknown"]);
    assert_eq!(
        folded(&selection, "a;b"),
        "a:b;my prog [8, thread 9];(unknown) 5000\n\
         a:b;my prog [8, thread 9];main (prony);<redb::Tree<K> as x::Y>::put (prony) 5000\n\
         a:b;sh [7];main (sh);__close (libc.so.6);__x64_sys_close ([kernel.kallsyms]) 5000\n"
    );
}

#[test]
fn callers_that_perf_could_not_follow_are_said_to_be_unknown() {
    let cut = "a 8/8 1.000000000:  1000000 cpu-clock:\n\t 10 put (/usr/bin/a)\n\tffffffffffffffff [unknown] ([unknown])\n\n\
               a 8/8 1.001000000:  1000000 cpu-clock:\n\t 10 [unknown] ([unknown])\n";
    let mut builder = Builder::default();
    builder.add_perf_script(cut).unwrap();
    let profile = builder.finish();
    assert_eq!(folded(&profile.during(None), ""), "(callers not known);put (a) 1000\n[unknown] ([unknown]) 1000\n");
}

#[test]
fn speedscope_gets_a_profile_for_each_thread() {
    let mut builder = Builder::default();
    builder.add_perf_script(PERF).unwrap();
    let profile = builder.finish();
    let file = speedscope("title", &profile, &[("run".into(), profile.during(None))]);
    let profiles = file["profiles"].as_array().unwrap();
    assert_eq!(profiles.len(), 2);
    assert_eq!(profiles[0]["name"], "run: sh [7]");
    assert_eq!((&profiles[0]["type"], &profiles[0]["unit"]), (&json!("sampled"), &json!("nanoseconds")));
    assert_eq!(
        (&profiles[1]["endValue"], &profiles[1]["weights"]),
        (&json!(10_000_000), &json!([5_000_000, 5_000_000]))
    );
    let stack = profiles[0]["samples"][0].as_array().unwrap();
    let names: Vec<&Value> =
        stack.iter().map(|at| &file["shared"]["frames"][at.as_u64().unwrap() as usize]["name"]).collect();
    assert_eq!(names, ["main", "__close", "__x64_sys_close"], "the outermost call first");
}

#[test]
fn flame_graph_leaves_out_invisible_frames() {
    let profile = of(BUILD);
    let selection = profile.during(None);
    let whole = Flame::of(&selection, 0.0);
    let shown: Vec<(&str, u64, u64)> = whole.nodes.iter().map(|node| summary(&profile, node)).collect();
    assert_eq!(whole.left_out, 0);
    assert!(shown.contains(&("walk", 30, 10)) && shown.contains(&("walk", 20, 20)), "{shown:?}");
    let cut = Flame::of(&selection, 0.05);
    assert_eq!(cut.left_out, 2, "the garbage collector and (program)");
    assert_eq!(summary(&profile, cut.nodes.iter().find(|n| summary(&profile, n).0 == "put").unwrap()), ("put", 43, 40));
}

fn summary<'p>(profile: &'p Profile, node: &FlameNode) -> (&'p str, u64, u64) {
    let What::Function(function) = node.what else { panic!("one thread has no root of its own") };
    (&profile.functions[function].name, node.total.as_nanos() / 1_000, node.own.as_nanos() / 1_000)
}

#[test]
fn a_flame_graph_of_endless_recursion_has_an_end() {
    let deep: Vec<&str> = vec!["again@file:///a.js"; 600];
    let profile = of(&[(&deep, 10)]);
    let flame = Flame::of(&profile.during(None), 0.001);
    assert_eq!((flame.nodes.len(), flame.left_out), (250, 350));
    assert_eq!(profile.during(None).times().functions[0].total, Nanos::from_micros(10));
}

/// perf's output for so many threads that each ran once, every second one deeper by a call.
fn many_threads(threads: u32) -> Profile {
    let one = |tid: u32| {
        let deeper = if tid.is_multiple_of(2) { "\t 10 step (/usr/bin/prony)\n" } else { "" };
        format!("worker 1/{tid} 10.000000001:    1000000 cpu-clock: \n{deeper}\t 11 main (/usr/bin/prony)\n\n")
    };
    let mut builder = Builder::default();
    builder.add_perf_script(&(2..2 + threads).map(one).collect::<String>()).unwrap();
    builder.finish()
}

#[test]
fn small_threads_are_one_root_together() {
    let profile = many_threads(5_000);
    let selection = profile.during(None);
    let flame = Flame::of(&selection, 0.001);
    let whole = Nanos::from_secs(5);
    assert_eq!(flame.nodes.len(), 3, "a root, `main` and `step`: {:?}", &flame.nodes[..3]);
    assert_eq!((flame.nodes[0].what, flame.nodes[0].total, selection.busy), (What::Rest(5_000), whole, whole));
    assert_eq!(flame.nodes[1..].iter().map(|n| n.total.as_nanos() / 1_000_000).collect::<Vec<_>>(), [5_000, 2_500]);
    assert_eq!(Flame::of(&selection, 0.0).nodes.len(), 5_000 + 5_000 + 2_500, "all of it where nothing is too small");
    assert_eq!(Flame::of(&selection, 2.0).nodes.len(), 1);
}

#[test]
fn one_small_thread_among_large_ones_keeps_its_name() {
    let profile = many_threads(3);
    let flame = Flame::of(&profile.during(None), 0.4);
    let roots: Vec<What> = flame.nodes.iter().filter(|n| n.parent.is_none()).map(|n| n.what).collect();
    assert_eq!(roots, [What::Rest(3)], "each has a third");
    let mut builder = Builder::default();
    builder.add_perf_script(PERF).unwrap();
    let profile = builder.finish();
    let flame = Flame::of(&profile.during(None), 0.5);
    let roots: Vec<What> = flame.nodes.iter().filter(|n| n.parent.is_none()).map(|n| n.what).collect();
    assert_eq!(roots, [What::Thread(1), What::Thread(0)]);
}

/// Stacks of a few names, so that recursion and common callers are frequent.
fn stacks() -> impl Strategy<Value = Vec<(Vec<&'static str>, u64)>> {
    let name =
        prop::sample::select(vec!["a@file:///x.js", "b@file:///x.js", "c@/n/node_modules/p/i.js", "d", "(idle)"]);
    prop::collection::vec((prop::collection::vec(name, 0..9), 0..50u64), 0..40)
}

fn built(stacks: &[(Vec<&'static str>, u64)]) -> Profile {
    of(&stacks.iter().map(|(stack, time)| (stack.as_slice(), *time)).collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn own_times_add_up_to_totals(stacks in stacks()) {
        let profile = built(&stacks);
        let selection = profile.during(None);
        let times = selection.times();
        for shares in [&times.functions, &times.packages] {
            let own = shares.iter().fold(Nanos::ZERO, |sum, share| sum + share.own);
            prop_assert_eq!(own, selection.busy);
            for share in shares {
                prop_assert!(share.own <= share.total && share.total <= selection.busy);
            }
        }
        let all: u64 = stacks.iter().map(|(_, time)| time * 1_000).sum();
        prop_assert_eq!((selection.busy + selection.idle).as_nanos(), all);
    }

    #[test]
    fn totals_are_what_counting_stack_by_stack_gives(stacks in stacks()) {
        let mut expected: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (stack, time) in stacks.iter().filter(|(stack, _)| stack.last() != Some(&"(idle)")) {
            let names: std::collections::BTreeSet<&str> = stack.iter().copied().collect();
            names.iter().for_each(|name| expected.entry(name).or_default().1 += time);
            let innermost = stack.last().copied().unwrap_or("(unknown)");
            expected.entry(innermost).or_default().0 += time;
            if stack.is_empty() {
                expected.entry("(unknown)").or_default().1 += time;
            }
        }
        let expected: BTreeMap<String, (u64, u64)> =
            expected.into_iter().map(|(name, times)| (name.split('@').next().unwrap().to_owned(), times)).collect();
        let profile = built(&stacks);
        prop_assert_eq!(by_name(&profile, &profile.during(None).times().functions), expected);
    }

    #[test]
    fn a_cut_between_phases_loses_and_doubles_nothing(stacks in stacks(), cut in 0..3_000u64) {
        let profile = built(&stacks);
        let cut = Nanos::from_micros(cut);
        let (before, after) = (Nanos::ZERO..cut, cut..Nanos::from_secs(1));
        let (before, after) = (profile.during(Some(&before)), profile.during(Some(&after)));
        let all = profile.during(None);
        prop_assert_eq!(before.samples + after.samples, all.samples);
        prop_assert_eq!(before.busy + after.busy, all.busy);
        prop_assert_eq!(before.chosen().len() + after.chosen().len(), stacks.len());
    }

    #[test]
    fn a_whole_flame_graph_has_all_of_the_time(stacks in stacks()) {
        let profile = built(&stacks);
        let selection = profile.during(None);
        let flame = Flame::of(&selection, 0.0);
        let own = flame.nodes.iter().fold(Nanos::ZERO, |sum, node| sum + node.own);
        prop_assert_eq!(own, selection.busy);
        for (at, node) in flame.nodes.iter().enumerate() {
            let below = flame.nodes.iter().filter(|n| n.parent == Some(at)).fold(node.own, |sum, n| sum + n.total);
            prop_assert_eq!(below, node.total);
            prop_assert!(node.parent.is_none_or(|parent| parent < at));
        }
    }

    #[test]
    fn folded_stacks_and_speedscope_contain_the_same_time(stacks in stacks()) {
        let profile = built(&stacks);
        let selection = profile.during(None);
        let text = folded(&selection, "");
        let micros: u64 = text.lines().map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap()).sum();
        prop_assert_eq!(micros * 1_000, selection.busy.as_nanos());
        let file = speedscope("", &profile, &[(String::new(), selection.clone())]);
        let end: u64 = file["profiles"].as_array().unwrap().iter().map(|p| p["endValue"].as_u64().unwrap()).sum();
        prop_assert_eq!(end, (selection.busy + selection.idle).as_nanos());
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in "\\PC{0,200}", lines in "[ \t0-9a-f().:/\n]{0,200}") {
        let _ = Builder::default().add_cpuprofile(&text);
        let _ = Builder::default().add_perf_script(&text);
        let _ = Builder::default().add_perf_script(&lines);
    }
}
