#!/usr/bin/env python3
"""Requests per second and CPU time per request of `prony load`, wrk, oha and autocannon, beside each other.

    bench/http/run.py [ROUNDS [SECONDS [CONNECTIONS]]]

Each round runs every tool once for SECONDS (3) with CONNECTIONS (50) against the same server of `server.c`, in random
order; the tools run on processor 0, the server on processor 1. Printed are medians, and the ratio of each tool's figures
to those of `prony load` in the same round: the median of ROUNDS (12), with the interval between order statistics that
contains the true median with at least 95 % probability. `server` is the server's CPU time as a share of its processor
while the tool ran: near 100 % the server is the limit, and only the CPU time per request says something about the tool.

The tools: the release build of prony in `target/`, `wrk` and, where the environment names them, OHA (a path) and
AUTOCANNON (the path of `autocannon.js`).
"""
import json
import math
import os
import random
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
ROUNDS, SECONDS, CONNECTIONS = (int(a) for a in (sys.argv[1:] + ["12", "3", "50"][len(sys.argv) - 1:]))


def tools(url):
    """Command and a function from its output to the number of whole answers and the seconds they took."""
    load, c, d = os.path.join(ROOT, "target/release/prony"), str(CONNECTIONS), str(SECONDS)

    def of_prony(text):
        report = json.loads(text)
        assert report["requests"] == report["ok"], report["errors"]
        return report["ok"], report["window"] / 1e9

    def of_wrk(text):
        assert "Socket errors" not in text and "Non-2xx" not in text, text
        requests, time, unit = re.search(r"(\d+) requests in ([\d.]+)(m?s)", text).groups()
        return int(requests), float(time) / (1000 if unit == "ms" else 1)

    def of_oha(text):
        report = json.loads(text)
        requests = sum(report["statusCodeDistribution"].values())
        return requests, report["summary"]["total"]

    def of_autocannon(text):
        report = json.loads(text)
        assert report["errors"] == 0 and report["non2xx"] == 0, report
        return report["2xx"], report["duration"]

    found = {
        "prony": ([load, "load", url, "-c", c, "-d", d + " s", "--json", "--quiet"], of_prony),
        "wrk": (["wrk", "-t", "1", "-c", c, "-d", d, url], of_wrk),
    }
    if "OHA" in os.environ:
        # One thread, as the others have.
        command = [os.environ["OHA"], "--no-tui", "--output-format", "json", "-c", c, "-z", d + "s", url]
        found["oha"] = (command, of_oha)
    if "AUTOCANNON" in os.environ:
        found["autocannon"] = (["node", os.environ["AUTOCANNON"], "-j", "-c", c, "-d", d, url], of_autocannon)
    return found


def cpu_of(pid):
    """CPU seconds of a process that runs."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(command, read, server):
    before, at_server = resource.getrusage(resource.RUSAGE_CHILDREN), cpu_of(server)
    done = subprocess.run(["taskset", "-c", "0"] + command, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # oha and wrk end with 0; prony too, since no request failed.
    assert done.returncode == 0, done.stderr
    requests, seconds = read(done.stdout)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "rate": requests / seconds,
        "cpu": cpu / requests * 1e6,
        "server": (cpu_of(server) - at_server) / seconds,
    }


def interval(values):
    """Median, and the order statistics around it: exact binomial coverage of at least 95 %."""
    values, n = sorted(values), len(values)
    below, k = 0.0, 0
    while k < n // 2 and below + math.comb(n, k) / 2**n <= 0.025:
        below += math.comb(n, k) / 2**n
        k += 1
    if k == 0:
        return statistics.median(values), None
    return statistics.median(values), (values[k - 1], values[n - k])


def main():
    work = tempfile.mkdtemp()
    server = None
    try:
        binary = os.path.join(work, "server")
        subprocess.run(["cc", "-O2", "-pthread", "-o", binary, os.path.join(HERE, "server.c")], check=True)
        server = subprocess.Popen(["taskset", "-c", "1", binary, "1"], stdout=subprocess.PIPE, text=True)
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/"
        all_tools = tools(url)
        figures = {name: [] for name in all_tools}
        for round in range(ROUNDS):
            order = list(all_tools)
            random.Random(round).shuffle(order)
            for name in order:
                figures[name].append(measure(*all_tools[name], server.pid))
            print(f"round {round + 1} of {ROUNDS}", file=sys.stderr)
    finally:
        if server:
            server.kill()
        shutil.rmtree(work)
    for name, rounds in figures.items():
        middle = {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
        print(f"{name}: {middle['rate']:.0f} requests/s, {middle['cpu']:.2f} us of CPU per request, "
              f"server {100 * middle['server']:.0f} %")
    for name in figures:
        if name == "prony":
            continue
        for key, what in [("rate", "requests per second"), ("cpu", "CPU per request")]:
            ratios = [a[key] / b[key] for a, b in zip(figures["prony"], figures[name])]
            middle, bounds = interval(ratios)
            said = f"{bounds[0]:.3f} to {bounds[1]:.3f}" if bounds else "no interval: too few rounds"
            print(f"prony / {name}, {what}: {middle:.3f} ({said})")


main()
