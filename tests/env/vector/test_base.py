"""What every kind of vector env does alike: values, order, seeds, spaces, attributes, errors."""

import itertools

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from argosy.collect import Collector
from argosy.data import Batch, VectorReplayBuffer
from argosy.env import DummyVectorEnv, EnvConfig, ShmemVectorEnv, SubprocVectorEnv, VectorEnv, info_column
from argosy.errors import ConfigError, EnvError
from argosy.policy import ForwardPolicy

KINDS = [DummyVectorEnv, SubprocVectorEnv, ShmemVectorEnv]


class Counter(gym.Env):
    """Observation (index, episode, step, last action); an episode has `length` steps; reward index * 10 + step."""

    def __init__(self, index: int, length: int = 3) -> None:
        self.index, self.length, self.episode = index, length, 0
        self.observation_space = spaces.Box(-1, 1000, (4,), np.float32)
        self.action_space = spaces.Discrete(10)

    def _obs(self, act=-1):
        return np.array([self.index, self.episode, self.t, act], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        self.episode += 1
        return self._obs(), {"seed": seed, "options": options, "draw": self.np_random.random()}

    def step(self, action):
        assert isinstance(action, np.integer)
        self.t += 1
        return self._obs(action), self.index * 10 + self.t, self.t == self.length, False, {"t": self.t}


class Nested(gym.Env):
    """Dict of Box and Tuple observations, Dict with Tuple actions; the observation repeats the action."""

    def __init__(self) -> None:
        self.observation_space = spaces.Dict(
            n=spaces.Discrete(100), pair=spaces.Tuple([spaces.Box(-9, 9, (2,)), spaces.MultiBinary(3)])
        )
        self.action_space = spaces.Dict(
            k=spaces.Discrete(50), parts=spaces.Tuple([spaces.Box(-5, 5, (2,)), spaces.MultiDiscrete([3, 4])])
        )

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {"n": 7, "pair": (np.zeros(2, np.float32), np.array([1, 0, 1], np.int8))}, {}

    def step(self, action):
        assert isinstance(action["parts"], tuple)
        box, multi = action["parts"]
        bits = np.array([multi[0] > 0, multi[1] > 0, 1], np.int8)
        return {"n": int(action["k"]), "pair": (box, bits)}, 1.0, False, False, {}


def counters(n, length=3):
    return [lambda i=i: Counter(i, length) for i in range(n)]


@pytest.fixture(params=KINDS, ids=lambda kind: kind.__name__)
def kind(request):
    return request.param


@pytest.fixture
def make(kind):
    made = []

    def build(env_fns, *args, **kwargs):
        made.append(kind(env_fns, *args, **kwargs))
        return made[-1]

    yield build
    for env in made:
        env.close()


def test_steps_and_resets_by_value(make):
    env = make(counters(5))
    assert isinstance(env, VectorEnv)
    assert (len(env), env.num_envs, env.env_num, env.is_async) == (5, 5, 5, False)
    obs, info = env.reset()
    assert obs.tolist() == [[i, 1, 0, -1] for i in range(5)]
    assert obs.dtype == np.float32
    assert [one["env_id"] for one in info] == [0, 1, 2, 3, 4]
    obs, rew, terminated, truncated, info = env.step(np.array([5, 6, 7, 8, 9]))
    assert obs.tolist() == [[i, 1, 1, 5 + i] for i in range(5)]
    assert rew.tolist() == [1, 11, 21, 31, 41]
    assert (rew.dtype, terminated.dtype, truncated.dtype) == (np.float32, np.bool_, np.bool_)
    assert not terminated.any()
    assert not truncated.any()
    assert info_column(info, "t").tolist() == [1] * 5
    # some envs, in the caller's order
    obs, rew, _, _, info = env.step(np.array([1, 2]), [4, 0])
    assert obs.tolist() == [[4, 1, 2, 1], [0, 1, 2, 2]]
    assert rew.tolist() == [42, 2]
    assert info_column(info, "env_id").tolist() == [4, 0]
    obs, _, terminated, _, _ = env.step(np.array([3, 3]), np.array([0, 4]))
    assert terminated.tolist() == [True, True]
    assert obs.tolist() == [[0, 1, 3, 3], [4, 1, 3, 3]]  # the true last observation, not the next episode's first
    obs, _ = env.reset([4, 0])
    assert obs.tolist() == [[4, 2, 0, -1], [0, 2, 0, -1]]
    assert env.step(np.array([0]), 2)[0].tolist() == [[2, 1, 2, 0]]


def test_results_are_the_callers_to_keep(make):
    """What a step returned does not change under later steps, however many are kept."""
    env = make(counters(4, length=100))
    kept = [env.reset()[0]]
    rewards = []
    for t in range(10):
        obs, rew, *_ = env.step(np.full(4, t % 10))
        kept.append(obs[:, 1:])
        rewards.append(rew)
    for t in range(10):
        assert kept[t + 1].tolist() == [[1, t + 1, t % 10]] * 4
        assert rewards[t].tolist() == [10 * i + t + 1 for i in range(4)]


def test_seeds(make):
    env = make(counters(3))
    seeds = env.seed(5)
    assert len(set(seeds)) == 3
    _, info = env.reset()
    assert [one["seed"] for one in info] == seeds
    first = [one["draw"] for one in info]
    _, info = env.reset()
    assert [one["seed"] for one in info] == [None] * 3
    second = [one["draw"] for one in info]
    env.seed(5)
    env.reset([2])  # a subset takes its own seed, the others keep theirs for later
    _, info = env.reset([0, 1])
    assert [one["draw"] for one in info] == first[:2]
    assert [one["draw"] for one in env.reset()[1]] == second
    assert env.seed([1, None, 3]) == [1, None, 3]
    assert [one["seed"] for one in env.reset(options={"a": 1})[1]] == [1, None, 3]
    assert [one["seed"] for one in env.reset([1, 0], seed=[8, 9])[1]] == [8, 9]
    assert [one["options"] for one in env.reset(options={"a": 1})[1]] == [{"a": 1}] * 3
    with pytest.raises(ConfigError, match="list of 2; 3 envs"):
        env.seed([1, 2])


def test_train_and_test_seeds_do_not_overlap():
    seen = set()
    for seed in (0, 1, 2):
        env = DummyVectorEnv(counters(8))
        seen |= set(env.seed(seed))
    assert len(seen) == 24


def test_nested_spaces(make):
    env = make([Nested, Nested, Nested])
    obs, _ = env.reset()
    assert obs["n"].tolist() == [7, 7, 7]
    assert obs["pair"]["0"].shape == (3, 2)
    assert obs["pair"]["1"].tolist() == [[1, 0, 1]] * 3
    assert obs["pair"]["1"].dtype == np.int8
    space = env.single_observation_space
    assert list(space["pair"].keys()) == ["0", "1"]
    box = np.array([[0, 1], [2, 3], [4, 5]], np.float32)
    multi = np.array([[0, 1], [2, 0], [0, 0]])
    stacked = {"k": np.array([10, 11, 12]), "parts": (box, multi)}
    listed = [{"k": 10 + i, "parts": (box[i], multi[i])} for i in range(3)]
    for action in (stacked, listed):
        obs, *_ = env.step(action)
        assert obs["n"].tolist() == [10, 11, 12]
        assert obs["pair"]["0"].tolist() == box.tolist()
        assert obs["pair"]["1"].tolist() == [[0, 1, 1], [1, 0, 1], [0, 0, 1]]
    obs, *_ = env.step({"k": np.array([1, 2]), "parts": (box[:2], multi[:2])}, [2, 1])
    assert obs["n"].tolist() == [1, 2]


def test_attributes_and_rendering(make):
    env = make(counters(3))
    assert env.get_env_attr("index") == [0, 1, 2]
    env.set_env_attr("index", 9, [1])
    env.set_env_attr("brand_new", "x")
    assert env.get_env_attr("index", [2, 1]) == [2, 9]
    assert env.get_env_attr("brand_new") == ["x"] * 3
    assert env.reset()[0][:, 0].tolist() == [0, 9, 2]
    assert [space.n for space in env.action_space] == [10] * 3
    with pytest.raises(EnvError if not isinstance(env, DummyVectorEnv) else AttributeError, match="nothing_like_it"):
        env.get_env_attr("nothing_like_it")


def test_close_twice_then_use(make):
    env = make(counters(2))
    env.reset()
    env.close()
    env.close()
    assert env.is_closed
    for use in (env.reset, lambda: env.step(np.zeros(2, int)), lambda: env.get_env_attr("index")):
        with pytest.raises(EnvError, match="closed"):
            use()


def test_wrong_arguments(kind):
    with pytest.raises(ConfigError, match="env_fns is empty"):
        kind([])
    for wait_num in (0, 3):
        with pytest.raises(ConfigError, match=f"wait_num is {wait_num}.* between 1 and .*2"):
            kind(counters(2), wait_num=wait_num)
    with pytest.raises(ConfigError, match="timeout is 0"):
        kind(counters(2), timeout=0)
    with pytest.raises(ConfigError, match="envs_per_worker"):
        EnvConfig(vector="dummy", envs_per_worker=2)


@pytest.mark.parametrize("ids", [[3], [-1], [0, 0], []])
def test_wrong_ids(make, ids):
    env = make(counters(3))
    env.reset()
    with pytest.raises(EnvError, match="must name some of the envs 0 to 2"):
        env.step(np.zeros(len(ids), int), ids)


@pytest.mark.parametrize("action", [np.zeros(2, int), np.int64(1), [1, 2, 3, 4], 0])
def test_wrong_number_of_actions(make, action):
    env = make(counters(3))
    env.reset()
    with pytest.raises(EnvError, match=r"action\(s\) for 3 env"):
        env.step(action)


class Odd(Counter):
    """Env 1 gives `obs` at its first reset."""

    def __init__(self, index, obs):
        super().__init__(index)
        self.odd = obs

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed)
        return (self.odd if self.index == 1 else obs), info


@pytest.mark.parametrize(
    ("obs", "says"),
    [
        (np.zeros(3, np.float32), r"observation has shape \(3,\); its space .* has \(4,\)"),
        (np.array([0, 0, 5000, 0], np.float32), r"observation\[2\] is 5000.0; its space allows -1.0 to 1000.0"),
        (np.array([0, np.nan, 0, 0], np.float32), r"observation holds NaN at index \(1,\)"),
        (np.zeros(4, np.complex64), "observation has dtype complex64; its space .* has float32"),
        ("hello", "observation has shape"),
    ],
)
def test_observation_outside_its_space_is_named_at_reset(make, obs, says):
    env = make([lambda i=i: Odd(i, obs) for i in range(2)])
    with pytest.raises(EnvError, match=f"env 1, reset: {says}"):
        env.reset()


@pytest.mark.parametrize("obs", [np.ones(1, np.float32), np.ones((1, 2), np.float32), 1.0], ids=repr)
@pytest.mark.parametrize("nested", [False, True])
def test_observations_of_a_step_are_not_spread_over_their_space(make, obs, nested):
    box = spaces.Box(0, 9, (2,))

    class Narrow(gym.Env):
        observation_space = spaces.Dict({"x": box}) if nested else box
        action_space = spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            first = np.zeros(2, np.float32)
            return ({"x": first} if nested else first), {}

        def step(self, action):
            return ({"x": obs} if nested else obs), 0.0, False, False, {}

    env = make([Narrow] * 2)
    env.reset()
    with pytest.raises(EnvError, match=r"env [01], step: observation.* has shape \(.*\); its space .* has \(2,\)"):
        env.step(np.zeros(2, int))


def test_actions_are_not_spread_over_their_space():
    class Plane(Counter):
        def __init__(self):
            super().__init__(0)
            self.action_space = spaces.Box(-1, 1, (2,))

    env = ShmemVectorEnv([Plane] * 2)
    env.reset()
    with pytest.raises(EnvError, match=r"actions of shape \(\) do not fit the action space's shape \(2,\)"):
        env.step(np.ones(2, np.float32))
    env.close()


def test_wider_floats_are_cast(make):
    env = make([lambda i=i: Odd(i, np.arange(4, dtype=np.float64)) for i in range(2)])
    obs, _ = env.reset()
    assert obs.dtype == np.float32
    assert obs[1].tolist() == [0, 1, 2, 3]


class Failing(Counter):
    """Env 1 raises where it is told to."""

    def __init__(self, index, where):
        if index == 1 and where == "init":
            raise KeyError("no such level")
        super().__init__(index)
        self.where = where

    def reset(self, *, seed=None, options=None):
        if self.index == 1 and self.where == "reset":
            raise KeyError("no such level")
        return super().reset(seed=seed)

    def step(self, action):
        if self.index == 1 and self.where == "step" and self.t == 0:
            self.t = 1
            raise KeyError("no such level")
        return super().step(action)


def test_env_that_cannot_be_made(kind):
    with pytest.raises(EnvError, match="env 1 could not be made: KeyError: 'no such level'"):
        kind([lambda i=i: Failing(i, "init") for i in range(3)])


def test_one_env_is_not_stepped_as_several():
    env = Counter(0)
    with pytest.raises(EnvError, match="env 1 could not be made: the functions returned one env several times"):
        DummyVectorEnv([lambda: env, lambda: gym.wrappers.TimeLimit(env, 5)])
    with pytest.raises(EnvError, match=r"env 0 .*: <.*Counter.*> is no function that makes an env; write"):
        DummyVectorEnv([env])


def test_keys_that_are_no_text_are_refused():
    space = spaces.Dict(a=spaces.Dict({0: spaces.Discrete(2)}))
    with pytest.raises(EnvError, match=r"observation_space\['a'\] is .* whose keys \[0\] are not all text"):
        DummyVectorEnv([lambda: Bounded(space, spaces.Discrete(2))])


@pytest.mark.parametrize("where", ["reset", "step"])
def test_env_that_raises_is_named_and_the_others_go_on(make, where):
    env = make([lambda i=i: Failing(i, where) for i in range(3)])
    if where == "step":
        env.reset()
    with pytest.raises(EnvError, match=f"env 1 failed in {where}: KeyError: 'no such level'") as caught:
        env.step(np.zeros(3, int)) if where == "step" else env.reset()
    if isinstance(env, DummyVectorEnv):
        assert isinstance(caught.value.__cause__, KeyError)
    else:
        assert "in the worker process" in str(caught.value).lower()
        assert "Traceback" in str(caught.value)
        assert "test_base.py" in str(caught.value)
    obs, _ = env.reset([0, 2])
    assert obs[:, 0].tolist() == [0, 2]
    assert env.step(np.array([1, 1]), [2, 0])[0][:, [0, 2, 3]].tolist() == [[2, 1, 1], [0, 1, 1]]
    if where == "step":
        assert env.reset()[0][:, 2].tolist() == [0, 0, 0]
        assert env.step(np.array([4]), 0)[0][0, 3] == 4


def test_envs_with_other_spaces_are_refused(kind):
    class Other(Counter):
        def __init__(self):
            super().__init__(0)
            self.observation_space = spaces.Box(-1, 1, (2,), np.float32)

    fns = [*counters(2), Other]
    with pytest.raises(EnvError, match=r"env 2 has other spaces than env"):
        kind(fns)


class Bounded(gym.Env):
    """Observes and acts in spaces whose bounds are its own."""

    def __init__(self, obs, act):
        self.observation_space, self.action_space = obs, act

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return self.observation_space.sample(), 0.0, False, False, {}


def test_spaces_may_differ_in_bounds(make):
    """What they observe is in the common space, and an action of the common space is one of each env's."""

    def box(low, *high):
        return spaces.Box(low, np.array(high, np.float32))

    pairs = [
        (box(-1, 2, 3), spaces.Box(-2, 2, (1,), np.float32)),
        (box(-4, 1, 1), spaces.Box(-1, 3, (1,), np.float32)),
        (box(0, 5, 1), spaces.Box(-9, 9, (1,), np.float32)),
    ]
    env = make([lambda pair=pair: Bounded(*pair) for pair in pairs])
    assert env.single_observation_space == box(-4, 5, 3)
    assert env.single_action_space == spaces.Box(-1, 2, (1,), np.float32)
    env.reset()
    obs, *_ = env.step(np.full((3, 1), 2, np.float32))
    assert all(env.single_observation_space.contains(row) for row in obs)


def test_bounds_within_dicts_and_choices():
    def common(*pairs):
        env = DummyVectorEnv([lambda pair=pair: Bounded(*pair) for pair in pairs])
        return env.single_observation_space, env.single_action_space

    small = spaces.Dict(n=spaces.Discrete(3), at=spaces.MultiDiscrete([2, 5]))
    large = spaces.Dict(n=spaces.Discrete(4, start=1), at=spaces.MultiDiscrete([3, 4]))
    obs, act = common((small, small), (large, large))
    assert obs == spaces.Dict(n=spaces.Discrete(5), at=spaces.MultiDiscrete([3, 5]))
    assert act == spaces.Dict(n=spaces.Discrete(2, start=1), at=spaces.MultiDiscrete([2, 4]))
    pair = spaces.Tuple([spaces.Discrete(2), spaces.Discrete(3)])
    assert common((pair, pair), (spaces.Tuple([spaces.Discrete(3), spaces.Discrete(3)]), pair))[0]["0"].n == 3
    apart = spaces.Discrete(2, start=7)
    for other in (apart, spaces.Box(0, 1), spaces.MultiBinary(2)):
        with pytest.raises(EnvError, match=r"env 1 has other spaces .* have an action in common"):
            common((small, spaces.Discrete(2)), (small, other))


def test_text_observations_travel_as_objects():
    class Teller(gym.Env):
        observation_space = spaces.Text(20)
        action_space = spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return "hello", {}

        def step(self, action):
            return "bye", 0.0, False, False, {}

    for kind in (DummyVectorEnv, SubprocVectorEnv):
        env = kind([Teller, Teller])
        assert env.reset()[0].tolist() == ["hello", "hello"]
        assert env.step(np.zeros(2, int))[0].tolist() == ["bye", "bye"]
        env.close()
    with pytest.raises(Exception, match="does not fit shared memory; use SubprocVectorEnv"):
        ShmemVectorEnv([Teller, Teller])


class Graph:
    """A Python object that is observed."""


class Graphs(gym.Space):
    def contains(self, x):
        return isinstance(x, Graph)


class Drawing(gym.Env):
    """Observes Graphs, whatever its space says."""

    action_space = spaces.Discrete(2)

    def __init__(self, space=None):
        if space is not None:
            self.observation_space = space

    def reset(self, *, seed=None, options=None):
        return Graph(), {}

    def step(self, action):
        return Graph(), 1.0, True, False, {}


@pytest.mark.parametrize("kind", [DummyVectorEnv, SubprocVectorEnv])
def test_objects_are_observed_where_the_space_says_so(kind):
    env = kind([lambda: Drawing(Graphs()) for _ in range(2)])
    assert {type(obs).__name__ for obs in env.reset()[0]} == {"Graph"}
    policy = AlwaysZero(action_space=env.action_space[0])
    assert Collector(policy, env).collect(n_episode=2).returns.tolist() == [1, 1]
    env.close()


def test_objects_in_another_space_are_refused(make):
    advice = r"Graph, Sequence, Text, or a subclass of gymnasium.Space with `contains`"
    with pytest.raises(EnvError, match=rf"Drawing has no observation_space; set it to .*{advice}"):
        make([Drawing, Drawing])
    env = make([lambda: Drawing(spaces.Box(0, 1, (2,)))])
    with pytest.raises(EnvError, match=rf"holds Python objects \(Graph\); its space Box.*{advice}"):
        env.reset()


def test_actions_keep_their_values_inside_the_env(make):
    """An env that keeps its action sees it unchanged after the next step."""

    class Keeper(gym.Env):
        observation_space = spaces.Box(-100, 100, (2,), np.float64)
        action_space = spaces.Box(-10, 10, (2,), np.float32)

        def __init__(self):
            self.kept = []

        def reset(self, *, seed=None, options=None):
            return np.zeros(2), {}

        def step(self, action):
            self.kept.append(action)
            return np.sum(self.kept, axis=0), 0.0, False, False, {}

    env = make([Keeper, Keeper])
    env.reset()
    env.step(np.array([[1, 2], [3, 4]], np.float32))
    obs, *_ = env.step(np.array([[10, 10], [10, 10]], np.float32))
    assert obs.tolist() == [[11, 12], [13, 14]]


def test_several_rewards(make):
    class Pair(Counter):
        reward_shape = (2,)

        def step(self, action):
            obs, rew, terminated, truncated, info = super().step(action)
            return obs, [rew, -rew], terminated, truncated, info

    env = make([lambda i=i: Pair(i) for i in range(3)])
    env.reset()
    assert env.step(np.zeros(3, int))[1].tolist() == [[1, -1], [11, -11], [21, -21]]
    assert env.step(np.zeros(1, int), 2)[1].tolist() == [[22, -22]]


class Untold(Counter):
    """A Counter of two agents that does not say so."""

    def step(self, action):
        obs, rew, terminated, truncated, info = super().step(action)
        return obs, np.array([rew, -rew]), terminated, truncated, info


def test_several_rewards_that_were_not_told(kind):
    env = kind([lambda i=i: Untold(i) for i in range(3)])
    env.reset()
    if kind is ShmemVectorEnv:  # laid out before the first reward
        with pytest.raises(EnvError, match=r"give the env an attribute `reward_shape = \(2,\)`, or use Subproc"):
            env.step(np.zeros(3, int))
        return
    assert env.step(np.zeros(3, int))[1].tolist() == [[1, -1], [11, -11], [21, -21]]
    env.reset([0])
    assert env.step(np.zeros(2, int), [2, 0])[1].tolist() == [[22, -22], [1, -1]]
    env.close()


@pytest.mark.parametrize("kind", [DummyVectorEnv, SubprocVectorEnv])
def test_several_rewards_of_some_that_are_ready(kind):
    env = kind([lambda i=i: Untold(i) for i in range(3)], wait_num=2)
    env.reset()
    env.send(np.zeros(1, int), [1])
    env.send_reset([0, 2])
    assert received(env)[1] == [11, -11]
    env.send(np.zeros(2, int), [0, 2])
    env.send_reset([1])
    assert received(env) == {0: [1, -1], 1: [0, 0], 2: [21, -21]}
    env.close()


def received(env):
    """Rewards of three envs at work, by their index."""
    rewards = {}
    while len(rewards) < 3:
        got = env.recv()
        rewards |= dict(zip(got.env_id.tolist(), got.rew.tolist(), strict=True))
    return rewards


class AlwaysZero(ForwardPolicy):
    def forward(self, batch, state=None):
        return Batch(act=np.zeros(len(batch.obs), int))


def test_a_collector_and_a_buffer_take_several_rewards():
    buffer = VectorReplayBuffer(20, 2)
    env = DummyVectorEnv([lambda i=i: Untold(i) for i in range(2)])
    policy = AlwaysZero(action_space=env.action_space[0])
    stats = Collector(policy, env, buffer).collect(n_episode=2)
    assert stats.returns.tolist() == [[6, -6], [36, -36]]
    assert buffer.rew[:3].tolist() == [[1, -1], [2, -2], [3, -3]]


def test_info_column_reads_both_forms():
    dicts = np.array([{"a": 1}, {}, {"a": 3, "b": [1, 2]}], dtype=object)
    assert info_column(dicts, "a").tolist() == [1, 0, 3]
    assert info_column(dicts, "a", [2, 0]).tolist() == [3, 1]
    assert info_column(dicts, "zzz") is None
    assert info_column(dicts, "b").tolist() == [[0, 0], [0, 0], [1, 2]]
    arrays = {"a": np.array([1, 2, 3])}
    assert info_column(arrays, "a").tolist() == [1, 2, 3]
    assert info_column(arrays, "a", [2]).tolist() == [3]
    assert info_column(arrays, "zzz") is None
    assert info_column({"a": {"b": np.array([1, 2, 3])}}, "a", [2, 0])["b"].tolist() == [3, 1]
    ragged = np.array([{"a": [1]}, {"a": [1, 2]}], dtype=object)
    assert list(info_column(ragged, "a")) == [[1], [1, 2]]


def test_groups_of_envs_per_worker():
    for per_worker, sizes in ((1, [1] * 5), (2, [2, 1, 2]), (3, [2, 3]), (9, [5])):
        env = SubprocVectorEnv(counters(5), envs_per_worker=per_worker)
        assert [len(worker.ids) for worker in env.workers] == sizes, per_worker
        assert env.reset()[0][:, 0].tolist() == [0, 1, 2, 3, 4]
        env.close()


def test_all_kinds_agree_over_random_steps():
    rng = np.random.default_rng(0)
    envs = [kind(counters(5, length=4)) for kind in KINDS]
    for env in envs:
        env.seed(3)
        env.reset()
    for _ in range(60):
        ids = rng.permutation(5)[: rng.integers(1, 6)] if rng.random() < 0.6 else None
        n = 5 if ids is None else len(ids)
        action = rng.integers(0, 10, n)
        results = [env.step(action, ids) for env in envs]
        for a, b in itertools.pairwise(results):
            for x, y in zip(a[:4], b[:4], strict=True):
                assert np.array_equal(x, y)
            assert a[4].tolist() == b[4].tolist()
        done = results[0][2]
        if done.any():
            again = np.flatnonzero(done) if ids is None else ids[done]
            firsts = [env.reset(again)[0] for env in envs]
            assert np.array_equal(firsts[0], firsts[1])
            assert np.array_equal(firsts[0], firsts[2])
    for env in envs:
        env.close()


class Says(Counter):
    """Counter that returns something else from step 2 on, or from a reset."""

    def __init__(self, index, step=None, reset=None):
        super().__init__(index)
        self.says_step, self.says_reset = step, reset

    def reset(self, **kwargs):
        obs, info = super().reset(**kwargs)
        return (obs, info) if self.says_reset is None else self.says_reset(obs, info)

    def step(self, action):
        result = super().step(action)
        return result if self.t < 2 or self.says_step is None else self.says_step(*result)


@pytest.mark.parametrize(
    ("step", "says"),
    [
        (lambda o, r, t, u, i: (o[:3], r, t, u, i), r"observation has shape \(3,\); its space"),
        (lambda o, r, t, u, i: ("abc", r, t, u, i), r"observation has shape \(\); its space"),
        (lambda o, r, t, u, i: ({"x": o}, r, t, u, i), r"observation is or holds Python objects \(dict\); its space"),
        (lambda o, r, t, u, i: (o, "much", t, u, i), "the reward is 'much'; it has to be a number"),
        (lambda o, r, t, u, i: (o, np.array([r]), t, u, i), r"a reward array\(.*\) where float\(reward\) belongs"),
        (lambda o, r, t, u, i: (o, r, t, u, None), "info is a NoneType; it has to be a dict"),
        (lambda o, r, t, u, i: (o, r, t, i), r"it returned 4 values; it has to return \(obs, reward, terminated"),
        (lambda o, r, t, u, i: o, "it returned a ndarray; it has to return"),
    ],
)
def test_what_a_step_returns_wrongly_is_said(kind, step, says):
    env = kind([lambda i=i: Says(i, step if i == 1 else None) for i in range(2)])
    env.reset()
    env.step(np.zeros(2, int))
    with pytest.raises(EnvError, match=rf"env 1(,| failed in) step: {says}"):
        env.step(np.zeros(2, int))
    env.close()


@pytest.mark.parametrize(
    ("reset", "says"),
    [
        (lambda o, i: o, r"it returned a ndarray; it has to return \(obs, info\)"),
        (lambda o, i: (o, None), "info is a NoneType; it has to be a dict"),
    ],
)
def test_what_a_reset_returns_wrongly_is_said(reset, says):
    env = DummyVectorEnv([lambda i=i: Says(i, None, reset if i == 1 else None) for i in range(2)])
    with pytest.raises(EnvError, match=f"env 1, reset: {says}"):
        env.reset()
