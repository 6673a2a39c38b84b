"""The flags of `argosy train` and their help stand in argosy/cli/help/: a change is a decision.

To write it anew, run this file.
"""

import dataclasses

import pytest

from argosy.algorithm import ALGORITHMS, algorithm_class
from argosy.cli.help import FOLDER
from argosy.cli.train import Common, Output, flags_type, help_of
from argosy.experiment import Experiment
from argosy.presets import tuned_families


def written(name):
    """Text of a file: an algorithm's line in the list and its own flags, or those that all share ("all")."""
    some = name if name in ALGORITHMS else next(iter(ALGORITHMS))
    cls = algorithm_class(some)
    own, shared = help_of(Experiment(task="CartPole-v1", algorithm=some, config=cls.config_type()), Output())
    if name not in ALGORITHMS:
        return shared
    spaces, families = ", ".join(space.__name__ for space in cls.action_spaces), ", ".join(tuned_families(name)) or "-"
    return "\t".join((cls.kind, spaces, families, cls.__doc__.strip().splitlines()[0])) + "\n" + own


@pytest.mark.parametrize("name", ["all", *ALGORITHMS])
def test_the_flags_are_those_of_the_list(name):
    assert written(name) == (FOLDER / f"{name}.txt").read_text(), "run: python tests/cli/test_surface.py"


def test_there_is_a_list_for_each_algorithm_and_one_for_what_all_share():
    assert {path.stem for path in FOLDER.iterdir()} == {"all", *ALGORITHMS}


def test_every_flag_has_a_line_of_help():
    """What `--help` shows comes from the docstring under each field."""
    import ast
    import inspect

    shared = Experiment(task="t", algorithm="dqn", config=algorithm_class("dqn").config_type())
    sections = [type(getattr(shared, field.name)) for field in dataclasses.fields(shared)]
    configs = {cls for cls in sections if dataclasses.is_dataclass(cls)} | {Experiment, Common, Output}
    configs |= {base for name in ALGORITHMS for base in algorithm_class(name).config_type.__mro__}
    for config in configs - {object}:
        body = ast.parse(inspect.getsource(config)).body[0].body
        for field, text in zip(body, [*body[1:], None], strict=True):
            if isinstance(field, ast.AnnAssign):
                described = isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
                assert described, f"{config.__name__}.{field.target.id} has no docstring"


def test_the_parser_has_an_experiment_s_fields_and_the_output_s():
    default = Experiment(task="t", algorithm="dqn", config=algorithm_class("dqn").config_type())
    names = {field.name for field in dataclasses.fields(flags_type(default, Output))}
    assert names == {field.name for field in (*dataclasses.fields(Experiment), *dataclasses.fields(Output))}


if __name__ == "__main__":
    for name in ("all", *ALGORITHMS):
        (FOLDER / f"{name}.txt").write_text(written(name))
