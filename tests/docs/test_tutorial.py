"""The tutorial's commands do what the page says, one after the other, as a reader types them."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/guide/tutorial.md"
SPEC = importlib.util.spec_from_file_location("tools_pictures", ROOT / "tools/pictures.py")
pictures = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(pictures)


def test_it_goes_from_an_environment_to_a_report_and_a_file():
    verbs = re.findall(r"^argosy ([\w-]+)", "".join(pictures.blocks(PAGE, "bash")), re.MULTILINE)
    assert verbs == ["check-env", "train", "train", "tune", "train", "compare", "report", "pack", "eval"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_its_commands_run_as_they_stand(tmp_path):
    done = pictures.follow_tutorial(tmp_path)
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
    assert "cart:Cart: sound" in done.stdout
    assert done.stdout.count("(5 of 5 seeds)") == 2
    assert "Probability that a run of A beats one of B" in done.stdout
    assert (tmp_path / "runs/tune/cart-Cart/dqn/study/best.json").is_file()
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<polyline") >= 8
    assert "Search: dqn on cart:Cart" in page
    assert done.stdout.splitlines()[-3].startswith("return")
    assert "over 20 episodes" in done.stdout


def test_the_site_s_pictures_are_made_by_commands_that_it_shows():
    assert {file.name for file in pictures.IMAGES.iterdir()} == {"cartpole-dqn.png", "minatar.png", "report.png"}
    pages = ("README.md", "docs/index.md", "docs/benchmarks.md")
    readme, home, benchmarks = ((ROOT / page).read_text(encoding="utf-8") for page in pages)
    assert pictures.command_of_home() == "argosy train dqn --task CartPole-v1 --seed 1"
    assert "](images/cartpole-dqn.png)" in home
    assert pictures.command_of_home() in readme
    assert "](images/minatar.png)" in benchmarks
    assert "`python benchmarks/learning/games.py" in benchmarks
    assert "](../images/report.png)" in PAGE.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_home_page_s_command_draws_a_curve(tmp_path):
    done = pictures.run(pictures.command_of_home(), tmp_path)
    assert done.returncode == 0, done.stderr
    (curve,) = tmp_path.rglob("curve.png")
    assert str(curve.relative_to(tmp_path)) in done.stdout
