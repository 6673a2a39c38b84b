"""What other libraries and papers call our settings: offered where a name is unknown."""

from __future__ import annotations

from collections.abc import Iterable

from argosy.errors import nearest

_WORDS = {
    "lr": "learning_rate step_size",
    "optim.kind": "optimizer optimiser",
    "trainer.total_steps": "total_timesteps timesteps num_timesteps n_timesteps total_frames num_frames",
    "trainer.max_epoch": "epochs num_epochs n_epoch max_epochs",
    "trainer.step_per_collect": "n_steps num_steps rollout_length rollout_steps train_freq rollout_fragment_length",
    "trainer.start_steps": "learning_starts warmup_steps start_timesteps num_steps_sampled_before_learning_starts",
    "trainer.update_per_step": "gradient_steps utd utd_ratio updates_per_step training_intensity",
    "trainer.episode_per_test": "n_eval_episodes eval_episodes evaluation_duration",
    "env.num_envs": "n_envs n_env num_env nenvs nproc num_workers num_env_runners training_num train_num",
    "env.test_num_envs": "test_num n_eval_envs eval_envs",
    "env.max_episode_steps": "time_limit max_episode_length horizon",
    "gamma": "discount discount_factor discount_rate reward_discount",
    "gae_lambda": "lambda lam gae_lam lambda_",
    "clip_ratio": "clip_range clip_coef clip_param clip_eps eps_clip clip_epsilon",
    "entropy_coef": "ent_coef ent_coeff entropy_coeff entropy_bonus ent_weight",
    "alpha": "ent_coef temperature entropy_coef",
    "value_coef": "vf_coef vf_coeff vf_loss_coeff value_loss_coef value_loss_coeff",
    "repeat_per_collect": "n_epochs update_epochs num_sgd_iter ppo_epoch ppo_epochs num_sgd_epochs",
    "batch_size": "minibatch_size mini_batch_size sgd_minibatch_size train_batch_size",
    "normalize_adv": "normalize_advantage advantage_normalization norm_adv",
    "max_grad_norm": "grad_clip clip_grad grad_norm gradient_clipping max_gradient_norm",
    "buffer.size": "buffer_size replay_size memory_size replay_buffer_size replay_capacity capacity",
    "priority.alpha": "prioritized_replay_alpha per_alpha prioritized prioritized_replay per priority",
    "priority.beta": "prioritized_replay_beta per_beta",
    "target_update_freq": "target_update_interval target_network_frequency target_network_update_freq target_update",
    "tau": "polyak polyak_tau soft_update_tau",
    "n_step": "nstep n_step_return estimation_step multi_step",
    "eps_start": "epsilon eps_train exploration_initial_eps start_e epsilon_start initial_epsilon",
    "eps_end": "eps_train_final exploration_final_eps end_e epsilon_end final_epsilon",
    "eps_decay_steps": "exploration_fraction epsilon_timesteps epsilon_decay eps_decay",
    "noise_std": "exploration_noise action_noise sigma act_noise",
    "net.hidden_sizes": "net_arch hidden_size hidden_layers layers fcnet_hiddens hidden_dim",
    "net.norm_obs": "normalize_observations norm_observations obs_norm observation_filter",
    "task": "env env_id env_name environment gym_id game",
    "device": "cuda gpu",
    "seed": "random_seed random_state",
    "runs": "logdir log_dir output_dir tensorboard_log save_dir",
    "quiet": "verbose silent",
}
_OURS: dict[str, list[str]] = {}
for _ours, _words in _WORDS.items():
    for _word in _words.split():
        _OURS.setdefault(_word, []).append(_ours)


def nearest_setting(name: str, known: Iterable[str]) -> str:
    """Return a sentence that offers those of the `known` settings, or flags, that others call `name`.

    Without any, those of the section of that name, or the one that is spelt most like it.
    """
    spelt = {flag: flag.removeprefix("--").replace("-", "_") for flag in dict.fromkeys(known)}
    asked = name.removeprefix("--").removeprefix("config.").replace("-", "_").lower()  # as files have it
    for ours in (asked, *_OURS.get(asked.rpartition(".")[2], ())):
        exact = [flag for flag, plain in spelt.items() if plain == ours]
        dotted = [flag for flag, plain in spelt.items() if plain.endswith(f".{ours}")]
        offered = exact if exact and len(dotted) < 2 else dotted
        if offered:
            return f"did you mean {' or '.join(map(repr, sorted(offered)))}?"
    if inside := [flag for flag, plain in spelt.items() if plain.startswith(f"{asked}.")]:
        return f"it is a section of {', '.join(sorted(inside))}"
    return nearest(name if name.startswith("--") else asked, spelt)
