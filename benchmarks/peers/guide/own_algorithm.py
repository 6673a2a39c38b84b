from stable_baselines3 import DQN
from stable_baselines3.common.evaluation import evaluate_policy


class Cautious(DQN):
    """DQN that expects less than it gets."""

    def _store_transition(self, replay_buffer, buffer_action, new_obs, reward, dones, infos):
        super()._store_transition(replay_buffer, buffer_action, new_obs, reward - 0.01, dones, infos)


if __name__ == "__main__":
    model = Cautious("MlpPolicy", "CartPole-v1", learning_starts=200)
    model.learn(1000)
    mean, _ = evaluate_policy(model, model.get_env(), n_eval_episodes=5)
    print(mean)
