#!/usr/bin/env python3
"""Crosscheck: prony against instruments that others wrote, on programs of fixed work.

    bench/crosscheck/run.py [--only TEXT] [--pairs 10,20,40,80] [--seed N]      # after `cargo build --release -p prony`

Each round runs every program once under prony and once under each outside instrument, in random order; what a program
or its runtime reports of itself (VmHWM, smaps, --trace-gc) is read from the very run that prony measured. A line is one
quantity: the median of each instrument, and the interval of the median of the paired ratios prony / outside. The interval
is that of the sign test (order statistics, exact for any distribution), at 95 % over all analyses together. Analyses lie
after the numbers of pairs in --pairs, fixed beforehand; a program is not run again once all of its lines are decided.

    agrees         the interval lies within 0.98 to 1.02
    differs        the interval lies outside of it
    inconclusive   neither, after all pairs

The exit code is 0 where every line agrees, 1 where one does not, 2 where something could not be run.
"""
import argparse
import json
import math
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
LOW, HIGH = 0.98, 1.02
ALPHA = 0.05


class CannotRun(Exception):
    """A tool or program that does not do what the crosscheck needs."""


def run(words, **more):
    done = subprocess.run(words, capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise CannotRun(f"`{' '.join(words)}` ended with {done.returncode}: {(done.stderr or done.stdout)[-400:]}")
    return done


# Outside instruments: a command in, values by name out. Times in seconds, memory in bytes.

def hyperfine(command):
    run(["hyperfine", "-N", "--runs", "2", "--style", "none", "--export-json", "hyperfine.json", command_text(command)])
    with open("hyperfine.json", encoding="utf8") as file:
        result = json.load(file)["results"][0]
    # Its user and system times are means; so that all three are of the same runs, the wall time is too.
    cpu = result["user"] + result["system"]
    return {"wall": result["mean"], "user": result["user"], "system": result["system"], "cpu": cpu}


def gnu_time(command):
    run(["/usr/bin/time", "-v", "-o", "time.txt"] + command)
    with open("time.txt", encoding="utf8") as file:
        text = file.read()
    figure = lambda name: float(re.search(re.escape(name) + r"[^:]*: ([\d.]+)", text).group(1))
    return {
        "peak": figure("Maximum resident set size") * 1024,
        "faults": figure("Minor (reclaiming a frame) page faults"),
        "switches": figure("Voluntary context switches"),
        "written": figure("File system outputs") * 512,
    }


def strace(command):
    run(["strace", "-f", "-c", "-o", "strace.txt", "-e", "trace=fsync,fdatasync"] + command)
    counts = {"fsync": 0.0, "fdatasync": 0.0}
    with open("strace.txt", encoding="utf8") as file:
        for line in file:
            words = line.split()
            if words and words[-1] in counts:
                counts[words[-1]] = float(words[3])
    return counts


# What a program says of itself, from the output of the run that prony measured.

def own_status(output):
    peak, anon = re.search(r"peak (\d+) anon (\d+)", output).groups()
    return {"peak": int(peak) * 1024, "anon": int(anon) * 1024}


def own_pss(output):
    return {"pss": int(re.search(r"pss (\d+)", output).group(1)) * 1024}


def trace_gc(_output):
    with open("gc.txt", encoding="utf8") as file:
        pauses = re.findall(r"ms: (?:Scavenge|Mark-[Cc]ompact|Mark-sweep)[^/]*?MB, ([\d.]+) / [\d.]+ ms", file.read())
    return {"count": float(len(pauses)), "time": sum(map(float, pauses)) / 1e3}


def command_text(command):
    return " ".join("'" + word.replace("'", "'\\''") + "'" for word in command)


class Program:
    """A program, its instruments, and the lines: (quantity, metric of prony, its scale, instrument, name there)."""

    def __init__(self, name, command, lines, phases="", extra=""):
        self.name, self.command, self.lines, self.phases, self.extra = name, command, lines, phases, extra

    def file(self):
        words = ", ".join(json.dumps(word) for word in self.command)
        return f"[program.p]\ncommand = [{words}]\n{self.extra}\n[compare]\nblocks = 1\n{self.phases}"

    def by_prony(self, prony):
        """Readings by `phase.metric`, and what the program printed."""
        with open("p.toml", "w", encoding="utf8") as file:
            file.write(self.file())
        for name in os.listdir("."):
            if name.startswith("p.db"):
                os.remove(name)
        run([prony, "run", "p.toml", "-q", "--database", "p.db"])
        record = json.loads(run([prony, "report", "--database", "p.db", "--format", "json"]).stdout)
        variant = record["variants"][0]
        trial = variant["trials"][0]
        if trial["ending"]["outcome"]["kind"] != "ok":
            raise CannotRun(f"`{self.name}` under prony: {trial['ending']}")
        readings = {}
        for column in variant["readings"]:
            where = ".".join(column[part] for part in ("phase", "instance", "metric") if column[part])
            value = column["values"][0]
            readings[where] = record["reasons"][column["missing"][0]]["text"] if value is None else value
        effective = {**variant["effective"], **trial["effective"]}
        return readings, effective["output"]["stdout"]["first"]


def programs(folder):
    work, mapped = os.path.join(folder, "work"), os.path.join(folder, "mapped")
    run(["cc", "-O2", "-o", work, os.path.join(HERE, "work.c")])
    with open(mapped, "wb") as file:
        file.write(os.urandom(200_000_000))
    memory = [
        ("peak of resident memory", "run.rss.peak", 1, gnu_time, "peak"),
        ("peak of resident memory", "run.rss.peak", 1, own_status, "peak"),
        ("anonymous memory", "run.anon.max", 1, own_status, "anon"),
        ("minor page faults", "run.faults.minor", 1, gnu_time, "faults"),
    ]
    until_pss = "[[phase]]\nname = \"mapped\"\nbegin = { line = '^mapped' }\nend = { line = '^pss' }\n"
    gc = ["sh", "-c", f"exec node --trace-gc {os.path.join(HERE, 'gc.js')} > {os.path.join(folder, 'gc.txt')}"]
    return [
        Program("compute", [work, "compute", "400000000"], [
            ("wall time", "run.wall", 1e-9, hyperfine, "wall"),
            ("CPU time", "run.cpu", 1e-9, hyperfine, "cpu"),
            ("CPU time in user mode", "run.cpu.user", 1e-9, hyperfine, "user"),
        ]),
        Program("calls", [work, "calls", "6000000"], [
            ("CPU time", "run.cpu", 1e-9, hyperfine, "cpu"),
            ("CPU time in the kernel", "run.cpu.system", 1e-9, hyperfine, "system"),
        ]),
        Program("memory", [work, "memory", "300"], memory),
        Program("switches", [work, "switches", "2000"], [
            ("voluntary context switches", "run.switches.voluntary", 1, gnu_time, "switches"),
        ]),
        Program("sync", [work, "sync", "60", "30"], [
            ("fsync calls", "run.fsync", 1, strace, "fsync"),
            ("fdatasync calls", "run.fdatasync", 1, strace, "fdatasync"),
        ], phases="[observe]\nsyncs = true\n"),
        Program("write", [work, "write", "50"], [("bytes written", "run.written", 1, gnu_time, "written")]),
        Program("readers", [work, "readers", mapped, "4"], [("PSS of five processes", "mapped.pss.end", 1, own_pss, "pss")], phases=until_pss),
        Program("collections", gc, [
            ("collections", "run.gc.count", 1, trace_gc, "count"),
            ("time in collections", "run.gc.time", 1e-9, trace_gc, "time"),
        ], extra="runtime = \"node\""),
    ]


def interval(ratios, alpha):
    """The sign test's interval of the median: order statistics k and n + 1 - k; None where there are too few."""
    n, below, k = len(ratios), 0.0, 0
    while k <= n // 2:
        below += math.comb(n, k) / 2 ** n
        if 2 * below > alpha:
            break
        k += 1
    ordered = sorted(ratios)
    return (ordered[k - 1], ordered[n - k]) if k else None


def judge(found):
    if found is None:
        return "inconclusive"
    low, high = found
    if LOW <= low and high <= HIGH:
        return "agrees"
    return "differs" if high < LOW or low > HIGH else "inconclusive"


def one_round(program, prony, pairs):
    """Runs a program under each of its instruments, in random order, and adds a pair to each of its lines."""
    own = [own_status, own_pss, trace_gc]
    outside = {instrument for _, _, _, instrument, _ in program.lines if instrument not in own}
    order = sorted(outside, key=lambda instrument: instrument.__name__) + [None]
    random.shuffle(order)
    readings, figures = None, {}
    for instrument in order:
        if instrument is None:
            readings, output = program.by_prony(prony)
            figures.update((own_instrument, own_instrument(output)) for own_instrument in own
                           if any(line[3] is own_instrument for line in program.lines))
        else:
            figures[instrument] = instrument(program.command)
    for at, (_, metric, scale, instrument, name) in enumerate(program.lines):
        value = readings.get(metric, "no such metric in the record")
        pairs[at].append((value * scale if isinstance(value, float) else value, figures[instrument][name]))


def row(program, line, pairs, alpha):
    quantity, _, _, instrument, _ = line
    missing = [ours for ours, _ in pairs if not isinstance(ours, float)]
    title = f"{program.name:<12} {quantity:<28} {instrument.__name__:<11} {len(pairs):>5}"
    if missing:
        return "differs", f"{title}  missing in {len(missing)} runs: {missing[0]}"
    ratios = [ours / theirs if theirs else (1.0 if ours == theirs else math.inf) for ours, theirs in pairs]
    found = interval(ratios, alpha)
    medians = [statistics.median(column) for column in zip(*pairs)]
    text = "-" if found is None else f"{found[0]:.4f} to {found[1]:.4f}"
    verdict = judge(found)
    error = f"{(statistics.median(ratios) - 1) * 100:+.2f} %"
    return verdict, f"{title} {medians[0]:>13.6g} {medians[1]:>13.6g} {error:>9}  {text:<18} {verdict}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="programs whose name holds this text")
    parser.add_argument("--pairs", default="10,20,40,80", help="numbers of pairs after which lines are judged")
    parser.add_argument("--seed", type=int, default=1, help="seed of the order of instruments")
    parser.add_argument("--prony", default=os.path.join(HERE, "../../target/release/prony"), help="the binary")
    wanted = parser.parse_args()
    random.seed(wanted.seed)
    analyses = [int(text) for text in wanted.pairs.split(",")]
    for tool in ("cc", "hyperfine", "strace", "/usr/bin/time", "node", wanted.prony):
        if shutil.which(tool) is None:
            raise CannotRun(f"`{tool}` is missing")
    prony = os.path.abspath(wanted.prony)
    target = os.path.join(HERE, "../../target")
    with tempfile.TemporaryDirectory(prefix="crosscheck.", dir=target if os.path.isdir(target) else None) as folder:
        os.chdir(folder)
        # prony gives a program a TMPDIR on the file system of its database, which lies here too.
        os.environ["TMPDIR"] = folder
        print(f"{'program':<12} {'quantity':<28} {'outside':<11} {'pairs':>5} {'prony':>13} {'outside':>13} {'error':>9}"
              f"  {'interval of ratio':<18} verdict")
        verdicts = [verdict for program in programs(folder) if wanted.only in program.name
                    for verdict in one_program(program, prony, analyses)]
        os.chdir("/")
    if not verdicts:
        raise CannotRun(f"no program's name holds `{wanted.only}`")
    counts = ", ".join(f"{verdicts.count(name)} {name}" for name in ("agrees", "differs", "inconclusive"))
    print(f"\n{len(verdicts)} lines: {counts}; load {os.getloadavg()[0]:.2f}")
    return 0 if all(verdict == "agrees" for verdict in verdicts) else 1


def one_program(program, prony, analyses):
    """Runs a program until each of its lines is decided or all pairs have run; prints and returns what they say."""
    pairs = [[] for _ in program.lines]
    rows = []
    for number in analyses:
        while len(pairs[0]) < number:
            one_round(program, prony, pairs)
        rows = [row(program, line, column, ALPHA / len(analyses)) for line, column in zip(program.lines, pairs)]
        if all(verdict != "inconclusive" for verdict, _ in rows):
            break
    for _, text in rows:
        print(text, flush=True)
    return [verdict for verdict, _ in rows]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (CannotRun, AttributeError, KeyError, ValueError, OSError) as error:
        # The others: an instrument printed something else than is expected of it.
        print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(2)
