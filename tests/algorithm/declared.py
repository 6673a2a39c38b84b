"""What each algorithm's own test, `test_NAME.py`, declares for the tests that all algorithms share.

| name | meaning |
| --- | --- |
| `CASES` | by a name: a config and an action space for `check_algorithm` |
| `LEARNS`, `FOLLOWS` | parts of its state, see `check_algorithm`; default: the policy, none |
| `MEMORIES` | memories that its policy may have; default: none, "gru" and "lstm" |
| `BOOTSTRAPS` | whether it values the successors of a sample; default: yes |
| `ACTS_ON_DATA` | whether what it says of stored data needs only what it knows when it acts; default: yes |
| `CONTEXT` | fields of a row that other rows of a sample are learned with, whatever it weighs; default: none |
| `FACES` | what it may call of its policy beside what all may, see `algorithm_checks.FACES`; default: nothing |
| `RANGES` | pairs of a setting and a value that it refuses |
| `RESUME` | settings with which a run is interrupted and resumed; default: none |
| `PROBED` | by a name: how it solves the probes, see `probes.Probed`; default: not at all |
| `BANDIT` | config and number of updates with which it learns `stand_ins.learn_a_bandit`; default: not at all |
"""

from __future__ import annotations

import importlib
from typing import Any

from argosy.algorithm import ALGORITHMS

DEFAULTS: dict[str, Any] = {"LEARNS": ("policy",), "FOLLOWS": (), "BOOTSTRAPS": True, "ACTS_ON_DATA": True}
DEFAULTS |= {"MEMORIES": (None, "gru", "lstm"), "CONTEXT": (), "FACES": (), "RESUME": {}, "PROBED": {}, "BANDIT": None}


def declared(name: str, what: str) -> Any:
    """Return what an algorithm's test declares under the name `what`."""
    module = importlib.import_module(f"test_{name}")
    return getattr(module, what, DEFAULTS[what]) if what in DEFAULTS else getattr(module, what)


def cases() -> dict[str, tuple[str, Any, Any]]:
    """Return name, config and action space of every case of every algorithm."""
    return {f"{name} {case}": (name, *made) for name in ALGORITHMS for case, made in declared(name, "CASES").items()}
