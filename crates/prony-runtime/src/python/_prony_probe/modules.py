"""Finds the functions to be timed, as their modules are imported, and replaces them by timed ones."""

import sys
from os.path import realpath

from .calls import watch
from .channel import line, now, quoted
from .children import watch_multiprocessing
from .spec import SPEC

_MULTIPROCESSING = "multiprocessing.util"
_watched_now = []  # functions under watch, each with its target


def _found(target, module):
    file = getattr(module, "__file__", None)
    file = realpath(file) if file else module.__name__
    line("found", now(), f',"call":{quoted(target["id"])},"file":{quoted(file[-1024:])}')


def _missed(target, module, why):
    file = getattr(module, "__file__", None) or module.__name__
    line("not_found", now(), f',"call":{quoted(target["id"])},"file":{quoted(file[-1024:])},"why":{quoted(why)}')


def _owner(module, names):
    owner = module
    for name in names[:-1]:
        owner = getattr(owner, name)
    return owner


def _instead(function, target):
    """The timed function; one that is timed already for this target, perhaps under another name, stays as it is."""
    inner = function
    while inner is not None:
        if any(inner is known and target is of for known, of in _watched_now):
            return function
        inner = getattr(inner, "__wrapped__", None)
    _watched_now.append((watch(function, target), target))
    return _watched_now[-1][0]


def _lost(value):
    """A public attribute of the type of a callable that functions do not have, such as `cache_clear`; None where there is none.
    Functions that Cython compiled have those of Python 2, which begin with `func_`."""
    own = set(dir(type(value))) - set(dir(type(_lost)))
    return min((name for name in own if not name.startswith(("_", "func_"))), default=None)


def _watched(owner, name, target):
    """The new value of `owner.name`; the kind of a method stays the same, also of one that the class inherits: `getattr` would
    bind a class method to `owner`, and take the function out of a static method."""
    bases = owner.__mro__ if isinstance(owner, type) else ()
    raw = next((base.__dict__[name] for base in bases if name in base.__dict__), None)
    kind = type(raw) if isinstance(raw, (staticmethod, classmethod)) else None
    if kind:
        value = raw.__func__
    else:
        value = raw if raw is not None else getattr(owner, name)
    if isinstance(value, type):
        raise TypeError(f"`{name}` is a class; name one of its methods")
    if not callable(value) or type(value).__name__ == "classmethod_descriptor":  # such as `fromkeys` of a class that extends `dict`
        raise TypeError(f"`{name}` is not a function")
    lost = _lost(value)
    if lost:
        raise TypeError(f"`{name}` is a callable object, not a function: a timed function in its place would have no `{lost}`")
    timed = _instead(value, target)
    return kind(timed) if kind else timed


def _patch(module, target):
    names = target["call"].partition(":")[2].split(".")
    try:
        owner = _owner(module, names)
        setattr(owner, names[-1], _watched(owner, names[-1], target))
    except Exception as error:
        _missed(target, module, f"{type(error).__name__}: {error}"[:300])
    else:
        _found(target, module)


def _loaded(module, name):
    if name == _MULTIPROCESSING:
        watch_multiprocessing(module)
    for target in SPEC["calls"]:
        if target["call"].partition(":")[0] == name:
            _patch(module, target)


class _Finder:
    """Asks the other finders for the modules of the calls, and patches those as they have been executed."""

    def __init__(self, names):
        self.names = names

    def find_spec(self, name, path=None, target=None):
        """The specification of a module that is wanted; None for any other module."""
        if name not in self.names:
            return None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                return self._hooked(spec, name)
        return None

    def _hooked(self, spec, name):
        execute = getattr(spec.loader, "exec_module", None)
        if execute is None:
            return spec

        def exec_module(module):
            execute(module)
            if name == _MULTIPROCESSING:
                self.names.discard(name)
            # A module may be loaded again, from another file too.
            _loaded(module, name)

        if isinstance(spec.loader, type):
            # That of built-in modules is a class, which loads all of them: this one gets a class of its own.
            spec.loader = type(spec.loader.__name__, (spec.loader,), {"exec_module": staticmethod(exec_module)})
            return spec
        try:
            spec.loader.exec_module = exec_module
        except AttributeError:
            return spec
        return spec


def install():
    """Waits for the modules of the calls."""
    names = {target["call"].partition(":")[0] for target in SPEC["calls"]} | {_MULTIPROCESSING}
    for name in [name for name in names if name in sys.modules]:
        _loaded(sys.modules[name], name)
    if _MULTIPROCESSING in sys.modules:
        names.discard(_MULTIPROCESSING)
    sys.meta_path.insert(0, _Finder(names))
