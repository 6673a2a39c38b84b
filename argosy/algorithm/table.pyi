"""The table of algorithms, a line each: module, class, config. Type checkers read it as imports, argosy as a table."""

from argosy.algorithm.dqn import DQN as DQN, DQNConfig as DQNConfig
from argosy.algorithm.ppo import PPO as PPO, PPOConfig as PPOConfig
from argosy.algorithm.sac import SAC as SAC, SACConfig as SACConfig
