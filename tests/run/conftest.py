import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from short import quick


@pytest.fixture(scope="session")
def result(tmp_path_factory):
    """Of a finished run; to be looked at only."""
    return quick(tmp_path_factory.mktemp("runs"))
