"""Writes what the documentation says of every algorithm, from the table of algorithms and the docstrings.

mkdocs calls the hooks while it builds the pages; `python tools/docs.py` writes the README's table anew.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from argosy.algorithm import ALGORITHMS, algorithm_class
from argosy.cli.help import settings_of, shown_value
from argosy.experiment import Experiment
from argosy.policy.tabular import TabularPolicy

README = Path(__file__).parents[1] / "README.md"
PAGES = Path(__file__).parents[1] / "docs/algorithms"
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


def references() -> str:
    """Return what mkdocstrings makes the reference of each algorithm's config from."""
    configs = [algorithm_class(name).config_type for name in ALGORITHMS]
    return "\n\n".join(f"::: {config.__module__}.{config.__name__}" for config in configs)


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


def on_page_markdown(markdown: str, **_: object) -> str:
    """Replace `<!-- NAME -->` by what the writer of that name returns."""
    for name, write in WRITERS.items():
        if (mark := f"<!-- {name} -->") in markdown:
            markdown = markdown.replace(mark, write())
    return markdown


def readme(text: str) -> str:
    """Return the README with its table of algorithms as it is to be."""
    block = re.compile(r"(<!-- algorithms: .* -->\n).*(<!-- end of the algorithms -->)", re.DOTALL)
    return block.sub(rf"\g<1>{algorithms()}\n\2", text)


if __name__ == "__main__":
    README.write_text(readme(README.read_text(encoding="utf-8")), encoding="utf-8")
