"""The probe for CPython 3.9 and later. No thread of its own, no open descriptor, no import that a program would notice."""

import sys

# What makes this interpreter too old: positional-only syntax and `sys.getallocatedblocks` are older, `os.register_at_fork` too.
OLDEST = (3, 9)


def install():
    """Starts the probe in this process."""
    if sys.implementation.name != "cpython" or sys.version_info < OLDEST:
        return
    from . import channel

    began = channel.now()
    blocks = sys.getallocatedblocks()
    if not channel.listening():
        return
    from . import calls, children, heap, modules, suspend

    channel.hello()
    modules.install()
    heap.install()
    children.install((channel, calls, heap, suspend))
    channel.started(began, max(0, sys.getallocatedblocks() - blocks))
