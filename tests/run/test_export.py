"""Exported policies act as `predict` does, in onnxruntime, in TorchScript and as a program of torch.export."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

import argosy
from argosy.cli import main
from argosy.data import Batch
from argosy.errors import CheckpointError, ConfigError, MissingExtraError
from argosy.net import NetConfig
from argosy.policy import (
    ActorCriticPolicy,
    EpsilonConfig,
    ForwardPolicy,
    NoiseConfig,
    QPolicy,
    RolloutResult,
    SingleModelPytorchPolicy,
    SquashedGaussianPolicy,
)
from argosy.policy.batch_constrained import BatchConstrainedPolicy
from argosy.policy.deterministic import DeterministicPolicy
from argosy.policy.quantile import QuantilePolicy
from argosy.policy.team import TeamPolicy

VECTOR = spaces.Box(-1, 1, (3,))
IMAGE = spaces.Box(0, 255, (44, 36, 3), np.uint8)
MASKED = spaces.Dict({"x": VECTOR, "action_mask": spaces.MultiBinary(4)})
PARTS = spaces.Dict({
    "0": spaces.Dict({"state": VECTOR, "choice": spaces.Discrete(3, start=2)}), "1": IMAGE, "2": spaces.Box(0, 5, ()),
})  # fmt: skip
TEAM = spaces.Dict({"agents": spaces.Box(-1, 1, (2, 3)), "state": VECTOR, "action_mask": spaces.MultiBinary(5)})
BOX = spaces.Box(np.float32([[0, -2], [10, 5]]), np.float32([[4, 2], [30, 6]]))
FREE = spaces.Box(np.float64([-np.inf, -1.0]), np.float64([np.inf, 1.0]), dtype=np.float64)

CASES = {
    "discrete": (ActorCriticPolicy, VECTOR, spaces.Discrete(4, start=7), {}),
    "multi-discrete": (ActorCriticPolicy, VECTOR, spaces.MultiDiscrete([2, 3], start=[1, 0]), {}),
    "gaussian": (ActorCriticPolicy, VECTOR, BOX, {"norm_obs": True}),
    "tanh": (ActorCriticPolicy, VECTOR, BOX, {"activation": "tanh"}),
    "one number": (ActorCriticPolicy, VECTOR, spaces.Box(-2, 5, ()), {}),
    "unbounded": (ActorCriticPolicy, VECTOR, FREE, {}),
    "whole numbers": (ActorCriticPolicy, VECTOR, spaces.Box(-3, 9, (2,), np.int16), {}),
    "q": (QPolicy, VECTOR, spaces.Discrete(4), {}),
    "q, masked": (QPolicy, MASKED, spaces.Discrete(4), {"norm_obs": True}),
    "q of choices": (QPolicy, spaces.Discrete(5), spaces.Discrete(2), {}),
    "q of images": (QPolicy, IMAGE, spaces.Discrete(4), {}),
    "quantile": (QuantilePolicy, VECTOR, spaces.Discrete(4), {}),
    "deterministic": (DeterministicPolicy, VECTOR, BOX, {"norm_obs": True}),
    "squashed": (SquashedGaussianPolicy, VECTOR, BOX, {}),
    "batch-constrained": (BatchConstrainedPolicy, VECTOR, BOX, {}),
    "gru": (ActorCriticPolicy, PARTS, BOX, {"memory": "gru", "norm_obs": True}),
    "lstm": (QPolicy, VECTOR, spaces.Discrete(3), {"memory": "lstm"}),
    "team": (TeamPolicy, TEAM, spaces.MultiDiscrete([3, 2]), {"memory": "gru"}),
}


def made(case):
    """A policy of the case, with statistics, and whose actions differ."""
    cls, space, action_space, net = CASES[case]
    torch.manual_seed(3)
    policy = cls(space, action_space, NetConfig(hidden_sizes=(16,), cnn_features=8, memory_size=6, **net))
    if policy.normaliser is not None:
        for part in policy.normaliser.parts:
            part.take_in(torch.rand(50, *part.shape) * 0.3 + 0.2)
            part.merge()
    with torch.no_grad():
        for parameter in policy.parameters():
            # By the number of a layer's inputs: in sums of thousands, rounding alone is beyond the tolerance
            parameter.add_(0.4 * torch.randn_like(parameter) / max(1, parameter[0].numel() / 16) ** 0.5)
    if isinstance(policy, QPolicy):
        with torch.no_grad():  # so that no action is the best one everywhere
            q = policy(Batch(obs=rows(space, 20, 5))).logits.mean(dim=0)
            policy.head.bias.sub_(q.repeat_interleave(len(policy.head.bias) // len(q)))
        policy.explore_by(EpsilonConfig(eps_start=1.0, eps_test=1.0).build(policy.num_actions))
    elif isinstance(policy, DeterministicPolicy):
        policy.explore_by(NoiseConfig().build(4))
    return policy


def rows(space, count, seed):
    space.seed(seed)
    samples = [space.sample() for _ in range(count)]

    def stack(parts):
        return {k: stack([p[k] for p in parts]) for k in parts[0]} if isinstance(parts[0], dict) else np.stack(parts)

    return stack(samples)


def flat(obs, name="obs"):
    """Inputs by name."""
    if not isinstance(obs, dict):
        return {name: obs}
    return {k: v for key, part in obs.items() for k, v in flat(part, f"{name}.{key}").items()}


def runner(path):
    """-> what runs an exported file by arrays, and its metadata."""
    if path.suffix == ".onnx":
        ort = pytest.importorskip("onnxruntime")
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        metadata = json.loads(session.get_modelmeta().custom_metadata_map["argosy.json"])
        assert [value.name for value in session.get_inputs()] == metadata["inputs"]
        assert [value.name for value in session.get_outputs()] == metadata["outputs"]
        assert all(value.shape[0] == "batch" for value in session.get_inputs())
        return lambda inputs: session.run(None, inputs), metadata
    files = {"argosy.json": ""}
    if path.suffix == ".pt":
        program = torch.jit.load(path, _extra_files=files)
    else:
        program = torch.export.load(path, extra_files=files).module()
    metadata = json.loads(files["argosy.json"])

    def run(inputs):
        with torch.no_grad():
            return [out.numpy() for out in program(*(torch.from_numpy(inputs[name]) for name in metadata["inputs"]))]

    return run, metadata


def check(policy, path):
    """Compare a file with `predict` over three steps, for one row and for several."""
    run, metadata = runner(path)
    assert metadata["version"] == policy.version
    for count in (1, 20):
        state, given, acts = None, {}, []
        for step in range(3):
            obs = rows(policy.acts_on, count, step)
            act, state = policy.predict(obs, state)
            if "state" in metadata["inputs"] and step == 0:
                given = {"state": np.zeros_like(state)}
            out = run(flat(obs) | given)
            assert out[0].dtype == act.dtype
            np.testing.assert_allclose(out[0], act, rtol=1e-4, atol=1e-5)
            assert len(out) == 1 + (state is not None)
            if state is not None:
                np.testing.assert_allclose(out[1], state, rtol=1e-4, atol=1e-5)
                given = {"state": out[1]}
            acts.append(act)
        assert count == 1 or len(np.unique(np.concatenate(acts), axis=0)) > 1  # what is compared is not one constant


@pytest.mark.parametrize("case", CASES)
def test_onnx_acts_as_the_policy_does(case, tmp_path):
    pytest.importorskip("onnxscript")
    policy = made(case)
    before = {name: value.clone() for name, value in policy.state_dict().items()}
    path = argosy.export(policy, tmp_path / "new" / "policy.onnx")
    check(policy, path)
    assert [file.name for file in path.parent.iterdir()] == ["policy.onnx"]
    assert all(value.equal(before[name]) for name, value in policy.state_dict().items())
    assert all(parameter.requires_grad for parameter in policy.parameters())


@pytest.mark.parametrize("suffix", [".pt", ".pt2"])
@pytest.mark.parametrize(
    "case", ["gaussian", "tanh", "one number", "q, masked", "q of images", "batch-constrained", "gru", "whole numbers"]
)
def test_torch_s_own_formats_act_as_the_policy_does(case, suffix, tmp_path):
    policy = made(case)
    check(policy, argosy.export(policy, tmp_path / f"policy{suffix}"))


def test_a_format_is_chosen_by_name_or_by_the_ending(tmp_path):
    policy = made("q")
    argosy.export(policy, tmp_path / "policy.bin", format="torchscript").rename(tmp_path / "policy.pt")
    check(policy, tmp_path / "policy.pt")
    for path, format in (("policy.bin", None), ("policy.pt", "tf")):
        with pytest.raises(ConfigError, match=r"choose: onnx \(\.onnx\), torchscript \(\.pt\), program \(\.pt2\)"):
            argosy.export(policy, tmp_path / path, format=format)


def test_without_the_exporter_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'argosy\[export\]'"):
        argosy.export(made("q"), tmp_path / "policy.onnx")


def test_the_command_exports_a_run_and_the_file_needs_no_argosy(result, tmp_path, capsys):
    pytest.importorskip("onnxscript")
    path = tmp_path / "policy.onnx"
    assert main(["export", result.run_dir, "-o", str(path)]) == 0
    assert capsys.readouterr().out == f"policy: {path}\n"
    check(result.policy, path)
    code = (
        "import numpy, onnxruntime, sys\n"
        "session = onnxruntime.InferenceSession(sys.argv[1])\n"
        "print(session.run(None, {'obs': numpy.float32([[0.1, 0.2, 0.3, 0.4]])})[0][0])\n"
    )
    alone = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=True)
    assert int(alone.stdout) == result.policy.predict([0.1, 0.2, 0.3, 0.4])[0]
    with pytest.raises(CheckpointError, match="has no policy 'first'"):
        argosy.export(result.run_dir, path, tag="first")
    assert main(["export", result.run_dir, "-o", str(tmp_path / "policy.h5")]) == 2


class InTorch(SingleModelPytorchPolicy):
    """A policy of one's own whose forward is one of tensors."""

    def __init__(self):
        super().__init__(VECTOR, BOX, nn.Linear(3, 4))

    def forward(self, batch, state=None):
        return Batch(act=self.net(self._tensors(batch.obs)).tanh().reshape(-1, 2, 2), state=None)

    def rollout(self, requests):
        with torch.no_grad():
            return RolloutResult(action=self(Batch(obs=requests.obs)).act.numpy())

    def analyze(self, sample):
        return None


class InNumpy(InTorch):
    forward = SingleModelPytorchPolicy.forward

    def rollout(self, requests):
        with torch.no_grad():
            return RolloutResult(action=self.net(self._tensors(requests.obs)).reshape(-1, 2, 2).numpy())


class Branching(InTorch):
    def forward(self, batch, state=None):
        result = super().forward(batch)
        if batch.obs.sum() > 0:
            result.act = -result.act
        return result


class Counting(InTorch):
    calls = 0

    def forward(self, batch, state=None):
        self.calls += 1
        return Batch(act=super().forward(batch).act * (-1) ** self.calls, state=None)


class Mapping(InTorch):
    def map_action(self, act):
        return act


class Follow(ForwardPolicy):
    def forward(self, batch, state=None):
        return Batch(act=batch.obs, state=None)


def test_a_policy_of_one_s_own_is_exported_where_its_forward_is_torch(tmp_path):
    policy = InTorch()
    check(policy, argosy.export(policy, tmp_path / "policy.pt2"))
    check(policy, argosy.export(policy, tmp_path / "policy.pt"))


@pytest.mark.parametrize(
    ("make", "suffix", "message"),
    [
        (InNumpy, ".pt2", r"forward\(\) of InNumpy gives ndarray as action.*in torch alone"),
        (Branching, ".pt2", r"Branching cannot be exported as program; its forward\(\) must go through torch alone"),
        (Counting, ".pt", r"gives another act than the policy for 16 of 16 observations"),
        (Mapping, ".pt", "Mapping has a map_action of its own"),
        (lambda: Follow(action_space=BOX), ".pt", r"Follow observes .*, which no tensors are made of"),
    ],
)
def test_what_cannot_be_exported_is_refused_and_leaves_no_file(make, suffix, message, tmp_path):
    with pytest.raises(ConfigError, match=message):
        argosy.export(make(), tmp_path / f"policy{suffix}")
    assert not list(tmp_path.iterdir())
