"""The channel to the runner: one JSON line per message, one write per line.

The channel is opened for each line: a descriptor kept open could be closed by a program that turns itself into a daemon,
and its number would then be another file.
"""

import os
import sys
import time

from .spec import SPEC

# Taken now: programs replace clocks, tests above all.
now = time.monotonic_ns
sleep = time.sleep
_open, _write, _close = os.open, os.write, os.close

_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
_LINE_MAX = 4096  # what a pipe takes in one piece


class _State:
    """Lines that this process has sent, and their cost."""

    pid = os.getpid()
    parent = os.getppid()
    began = now()
    greets = False  # a forked child says `hello` before its first line
    spent = 0  # nanoseconds inside the probe
    blocks = 0  # blocks of memory that it took
    sent = 0
    lost = 0
    patience = 1000  # milliseconds in all that a full pipe may hold the program up


def quoted(text):
    """A JSON string."""
    plain = "".join(c if c >= " " else "?" for c in str(text))
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"').encode("utf-8", "replace").decode() + '"'


def _send(data):
    fd = _open(SPEC["marks"], _FLAGS)
    try:
        while True:
            try:
                return _write(fd, data)
            except BlockingIOError:
                if _State.patience <= 0:
                    raise
                _State.patience -= 1
                sleep(0.001)
    finally:
        _close(fd)


def line(kind, at, rest, began=None):
    """Sends one line; `rest` is the inside of a JSON object that begins with a comma. False where nobody reads. `began` is since
    when the probe has worked for it, if that is not the instant."""
    if _State.greets:
        _State.greets = False
        hello()
    data = f'{{"probe":"{kind}","at":{at},"pid":{_State.pid},"thread":0{rest}}}\n'.encode()
    try:
        if len(data) > _LINE_MAX:
            raise ValueError("too long for one write")
        _send(data)
        _State.sent += 1
        return True
    except (OSError, ValueError):
        _State.lost += 1
        return False
    finally:
        _State.spent += now() - (began or at)


def listening():
    """Whether the runner's channel exists."""
    try:
        _close(_open(SPEC["marks"], _FLAGS))
        return True
    except OSError:
        return False


def pid():
    """This process."""
    return _State.pid


def hello():
    """The first line of a process."""
    version = "%d.%d.%d" % sys.version_info[:3]
    argv = getattr(sys, "orig_argv", None) or getattr(sys, "argv", None) or [""]
    script = quoted(" ".join(argv[1:3])[-512:])
    at = now()
    _State.spent -= at - _State.began  # `line` counts the time since the instant that the line has
    line("hello", _State.began, f',"parent":{_State.parent},"runtime":"python","version":"{version}","script":{script},"unsupported":[]')


def spend(nanoseconds):
    """Adds to the cost of the probe."""
    _State.spent += nanoseconds


def _cost():
    line("cost", now(), f',"time":{_State.spent},"blocks":{_State.blocks},"lines":{_State.sent},"lost":{_State.lost}')


def started(began, blocks):
    """The probe is installed."""
    _State.blocks = blocks
    _State.spent = now() - began
    _cost()


def bye():
    """The last line: the cost of the probe, and that the end was an orderly one."""
    _cost()
    line("bye", now(), "")


def forked():
    """A child begins its own counts. It says so before its first line: one that only executes another program has none."""
    _State.pid, _State.parent, _State.began = os.getpid(), os.getppid(), now()
    _State.spent = _State.sent = _State.lost = 0
    _State.greets = True
