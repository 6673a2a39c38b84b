"""Dataset aggregation (Ross et al., 2011, https://arxiv.org/abs/1011.0686): cloning where the policy itself goes.

Details that matter:

1. The policy acts, an expert says what it would have done there, and that is what is stored: `Experiment.expert`. So
   the policy learns to come back from its own mistakes, of which an expert's data hold none.
2. Everything that was stored is learned from, old and new alike: the buffer is as large as the run is long.
3. The paper's mixture of expert and policy begins with the expert alone and then, in its simplest form, leaves
   everything to the policy. The first part is a data set of the expert: `data` and `trainer.offline_updates`.
4. The loss is that of behaviour cloning.
"""

from __future__ import annotations

from dataclasses import dataclass

from argosy.algorithm.bc import BC, BCConfig


@dataclass(frozen=True, kw_only=True)
class DAggerConfig(BCConfig):
    """Hyper-parameters of DAgger; docs/glossary.md explains each at length."""

    log_std_init: float = -0.5
    """Continuous actions: initial logarithm of the deviation, with which the policy explores as well."""


class DAgger(BC):
    """Imitation of what an expert would do where the policy comes to."""

    kind = "offpolicy"
    config_type = DAggerConfig
    goes_online = True
    needs_expert = True
