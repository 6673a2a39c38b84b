from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from scripted import ScriptedEnv, ScriptedPolicy, make_env

from argosy.collect import CollectHook, Collector, EpisodeEvent, StepEvent
from argosy.collect.collector import CollectorState
from argosy.data import VectorReplayBuffer
from argosy.env import DummyVectorEnv
from argosy.errors import ConfigError, DataError, EnvError


def make(*lengths: list[int], size: int = 1000, recurrent: bool = False, **kwargs: Any) -> Collector:
    env = make_env(*lengths, **kwargs)
    buffer = VectorReplayBuffer(size, len(lengths), info_keys=("speed",))
    return Collector(ScriptedPolicy(env, recurrent), env, buffer, exploration_noise=True)


# what is stored


def test_stores_true_successors_at_an_episodes_end_and_starts_anew_after_it() -> None:
    collector = make([3, 2])
    stats = collector.collect(n_step=6)
    batch = collector.buffer.rollout()
    #            obs = [env, episode, step]
    assert batch.obs[:, 0].tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 2], [0, 1, 0], [0, 1, 1], [0, 2, 0]]
    assert batch.obs_next[:, 0].tolist() == [[0, 0, 1], [0, 0, 2], [0, 0, 3], [0, 1, 1], [0, 1, 2], [0, 2, 1]]
    assert batch.act[:, 0].tolist() == [0, 1, 2, 0, 1, 0]
    assert batch.rew[:, 0].tolist() == [1, 2, 3, 1, 2, 1]
    assert batch.terminated[:, 0].tolist() == [False, False, True, False, True, False]
    assert not batch.truncated.any()
    assert batch.policy.value[:, 0].tolist() == [0.0, 0.5, 1.0, 0.0, 0.5, 0.0]
    assert batch.info.speed[:, 0].tolist() == [10, 20, 30, 10, 20, 10]
    assert stats.returns.tolist() == [6.0, 3.0]
    assert stats.lens.tolist() == [3, 2]
    assert (stats.n_collected_episodes, stats.n_collected_steps) == (2, 6)


class Succeeding(gym.Wrapper[Any, Any, Any, Any]):
    """Says at every step whether the newest one is an even one."""

    def step(self, action: Any) -> Any:
        obs, rew, terminated, truncated, info = self.env.step(action)
        return obs, rew, terminated, truncated, {**info, "is_success": float(rew) % 2 == 0}


def test_an_episode_has_succeeded_where_its_last_info_says_so() -> None:
    lengths = ([2, 3], [4, 6])
    env = DummyVectorEnv([lambda i=i: Succeeding(ScriptedEnv(i, lengths[i])) for i in range(2)])
    stats = Collector(ScriptedPolicy(env), env).collect(n_episode=4)
    assert dict(zip(stats.lens.tolist(), stats.successes.tolist(), strict=True)) == {2: 1, 3: 0, 4: 1, 6: 1}
    assert stats.success_rate == stats.metrics("test")["test/success_rate"] == 0.75
    silent = make(*lengths).collect(n_episode=4)
    assert silent.success_rate is None
    assert "episode/success_rate" not in silent.metrics()


def test_truncation_is_no_termination() -> None:
    collector = make([2], truncates=True)
    collector.collect(n_step=2)
    batch = collector.buffer.rollout()
    assert batch.truncated[:, 0].tolist() == [False, True]
    assert not batch.terminated.any()
    assert batch.obs_next[-1, 0].tolist() == [0, 0, 2]


def test_actions_go_to_their_envs() -> None:
    collector = make([2], [5], [3])
    collector.collect(n_step=15)
    assert collector.env.get_env_attr("actions") == [[0, 1, 0, 1, 0], [0, 1, 2, 3, 0], [0, 1, 2, 0, 1]]


def test_a_policys_scale_is_stored_and_the_envs_is_acted() -> None:
    class Shifted(ScriptedPolicy):
        def map_action(self, act: np.ndarray) -> np.ndarray:
            return (act + 1) % 4

    env = make_env([4])
    buffer = VectorReplayBuffer(10, 1)
    Collector(Shifted(env), env, buffer, exploration_noise=True).collect(n_step=4)
    assert buffer[:].act.tolist() == [0, 1, 2, 3]
    assert env.get_env_attr("actions") == [[1, 2, 3, 0]]


# steps


def test_n_step_is_rounded_up_and_episodes_go_on_between_calls() -> None:
    collector = make([5], [7], [6])
    first = collector.collect(n_step=7)
    second = collector.collect(n_step=6)
    assert (first.n_collected_steps, second.n_collected_steps) == (9, 6)
    assert second.lens.tolist() == [5]
    assert second.returns.tolist() == [15.0]
    assert collector.collect_step == 15
    assert collector.collect_episode == 1


# episodes


def test_every_env_runs_its_quota_of_episodes_so_that_short_ones_are_not_favoured() -> None:
    # Taking whichever 4 episodes end first would give a mean length of 2 (all from env 0)
    collector = make([2], [50])
    stats = collector.collect(n_episode=4)
    assert sorted(stats.lens.tolist()) == [2, 2, 50, 50]
    assert stats.n_collected_steps == 104
    assert len(collector.buffer) == 104


def test_mean_return_is_unbiased_where_every_env_draws_short_and_long_episodes() -> None:
    class Coin(gym.Env[np.ndarray, int]):
        """Length 1 or 20, each with probability one half; return 1 or 20."""

        observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
        action_space = gym.spaces.Discrete(4)

        def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
            super().reset(seed=seed)
            self.left = int(self.np_random.choice([1, 20]))
            return np.zeros(3, np.float32), {}

        def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
            self.left -= 1
            return np.zeros(3, np.float32), 1.0, self.left == 0, False, {}

    env = DummyVectorEnv([Coin for _ in range(20)])
    collector = Collector(ScriptedPolicy(env), env, seed=0)
    means = []
    for _ in range(25):
        collector.reset_env()
        means.append(collector.collect(n_episode=40).returns.mean())
    # Standard error of the mean: 9.5 / sqrt(1000) = 0.3. Taking the first 40 episodes that end gives 8.0 on average.
    assert np.mean(means) == pytest.approx(10.5, abs=1.2)


@pytest.mark.parametrize(("n_episode", "resets"), [(1, [1, 0, 0]), (2, [1, 1, 0]), (3, [1, 1, 1]), (5, [2, 2, 1])])
def test_quotas_where_episodes_do_not_divide_evenly(n_episode: int, resets: list[int]) -> None:
    collector = make([2, 3], [3], [4])
    collector.collect(n_step=3)  # so that all have been reset once
    collector.reset_env()
    before = collector.env.get_env_attr("resets")
    stats = collector.collect(n_episode=n_episode)
    assert stats.n_collected_episodes == n_episode
    ran = [after - b for after, b in zip(collector.env.get_env_attr("resets"), before, strict=True)]
    assert ran == resets


def test_resting_envs_start_anew_in_the_next_call_and_others_go_on() -> None:
    collector = make([2], [6])
    collector.collect(n_step=2)  # both at step 1
    stats = collector.collect(n_episode=1)  # env 0 ends its episode; env 1 waits
    assert stats.lens.tolist() == [2]
    stats = collector.collect(n_episode=2)
    assert sorted(stats.lens.tolist()) == [2, 6]
    assert collector.env.get_env_attr("resets") == [2, 1]


# the policy's side


def test_exploration_is_asked_of_no_row_or_of_every_row() -> None:
    env = make_env([3], [9])
    policy = ScriptedPolicy(env)
    Collector(policy, env, exploration_noise=True).collect(n_step=2)
    assert policy.requests[-1].is_evaluation is None
    Collector(policy, env).collect(n_episode=2)
    widths = [
        len(r.is_evaluation) for r in policy.requests[1:] if r.is_evaluation is not None and r.is_evaluation.all()
    ]
    assert widths == [2, 2, 2, 1, 1, 1, 1, 1, 1]


def test_memoryless_policies_get_no_state() -> None:
    collector = make([3])
    collector.collect(n_step=4)
    for request in collector.policy.requests:
        assert request.policy_state is None
        assert request.on_reset is None


def test_recurrent_state_is_carried_and_first_steps_are_marked() -> None:
    collector = make([2], [3], recurrent=True)
    collector.collect(n_step=4)
    collector.collect(n_step=4)
    states = [request.policy_state[:, 0].tolist() for request in collector.policy.requests]
    marks = [request.on_reset.tolist() for request in collector.policy.requests]
    assert marks == [[True, True], [False, False], [True, False], [False, True]]
    assert states == [[0, 0], [1, 1], [0, 2], [1, 0]]
    stored = collector.buffer[:].policy.state  # sub-buffer after sub-buffer
    assert stored[:, 0].tolist() == [0, 1, 0, 1, 0, 1, 2, 0]


def test_recurrent_state_stays_with_its_env_when_others_rest() -> None:
    collector = make([2], [4], recurrent=True)
    collector.collect(n_episode=2)
    assert [r.policy_state[:, 0].tolist() for r in collector.policy.requests] == [[0, 0], [1, 1], [2], [3]]


# random actions


def test_random_actions_come_from_the_collectors_seed_and_not_from_the_policy() -> None:
    def actions(seed: int) -> Any:
        env = make_env([100])
        policy = ScriptedPolicy(env)
        Collector(policy, env, VectorReplayBuffer(100, 1), True, seed=seed).collect(n_step=60, random=True)
        assert policy.requests == []
        return env.get_env_attr("actions")

    assert actions(1) == actions(1)
    assert actions(1) != actions(2)
    assert set(actions(1)[0]) == {0, 1, 2, 3}


def test_a_share_of_the_actions_is_random_the_rest_is_the_policys() -> None:
    collector = make([2000], [2000], size=4000)
    collector.collect(n_step=4000, random=0.25)
    batch = collector.buffer.rollout()
    strange = batch.act != batch.obs[..., 2] % 4  # what the policy would not do; three quarters of the random actions
    assert strange.mean() == pytest.approx(0.25 * 0.75, abs=0.02)
    assert set(batch.act[strange].tolist()) == {0, 1, 2, 3}
    assert (strange[:, 0] & strange[:, 1]).mean() < 0.06  # drawn for each env
    assert collector.env.get_env_attr("actions") == batch.act.T.tolist()


def test_a_recurrent_policy_sees_the_observations_of_random_steps() -> None:
    collector = make([100], recurrent=True)
    collector.collect(n_step=3, random=True)
    collector.collect(n_step=1)
    assert collector.policy.requests[-1].policy_state.tolist() == [[3]]


# storing in stages


@pytest.mark.parametrize("size", [6, 30, 1000])  # per env: smaller than a stage, smaller than the collection, large
def test_steps_that_are_stored_together_are_stored_as_one_by_one(size: int) -> None:
    def contents(*hooks: CollectHook) -> Any:
        env = make_env([3, 2], [7], [1, 30])
        buffer = VectorReplayBuffer(3 * size, 3, seed=0)
        collector = Collector(ScriptedPolicy(env), env, buffer, exploration_noise=True, hooks=hooks)
        collector.collect(n_step=1)
        stats = [collector.collect(n_step=3 * n) for n in (1, 5, 64, 150)]
        collector.reset_env()
        stats.append(collector.collect(n_step=31))
        assert sum(part.n_collected_steps for part in stats) == 3 * (1 + 5 + 64 + 150 + 11)
        flat = buffer.rollout()
        return flat, [(part.returns.tolist(), part.lens.tolist()) for part in stats], buffer.unfinished_index().tolist()

    at_once, one_by_one = contents(), contents(CollectHook())  # with hooks every step is stored by itself
    assert at_once == one_by_one


def test_a_step_of_another_shape_than_the_first_is_still_refused_by_name() -> None:
    class Grows(ScriptedPolicy):
        def rollout(self, requests: Any) -> Any:
            result = super().rollout(requests)
            if len(self.requests) > 6:
                result.analyzed_result.value = np.zeros((1, 2))
            return result

    env = make_env([100])
    buffer = VectorReplayBuffer(50, 1)
    with pytest.raises(DataError, match=r"policy\.value"):
        Collector(Grows(env), env, buffer, exploration_noise=True).collect(n_step=20)
    assert len(buffer) == 6


def test_another_buffer_can_be_given() -> None:
    collector = make([9])
    collector.collect(n_step=8)
    collector.buffer = VectorReplayBuffer(20, 1)
    collector.collect(n_step=8)
    assert len(collector.buffer) == 8
    with pytest.raises(ConfigError, match="sub-buffer"):
        make([3], [3]).buffer = VectorReplayBuffer(20, 1)


# what goes wrong


@pytest.mark.parametrize(("what", "field"), [("rew", r"rew = nan"), ("obs", r"obs_next\[1\] = nan")])
def test_nan_is_refused_by_env_step_and_field_before_it_is_stored(what: str, field: str) -> None:
    env = DummyVectorEnv([lambda: make_scripted(0, {}), lambda: make_scripted(1, {(0, 3): what})])
    buffer = VectorReplayBuffer(100, 2)
    collector = Collector(ScriptedPolicy(env), env, buffer, exploration_noise=True)
    with pytest.raises(EnvError, match=rf"env 1 gave {field} in step 3"):
        collector.collect(n_step=20)
    assert len(buffer) == 4  # two whole vector steps
    collector.collect(n_step=4)
    batch = buffer.rollout()
    assert batch.obs[2:, 1].tolist() == [[1, 1, 0], [1, 1, 1]]  # a new episode
    assert batch.cut[1].tolist() == [True, True]  # which does not continue the old one


def make_scripted(index: int, bad: dict[tuple[int, int], str]) -> Any:
    from scripted import ScriptedEnv

    return ScriptedEnv(index, [10], bad=bad)


def test_an_env_that_raises_is_named_and_what_was_collected_stays() -> None:
    env = DummyVectorEnv([lambda: make_scripted(0, {}), lambda: make_scripted(1, {(0, 4): "raise"})])
    buffer = VectorReplayBuffer(100, 2)
    collector = Collector(ScriptedPolicy(env), env, buffer, exploration_noise=True)
    with pytest.raises(EnvError, match=r"env 1.*the simulator broke"):
        collector.collect(n_step=20)
    assert len(buffer) == 6
    assert collector.collect(n_step=20).n_collected_episodes == 2  # ten steps of new episodes each


def test_nan_at_a_reset_is_refused() -> None:
    env = DummyVectorEnv([lambda: make_scripted(0, {(1, 0): "obs"})])
    collector = Collector(ScriptedPolicy(env), env)
    with pytest.raises(EnvError, match=r"env 0 gave obs\[1\] = nan at the reset"):
        collector.collect(n_step=20)


@pytest.mark.parametrize(
    "kwargs", [{}, {"n_step": 1, "n_episode": 1}, {"n_step": 0}, {"n_episode": -1}, {"n_step": 1.5}]
)
def test_amounts_that_make_no_sense_are_refused(kwargs: Any) -> None:
    with pytest.raises(ConfigError, match=r"n_step|n_episode"):
        make([3]).collect(**kwargs)


def test_an_algorithm_in_place_of_its_policy_is_named() -> None:
    env = make_env([3])
    with pytest.raises(ConfigError, match=r"type SimpleNamespace; give its policy: algorithm.policy"):
        Collector(SimpleNamespace(policy=ScriptedPolicy(env)), env)  # type: ignore[arg-type]  # what users write


def test_too_few_sub_buffers_are_refused() -> None:
    env = make_env([3], [3])
    with pytest.raises(ConfigError, match=r"1 sub-buffer.*2 envs.*buffer_num=2"):
        Collector(ScriptedPolicy(env), env, VectorReplayBuffer(10, 1))


# seeds and state


def test_with_a_seed_the_envs_are_seeded_once() -> None:
    def seeds(seed: int | None) -> Any:
        env = make_env([2], [2])
        Collector(ScriptedPolicy(env), env, seed=seed).collect(n_step=8)
        return env.get_env_attr("seeds")

    assert seeds(3) == seeds(3)
    assert seeds(3) != seeds(4)
    assert all(len(s) == 3 and s[0] is not None and s[1:] == [None, None] for s in seeds(3))
    assert seeds(None) == [[None] * 3] * 2


def test_going_on_after_a_restart_equals_a_collector_that_takes_over_its_state() -> None:
    def run(resume: bool) -> Any:
        collector = make([50], [40])
        collector.rng.seed(5)
        collector.collect(n_step=10, random=True)
        collector.restart_envs()
        state: CollectorState = collector.state_dict()
        if resume:
            collector = make([50], [40])
            collector.load_state_dict(state)
        collector.collect(n_step=40, random=True)
        assert collector.collect_step == 50
        return [[seed for seed in s if seed is not None][-1:] for s in collector.env.get_env_attr("seeds")], [
            a[-20:] for a in collector.env.get_env_attr("actions")
        ]

    assert run(resume=True) == run(resume=False)
    assert [] not in run(resume=True)[0]


def test_after_a_restart_each_env_begins_anew_once_more_so_that_they_do_not_march_in_step() -> None:
    collector = make(*[[10]] * 8, size=8 * 100)
    collector.rng.seed(5)
    collector.collect(n_step=8 * 12)
    assert collector.longest_episode == 10
    collector.restart_envs()
    at = collector.state_dict()["stagger_at"]
    assert at is not None
    assert at.min() >= 1
    assert at.max() <= 10
    assert len(set(at.tolist())) > 3
    for _ in range(3):  # staged, in steps, and again in parts
        collector.collect(n_step=8 * 5)
    collector.collect(n_step=8 * 1)
    assert collector.steps_since_restart == 16
    assert collector.state_dict()["stagger_at"] is None
    batch = collector.buffer.rollout()
    step = batch.obs[:, :, 2]
    assert step[:12].tolist() == [[t % 10] * 8 for t in range(12)]  # in step until the restart
    for env, first in enumerate(at.tolist()):
        assert step[12:, env].tolist() == [*range(first), *range(10), *range(10)][:16]
        ends = np.flatnonzero(batch.cut[12:, env])
        assert ends.tolist() == [t for t in (first - 1, first + 9) if t < 15] + [15]
        assert batch.terminated[12 + first - 1, env] == (first == 10)  # cut short, not over
    assert collector.collect_episode == 8 + sum((first == 10) + (first <= 6) for first in at.tolist())


def test_episodes_that_are_counted_are_not_staggered() -> None:
    collector = make(*[[4]] * 2)
    collector.collect(n_episode=2)
    collector.restart_envs()
    assert collector.collect(n_episode=2).lens.tolist() == [4, 4]


def test_reset_env_ends_segments_in_the_buffer() -> None:
    collector = make([10])
    collector.collect(n_step=3)
    collector.reset_env(seed=1)
    collector.collect(n_step=2)
    assert collector.buffer.rollout().cut[:, 0].tolist() == [False, False, True, False, True]


def goes_across(buffer: VectorReplayBuffer) -> bool:
    """Whether a row goes on to one that does not begin where it ends."""
    rows = buffer.rings.all_stored()
    rows = rows[~buffer.rings.stop[rows]]
    return bool((buffer[rows].obs_next != buffer[buffer.next(rows)].obs).any())


def test_what_others_have_left_in_a_buffer_is_not_continued() -> None:
    first = make([9], [9])
    first.collect(n_step=6)
    second = Collector(first.policy, make_env([9], [9]), first.buffer, exploration_noise=True)
    second.collect(n_step=6)
    assert not goes_across(first.buffer)
    second.load_state_dict(second.state_dict())  # without `restart_envs`
    second.collect(n_step=6)
    assert not goes_across(first.buffer)
    loaded = VectorReplayBuffer(1000, 2, info_keys=("speed",))
    third = Collector(first.policy, make_env([9], [9]), loaded, exploration_noise=True)
    loaded.load_state_dict(first.buffer.state_dict())
    third.collect(n_step=6)
    assert not goes_across(loaded)


def test_a_buffer_that_comes_back_is_not_continued() -> None:
    collector = make([9, 9], [9, 9])
    kept = collector.buffer
    collector.collect(n_step=6)
    collector.buffer = VectorReplayBuffer(100, 2, info_keys=("speed",))
    collector.collect(n_step=6)
    collector.buffer = kept
    collector.collect(n_step=6)
    assert len(kept) == 12
    assert not goes_across(kept)


def test_reset_empties_buffer_and_counters() -> None:
    collector = make([10])
    collector.collect(n_step=3)
    collector.reset()
    assert (len(collector.buffer), collector.collect_step, collector.collect_time) == (0, 0, 0.0)


# hooks


def test_hooks_see_every_step_and_every_ended_episode() -> None:
    class Watcher(CollectHook):
        def __init__(self) -> None:
            self.steps: list[StepEvent] = []
            self.episodes: list[EpisodeEvent] = []

        def on_step(self, event: StepEvent) -> None:
            self.steps.append(event)

        def on_episode(self, event: EpisodeEvent) -> None:
            self.episodes.append(event)

    env = make_env([2], [3])
    watcher = Watcher()
    buffer = VectorReplayBuffer(8, 2)  # rings of 4
    Collector(ScriptedPolicy(env), env, buffer, hooks=[watcher]).collect(n_step=12)
    assert [event.slots.tolist() for event in watcher.steps] == [[0, 4], [1, 5], [2, 6], [3, 7], [0, 4], [1, 5]]
    ended = [(e.env_id, e.length, e.episode_return, e.slots.tolist()) for e in watcher.episodes]
    assert ended == [
        (0, 2, 3.0, [0, 1]),
        (1, 3, 6.0, [4, 5, 6]),
        (0, 2, 3.0, [2, 3]),
        (0, 2, 3.0, [0, 1]),
        (1, 3, 6.0, [7, 4, 5]),
    ]
    assert watcher.steps[1].rew.tolist() == [2, 2]
    assert watcher.steps[1].obs_next.tolist() == [[0, 0, 2], [1, 0, 2]]
