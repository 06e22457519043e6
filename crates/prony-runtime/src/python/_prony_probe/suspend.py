"""Suspends a program at the end of a call: its thread blocks in a read until the runner sends `go`."""

import os

from .channel import bye, line, now, pid, sleep
from .heap import collect, figures, heap_line
from .spec import SPEC

_ANSWER = 10_000_000_000  # nanoseconds until the runner must have answered
_suspended = [0]
_suspensions = [0]


def suspended():
    """Nanoseconds for which this process was suspended."""
    return _suspended[0]


def _answer():
    path = f'{SPEC["commands"]}/{pid()}-0-{_suspensions[0]}'
    until = now() + _ANSWER
    while now() < until:
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            sleep(0.001)
        except OSError:
            return -1
    return -1


def _obey(command):
    """Executes a command; returns it where it ends the suspension."""
    if command in ("collect", "collect later"):
        took = collect()
        line("collected", now(), f',"took":{took},"heap":{figures()}')
    elif command == "read":
        heap_line("read")
    elif command == "stop":
        line("resumed", now(), ',"because":"stop"')
        bye()
        os._exit(0)
    return command if command in ("go", "release") else None


def _converse(fd):
    pending = ""
    while True:
        data = os.read(fd, 256)
        if not data:
            return "runner_ended"
        *commands, pending = (pending + data.decode("latin-1")).split("\n")
        for command in commands:
            done = _obey(command.strip())
            if done:
                return done


def _wait():
    fd = _answer()
    if fd < 0:
        return "unanswered"
    try:
        return _converse(fd)
    except OSError:
        return "runner_ended"
    finally:
        os.close(fd)


def suspend(call, n):
    """Suspends the thread; returns whether to suspend at the next end of this call too."""
    began = now()
    _suspensions[0] += 1
    if not line("suspended", began, f',"call":{call},"n":{n},"suspension":{_suspensions[0]},"heap":{figures()}'):
        return False
    because = _wait()
    ended = now()
    _suspended[0] += ended - began
    line("resumed", ended, f',"because":"{because}"')
    return because == "go"
