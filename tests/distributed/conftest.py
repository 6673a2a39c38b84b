import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import bitflip
import bonus
import fragile
import games
import memory
import policies
import slow_learner
import small_workers

from argosy.distributed.host.base import ThreadLauncher

# Ray's processes cannot import test files
SHIPPED = [bitflip, bonus, fragile, games, memory, policies, slow_learner, small_workers]
_launchers = []


@pytest.fixture
def ray_launcher():
    """One Ray for all tests; another one if a test has shut it down to start its own."""
    ray = pytest.importorskip("ray")
    from argosy.distributed.host.ray import RayLauncher, ship_module

    if not _launchers or not ray.is_initialized():
        _launchers.clear()
        for module in SHIPPED:
            ship_module(module)
        _launchers.append(RayLauncher(num_cpus=64, object_store_bytes=200 * 2**20, namespace="tests"))
    return _launchers[0]


@pytest.fixture(scope="session", autouse=True)
def _close_ray():
    yield
    for launcher in _launchers:
        launcher.close()


@pytest.fixture(params=["threads", "ray"])
def launcher(request):
    if request.param == "threads":
        yield ThreadLauncher()
    else:
        yield request.getfixturevalue("ray_launcher")
