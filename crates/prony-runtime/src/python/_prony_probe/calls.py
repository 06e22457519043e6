"""Functions timed without editing them. The first calls are reported singly, later ones counted."""

import sys
from _thread import RLock, get_ident
from math import frexp

from .channel import line, now, pid, quoted, spend
from .heap import boundary, due
from .suspend import before_stop, suspend, suspended
from .spec import SPEC

_EVERY = 1_000_000_000  # nanoseconds between two reports of a hot function
_SUB = 128  # classes for each power of two
_LINE_ROOM = 3600  # characters that the classes of one line may take
# What does its work when its values are taken or when it is entered; so do the types of itertools. An object with `__next__`
# may be a cursor or a file, whose work is done.
_LAZY = {
    "builtins.generator": "a generator",
    "builtins.async_generator": "a generator",
    "builtins.map": "an iterator",
    "builtins.filter": "an iterator",
    "contextlib._GeneratorContextManager": "a context manager",
    "contextlib._AsyncGeneratorContextManager": "a context manager",
}
_calls = []


def _class_of(nanoseconds):
    """The class of a time: its exponent, and the 128th of it."""
    mantissa, exponent = frexp(max(nanoseconds, 1))
    return (exponent - 1) * _SUB + int((mantissa * 2 - 1) * _SUB)


def clock():
    """The instant, this thread, and for how long it was suspended before."""
    return now(), get_ident(), suspended()


def took(began, ended):
    """Nanoseconds between two clocks without suspensions. A call may end in another thread, of which nothing is left out."""
    between = ended[0] - began[0]
    return between - (ended[2] - began[2]) if began[1] == ended[1] else between


class Call:
    """One timed function."""

    __slots__ = ("id", "suspend", "n", "open", "reported_open", "overlapped", "count", "failed", "total", "least", "most", "last", "classes", "due", "reported", "lock", "deferred", "done")

    def __init__(self, target):
        self.id = quoted(target["id"])
        self.suspend = bool(target["suspend"])
        self.lock = RLock()  # a signal handler may call the function too
        self.due = 0
        self.clear()
        _calls.append(self)

    def clear(self):
        """Nothing called yet. `open` calls are running, `reported_open` were at its last report; `overlapped` says whether
        another was running during any that is not reported one by one."""
        self.n = self.open = self.reported_open = 0
        self.overlapped = self.deferred = False
        self.done = None  # the type of the last result that leaves no work for later: most calls return the same
        self.count = self.failed = self.total = self.most = self.last = self.reported = 0
        self.least = None
        self.classes = {}

    def begin(self):
        """A call begins: its number, its instant and its process."""
        with self.lock:
            self.n += 1
            self.open += 1
            n, is_open = self.n, self.open
            single = n <= SPEC["detail"]
            if single:
                at = self._boundary()
            elif is_open > 1:
                self.overlapped = True
        if single:
            line("begin", at, f',"call":{self.id},"n":{n},"open":{is_open - 1}')
            due(at)
        return n, clock(), pid()

    def end(self, begun, ok, result=None, settled=False):
        """A call ends. `settled` is whether its coroutine or future gave the result."""
        n, began, process = begun
        if process != pid():
            return  # a forked child goes on with a call of its parent, which reports the end itself
        ended = clock()
        time = took(began, ended)
        if result is not None and not self.deferred:
            self._defer(type(result), settled)
        with self.lock:
            self.open -= 1
            is_open, reported_open = self.open, self.reported_open
            single = n <= SPEC["detail"]
            if single:
                at = self._boundary()
            else:
                self._count(time, ok, ended[0])
        if not single:
            # At most once a second; but the runner must not wait for the end of calls of which the last one has ended.
            if ended[0] >= self.due or (is_open == 0 and reported_open > 0):
                self.due = ended[0] + _EVERY
                self.tell()
            return
        line("end", at, f',"call":{self.id},"n":{n},"open":{is_open},"ok":{"true" if ok else "false"},"took":{time}')
        due(at)
        if self.suspend and is_open == 0:
            self.suspend = suspend(self.id, n)

    def _boundary(self):
        """The instant of a begin or an end that is reported. Read inside the lock, since threads may write their lines in
        another order than that of the events."""
        self.reported_open = self.open
        boundary()
        return now()

    def _defer(self, kind, settled):
        """Reports once that the work of a call is done after it, if its result is of such a kind. What was awaited once may be
        awaited again without work, as a pool of connections."""
        if kind is self.done:
            return
        returned = "an iterator" if kind.__module__ == "itertools" else _LAZY.get(f"{kind.__module__}.{kind.__name__}")
        if returned is None and not settled:
            # What is also a context manager can be used without being awaited, such as a client that connected in the call.
            if not hasattr(kind, "__await__") or hasattr(kind, "__enter__"):
                self.done = kind
                return
            returned = "an awaitable"
        if returned is not None:
            self.deferred = True
            line("deferred", now(), f',"call":{self.id},"returned":"{returned}"')

    def _count(self, took, ok, at):
        self.count += 1
        self.total += took
        self.last = max(self.last, at)
        if not ok:
            self.failed += 1
            return
        self.least = took if self.least is None else min(self.least, took)
        self.most = max(self.most, took)
        of = _class_of(took)
        self.classes[of] = self.classes.get(of, 0) + 1

    def tell(self):
        """Reports what was counted, if calls have begun or ended since the last report."""
        if self.count == self.reported and self.open == self.reported_open:
            return
        with self.lock:
            spend((self.count - self.reported) * _per_call())
            self.reported = self.count
            self.reported_open, at = self.open, now()
            running = f'"open":{self.open},"overlapped":{"true" if self.overlapped else "false"}'
            figures = f'"last":{self.last},"count":{self.count},"failed":{self.failed},"total":{self.total},"min":{self.least or 0},"max":{self.most}'
            classes = dict(self.classes)
        line("calls", at, f',"call":{self.id},{running},{figures},{_histogram(classes)}')


def _histogram(classes):
    """Counts of classes as text, coarser by half until they fit into a line."""
    sub = _SUB
    while True:
        counts = {}
        for at, count in classes.items():
            to = at * sub // _SUB
            counts[to] = counts.get(to, 0) + count
        runs = []  # of neighbours: the class of the first count, and the counts
        for at, count in sorted(counts.items()):
            if at - 1 in counts:
                runs[-1] += f",{count}"
            else:
                runs.append(f"{at},{count}")
        text = ",".join(f"[{run}]" for run in runs)
        if len(text) < _LINE_ROOM or sub == 1:
            return f'"sub":{sub},"classes":[{text}]'
        sub //= 2


_cost = []


def _per_call():
    """The least cost of counting one call, in nanoseconds: two clocks and a class."""
    if not _cost:
        began = now()
        for _ in range(500):
            _class_of(took(clock(), clock()) + 1000)
        _cost.append((now() - began) // 500)
    return _cost[0]


def report():
    """Reports every hot function of which calls have begun or ended since its last report."""
    for call in _calls:
        call.tell()


before_stop.append(report)


def forked():
    """A child begins its own counts; locks held by other threads of the parent are replaced."""
    for call in _calls:
        call.lock = RLock()
        call.clear()


def watch(function, target):
    """The timed function: one that returns a coroutine or a future ends when that does."""
    import functools

    call = Call(target)
    if getattr(getattr(function, "__code__", None), "co_flags", 0) & 0x80:  # inspect.CO_COROUTINE

        @functools.wraps(function)
        async def watched(*args, **kwargs):
            begun = call.begin()
            ok, result = False, None
            try:
                result = await function(*args, **kwargs)
                ok = True
                return result
            finally:
                call.end(begun, ok, result, True)

        return watched

    @functools.wraps(function)
    def watched(*args, **kwargs):
        begun = call.begin()
        try:
            result = function(*args, **kwargs)
        except BaseException:
            call.end(begun, False)
            raise
        return _returned(call, begun, result)

    return watched


def _is_future(value):
    """Whether it is a future of asyncio, or of concurrent.futures where the program has loaded that."""
    if getattr(value, "_asyncio_future_blocking", None) is not None:
        return True
    return isinstance(value, getattr(sys.modules.get("concurrent.futures._base"), "Future", ()))


def _returned(call, begun, result):
    kind = type(result)
    if kind.__name__ == "coroutine" and kind.__module__ == "builtins":
        return _awaited(call, begun, result)
    if _is_future(result):
        # That of asyncio makes the callback at the event loop's next turn, as it does for code that awaits it; that of
        # concurrent.futures in the thread that did the work.
        result.add_done_callback(lambda done: _done(call, begun, done))
        return result
    call.end(begun, True, result)
    return result


def _done(call, begun, future):
    ok = not future.cancelled() and future.exception() is None
    call.end(begun, ok, future.result() if ok else None, True)


async def _awaited(call, begun, coroutine):
    ok, result = False, None
    try:
        result = await coroutine
        ok = True
        return result
    finally:
        call.end(begun, ok, result, True)
