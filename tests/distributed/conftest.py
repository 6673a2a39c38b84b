import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import games
import memory
import policies
import workers

from argosy.distributed.host import ThreadLauncher


@pytest.fixture(scope="session")
def ray_launcher():
    pytest.importorskip("ray")
    from ray import cloudpickle

    from argosy.distributed.rayhost import RayLauncher

    for module in (games, memory, policies, workers):  # Ray's processes cannot import test files
        cloudpickle.register_pickle_by_value(module)
    with RayLauncher(num_cpus=64, object_store_bytes=200 * 2**20, namespace="tests") as launcher:
        yield launcher


@pytest.fixture(params=["threads", "ray"])
def launcher(request):
    if request.param == "threads":
        yield ThreadLauncher()
    else:
        yield request.getfixturevalue("ray_launcher")
