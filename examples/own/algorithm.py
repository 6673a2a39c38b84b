import argosy
from argosy.algorithm import DQN
from argosy.data import Batch


class Cautious(DQN):
    """DQN that expects less than it gets."""

    def update(self, batch):
        return super().update(Batch(batch, rew=batch.rew - 0.01))


if __name__ == "__main__":
    short = {"step_per_epoch": 1000, "max_epoch": 1, "start_steps": 200}
    result = argosy.train(Cautious, "CartPole-v1", trainer=short, stop={"episodes": 5}, show_progress=False)
    print(result.test_return_mean)
