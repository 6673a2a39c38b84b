"""What holds for every algorithm."""

import numpy as np
import pytest
from algorithm_checks import OBSERVATIONS, check_algorithm
from declared import cases, declared
from gymnasium import spaces

from argosy.algorithm import ALGORITHMS, algorithm_class
from argosy.errors import ConfigError, SpaceError

CASES = cases()
SPACES = [
    spaces.Box(-2.0, 2.0, (2,), np.float32),
    spaces.Discrete(2),
    spaces.MultiDiscrete([2, 3]),
    spaces.MultiBinary(2),
]


@pytest.mark.parametrize("case", CASES)
def test_check_algorithm(case, tmp_path):
    name, config, action_space = CASES[case]
    check_algorithm(
        name, config, action_space, tmp_path, learns=declared(name, "LEARNS"), follows=declared(name, "FOLLOWS")
    )


@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_kind_of_action_space_is_checked(name):
    checked = {type(space) for own, _, space in CASES.values() if own == name}
    assert checked == set(algorithm_class(name).action_spaces)


@pytest.mark.parametrize("space", SPACES, ids=lambda space: type(space).__name__)
def test_wrong_action_spaces_are_refused_with_the_algorithms_that_fit(space):
    fitting = [name for name in ALGORITHMS if isinstance(space, algorithm_class(name).action_spaces)]
    for name in set(ALGORITHMS) - set(fitting):
        cls = algorithm_class(name)
        wanted = " or ".join(wanted.__name__ for wanted in cls.action_spaces)
        with pytest.raises(SpaceError) as refused:
            cls.from_spaces(cls.config_type(), OBSERVATIONS["vector"], space)
        assert str(refused.value) == (
            f"{cls.__name__} needs a {wanted} action space, not {space}; algorithms that fit it: "
            f"{', '.join(fitting) or 'none yet'}"
        )


@pytest.mark.parametrize(
    ("name", "field", "value"), [(name, *pair) for name in ALGORITHMS for pair in declared(name, "RANGES")]
)
def test_configs_check_their_ranges(name, field, value):
    config = algorithm_class(name).config_type
    with pytest.raises(ConfigError, match=rf"{config.__name__}\.{field} is {value!r}; it must be"):
        config(**{field: value})
