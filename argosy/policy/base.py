"""What every policy offers: act (`rollout`), evaluate stored data (`analyze`), ship itself (checkpoints)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Generic, TypeAlias, TypedDict, TypeVar, Unpack

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from argosy.data import Batch, NamedArray, SampleBatch, namedarray, tree
from argosy.data.protocols import Obs, ObsBatchProtocol
from argosy.env.actions import find_mask_key
from argosy.env.spaces import Space
from argosy.errors import CheckpointError, SpaceError
from argosy.net import Backbone, NetConfig, SmallForward
from argosy.policy.boxes import ActionBound, ActionMapping, BoxMap, action_mapping
from argosy.policy.explore import Exploration
from argosy.policy.normaliser import Normaliser
from argosy.policy.predict import predict
from argosy.policy.unseen import seen_by, sees_all
from argosy.rng import Rng

AnalysisT_co = TypeVar("AnalysisT_co", covariant=True)
PolicyState: TypeAlias = Any  # a named array or Batch [B, ...] that only its own policy looks into


@namedarray
class RolloutRequest(NamedArray):
    """Observations that want actions; axis 0 mixes rows of any envs and agents."""

    obs: object
    """[B, *obs] numpy array, or a nested dict of them."""
    policy_state: object = None
    """[B, ...] state of a policy that has one; None: every row starts an episode."""
    is_evaluation: np.ndarray | None = None
    """[B] bool: act without exploration. None: every row explores."""
    on_reset: np.ndarray | None = None
    """[B] bool: first step of an episode; `policy_state` is the default one there. None: no row is."""


@namedarray
class RolloutResult(NamedArray):
    """Actions and what the policy wants to find again in the stored batch."""

    action: np.ndarray
    """[B, *act] in the policy's own scale; `Policy.map_action` takes it to the env's."""
    policy_state: object = None
    """[B, ...] recurrent state after this step."""
    analyzed_result: Batch | None = None
    """Stored under `policy` in the buffer, e.g. log-probabilities and values [B]."""


class PolicyCheckpoint(TypedDict):
    """What acting needs; never an optimiser."""

    version: int
    state_dict: dict[str, torch.Tensor]


class Policy(nn.Module, ABC):
    """Observation -> action. Shipped to whoever acts: no optimiser, no target network.

    Args:
        observation_space: space of one observation.
        action_space: space of one action.
        action_scaling: whether `map_action` stretches [-1, 1] to a Box's bounds; None: yes for bounded Boxes.
        action_bound_method: how `map_action` keeps actions within bounds: "clip", "tanh", None (not at all);
            "auto": clip for Boxes.

    Raises:
        ConfigError: the two settings do not fit the action space.
        SpaceError: the policy cannot act in this space.
    """

    version: int = -1
    """Number of updates it has seen, minus one: -1 was never trained."""
    default_policy_state: PolicyState = None
    """State [...] of one env at an episode's start; None: it has none."""
    sequence_length: int = 16
    """Rows of a sequence that a policy with memory learns from."""
    burn_in: int = 0
    """Rows before them that only warm its state up."""
    action_spaces: ClassVar[tuple[type[Space], ...]] = ()
    """Spaces that the policy can act in."""

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        *,
        action_scaling: bool | None = None,
        action_bound_method: ActionBound = "auto",
    ) -> None:
        super().__init__()
        if not isinstance(action_space, self.action_spaces):
            names = " or ".join(space.__name__ for space in self.action_spaces)
            raise SpaceError(f"{type(self).__name__} acts in {names} spaces, not in {action_space}")
        self.observation_space = observation_space
        self.acts_on = observation_space
        """Space of what acting needs of an observation: without what only critics see (`NetConfig.critic_only`)."""
        self.action_space = action_space
        self.action_scaling, self.action_bound_method = action_mapping(
            action_space, action_scaling, action_bound_method
        )
        self._box: BoxMap | None = None
        if isinstance(action_space, spaces.Box):
            self._box = BoxMap(action_space, self.action_scaling, self.action_bound_method)
        start = np.asarray(getattr(action_space, "start", 0))
        self._action_start = start if start.any() else None  # the policy counts a discrete action's choices from 0
        self.action_dim = int(np.prod(action_space.shape or ()))
        """Elements of one action."""
        self.num_actions = int(action_space.n) if isinstance(action_space, spaces.Discrete) else 0
        """Choices of a Discrete action."""
        self.mask_key = find_mask_key(observation_space, action_space)
        """Entry of the observation that says which discrete actions are allowed; None: all are."""
        self.rng = Rng()
        self.exploration: Exploration | None = None
        """How exploring rows differ from evaluating ones; None: as the policy itself says."""
        self.normaliser: Normaliser | None = None
        """Statistics by which observations are normalised; None: they are taken as they are."""
        self._anchor: nn.Parameter | None = None

    @abstractmethod
    def forward(self, batch: ObsBatchProtocol, state: PolicyState = None) -> Batch:
        """Greedy actions for `batch.obs` (numpy or tensors) [..., *obs].

        Returns:
            Batch with `act` [..., *act], `logits` (what the action was taken from) and `state`.
        """

    @abstractmethod
    def rollout(self, requests: RolloutRequest) -> RolloutResult:
        """Act: numpy in, numpy out, no gradient, one network call for all rows, exploring and evaluating ones mixed."""

    @abstractmethod
    def analyze(self, sample: SampleBatch) -> object:
        """Evaluate stored data with gradient: what the policy says now of the observations and actions of a sample.

        Args:
            sample: tensors, rows [B, ...]; with memory sequences [T, B, ...], which start from the states in
                `policy.state` at the first row and where `on_reset` is True. As `Algorithm.prepare` makes it:
                observations are normalised.

        Returns:
            An object whose attributes are what the policy's family of algorithms learns from.
        """

    def analyze_next(self, sample: SampleBatch, rows: tuple[torch.Tensor, ...] | None = None) -> object:
        """Evaluate `sample.obs_next` in the same way, with the state carried on; `rows`: only these, [k, ...].

        A policy that learns by Q-values, or from truncated episodes, needs it.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no analyze_next(), which evaluates the successors `obs_next` of a sample; write"
            " it beside analyze()"
        )

    predict = predict  # for users: one observation or a batch -> actions as the env takes them

    def explore_by(self, exploration: Exploration) -> None:
        """Let exploring rows act as `exploration` says; what a policy of one's own makes of it stands in `rollout`."""
        self.exploration = exploration

    @property
    def is_recurrent(self) -> bool:
        """Whether it has memory: a state that learning starts from, so that it is stored and sequences are sampled."""
        return self.default_policy_state is not None

    @property
    def no_input(self) -> tuple[str, ...]:
        """Top-level keys of the observation that the networks do not see."""
        return () if self.mask_key is None else (self.mask_key,)

    def first_states(self, count: int) -> PolicyState:
        """Return the states [count, ...] of episodes that begin; None without memory."""
        return tree.map_leaves(lambda leaf: np.stack([np.asarray(leaf)] * count), self.default_policy_state)

    @property
    def device(self) -> torch.device:
        """Where the parameters are; one that has none is on the CPU."""
        if self._anchor is None:  # looking it up costs more than all else that `rollout` does before its network call
            self.__dict__["_anchor"] = next(self.parameters(), None)
        return torch.device("cpu") if self._anchor is None else self._anchor.device

    def seed(self, seed: int | None) -> None:
        """Start the exploration's random numbers anew."""
        self.rng.seed(seed)

    # -- between the policy's and the env's scale --------------------------------------------------------------------

    def map_action(self, act: np.ndarray) -> np.ndarray:
        """Take actions [B, *act] of the policy to the env's scale (new array; the stored action stays as it was)."""
        if self._box is not None:
            return self._box.to_env(act)
        return act.copy() if self._action_start is None else act + self._action_start

    def map_action_inverse(self, act: np.ndarray) -> np.ndarray:
        """Take actions [B, *act] of the env (e.g. random ones, or a data set's) to the policy's scale."""
        act = np.asarray(act)
        if self._box is not None:
            return self._box.from_env(act)
        return act if self._action_start is None else np.asarray(act - self._action_start)

    # -- shipping ------------------------------------------------------------------------------------------------------

    def get_checkpoint(self) -> PolicyCheckpoint:
        """Return what another copy of this policy needs to act the same; tensors are copies on the CPU."""
        return {"version": self.version, "state_dict": {key: v.cpu().clone() for key, v in self.state_dict().items()}}

    def load_checkpoint(self, checkpoint: PolicyCheckpoint) -> None:
        """Act as the policy did that gave the checkpoint.

        Raises:
            CheckpointError: it belongs to a policy with other networks; nothing has changed.
        """
        given = checkpoint["state_dict"]
        own, other = ({(name, *part.shape) for name, part in state.items()} for state in (self.state_dict(), given))
        if own != other:
            raise CheckpointError(f"the checkpoint does not fit this {type(self).__name__}: {sorted(own ^ other)}")
        self.load_state_dict(given)
        self.version = checkpoint["version"]

    # -- for subclasses ------------------------------------------------------------------------------------------------

    def _tensors(self, obs: Any) -> Obs:
        """Observations of a request (arrays, nested dicts) as tensors on the policy's device; no copy on the CPU."""
        if isinstance(obs, np.ndarray):
            tensor, device = torch.from_numpy(obs), self.device
            return tensor if device.type == "cpu" else tensor.to(device, non_blocking=True)
        if isinstance(obs, torch.Tensor):
            return obs.to(self.device)
        return {key: self._tensors(value) for key, value in obs.items()}

    def _mask(self, obs: Any) -> Any:
        """The allowed actions [..., n] bool, tensor or array as `obs` is; None when the observation has no mask."""
        return None if self.mask_key is None else obs[self.mask_key] != 0

    def _mask_next(self, sample: SampleBatch, rows: tuple[torch.Tensor, ...] | None) -> torch.Tensor | None:
        """The actions that are allowed at `obs_next`, at some `rows` of it or at all."""
        mask: torch.Tensor | None = self._mask(sample.obs_next)
        return mask if mask is None or rows is None else mask[rows]


class NetPolicy(Policy):
    """Base of this library's policies: backbones and heads, and what `NetConfig` may ask for beside these.

    The state of a row is one array: the columns of each backbone's memory, then those of the exploration.

    Args:
        observation_space: space of one observation; a Dict may hold an action mask.
        action_space: space of one action.
        net: shape of the networks; of `critic_only` see `unseen.seen_by`.
        **mapping: see `Policy`.
    """

    def __init__(
        self, observation_space: Space, action_space: Space, net: NetConfig, **mapping: Unpack[ActionMapping]
    ) -> None:
        super().__init__(observation_space, action_space, **mapping)
        self.sequence_length, self.burn_in = net.sequence_length, net.burn_in
        self.acts_on = seen_by(self, net.critic_only)
        self.normaliser = Normaliser(observation_space, self.no_input) if net.norm_obs else None
        self._memory_size = 0
        self._acting: tuple[Backbone, ...] = ()
        self._small = SmallForward()

    @property
    def is_recurrent(self) -> bool:
        """Whether a backbone has memory."""
        return self._memory_size > 0

    def explore_by(self, exploration: Exploration) -> None:
        """Let exploring rows act as `exploration` says."""
        super().explore_by(exploration)
        self._make_room()

    def _remember(self, *backbones: Backbone, all_act: bool = False) -> None:
        """Say which backbones there are, the actor's first: unless `all_act` or they have memory it alone acts."""
        own = tuple(dict.fromkeys(backbones))
        for backbone in own:
            if backbone.state_size:
                backbone.columns = slice(self._memory_size, self._memory_size + backbone.state_size)
                self._memory_size += backbone.state_size
        acting = own if all_act or self.is_recurrent else own[:1]
        self.__dict__["_acting"] = acting  # they are registered under their own names
        self._make_room()

    def _make_room(self) -> None:
        size = self._memory_size + (0 if self.exploration is None else self.exploration.state_size)
        self.default_policy_state = np.zeros(size, np.float32) if size else None

    def _step(self, obs: Obs, state: Any) -> tuple[dict[Backbone, torch.Tensor], Any]:
        """Make one step of the backbones that act: -> (features of each, states [..., M] after it or None)."""
        features: dict[Backbone, torch.Tensor] = {}
        after: list[torch.Tensor] = []
        for backbone in self._acting:
            own = None if state is None else state[..., backbone.columns]
            if backbone is self._acting[0] or sees_all(self, obs):  # else a critic's state stays as it was
                features[backbone], own = backbone(obs, own)
            if own is not None:
                after.append(own)
        return features, torch.cat(after, dim=-1) if after else None

    def _outputs(
        self, requests: RolloutRequest, *networks: tuple[Backbone, nn.Module]
    ) -> tuple[list[np.ndarray], np.ndarray | None]:
        """Ask networks (a backbone and its head) about observations.

        Returns:
            ([B, out] of each, states [B, M] of the memories after the step; None without memory).
        """
        obs: Any = requests.obs
        if self.normaliser is not None and self.device.type == "cpu":
            obs = self.normaliser.norm_arrays(obs)
        if len(networks) == 1:
            output = self._small(*networks[0], obs)
            if output is not None:
                return [output], None
        with torch.inference_mode():
            obs = self._tensors(obs)
            if self.normaliser is not None and self.device.type != "cpu":
                obs = self.normaliser(obs)
            state = requests.policy_state if self.is_recurrent else None
            features, after = self._step(obs, None if state is None else self._tensors(state))
            outputs = [head(features[backbone]).cpu().numpy() for backbone, head in networks]
            return outputs, None if after is None else after.cpu().numpy()

    def _result(
        self, act: np.ndarray, requests: RolloutRequest, memory: Any, stored: Batch | None = None, mask: Any = None
    ) -> RolloutResult:
        """Let exploring rows explore, and put the parts of the state together."""
        exploration, state = self.exploration, memory
        if exploration is not None and exploration.state_size:
            kept: Any = requests.policy_state
            size = len(act), exploration.state_size
            before = np.zeros(size, np.float32) if kept is None else kept[:, self._memory_size :]
            act, own = exploration.explore(act, requests.is_evaluation, self.rng, mask, before)
            assert own is not None
            state = own if memory is None else np.concatenate((memory, own), axis=-1)
        elif exploration is not None:
            act, _ = exploration.explore(act, requests.is_evaluation, self.rng, mask, None)
        return RolloutResult(action=act, policy_state=state, analyzed_result=stored)

    def _inputs(self, batch: ObsBatchProtocol, state: PolicyState) -> tuple[Obs, Any]:
        """Observations and state that `forward` was given, as the networks take them."""
        obs = self._tensors(batch.obs)
        if self.normaliser is not None:
            obs = self.normaliser(obs)
        return obs, None if state is None or not self.is_recurrent else self._tensors(state)


class OneNetPolicy(NetPolicy, Generic[AnalysisT_co]):
    """Base of policies with one backbone, of whose features all follows that they say."""

    def _set_eps(self, eps: float) -> None:
        raise AttributeError(f"the rate is the exploration's: policy.exploration.eps = {eps} (in tests: eps_test)")

    eps = property(fset=_set_eps)  # else whoever set it here would explore as before, without a word

    def forward(self, batch: ObsBatchProtocol, state: PolicyState = None) -> Batch:
        """Actions without exploration [..., *act] for `batch.obs`; `logits` are what they were taken from."""
        obs, state = self._inputs(batch, state)
        features, state = self._step(obs, state)
        act, logits = self._best(features[self._acting[0]], self._mask(obs))
        return Batch(act=act, logits=logits, state=state)

    def analyze(self, sample: SampleBatch) -> AnalysisT_co:
        """What it says of a sample, with gradient; there are obs [..., *obs] and act [..., *act]."""
        return self._analysis(self._acting[0].features(sample), self._mask(sample.obs), sample.get("act"))

    def analyze_next(self, sample: SampleBatch, rows: tuple[torch.Tensor, ...] | None = None) -> AnalysisT_co:
        """The same at `obs_next` [..., *obs], where there are no actions."""
        return self._analysis(self._acting[0].features_next(sample, rows), self._mask_next(sample, rows))

    @abstractmethod
    def _best(self, features: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Return `act` and `logits` of `forward`, of features [..., F] and a mask [..., n]."""

    @abstractmethod
    def _analysis(
        self, features: torch.Tensor, mask: torch.Tensor | None, act: torch.Tensor | None = None
    ) -> AnalysisT_co:
        """Return what is said of features [..., F], a mask [..., n] and stored actions [..., *act]."""
