from torch import nn

import argosy


def network(observation_space, width=64):
    return nn.Sequential(nn.Linear(observation_space.shape[0], width), nn.Mish(), nn.LayerNorm(width))


if __name__ == "__main__":
    short = {"max_epoch": 1, "step_per_epoch": 2000}  # a short run, for the example
    net = {"encoder": network, "encoder_args": {"width": 32}}
    result = argosy.train("ppo", "CartPole-v1", net=net, trainer=short, stop={"episodes": 5}, show_progress=False)
    print(result.test_return_mean)
