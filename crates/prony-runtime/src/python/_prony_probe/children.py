"""The ends and beginnings of processes: exit, fork, and the children of multiprocessing, which skip `atexit`."""

import atexit
import os

from . import channel

_parts = []
_ended = []


def _end():
    if os.getpid() in _ended:
        return
    _ended.append(os.getpid())
    for part in _parts:
        report = getattr(part, "report", None)
        if report is not None:
            report()
    channel.bye()


def _forked():
    for part in _parts:
        part.forked()


def watch_multiprocessing(module):
    """For `multiprocessing.util`, once it is loaded: children end through its finalizers, which a fork empties."""

    def again(_):
        module.Finalize(None, _end, exitpriority=-1000)

    _parts.append(_Anchor)  # kept alive: it is registered by weak reference
    module.register_after_fork(_Anchor, again)


class _Anchor:
    """What `register_after_fork` refers to."""

    @staticmethod
    def forked():
        """Nothing of its own."""


def install(parts):
    """Sends the last line at exit, and `hello` again in children that are forked."""
    _parts.extend(parts)
    atexit.register(_end)
    os.register_at_fork(after_in_child=_forked)
