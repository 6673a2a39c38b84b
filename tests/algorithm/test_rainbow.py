import dataclasses

import torch
from algorithm_checks import make_batch
from gymnasium import spaces
from probes import FAST_VALUES, NET, OBS_SPACE, Probed

import argosy
from argosy.algorithm import C51, C51Config, OptimConfig, Rainbow, RainbowConfig, Task
from argosy.net.noisy import NoisyLinear
from argosy.presets import preset

CASES = {
    "plain": (RainbowConfig(target_update_freq=2, num_atoms=5), spaces.Discrete(3)),
    "without noise": (RainbowConfig(noisy_std=0.0, n_step=1, double=False, num_atoms=5), spaces.Discrete(3)),
}
FOLLOWS = ("policy_target", "update_target")
RANGES = [
    ("n_step", 0),
    ("num_atoms", 1),
    ("v_max", -10.0),
    ("noisy_std", -0.1),
    ("tau", 0.0),
]
RESUME = {
    "num_atoms": 7,
    "target_update_freq": 7,
    "optim": OptimConfig(lr_schedule="linear"),
}
PROBED = {
    "plain": Probed(config=RainbowConfig(**FAST_VALUES, n_step=1, num_atoms=21, v_min=-2.0, v_max=3.0), updates=180)
}


def make(cls=Rainbow, **config):
    task = Task(observation_space=OBS_SPACE, action_space=spaces.Discrete(2), net=NET)
    return cls.make(cls.config_type(**config), task, seed=0)


def test_it_is_c51_with_all_six():
    config = RainbowConfig()
    assert issubclass(Rainbow, C51)
    assert (config.n_step, config.double, config.dueling, config.noisy_std) == (3, True, True, 0.5)
    assert dataclasses.replace(config.exploration, eps_test=0.0).eps_start == config.exploration.eps_end == 0.0
    options = {"n_step": 3, "double": True, "dueling": True, "noisy_std": 0.5, "exploration": config.exploration}
    rainbow, c51 = make(), make(C51, **options)
    assert rainbow.config == RainbowConfig(**vars(C51Config(**options)))
    for seed in range(3):
        batch = make_batch(rainbow, seed)
        assert rainbow.update(batch).metrics() == c51.update(batch).metrics()


def test_all_presets_draw_by_priority():
    for task in ("CartPole-v1", "Pong-v5", "FrozenLake-v1"):
        priority = preset("rainbow", task).buffer.priority
        assert (priority.alpha, priority.beta, priority.beta_final) == (0.5, 0.4, 1.0)
    trainer = argosy.build(
        preset("rainbow", "CartPole-v1", seed=1, **{"trainer.step_per_epoch": 200, "trainer.start_steps": 100})
    )
    next(trainer)
    assert trainer.algorithm.num_updates > 0


def test_every_update_has_its_own_noise_online_and_target_apart(monkeypatch):
    rainbow, seen = make(), []
    analyze, analyze_next = rainbow.policy.analyze, rainbow.policy_target.analyze_next

    def noise(policy):
        return torch.cat([part for m in policy.modules() if isinstance(m, NoisyLinear) for part in m.noise]).tolist()

    def look(policy, face):
        return lambda batch: (seen.append(noise(policy)), face(batch))[1]

    monkeypatch.setattr(rainbow.policy, "analyze", look(rainbow.policy, analyze))
    monkeypatch.setattr(rainbow.policy_target, "analyze_next", look(rainbow.policy_target, analyze_next))
    for _ in range(2):
        rainbow.update(make_batch(rainbow))
    assert len(seen) == 4
    assert len({tuple(noise) for noise in seen}) == 4
    assert all(m.noise is None for m in rainbow.policy.modules() if isinstance(m, NoisyLinear))
