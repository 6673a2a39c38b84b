import pytest

from argosy.process import tuned_process


@pytest.fixture(autouse=True)
def process():
    """Rows tune the process that they are measured in; here it is as before in the end."""
    with tuned_process():
        yield
