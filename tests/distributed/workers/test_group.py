import dataclasses
import itertools
import re
import socket
import threading
import time

import numpy as np
import pytest
import torch

from argosy.algorithm import PPO
from argosy.collect.recorder import Segment
from argosy.data import NamedArray
from argosy.distributed import (
    ActorGroup,
    AgentSpec,
    EvalGroup,
    Fleet,
    FleetError,
    FleetRun,
    FleetStop,
    PolicySpec,
    RestartConfig,
)
from argosy.distributed.host.base import PeerLostError, Resources, ThreadLauncher, end
from argosy.distributed.roles import Plan
from argosy.distributed.workers import group as group_module
from argosy.distributed.workers.group import Placement, TrainerGroup, choose_backend
from argosy.distributed.workers.trainer import KIND
from argosy.errors import CheckpointError, ConfigError, DataError
from argosy.presets import preset
from argosy.run.build import build
from argosy.trainer.statefile import read_state

EXPERIMENT = preset(
    "ppo",
    "CartPole-v1",
    seed=1,
    normalize_adv=False,
    batch_size=None,
    repeat_per_collect=4,
    env={"num_envs": 4},
    trainer={"step_per_collect": 128},
)


class LeaderPeer:
    """Calls the leader, which is a thread here."""

    name = "leader"

    def __init__(self):
        self.group = None

    def call(self, method, *args):
        from concurrent.futures import Future

        future = Future()
        if self.group is None:
            future.set_exception(PeerLostError("not yet"))
        else:
            future.set_result(self.group.address())
        return future


def in_two_threads(fn):
    peer, results, errors = LeaderPeer(), {}, []

    def member(rank):
        try:
            group = TrainerGroup(rank, 2, peer, host=f"127.0.0.{rank + 1}")  # as on two machines
            if rank == 0:
                peer.group = group
            while not group.join():
                pass
            results[rank] = fn(group)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=member, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    return results[0], results[1]


def test_members_average_agree_and_share():
    def work(group):
        mean = group.mean(torch.tensor([1.0, 2.0]) + group.rank)
        agreed = group.agree(float(group.rank), 5.0 - group.rank)
        return mean.tolist(), agreed, group.share({"x": torch.full((3,), float(group.rank)), "n": group.rank})

    first, second = in_two_threads(work)
    assert first[:2] == second[:2] == ([1.5, 2.5], [0.0, 4.0])
    assert second[2]["n"] == 0
    assert second[2]["x"].tolist() == [0.0, 0.0, 0.0]


def test_waiting_for_members_does_not_block():
    peer = LeaderPeer()
    follower = TrainerGroup(1, 2, peer)
    assert not follower.join()  # no leader yet
    leader = peer.group = TrainerGroup(0, 2, peer)
    assert not leader.join()
    assert not leader.joined
    assert leader.address() is not None


def test_who_leaves_is_missed_at_once():
    def work(group):
        group.agree(1.0)  # both are there: to who leaves while another one still connects, that fails
        if group.rank == 1:
            group.leave()
            return None
        with pytest.raises(RuntimeError):
            group.agree(1.0)
        return time.monotonic()

    start = time.monotonic()
    end, _ = in_two_threads(work)
    assert end - start < 30.0  # an exchange may take 60


GPUS = [Placement("cuda", "GPU-1", True), Placement("cuda", "GPU-2", True)]


@pytest.mark.parametrize(
    ("seats", "backend", "reason"),
    [
        ([Placement("cpu"), Placement("cpu")], "gloo", ""),
        (GPUS, "nccl", ""),
        ([GPUS[0], Placement("cpu")], "gloo", ""),
        ([GPUS[0], GPUS[0]], "gloo", r"a GPU for each trainer, and theirs are \['GPU-1', 'GPU-1'\]; give each one"),
        ([GPUS[0], Placement("cuda", "GPU-2", False)], "gloo", r"trainers \[1\] has no NCCL"),
    ],
)
def test_backend_follows_the_devices(seats, backend, reason):
    chosen, why = choose_backend(seats)
    assert chosen == backend
    assert re.search(reason, why) if reason else why == ""


def test_members_on_two_gpus_average_by_nccl(monkeypatch):
    """With Gloo in NCCL's place: gradients, and they alone, go through a second group, and stay on their device."""
    opened, used = [], []

    class Nccl:
        def __init__(self, store, rank, size):
            self.processes = group_module._c10d.ProcessGroupGloo(
                group_module._c10d.PrefixStore("nccl", store), rank, size, group_module._TIMEOUT
            )
            opened.append(rank)

        def allreduce(self, tensors):
            used.append(tensors[0])
            return self.processes.allreduce(tensors)

        def abort(self):
            opened.remove(self.processes.rank())

    numbers = itertools.count()
    monkeypatch.setattr(group_module, "_nccl", Nccl)
    monkeypatch.setattr(Placement, "of", classmethod(lambda cls, device: cls("cuda", f"GPU-{next(numbers)}", True)))

    def work(group):
        agreed = group.agree(float(group.rank))
        mean = group.mean(torch.tensor([[1.0, 2.0], [3.0, 4.0]]).T + group.rank)
        shared = group.share(group.rank)
        group.leave()
        return mean.tolist(), agreed, shared

    first, second = in_two_threads(work)
    assert first == second == ([[1.5, 3.5], [2.5, 4.5]], [0.0], 0)
    assert len(used) == 2
    assert all(tensor.is_contiguous() for tensor in used)
    assert opened == []


def test_shared_gpu_is_said_in_the_log(monkeypatch, caplog):
    monkeypatch.setattr(Placement, "of", classmethod(lambda cls, device: cls("cuda", "GPU-1", True)))
    first, _ = in_two_threads(lambda group: group.mean(torch.tensor([2.0]) * group.rank).tolist())
    assert first == [1.0]
    (record,) = caplog.records  # of the leader alone
    assert "averaged by gloo, through host memory: NCCL wants a GPU for each trainer" in record.getMessage()


def collected(count):
    trainer = build(EXPERIMENT)
    collector = trainer.train_collector
    rollouts = []
    for _ in range(count):
        collector.buffer.reset()
        collector.collect(n_step=128)
        rollouts.append(collector.buffer.rollout())
    return rollouts


@pytest.mark.parametrize("scaling", [None, "return_scaling", "popart"])
def test_two_members_equal_one_with_the_doubled_batch(scaling):
    rollouts = collected(3)
    experiment = EXPERIMENT.replaced({scaling: True} if scaling else {})
    whole = build(experiment).algorithm
    for rollout in rollouts:
        whole.update(rollout)
    made = [build(experiment).algorithm for _ in range(2)]  # layers draw from one global generator: not in threads

    def learn(group):
        algorithm = made[group.rank]
        group.tie(algorithm)
        for rollout in rollouts:
            half = slice(0, 2) if group.rank == 0 else slice(2, 4)
            algorithm.update(rollout[:, half])
        return [p.detach().clone() for p in algorithm.policy.parameters()]

    first, second = in_two_threads(learn)
    for algorithm in made if scaling else ():
        found, expected = algorithm.policy.value_head.statistics, whole.policy.value_head.statistics
        assert found.count == expected.count
        torch.testing.assert_close(found.var, expected.var)
    moved = 0.0
    for a, b, c, start in zip(
        first, second, whole.policy.parameters(), build(experiment).algorithm.policy.parameters(), strict=True
    ):
        assert torch.equal(a, b)
        torch.testing.assert_close(a, c, atol=1e-5, rtol=0)
        moved = max(moved, float((c.detach() - start.detach()).abs().max()))
    assert moved > 1e-3


def test_members_with_unequal_shares_equal_one_with_all():
    (rollout,) = collected(1)
    experiment = EXPERIMENT
    whole = build(experiment).algorithm
    whole.update(rollout)
    made = [build(experiment).algorithm for _ in range(2)]

    def learn(group):
        group.tie(made[group.rank])
        group.weigh((1, 3)[group.rank], 4)
        made[group.rank].update(rollout[:, slice(0, 1) if group.rank == 0 else slice(1, 4)])
        return made[group.rank].policy.parameters()

    for own in in_two_threads(learn):
        for one, expected in zip(own, whole.policy.parameters(), strict=True):
            torch.testing.assert_close(one, expected, atol=1e-5, rtol=0)


def test_members_count_each_other_s_observations():
    """The normaliser knows the mean and variance of all rows, here and there the same numbers."""
    rollouts = collected(3)
    experiment = EXPERIMENT.replaced({"net.norm_obs": True})
    whole = build(experiment).algorithm
    for rollout in rollouts:
        whole.update(rollout)
    made = [build(experiment).algorithm for _ in range(2)]

    def learn(group):
        algorithm = made[group.rank]
        group.tie(algorithm)
        for rollout in rollouts:
            algorithm.update(rollout[:, slice(0, 2) if group.rank == 0 else slice(2, 4)])
        return algorithm.policy

    first, second = in_two_threads(learn)
    rows = np.concatenate([rollout.obs.reshape(-1, 4) for rollout in rollouts]).astype(np.float64)
    for policy in (first, second):
        (statistics,) = policy.normaliser.parts
        assert statistics.count == len(rows) == 384
        np.testing.assert_allclose(statistics.mean, rows.mean(axis=0), rtol=1e-12)
        np.testing.assert_allclose(statistics.var, rows.var(axis=0), rtol=1e-12)
    for one, other in zip(first.state_dict().values(), second.state_dict().values(), strict=True):
        assert torch.equal(one, other)
    for one, other in zip(first.parameters(), whole.policy.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


def learned(launcher, folder, trainers, segments):
    """Let trainer workers learn from segments, those of one round side by side; return each one's parameters."""
    settings = dataclasses.replace(EXPERIMENT.trainer, step_per_collect=128 // trainers)
    experiment = dataclasses.replace(EXPERIMENT, trainer=settings)
    little = Resources(num_cpus=0.1)
    fleet = Fleet(
        name="group",
        policies={"p": PolicySpec(experiment=experiment, trainers=trainers, trainer_resources=little, save_updates=1)},
        agents=(AgentSpec(policy="p", sample_steps=32),),
        actors=ActorGroup(num_envs=2),
        stop=FleetStop(updates=len(segments)),
    )
    folder.mkdir()
    plan = Plan.make(fleet, folder)
    names = ["parameters", *(f"trainer.p.{rank}" for rank in range(trainers))]
    builds = {role.name: role.build for role in plan.roles()}
    handles = [launcher.start(name, 0, builds[name], little) for name in names]
    try:
        pids = {ready(handle).pid for handle in handles}
        for number, halves in enumerate(segments, 1):
            for half, data in enumerate(halves):
                segment = Segment(
                    producer=f"half.{half}",
                    incarnation=0,
                    seq=number,
                    rows=np.arange(2),
                    data=data,
                    episode_returns=np.zeros(0),
                    episode_lengths=np.zeros(0, np.int64),
                )
                assert launcher.connect(f"trainer.p.{half % trainers}").call("put", segment).result(10)
            for name in names[1:]:
                wait_for_updates(launcher.connect(name), number)
        for name in names[1:]:
            launcher.connect(name).call("finish").result(10)
        while not all(handle.beat().result(10).done for handle in handles[1:]):
            time.sleep(0.01)
    finally:
        end(handles, 5.0)
    states = [read_state(folder / f"{name}.safetensors", KIND)["algorithm"]["parts"]["policy"] for name in names[1:]]
    return states, pids


def ready(handle):
    while not (beat := handle.beat().result(180)).ready:
        assert beat.error is None, beat.error
        time.sleep(0.02)
    return beat


def wait_for_updates(peer, count):
    deadline = time.monotonic() + 60
    while peer.call("stats").result(10)["updates"] < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("launcher", ["threads", pytest.param("ray", marks=pytest.mark.slow)], indirect=True)
def test_two_trainer_workers_equal_one_with_the_doubled_batch(launcher, tmp_path):
    """As threads, and as processes of their own."""
    segments = []
    for rollout in collected(3):
        names = ("obs", "act", "rew", "terminated", "truncated", "obs_next", "policy")
        fields = {name: rollout[name] for name in names}
        data = NamedArray(**fields, version=np.zeros_like(rollout.act))
        segments.append([data[:, :2], data[:, 2:]])
    (first, second), pids = learned(launcher, tmp_path / "two", 2, segments)
    (whole,), _ = learned(launcher, tmp_path / "one", 1, segments)
    assert len(pids) == (1 if isinstance(launcher, ThreadLauncher) else 3)
    start = build(EXPERIMENT).algorithm.policy.state_dict()
    for name, value in whole.items():
        torch.testing.assert_close(first[name], second[name], atol=0, rtol=0)
        torch.testing.assert_close(first[name], value, atol=1e-5, rtol=0)
    assert max(float((whole[name] - start[name]).abs().max()) for name in whole) > 1e-3


def test_a_fleet_with_two_trainers_learns_and_stops(tmp_path):
    """In minibatches: however fast the actors are, none of the trainers takes more than its share."""
    experiment = EXPERIMENT.replaced({"batch_size": 16})
    fleet = Fleet(
        name="two",
        policies={"p": PolicySpec(experiment=experiment, trainers=2)},
        agents=(AgentSpec(policy="p", sample_steps=16),),
        actors=ActorGroup(count=2),
        evaluation=EvalGroup(count=0),
        stop=FleetStop(updates=4, wall_s=60),
    )
    driver = FleetRun(fleet, tmp_path / "run", interval_s=0.1)
    last = driver.run()
    assert last.reason == "updates reached", driver.supervisor.failures
    assert last.env_steps["p"] == sum(last.workers[f"trainer.p.{rank}"]["env_steps"] for rank in range(2))
    assert not driver.supervisor.failures
    first, second = (read_state(tmp_path / "run" / f"trainer.p.{rank}.safetensors", KIND) for rank in range(2))
    for key in ("updates", "gradient_steps"):
        assert first["counters"][key] == second["counters"][key] >= 4
    for state in (first["counters"], second["counters"]):
        assert 0 <= state["env_steps"] - 128 * state["updates"] <= 128  # what waits for the next update
    for name, value in first["algorithm"]["parts"]["policy"].items():
        assert torch.equal(value, second["algorithm"]["parts"]["policy"][name])


class FailsOnce(PPO):
    """One of the two trainers fails in its third update, in which the other waits for it."""

    failed = threading.Lock()

    def update(self, batch):
        if self.num_updates == 2 and self.failed.acquire(blocking=False):
            raise ArithmeticError("a planted fault")
        return super().update(batch)


def test_both_go_on_when_one_fails(tmp_path):
    spec = PolicySpec(experiment=EXPERIMENT, algorithm=FailsOnce, trainers=2, save_updates=2)
    fleet = Fleet(
        name="mended",
        policies={"p": spec},
        agents=(AgentSpec(policy="p", sample_steps=16),),
        evaluation=EvalGroup(count=0),
        stop=FleetStop(updates=5, wall_s=60),
        restart=RestartConfig(beat_s=0.05),
    )
    driver = FleetRun(fleet, tmp_path / "run", interval_s=0.1)
    last = driver.run()
    assert last.reason == "updates reached", driver.supervisor.failures
    assert [last.workers[f"trainer.p.{rank}"]["restarts"] for rank in range(2)] == [1, 1]
    reasons = [failure.reason for failure in driver.supervisor.failures]
    assert "raised ArithmeticError: a planted fault" in reasons  # beside that of the other, which lost its peer
    first, second = (read_state(tmp_path / "run" / f"trainer.p.{rank}.safetensors", KIND) for rank in range(2))
    assert first["counters"]["updates"] == second["counters"]["updates"] >= 5
    for state in (first["counters"], second["counters"]):
        assert 0 <= state["env_steps"] - 128 * state["updates"] <= 128  # what waits for the next update


def test_two_trainers_learn_from_replay_buffers(tmp_path):
    experiment = preset("dqn", "CartPole-v1", seed=1, trainer={"start_steps": 64, "update_per_step": 0.1})
    fleet = Fleet(
        name="replay",
        policies={"p": PolicySpec(experiment=experiment, trainers=2)},
        agents=(AgentSpec(policy="p", sample_steps=8),),
        actors=ActorGroup(count=3),
        evaluation=EvalGroup(count=0),
        stop=FleetStop(updates=20, wall_s=60),
    )
    driver = FleetRun(fleet, tmp_path / "run", interval_s=0.1)
    assert driver.run().reason == "updates reached", driver.supervisor.failures
    assert not driver.supervisor.failures
    first, second = (read_state(tmp_path / "run" / f"trainer.p.{rank}.safetensors", KIND) for rank in range(2))
    assert first["counters"]["updates"] == second["counters"]["updates"] >= 20
    for name, value in first["algorithm"]["parts"]["policy"].items():
        assert torch.equal(value, second["algorithm"]["parts"]["policy"][name])


def test_shares_of_unequal_size_are_refused(tmp_path):
    """They would be cut into unequal numbers of minibatches, and one trainer would wait for ever."""
    fleet = Fleet(
        name="unequal",
        policies={"p": PolicySpec(experiment=EXPERIMENT.replaced({"batch_size": 16}), trainers=2)},
        agents=(AgentSpec(policy="p", sample_steps=200, whole_episodes=True),),
        actors=ActorGroup(count=2),
        evaluation=EvalGroup(count=0),
        stop=FleetStop(updates=100, wall_s=60),
        restart=RestartConfig(budget=0),
    )
    with pytest.raises(FleetError, match="each in another number of minibatches; send segments of equal size"):
        FleetRun(fleet, tmp_path / "run", interval_s=0.1).run()


def test_passes_that_stop_on_their_own_are_refused():
    with pytest.raises(ConfigError, match="target_kl"):
        PolicySpec(experiment=preset("ppo", "CartPole-v1", target_kl=0.1), trainers=2)


def test_a_stranger_finds_no_secret_in_the_store_and_is_no_member():
    peer = LeaderPeer()
    leader = peer.group = TrainerGroup(0, 2, peer)
    host, port, secret = leader.address()
    store = torch.distributed.TCPStore(host, port, None, False, wait_for_workers=False, use_libuv=False)
    for key in store.list_keys():
        assert secret not in key
        assert secret.encode() not in store.get(key)
    store.set("placement.1", store.get("placement.0"))
    store.wait(["placement.1"])
    with pytest.raises(DataError, match=r"'placement\.1' was written by somebody who is not in this group of trainers"):
        leader.join()


def test_members_listen_where_they_were_told_and_strangers_are_not_read(monkeypatch):
    peer = LeaderPeer()
    leader = TrainerGroup(0, 2, peer, host="127.0.0.1")
    meeting = leader.address()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.2", meeting.port), timeout=5)
    with pytest.raises(CheckpointError, match=r"state\.x is a object, which a state file cannot hold"):
        leader.share({"x": object()})

    def work(group):
        if group.rank == 0:
            monkeypatch.setattr(group, "_secret", "somebody else's")
            return group.share({"n": 1})
        with pytest.raises(DataError, match="came from somebody who is not in this group"):
            group.share(None)
        return None

    in_two_threads(work)
