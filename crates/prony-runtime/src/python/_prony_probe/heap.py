"""Reads the allocator and counts garbage collections: at collections and timed calls, and on command.

A thread that samples would make every fork of the program one of a process with threads, so there is none.
"""

import gc
import sys

from .channel import line, now, spend

_PERIOD = 100_000_000  # nanoseconds between samples
_SHARE = 200  # a sample may take this part of the time until the next one
_GROUP = 1_000_000  # nanoseconds within which collections are reported as one, except the first of them
_PER_LINE = 60  # collections in one line


class _State:
    """Collections of this process."""

    count = 0
    full = 0
    time = 0
    began = 0
    due = 0
    points = []  # not reported yet: instant, collections so far, full ones, their time
    group = 0  # when the first of the collections began that are reported as one


def _tell():
    points, _State.points, _State.group = _State.points, [], 0
    for n in range(0, len(points), _PER_LINE):
        text = ",".join("[%d,%d,%d,%d]" % point for point in points[n : n + _PER_LINE])
        line("gc", now(), f',"points":[{text}]')


def _note(at):
    point = (at, _State.count, _State.full, _State.time)
    if at - _State.group > _GROUP:
        _State.group = at
        _State.points.append(point)
    elif _State.points[-1][0] == _State.group:
        _State.points.append(point)
    else:
        _State.points[-1] = point
    if len(_State.points) > _PER_LINE:
        _tell()


def boundary():
    """A phase begins or ends: collections before it and after it are not reported as one."""
    _State.group = 0


def figures():
    """The values as one JSON object, after the collections that came before. CPython counts the blocks it has handed out,
    not their bytes."""
    _tell()
    return f'{{"blocks":{sys.getallocatedblocks()},"gc_count":{_State.count},"gc_time":{_State.time},"gc_major":{_State.full},"gc_until":{now()}}}'


def heap_line(why, at=None):
    """Sends the values as those of an instant, which is now if it is not given, with the occasion."""
    began = now()
    line("heap", at or began, f',"why":"{why}","heap":{figures()}', began)
    # Counting blocks walks all pools: a large heap is sampled less often.
    _State.due = began + max(_PERIOD, _SHARE * (now() - began))


def due(at):
    """A sample where one is due at the begin or end of a call. It is that of this instant, after which only the probe has worked in
    this thread: later it would be of another phase."""
    if at >= _State.due:
        heap_line("sample", at)


def _collecting(phase, info):
    at = now()
    if phase == "start":
        _State.began = at
        return
    _State.count += 1
    _State.time += at - _State.began
    if info["generation"] == 2:
        _State.full += 1
    _note(at)
    if at >= _State.due:
        heap_line("sample")


def collect():
    """A full collection; nanoseconds that it took."""
    began = now()
    gc.collect()
    return now() - began


def report():
    """The last values."""
    heap_line("exit")


def forked():
    """A child begins its own counts. Its heap is read at the next occasion: one that only executes another program has none."""
    _State.count = _State.full = _State.time = _State.group = _State.due = 0
    _State.points = []


def install():
    """Begins to count collections."""
    began = now()
    gc.callbacks.append(_collecting)
    heap_line("start")
    spend(now() - began)
