"""An expert: a saved policy that says what it would have done, in a run that learns from it."""

from __future__ import annotations

from argosy.env import VectorEnv
from argosy.errors import CheckpointError
from argosy.experiment import Experiment
from argosy.policy import Policy
from argosy.run.saved import check_alone, find_policy, read_saved


def load_expert(experiment: Experiment, env: VectorEnv) -> Policy:
    """Return the policy that `experiment.expert` names, as `argosy.load` does; nothing is imported unasked.

    Args:
        experiment: names the folder of a run or the file of a policy.
        env: of the task; the expert must have the same one, with the same spaces.

    Raises:
        TrustError: its run names code of one's own that nobody has named in this process.
        CheckpointError: there is no such policy, or it is of another env.
    """
    assert experiment.expert is not None
    saved = read_saved(find_policy(experiment.expert))
    check_alone(saved.path, saved.env)
    if saved.experiment.task != experiment.task:
        raise CheckpointError(
            f"expert is {experiment.expert!r}, which was trained on {saved.experiment.task}; this run's task is "
            f"{experiment.task}"
        )
    own = (env.single_observation_space, env.single_action_space)
    for name, theirs, ours in zip(("observations of", "actions in"), saved.spaces, own, strict=True):
        if theirs != ours:
            raise CheckpointError(f"expert is {experiment.expert!r}, made for {name} {theirs}; this run has {ours}")
    return saved.policy(experiment.device).eval()
