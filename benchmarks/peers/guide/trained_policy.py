import gymnasium
from stable_baselines3 import PPO

model = PPO("MlpPolicy", "CartPole-v1", seed=1, n_steps=512)
model.learn(2048)
model.save("cartpole")

policy = PPO.load("cartpole")
env = gymnasium.make("CartPole-v1")
obs, _ = env.reset(seed=3)
done, steps = False, 0
while not done:
    action, _ = policy.predict(obs, deterministic=True)
    obs, _, terminated, truncated, _ = env.step(action)
    done, steps = terminated or truncated, steps + 1
print(steps, "steps")
