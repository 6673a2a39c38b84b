"""argosy: reinforcement learning from a laptop to a cluster.

    import argosy

    result = argosy.train("dqn", "CartPole-v1", seed=1)
    print(result.test_return_mean, result.run_dir)

Names are imported when they are first used, so that `import argosy` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from argosy.lazy import getter, homes

if TYPE_CHECKING:
    from argosy.algorithm.table import *  # noqa: F403  # all of it
    from argosy.table import *  # noqa: F403  # all of it

__version__ = "0.1.0"

_HOME = homes(__file__)

if not TYPE_CHECKING:  # who checks types has read the tables
    __all__ = ["__version__", *_HOME]

    def __getattr__(name: str) -> object:
        from argosy.algorithm import EXPORTS

        value = globals()[name] = getter(__name__, _HOME | EXPORTS)(name)
        return value


def __dir__() -> list[str]:
    import os
    import pkgutil

    return sorted({*globals(), *_HOME, *(one.name for one in pkgutil.iter_modules([os.path.dirname(__file__)]))})
