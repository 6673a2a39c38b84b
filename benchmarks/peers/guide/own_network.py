from stable_baselines3 import PPO
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn


class Network(BaseFeaturesExtractor):
    def __init__(self, observation_space, width=64):
        super().__init__(observation_space, width)
        self.net = nn.Sequential(nn.Linear(observation_space.shape[0], width), nn.Mish(), nn.LayerNorm(width))

    def forward(self, observations):
        return self.net(observations)


if __name__ == "__main__":
    kwargs = {"features_extractor_class": Network, "features_extractor_kwargs": {"width": 32}}
    model = PPO("MlpPolicy", "CartPole-v1", policy_kwargs=kwargs)
    model.learn(2000)
    mean, _ = evaluate_policy(model, model.get_env(), n_eval_episodes=5)
    print(mean)
