"""The env checker: one wrong env per finding, and sound ones without any."""

import random
import re
import sys
import threading
import time

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.env import EnvConfig, FlatAction, check_env
from argosy.errors import ConfigError


class Good(gym.Env):
    """A random walk that ends at +-1; the reward depends on the action."""

    observation_space: spaces.Space = spaces.Box(-2, 2, (2,), np.float32)
    action_space: spaces.Space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        self.x = self.np_random.uniform(-0.1, 0.1)
        return self.obs(), {}

    def obs(self):
        return np.array([self.x, self.t / 100], np.float32)

    def step(self, action):
        self.t += 1
        self.x += 0.1 * (int(action) - 1) + self.np_random.uniform(-0.1, 0.1)
        return self.obs(), float(action), abs(self.x) > 1, self.t >= 100, {}


ALWAYS = Good()


class Slow(Good):
    """Comes to no end in so few steps."""

    def __init__(self, step=0.1):
        self.size = step

    def step(self, action):
        self.t += 1
        self.x += self.size * (int(action) - 1)
        return self.obs(), float(action), abs(self.x) > 1, False, {}


def found(env, **kwargs):
    kwargs.setdefault("steps", 300)
    return [str(finding) for finding in check_env(env, **kwargs)]


def one(env, **kwargs):
    findings = found(env, **kwargs)
    assert len(findings) == 1, findings
    return findings[0]


def test_sound_envs_have_no_findings():
    assert found(Good) == []
    assert found(Good()) == []
    assert found("CartPole-v1") == []
    with pytest.raises(ConfigError, match="did you mean 'CartPole-v1'"):
        check_env("CartPol-v1")


def variant(**members):
    return type("Variant", (Good,), members)


def returning(*, reset=None, step=None):
    """A Good env whose results are changed by functions."""

    def changed_reset(self, *, seed=None, options=None):
        return reset(Good.reset(self, seed=seed))

    def changed_step(self, action):
        return step(*Good.step(self, action))

    return variant(**({"reset": changed_reset} if reset else {}), **({"step": changed_step} if step else {}))


@pytest.mark.parametrize(
    ("env", "says"),
    [
        (variant(observation_space=None), "error: observation_space: it is None; set it to a space"),
        (variant(action_space=5), "error: action_space: it is 5; set it to a space"),
        (lambda: 3, "error: class: int does not inherit from gymnasium.Env"),
        (lambda: ALWAYS, "error: constructor: the function returns one env every time; it has to make a new"),
        (lambda: 1 / 0, "error: constructor: making the env raised ZeroDivisionError"),
        (variant(reset=lambda self: None), "error: reset: it takes no 'seed'; write: def reset(self, *, seed=None"),
        (returning(reset=lambda r: r[0]), "error: reset: it returned a ndarray; return the observation and a dict"),
        (returning(reset=lambda r: (r[0], None)), "error: reset: info is a NoneType"),
        (returning(reset=lambda r: (r[0][:1], {})), "error: reset: observation has shape (1,); its space"),
        (returning(reset=lambda r: (r[0] * 100 + 9, {})), "error: reset: observation[0] is"),
        (returning(step=lambda o, r, t, u, i: (o, r, t, i)), "error: step: it returned 4 values (four were the API"),
        (returning(step=lambda o, r, t, u, i: (o, "high", t, u, i)), "error: step: the reward is 'high'; it must be"),
        (returning(step=lambda o, r, t, u, i: (o, np.nan, t, u, i)), "error: step: the reward is nan; rewards must"),
        (returning(step=lambda o, r, t, u, i: (o, r, 0, u, i)), "error: step: terminated is 0 (int); it must be True"),
        (returning(step=lambda o, r, t, u, i: (o, r, t, u, None)), "error: step: info is a NoneType"),
        (returning(step=lambda o, r, t, u, i: (o * np.nan, r, t, u, i)), "error: step: observation holds NaN"),
        (returning(step=lambda o, r, t, u, i: (o + 50, r, t, u, i)), "error: step: observation[0] is 5"),
        (
            returning(step=lambda o, r, t, u, i: (o, np.array([r]), t, u, i)),
            "error: step: the reward is an array of one element; return float(reward)",
        ),
        (
            returning(step=lambda o, r, t, u, i: (o, torch.tensor(r), t, u, i)),
            "warning: step: the reward is a Tensor; return float(reward)",
        ),
        (
            returning(reset=lambda r: (tuple(r[0]), r[1]), step=lambda o, r, t, u, i: (tuple(o), r, t, u, i)),
            "warning: reset: observation is a tuple; return a numpy array of float32",
        ),
        (
            returning(step=lambda o, r, t, u, i: (np.stack([o, o], 1)[:, 0], r, t, u, i)),
            "note: step: observation is a view with gaps",
        ),
        (
            returning(step=lambda o, r, t, u, i: (o, r, t, u, {"env_id": 3})),
            "warning: step: info has the key 'env_id', which vector envs overwrite",
        ),
        (
            returning(step=lambda o, r, t, u, i: (o, r, t, u, {"TimeLimit.truncated": u})),
            "warning: step: info['TimeLimit.truncated'] is of the old gym",
        ),
        (returning(step=lambda o, r, t, u, i: (o, 0.0, t, u, i)), "warning: step: the reward was 0 in all 300 random"),
        (
            returning(step=lambda o, r, t, u, i: (o.astype(np.float64), r, t, u, i)),
            "note: step: observation has type float64, its space float32",
        ),
        (returning(step=lambda o, r, t, u, i: (o, r * 1e6, t, u, i)), "note: step: rewards reach 2e+06; scale them"),
        (variant(action_space=spaces.Discrete(3, start=1)), "note: action_space: Discrete(3, start=1) starts at 1"),
    ],
)
def test_one_fault_one_sentence(env, says):
    assert one(env).startswith(says)


def test_old_observation_that_changes():
    class Overwriting(Good):
        def obs(self):
            if not hasattr(self, "state"):
                self.state = np.zeros(2, np.float32)
            self.state[:] = self.x, self.t / 100
            return self.state

    assert one(Overwriting).startswith("error: step: the observation that the last call returned was overwritten")


def test_action_that_is_changed():
    class Changing(Good):
        action_space = spaces.Box(-1, 1, (1,), np.float32)

        def step(self, action):
            action *= 2
            return super().step(np.round(action[0]) + 1)

    assert one(Changing).startswith("error: step: it changes the action that it was given")


def test_extreme_actions_are_tried():
    class Tight(Good):
        action_space = spaces.Discrete(1000)

        def step(self, action):
            if action == 999:
                raise IndexError("no such action")
            return super().step(action % 3)

    assert one(Tight, steps=50).startswith("error: step: the action np.int64(999) raised IndexError: no such action")


def test_seed_that_is_not_handed_on():
    class Unseeded(Good):
        def reset(self, *, seed=None, options=None):
            return super().reset(seed=None)

    findings = found(Unseeded)
    assert findings[0].startswith("warning: seed: after reset(seed=0) the env's np_random has the seed")
    assert "call super().reset(seed=seed) first" in findings[0]
    assert any("the same seed and actions do not give the same episode" in text for text in findings)


@pytest.mark.parametrize("draw", [lambda: np.random.uniform(), random.random])  # noqa: NPY002
def test_global_generators_are_recognised(draw):
    class Global(Good):
        def step(self, action):
            self.x += 0.01 * draw()
            return super().step(action)

    text = one(Global)
    assert text.startswith("warning: seed: the same seed and actions do not give the same episode (first in the obs")
    assert "use self.np_random" in text


def test_the_checker_leaves_global_generators_as_they_were():
    random.seed(3)
    before = random.getstate()

    class Clock(Good):
        def step(self, action):
            self.x += 1e-3 * (time.perf_counter_ns() % 100) / 100
            return super().step(action)

    text = one(Clock)
    assert "look for state that reset does not reset, for threads, time" in text
    assert random.getstate() == before


def test_state_shared_by_two_envs():
    class Shared(Good):
        plays: int = 0

        def __init__(self):
            Shared.plays += 1
            self.offset = 0.01 * Shared.plays

        def obs(self):
            return super().obs() + np.float32(self.offset)

    assert one(Shared).startswith("warning: seed: two envs with the same seed and actions differ")


def test_time_limit_reported_as_termination():
    class Limited(Good):
        def step(self, action):
            obs, rew, *_ = super().step(action)
            return np.clip(obs, -2, 2), rew, self.t == 20, False, {}

    assert "every episode was terminated after exactly 20 steps; if that is a time limit" in one(Limited)


def test_episode_without_end():
    class Endless(Good):
        def step(self, action):
            obs, rew, *_ = super().step(action)
            return np.clip(obs, -2, 2), rew, False, False, {}

    assert one(Endless).startswith("warning: episode: no episode ended in 300 random steps, and no time limit")
    assert found(lambda: gym.wrappers.TimeLimit(Endless(), 50)) == []


@pytest.mark.parametrize("space", [spaces.Dict({"a": spaces.Discrete(2)}), spaces.Tuple([spaces.Discrete(2)])])
def test_actions_that_nothing_can_learn(space):
    def step(self, action):
        return Good.step(self, 1)

    made = variant(action_space=space, step=step)
    assert re.fullmatch(
        r"error: action_space: .* no algorithm acts in it; make it Box, .*, or let --env.wrappers FlatAction do so\.",
        found(made)[0],
    )
    assert found(lambda: FlatAction(made())) == []


def test_settings_of_a_named_env():
    config = EnvConfig(max_episode_steps=5_000, kwargs={"step": 0.001})
    assert found(f"{__name__}:Slow", config=config, steps=100) == []
    with pytest.raises(ConfigError, match="'stepp', which Slow does not take: did you mean 'step'"):
        found(f"{__name__}:Slow", config=EnvConfig(kwargs={"stepp": 1}))


def test_observation_that_never_changes():
    class Blind(Good):
        def obs(self):
            return np.zeros(2, np.float32)

    findings = found(Blind)
    assert "warning: step: the observation never changed in 300 random steps." in findings


@pytest.mark.parametrize(
    ("space", "says"),
    [
        (
            spaces.Box(0, 1, (0,)),
            "error: observation_space: observation_space is Box([], [], (0,), float32), which has",
        ),
        (spaces.Box(1, 1, (2,)), "error: observation_space: no value lies between its bounds"),
        (spaces.Box(0, 1, (64, 64, 3)), "warning: observation_space: it looks like an image of type float32"),
        (spaces.Box(0, 255, (4, 16, 16), np.uint8), "note: observation_space: images of shape (4, 16, 16) are too"),
        (spaces.Box(0, 1, (4, 5)), "note: observation_space: shape (4, 5) is neither a vector nor an image"),
        (spaces.Text(5), "warning: observation_space: Text"),
        (
            spaces.Dict(a=spaces.Box(0, 1, (0,))),
            "error: observation_space: observation_space['a'] is Box(",
        ),
    ],
)
def test_observation_spaces(space, says):
    assert any(text.startswith(says) for text in found(variant(observation_space=space), steps=5))


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(0, 1, (4, 40, 40), bool),
        spaces.Box(0, 255, (64, 64, 3), np.uint8),
        spaces.Box(0, 100, (3, 64, 64), np.uint8),
        spaces.Box(0, 255, (64, 64), np.uint8),
    ],
    ids=str,
)
def test_images_that_convolutions_read_as_they_are(space):
    assert not [text for text in found(variant(observation_space=space), steps=5) if "image" in text]


def test_action_spaces():
    unbounded = variant(action_space=spaces.Box(-np.inf, np.inf, (1,), np.float32))
    says = "warning: action_space: Box(-inf, inf, (1,), float32) has infinite"
    assert any(text.startswith(says) for text in found(unbounded, steps=5))
    assert any("has one action" in text for text in found(variant(action_space=spaces.Discrete(1)), steps=5))
    wide = found("Pendulum-v1")
    assert len(wide) == 1
    assert "is not [-1, 1]; policies scale their actions to it" in wide[0]
    fixed = variant(action_space=spaces.Box(np.float32([0, -1]), np.float32([0, 1])))
    assert any("leaves no choice where low >= high" in text for text in found(fixed, steps=5))
    double = variant(action_space=spaces.Box(-1, 1, (1,), np.float64))
    assert any("policies give float32" in text for text in found(double, steps=5))
    whole = variant(action_space=spaces.Box(0, 3, (1,), np.int64))
    assert any("MultiDiscrete says that better" in text for text in found(whole, steps=5))


def test_large_observations():
    class Large(Good):
        observation_space = spaces.Box(-1e6, 1e6, (2,), np.float32)

        def obs(self):
            return super().obs() * np.float32(1e5)

    assert "reaches" in one(Large)
    assert "train with net.norm_obs=True" in one(Large)


def test_errors_come_first():
    levels = [text.split(":")[0] for text in found(variant(action_space=spaces.Discrete(1), reset=lambda self: None))]
    assert levels == ["error", "warning"]


def test_function_that_cannot_be_sent_to_a_process():
    lock = __import__("threading").Lock()

    def make():
        with lock:
            return Good()

    assert one(make).startswith("warning: processes: the function that makes the env cannot be sent")


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"metadata": {"render.modes": ["human"]}}, "warning: render: metadata['render.modes'] is of the old gym"),
        (
            {"render_mode": "ansi", "render": lambda self: "x"},
            "warning: render: render_mode is 'ansi', metadata['render_modes'] is ['rgb_array']; add it there.",
        ),
        (
            {"render_mode": "rgb_array", "render": lambda self: 1 / 0},
            "error: render: it raised ZeroDivisionError: division by zero",
        ),
        ({"render_mode": "rgb_array", "render": lambda self: None}, "error: render: it returned a NoneType"),
        (
            {"render_mode": "rgb_array", "render": lambda self: np.zeros((4, 4))},
            "error: render: it returned float64 (4, 4); 'rgb_array' is an array uint8 [H, W, 3].",
        ),
    ],
)
def test_pictures(members, says):
    assert one(variant(**{"metadata": {"render_modes": ["rgb_array"]}} | members)).startswith(says)


def test_good_picture():
    picture = np.zeros((4, 5, 3), np.uint8)
    members = {"metadata": {"render_modes": ["rgb_array"]}, "render_mode": "rgb_array"}
    assert found(variant(**members, render=lambda self: picture)) == []


class Reach(Good):
    """Good, with its place as achieved goal, 0 as desired goal and the distance as cost."""

    goal = spaces.Box(-2, 2, (1,), np.float32)
    observation_space = spaces.Dict(observation=Good.observation_space, achieved_goal=goal, desired_goal=goal)

    def obs(self):
        place = np.array([self.x], np.float32)
        return {"observation": Good.obs(self), "achieved_goal": place, "desired_goal": np.zeros(1, np.float32)}

    def step(self, action):
        obs, _, *rest = Good.step(self, action)
        return obs, float(self.cost(obs["achieved_goal"], obs["desired_goal"], {})), *rest

    @staticmethod
    def cost(achieved, desired, info):
        return -np.abs(achieved - desired).sum(-1)


@pytest.mark.parametrize(
    ("compute", "says"),
    [
        (lambda self, a, d, i: -np.abs(a - d).sum(), "error: compute_reward: for two pairs of goals [2, ...] it ret"),
        (lambda self, a, d, i: Reach.cost(a, d, i) - 1, "error: compute_reward: it says -"),
        (lambda self, a, d, i: i["x"], "error: compute_reward: for two pairs of goals it raised IndexError"),
        (None, "note: compute_reward: observations have goals: for hindsight, the buffer needs a function"),
    ],
)
def test_goals(compute, says):
    env = type("Variant", (Reach,), {"compute_reward": compute})
    assert one(env).startswith(says)


@pytest.mark.parametrize("end", [False, True])
def test_ends_by_goals(end):
    members = {"compute_reward": lambda self, a, d, i: Reach.cost(a, d, i), "compute_terminated": lambda *args: end}
    says = found(type("Variant", (Reach,), members))
    assert [text.partition(";")[0] for text in says] == [
        "error: compute_terminated: it says True where step said False"
    ] * end


def test_good_goals():
    assert found(type("Variant", (Reach,), {"compute_reward": lambda self, a, d, i: Reach.cost(a, d, i)})) == []
    space = spaces.Dict({**Reach.observation_space.spaces, "desired_goal": spaces.Box(-2, 2, (1,), np.float64)})
    assert any("make them alike" in text for text in found(type("Variant", (Reach,), {"observation_space": space})))


def test_infos_that_cannot_travel():
    says = r"^warning: step: info\['lock'\] cannot be pickled \(TypeError: .*lock"
    assert re.search(says, one(returning(step=lambda *r: (*r[:4], {"lock": threading.Lock()}))))


def test_info_that_is_the_same_dict_in_every_step():
    shared = {}
    says = "info is the dict that the call before returned"
    assert says in one(returning(step=lambda *r: (*r[:4], shared)))


def test_spaces_that_change():
    def reset(self, **kwargs):
        self.action_space = spaces.Discrete(2)
        return Good.reset(self, **kwargs)

    assert "it was Discrete(3) and is Discrete(2) now" in one(variant(reset=reset))


def test_ends_of_both_kinds_at_once():
    assert "both terminated and truncated" in one(returning(step=lambda *r: (*r[:2], r[2] or r[3], r[2] or r[3], r[4])))


def test_an_env_that_raises_later_or_exits_is_named_by_its_function():
    def reset(self, **kwargs):
        self.resets = getattr(self, "resets", 0) + 1
        if self.resets == 4:
            raise RuntimeError("the simulator still runs")
        return Good.reset(self, **kwargs)

    assert one(variant(reset=reset)) == "error: reset: it raised RuntimeError: the simulator still runs"
    assert "error: step: it raised SystemExit: 3" in one(variant(step=lambda self, action: sys.exit(3)))


@pytest.mark.parametrize("key", [None, "mask", "action_mask"])
def test_masks_of_actions_are_kept_to(key):
    class Masked(Good):
        action_space = spaces.Discrete(3, start=1)
        if key is not None:
            observation_space = spaces.Dict({"x": Good.observation_space, key: spaces.MultiBinary(3)})

        def told(self, obs, info):
            mask = np.array([self.t % 2 == 0, 1, 0], np.int8)
            return (obs, {"action_mask": mask}) if key is None else ({"x": obs, key: mask}, info)

        def reset(self, **kwargs):
            return self.told(*super().reset(**kwargs))

        def step(self, action):
            if action == 3 or (action == 1 and self.t % 2):
                raise ValueError(f"{action} is not allowed")
            obs, rew, terminated, truncated, info = super().step(action - 1)
            obs, info = self.told(obs, info)
            return obs, rew, terminated, truncated, info

    assert found(Masked) == ["note: action_space: Discrete(3, start=1) starts at 1; policies number actions from 0."]
