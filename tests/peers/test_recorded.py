"""What is recorded of the peers is what they do."""

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from peers import RECORDED

from argosy.algorithm import ALGORITHMS

HERE = Path(__file__).parent
ENVS = HERE.parents[1] / "benchmarks" / "peers"
SCRIPTS = sorted(path for path in HERE.glob("*_*.py") if not path.name.startswith("test_"))


def test_every_record_has_its_script():
    assert SCRIPTS
    assert {path.stem.partition("-")[0] for path in RECORDED.glob("*.npz")} == {path.stem for path in SCRIPTS}


@pytest.mark.parametrize("case", sorted(path.stem.partition("-")[2] for path in RECORDED.glob("*.npz")))
def test_the_page_of_an_algorithm_says_with_whom_it_agrees(case):
    name = max((name for name in ALGORITHMS if {"cal_ql": "cql"}.get(case, case).startswith(name)), key=len)
    page = (HERE.parents[1] / f"docs/algorithms/{name}.md").read_text("utf-8")
    (peer,) = {path.stem.partition("_")[0] for path in RECORDED.glob(f"*-{case}.npz")}
    assert re.search(r"are those of " + {"tianshou1": "Tianshou 1.0", "d3rlpy": "d3rlpy"}[peer], page)


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_peers_give_again_what_was_recorded(script, tmp_path):
    python = ENVS / f".env-{script.stem.partition('_')[0]}" / "bin" / "python"
    if not python.is_file():
        pytest.skip(f"no environment of this peer; benchmarks/peers/setup.sh makes it ({python})")
    subprocess.run([python, script, tmp_path], check=True, cwd=tmp_path)
    names = {path.name for path in RECORDED.glob(f"{script.stem}-*.npz")}
    assert names == {path.name for path in tmp_path.glob("*.npz")}
    for name in names:
        with np.load(RECORDED / name) as recorded, np.load(tmp_path / name) as found:
            assert set(recorded.files) == set(found.files)
            for key in recorded.files:
                np.testing.assert_allclose(found[key], recorded[key], rtol=1e-4, atol=1e-6, err_msg=key)
