"""What other libraries and papers call our settings: offered where a name is unknown."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from argosy.errors import nearest

_MINIBATCH = "minibatch_size mini_batch_size sgd_minibatch_size train_batch_size"
_WORDS = {
    "n_step": "nstep n_steps n_step_return estimation_step multi_step",
    "lr": "learning_rate step_size",
    "actor_optim.lr": "actor_lr policy_lr pi_lr",
    "critic_optim.lr": "critic_lr q_lr",
    "alpha_optim.lr": "alpha_lr",
    "lr_schedule": "anneal_lr lr_decay lr_scheduler",
    "eps": "adam_eps adam_epsilon rms_prop_eps",
    "optim.kind": "optimizer optimiser optimizer_class use_rms_prop",
    "trainer.total_steps": "total_timesteps timesteps num_timesteps n_timesteps steps max_steps total_frames "
    "num_frames frames",
    "trainer.max_epoch": "epoch epochs num_epochs n_epoch max_epochs",
    "trainer.step_per_epoch": "eval_freq eval_interval evaluation_interval steps_per_epoch n_steps_per_epoch",
    "trainer.step_per_collect": "n_steps num_steps rollout_length rollout_steps train_freq rollout_fragment_length "
    "episode_per_collect",
    "trainer.start_steps": "learning_starts warmup_steps start_timesteps num_steps_sampled_before_learning_starts",
    "trainer.update_per_step": "gradient_steps utd utd_ratio updates_per_step training_intensity",
    "trainer.episode_per_test": "n_eval_episodes eval_episodes evaluation_duration",
    "trainer.checkpoint_epochs": "save_freq save_interval checkpoint_freq checkpoint_interval",
    "stop.test_return": "reward_threshold target_reward stop_reward target_return",
    "env.num_envs": "n_envs n_env num_env nenvs nproc workers num_workers num_env_runners training_num train_num "
    "buffer_num",
    "env.test_num_envs": "test_num n_eval_envs eval_envs",
    "env.max_episode_steps": "time_limit max_episode_length horizon",
    "gamma": "discount discount_factor discount_rate reward_discount",
    "gae_lambda": "lambda lam gae_lam lambda_",
    "clip_ratio": "clip_range clip_coef clip_param clip_eps eps_clip clip_epsilon",
    "value_clip": "clip_vloss clip_range_vf vf_clip_param",
    "entropy_coef": "ent_coef ent_coeff entropy_coeff entropy_bonus ent_weight",
    "alpha": "ent_coef temperature entropy_coef",
    "auto_alpha": "autotune automatic_entropy_tuning",
    "value_coef": "vf_coef vf_coeff vf_loss_coeff value_loss_coef value_loss_coeff",
    "repeat_per_collect": "n_epochs update_epochs num_sgd_iter ppo_epoch ppo_epochs num_sgd_epochs",
    "batch_size": _MINIBATCH,
    "trainer.batch_size": _MINIBATCH,
    "normalize_adv": "normalize_advantage advantage_normalization norm_adv",
    "return_scaling": "reward_normalization rew_norm ret_norm",
    "env.norm_rew": "reward_normalization rew_norm normalize_reward norm_reward reward_scale",
    "max_grad_norm": "grad_clip clip_grad grad_norm gradient_clipping max_gradient_norm",
    "buffer.size": "buffer_size replay_size memory_size replay_buffer_size replay_capacity capacity",
    "priority.alpha": "prioritized_replay_alpha per_alpha prioritized prioritized_replay per priority",
    "priority.beta": "prioritized_replay_beta per_beta",
    "target_update_freq": "target_update_interval target_network_frequency target_network_update_freq target_update",
    "tau": "polyak polyak_tau soft_update_tau",
    "eps_start": "epsilon eps_train exploration_initial_eps start_e epsilon_start initial_epsilon",
    "eps_end": "eps_train_final exploration_final_eps end_e epsilon_end final_epsilon",
    "eps_decay_steps": "exploration_fraction epsilon_timesteps epsilon_decay eps_decay",
    "noise_std": "exploration_noise action_noise sigma act_noise",
    "gsde_steps": "use_sde sde_sample_freq",
    "policy_freq": "policy_delay policy_frequency update_actor_freq",
    "target_noise": "policy_noise target_policy_noise",
    "target_noise_clip": "noise_clip",
    "num_dropped": "top_quantiles_to_drop_per_net",
    "net.hidden_sizes": "net_arch policy_kwargs hidden_size hidden_layers layers fcnet_hiddens hidden_dim",
    "net.critic_only": "privileged critic_obs state_dim critic_obs_keys asymmetric",
    "net.norm_obs": "normalize normalize_observations norm_observations obs_norm observation_filter",
    "task": "env environment env_id env_name gym_id game",
    "init": "load load_path resume_path",
    "callbacks": "capture_video record_video",
    "device": "cuda gpu",
    "seed": "random_seed random_state",
    "logger.tensorboard": "tensorboard_log tb_log_name",
    "logger.wandb": "track use_wandb",
    "runs": "logdir log_dir output_dir save_dir",
    "quiet": "verbose silent progress_bar",
}
_OURS: dict[str, list[str]] = {}
for _ours, _words in _WORDS.items():
    for _word in _words.split():
        _OURS.setdefault(_word, []).append(_ours)


def nearest_setting(name: str, known: Iterable[str]) -> str:
    """Return a sentence that offers those of the `known` settings, or flags, that others call `name`.

    Without any, those of the section of that name, or the one that is spelt most like it.
    """
    spelt = {flag: flag.removeprefix("--").replace("-", "_").lower() for flag in dict.fromkeys(known)}
    asked = name.removeprefix("--").removeprefix("config.").replace("-", "_").lower()  # as files have it
    for ours in (asked, *_OURS.get(asked.rpartition(".")[2], ())):
        exact = [flag for flag, plain in spelt.items() if plain == ours]
        dotted = [flag for flag, plain in spelt.items() if plain.endswith(f".{ours}")]
        offered = exact if exact and len(dotted) < 2 else dotted
        if offered and (exact or ours == asked or "." in ours + asked):  # `alpha` of others is no priority's
            return f"did you mean {' or '.join(map(repr, sorted(offered)))}?"
    if inside := [flag for flag, plain in spelt.items() if plain.startswith(f"{asked}.")]:
        return f"it is a section of {', '.join(sorted(inside))}"
    parts = dict.fromkeys(part for flag in spelt.values() for part in (flag, flag.rpartition(".")[2]))
    if near := difflib.get_close_matches(asked, parts, n=1, cutoff=0.75):
        return nearest_setting(near[0], spelt)
    return nearest(asked, spelt) if len(spelt) <= 20 else "none is called like it; `argosy train ALGO --help` lists all"
