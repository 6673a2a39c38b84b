import importlib
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[2] / "benchmarks" / "attack"
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "tests" / "attack")]
results, run = (importlib.import_module(name) for name in ("results", "run"))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(results, "RESULTS", tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", run.ATTACKS)
def test_an_attack_is_a_function_that_counts_what_its_row_tells(name):
    attack = run.ATTACKS[name]
    assert callable(attack.function())
    assert attack.zero


def test_the_page_says_what_the_results_say():
    text = run.DOC.read_text()
    assert text.split(run.BEGIN)[1].split(run.END)[0].strip().splitlines() == run.table()


def test_what_is_missing_is_run_in_parts_and_added_up(folder, monkeypatch, capsys):
    seeds = []

    def attack(count, seed, scratch):
        assert scratch.is_dir()
        seeds.append(seed)
        return {"tried": count, "accepted": int(seed == 2), "left": 3}

    made = run.Attack("t", 5, "fake_attack:attack", ("accepted",), ("left",), part=2)
    monkeypatch.setitem(sys.modules, "fake_attack", type(sys)("fake_attack"))
    sys.modules["fake_attack"].attack = attack
    monkeypatch.setattr(run, "ATTACKS", {"fake": made})
    monkeypatch.setattr(run, "DOC", folder / "page.md")
    run.DOC.write_text(f"before\n{run.BEGIN}\nold\n{run.END}\nafter\n")

    assert run.main(["--only", "fake", "--count", "2"]) == 0
    assert run.missing("fake", made) == 3
    assert run.main([]) == 1  # the third part lets something through
    assert seeds == [0, 1, 2]
    assert run.missing("fake", made) == 0
    assert "what must not happen has happened: fake" in capsys.readouterr().err
    text = run.DOC.read_text()
    assert "| t | 5 | 5 files | 1 accepted | 9 left |" in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert run.main(["--list"]) == 1
    assert seeds == [0, 1, 2]
    assert results.read("fake")[0]["tried"] == 2
