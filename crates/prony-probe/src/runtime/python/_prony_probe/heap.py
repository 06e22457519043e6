"""Figures of the allocator and the collector: where collections and calls give the occasion, and when asked.

A thread that samples would make every fork of the program one of a process with threads, so there is none.
"""

import gc
import sys

from .channel import line, now, spend

_PERIOD = 100_000_000  # nanoseconds between samples
_SHARE = 200  # a sample may take this part of the time until the next one


class _State:
    """Collections of this process."""

    count = 0
    full = 0
    time = 0
    began = 0
    due = 0


def figures():
    """The figures as one JSON object. CPython counts the blocks it has handed out, not their bytes."""
    return f'{{"blocks":{sys.getallocatedblocks()},"gc_count":{_State.count},"gc_time":{_State.time},"gc_major":{_State.full},"gc_until":{now()}}}'


def heap_line(why):
    """Sends the figures, with what asked for them."""
    at = now()
    line("heap", at, f',"why":"{why}","heap":{figures()}')
    # Counting blocks walks all pools: a large heap is sampled less often.
    _State.due = at + max(_PERIOD, _SHARE * (now() - at))


def due(at):
    """A sample where one is due."""
    if at >= _State.due:
        heap_line("sample")


def _collecting(phase, info):
    at = now()
    if phase == "start":
        _State.began = at
        return
    _State.count += 1
    _State.time += at - _State.began
    if info["generation"] == 2:
        _State.full += 1
    if at >= _State.due:
        heap_line("sample")


def collect():
    """A full collection; nanoseconds that it took."""
    began = now()
    gc.collect()
    return now() - began


def report():
    """The last figures."""
    heap_line("exit")


def forked():
    """A child begins its own account."""
    _State.count = _State.full = _State.time = 0
    heap_line("start")


def install():
    """Begins to count collections."""
    began = now()
    gc.callbacks.append(_collecting)
    heap_line("start")
    spend(now() - began)
