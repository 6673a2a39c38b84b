import tempfile
from pathlib import Path

import argosy

TASK, FOLDER = "CartPole-v1", Path(tempfile.mkdtemp())


def train(algorithm, trainer, **changes):
    """Train without a word, and for the example not for long."""
    trainer = {"max_epoch": 1, "episode_per_test": 5, **trainer}
    quiet = {"stop": {"episodes": 20}, "show_progress": False, "runs": FOLDER}
    return argosy.train(algorithm, TASK, trainer=trainer, **quiet, **changes)


if __name__ == "__main__":
    expert = train("dqn", {"step_per_epoch": 4000})
    data = FOLDER / "expert.hdf5"
    argosy.collect_data(expert.run_dir, data, steps=500)

    clone = train("bc", {"step_per_epoch": 500}, data=data)  # no env but for tests
    dagger = train("dagger", {"step_per_epoch": 500}, expert=expert.run_dir)  # an expert that can be asked
    gail = train("gail", {"step_per_epoch": 4096}, data=data)  # an env to try in, and its rewards are not looked at
    for run in (expert, clone, dagger, gail):
        print(f"{run.algorithm:8} {run.env_steps:6} steps {run.test_return_mean:6.1f}")
