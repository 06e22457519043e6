"""Suspends a program at the end of a call: its thread blocks in a read until the runner sends `go`."""

import os
from _thread import RLock, _local

from .channel import bye, line, now, pid, sleep
from .heap import collect, figures, heap_line
from .spec import SPEC

_ANSWER = 10_000_000_000  # nanoseconds until the runner must have answered
_suspensions = [0]
before_stop = []  # what is to be reported before the program is ended


class _Thread(_local):
    """This thread."""

    suspended = 0  # nanoseconds so far
    waits = False  # whether it is suspended now


_thread = _Thread()
# One thread is suspended at a time: to the runner all threads are one.
_turn = [RLock()]


def suspended():
    """Nanoseconds for which this thread was suspended: the others go on."""
    return _thread.suspended


def forked():
    """In a child no thread is suspended that could give the lock back."""
    _turn[0] = RLock()
    _thread.waits = False


def _answer(number):
    path = f'{SPEC["commands"]}/{pid()}-0-{number}'
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
        for report in before_stop:
            report()
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


def _wait(number):
    fd = _answer(number)
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
    if _thread.waits:
        return True  # a signal handler made the call
    asked = now()
    with _turn[0]:
        _thread.waits = True
        try:
            because = _suspend(call, n)
        finally:
            _thread.waits = False
            _thread.suspended += now() - asked
    return because == "go"


def _suspend(call, n):
    _suspensions[0] += 1
    if not line("suspended", now(), f',"call":{call},"n":{n},"suspension":{_suspensions[0]},"heap":{figures()}'):
        return None
    because = _wait(_suspensions[0])
    line("resumed", now(), f',"because":"{because}"')
    return because
