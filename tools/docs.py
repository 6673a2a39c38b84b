"""Writes what the documentation says of every algorithm, from the table of algorithms and the docstrings.

mkdocs calls the hooks while it builds the pages; `python tools/docs.py` writes the README's table anew.
"""

from __future__ import annotations

import importlib
import json
import re
import shlex
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from argosy.algorithm import ALGORITHMS, EXPORTS, algorithm_class
from argosy.cli.help import settings_of, shown_value
from argosy.experiment import Experiment
from argosy.policy.tabular import TabularPolicy

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
PAGES = ROOT / "docs/algorithms"
CURVES = ROOT / "benchmarks/learning/results"
RATIOS = re.compile(r"ratio|/ argosy")
"""How the head of the column reads that a wide table is read for."""
WIDE = re.compile(rf"^\|[^\n]*(?:{RATIOS.pattern})[^\n]*\|\n\| ---[^\n]*\n(?:\|[^\n]*\n)+", re.MULTILINE)
ACTIONS = {"Discrete": "discrete", "MultiDiscrete": "multi-discrete", "Box": "continuous", "MultiBinary": "binary"}
KINDS = {"onpolicy": "on-policy", "offpolicy": "off-policy", "offline": "offline"}


def algorithms() -> str:
    """Return the README's table of algorithms."""
    rows = ["| algorithm | actions | learns | what it is |", "| --- | --- | --- | --- |"]
    for name in ALGORITHMS:
        cls = algorithm_class(name)
        actions = ", ".join(ACTIONS.get(space.__name__, space.__name__) for space in cls.action_spaces)
        link = f"[{cls.__name__}](docs/algorithms/{name}.md)"
        rows.append(f"| {link} | {actions} | {KINDS[cls.kind]} | {_first_line(cls)} |")
    return "\n".join(rows)


def choice() -> str:
    """Return the guide's table of algorithms, with the sentence of each page that begins "Take it when"."""
    rows = ["| algorithm | actions | learns | memory | take it when |", "| --- | --- | --- | --- | --- |"]
    for name in ALGORITHMS:
        cls = algorithm_class(name)
        actions = ", ".join(ACTIONS.get(space.__name__, space.__name__) for space in cls.action_spaces)
        policy = typing.get_type_hints(cls).get("policy")
        memory = "yes" if isinstance(policy, type) and policy is not TabularPolicy else "no"
        page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
        when = re.search(r"^Take it when (.*?)\.$", page, re.MULTILINE | re.DOTALL)
        cells = (
            f"[{cls.__name__}](../algorithms/{name}.md)",
            actions,
            KINDS[cls.kind],
            memory,
            when[1] if when else "",
        )
        rows.append(f"| {' | '.join(' '.join(cell.split()) for cell in cells)} |")
    return "\n".join(rows)


def by_actions() -> str:
    """Return a table of the algorithms for each kind of actions, by how they learn."""
    rows = ["| actions | learns from its own steps, then forgets | replays its steps | learns from data |"]
    rows.append("| --- | --- | --- | --- |")
    for space, actions in ACTIONS.items():
        cells = []
        for kind in KINDS:
            classes = {name: algorithm_class(name) for name in ALGORITHMS}
            fits = {
                name: cls
                for name, cls in classes.items()
                if cls.kind == kind and space in (one.__name__ for one in cls.action_spaces)
            }
            cells.append(", ".join(f"[{cls.__name__}](../algorithms/{name}.md)" for name, cls in fits.items()))
        if any(cells):
            rows.append(f"| {actions} | {' | '.join(cell or 'none' for cell in cells)} |")
    return "\n".join(rows)


def evidence() -> str:
    """Return a table of the tasks on which each algorithm was run here with several seeds, from the benchmarks."""
    text = (ROOT / "docs/benchmarks.md").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {name: [] for name in ALGORITHMS}
    for task, name, reached in re.findall(r"^\| ([\w.:-]+) \| (\w+) \| (\d+ of \d+) \(", text, re.MULTILINE):
        if name in found:
            found[name].append(f"{task}: {reached}")
    rows = ["| algorithm | seeds that reached their task's bar |", "| --- | --- |"]
    for name, said in sorted(found.items(), key=lambda one: not one[1]):
        link = f"[{algorithm_class(name).__name__}](../algorithms/{name}.md#results)"
        rows.append(f"| {link} | {', '.join(said) or 'none with several seeds and a bar; see its page'} |")
    return "\n".join(rows)


def names_of(package: str) -> str:
    """Return what mkdocstrings makes the reference of a package's public names from."""
    return "\n\n".join(f"::: {package}.{name}" for name in sorted(public_names(package), key=str.lower))


def public_names(package: str) -> list[str]:
    """Return the names that a package offers, without its modules and what it has from others."""
    module = importlib.import_module(package)
    here = [name for name, value in vars(module).items() if getattr(value, "__module__", "").startswith(package)]
    return [name for name in getattr(module, "__all__", here) if not name.startswith("_")]


def references() -> str:
    """Return what mkdocstrings makes the reference of each algorithm and its config from."""
    return "\n\n".join(f"::: {module}.{name}" for name, module in EXPORTS.items())


def settings_of_algorithms() -> str:
    """Return a table of all settings of algorithms, each meaning once, with the default in each algorithm."""
    rows: dict[tuple[str, str], list[str]] = {}
    for name in ALGORITHMS:
        cls = algorithm_class(name)
        for setting, default, meaning in _settings(cls.config_type()):
            rows.setdefault((setting, meaning), []).append(f"{cls.__name__} {default}")
    lines = [f"| `{name}` | {meaning} | {', '.join(rows[name, meaning])} |" for name, meaning in sorted(rows)]
    return "\n".join(["| setting | what it means | default |", "| --- | --- | --- |", *lines])


def settings_of_experiments() -> str:
    """Return a table of the settings that all algorithms share, named as the command's flags are."""
    some = algorithm_class(next(iter(ALGORITHMS)))
    rows = _settings(Experiment(task="", algorithm=next(iter(ALGORITHMS)), config=some.config_type()))
    shared = [row for row in rows if row[0] not in ("task", "algorithm") and not row[0].startswith("config.")]
    lines = [f"| `{name}` | {meaning} | {default} |" for name, default, meaning in shared]
    return "\n".join(["| setting | what it means | default |", "| --- | --- | --- |", *lines])


def _settings(config: Any) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and docstring of every setting, for a table."""
    for name, value, _, meaning in settings_of(config):
        yield name, shown_value(value), meaning.replace("|", "\\|")


def _first_line(cls: type) -> str:
    return (cls.__doc__ or "").strip().splitlines()[0].removesuffix(".")


WRITERS = {
    "algorithms by actions": by_actions,
    "evidence": evidence,
    "choice of algorithms": choice,
    "references of algorithms": references,
    "settings of algorithms": settings_of_algorithms,
    "settings of experiments": settings_of_experiments,
}


def on_config(config: Any) -> Any:
    """Put the algorithms' pages into the navigation."""
    for entry in config.nav:
        if "Algorithms" in entry:
            entry["Algorithms"] = [f"algorithms/{name}.md" for name in ALGORITHMS]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Put the learning curves beside the algorithms' pages, and the changes among the pages."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "changelog.md", abs_src_path=str(ROOT / "CHANGELOG.md")))
    for picture in sorted(CURVES.glob("*.png")):
        files.append(File.generated(config, f"algorithms/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Any = None, **_: object) -> str:
    """Replace `<!-- NAME -->` by what the writer of that name returns; add to an algorithm's page what all have."""
    for name, write in WRITERS.items():
        if (mark := f"<!-- {name} -->") in markdown:
            markdown = markdown.replace(mark, write())
    markdown = WIDE.sub(_ratios_second, markdown)
    markdown = re.sub(r"<!-- names of ([\w.]+) -->", lambda found: names_of(found[1]), markdown)
    where = "" if page is None else page.file.src_uri
    if where.startswith("algorithms/"):
        markdown = of_algorithm(where.removeprefix("algorithms/").removesuffix(".md"), markdown)
    return markdown


def _ratios_second(table: re.Match[str]) -> str:
    """Return a table whose column of ratios comes right after the first one, in sight also where the rest is not."""
    rows = [line.strip("|").split("|") for line in table[0].splitlines()]
    at = next(index for index, cell in enumerate(rows[0]) if RATIOS.search(cell))
    return "".join(f"|{'|'.join([row[0], row[at], *row[1:at], *row[at + 1 :]])}|\n" for row in rows)


def of_algorithm(name: str, markdown: str) -> str:
    """Return an algorithm's page with its first command in Python, its settings' defaults and its curves."""
    command = re.search(rf"^argosy (train {name} .*)$", markdown, re.MULTILINE)
    assert command is not None, name
    python = f"In Python:\n\n```python\nimport argosy\n\nresult = {in_python(command[1])}\n```\n"
    config = algorithm_class(name).config_type()
    rows = [f"| `{setting}` | {default} | {meaning} |" for setting, default, meaning in _settings(config)]
    table = "\n".join(["| setting | default | what it means |", "| --- | --- | --- |", *rows])
    settings = f"## Settings\n\nDefaults of the algorithm; presets for families of tasks change some.\n\n{table}\n"
    markdown = markdown.replace("## Logged metrics", f"{python}\n{settings}\n## Logged metrics", 1)
    pictures = "\n\n".join(
        f"![Learning curves of {name}: {file.stem}]({file.name}){_made_by(file)}"
        for file in sorted(CURVES.glob(f"*-{name}*.png"))
        if json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))["algorithm"] == name
    )
    return markdown.replace("## References", f"{pictures}\n\n## References", 1)


def _made_by(picture: Path) -> str:
    """Return the command that makes a picture of learning curves, as what is beside it says."""
    made = json.loads(picture.with_suffix(".json").read_text(encoding="utf-8"))
    args = [made["algorithm"], made["task"]]
    given = {name: made.get(name) for name in ("label", "bar", "max_steps", "success")} | {"seeds": len(made["seeds"])}
    if made.get("expert_share"):
        given |= {"expert": made["expert"], "share": made["expert_share"]}
    for name, value in given.items():
        args += (
            [f"--{name.replace('_', '-')}", f"{value:g}" if isinstance(value, float) else str(value)] if value else []
        )
    for name, value in made.get("changes", {}).items():
        args += ["--set", f"{name}={json.dumps(value)}"]
    return f"\n\n```\npython benchmarks/learning/run.py {shlex.join(args)}\n```"


def in_python(command: str) -> str:
    """Return the call of `argosy.train` that does what `train ALGO --task TASK --FLAG VALUE ...` does."""
    _, name, *flags = shlex.split(command)
    given = {flag[2:].replace("-", "_"): value for flag, value in zip(flags[::2], flags[1::2], strict=True)}
    words = [f'"{name}"', f'"{given.pop("task")}"']
    for flag, value in given.items():
        words.append(f"{flag}={value}" if re.fullmatch(r"[\d.]+", value) else f'{flag}="{value}"')
    return f"argosy.train({', '.join(words)})"


def readme(text: str) -> str:
    """Return the README with its table of algorithms as it is to be."""
    block = re.compile(r"(<!-- algorithms: .* -->\n).*(<!-- end of the algorithms -->)", re.DOTALL)
    return block.sub(rf"\g<1>{algorithms()}\n\2", text)


if __name__ == "__main__":
    README.write_text(readme(README.read_text(encoding="utf-8")), encoding="utf-8")
