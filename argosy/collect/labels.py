"""Collecting what an expert would have done, where a policy comes to."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from argosy.collect.collector import Collector, Ended
from argosy.collect.rows import Rows, begin_anew
from argosy.data import tree
from argosy.env.vector.protocol import StepReturn
from argosy.policy import Policy, RolloutRequest
from argosy.policy.explore import EpsilonGreedy


class LabellingCollector(Collector):
    """A collector in whose buffer the actions are an expert's; what the env sees are the policy's.

    Other arguments are those of `Collector`.

    Args:
        expert: says what it would have done at each observation, without exploring; with memory, it remembers the
            episode.
    """

    def __init__(self, *args: Any, expert: Policy, **options: Any) -> None:
        super().__init__(*args, **options)
        if isinstance(expert.exploration, EpsilonGreedy):  # which also explores in tests, if `eps_test` says so
            expert, exploration = copy.deepcopy((expert, expert.exploration))
            exploration.eps_test = 0.0
        self.expert = expert
        self._expert_state = expert.first_states(self.env.num_envs)

    def _record(
        self, rows: Rows, act: np.ndarray, stored: object, outcome: StepReturn, ended: Ended
    ) -> np.ndarray | None:
        label = self._label(rows).astype(act.dtype, copy=False)
        return super()._record(rows, label, stored, outcome, ended)

    def _label(self, rows: Rows) -> np.ndarray:
        """What the expert does at the observations of rows, in the policy's scale."""
        begins, state = rows.lens == 0, None
        if self._expert_state is not None:
            state = tree.index(self._expert_state, rows.env_ids)
            state = begin_anew(state, begins, self.expert.default_policy_state)
        evaluates = np.ones(len(rows), dtype=bool)
        result = self.expert.rollout(
            RolloutRequest(obs=rows.obs, policy_state=state, is_evaluation=evaluates, on_reset=begins)
        )
        if self._expert_state is not None:
            tree.assign(self._expert_state, rows.env_ids, result.policy_state)
        return self.policy.map_action_inverse(self.expert.map_action(result.action))
