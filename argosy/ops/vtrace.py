"""Returns and advantages from the experience of another policy. Shapes: T time, B envs."""

from __future__ import annotations

import torch

from argosy.ops.returns import carried_back


def vtrace(
    log_ratio: torch.Tensor,
    rew: torch.Tensor,
    value: torch.Tensor,
    value_next: torch.Tensor,
    terminated: torch.Tensor,
    cut: torch.Tensor,
    gamma: float,
    *,
    trace_lambda: float = 1.0,
    rho_clip: float = 1.0,
    trace_clip: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """V-trace (Espeholt et al., 2018, https://arxiv.org/abs/1802.01561, section 4.1 and remark 2).

        rho[t]   = min(rho_clip, pi/mu),  c[t] = trace_lambda * min(trace_clip, pi/mu)
        delta[t] = rho[t] * (rew[t] + gamma * value_next[t] * (1 - terminated[t]) - value[t])
        vs[t]    = value[t] + delta[t] + gamma * c[t] * (1 - cut[t]) * (vs[t+1] - value[t+1])
        adv[t]   = rho[t] * (rew[t] + gamma * vs_next[t] - value[t])

    where vs_next is vs of the next row or, where this row is cut, its value_next. With equal policies and both clips at
    least 1, vs is the lambda-return. Rows [T, B] are as in `returns`, with the values of the present critic, and beside

        log_ratio: [T, B] log of the present policy's probability of the action over that of the policy that acted.
        trace_lambda: 0 looks one step ahead, 1 as far as the row's segment goes.
        rho_clip: bound of the weights that say which policy's value is found.
        trace_clip: bound of the weights that say how far a surprise is carried back.

    Returns:
        (targets of values vs [T, B], advantages of the policy gradient adv [T, B]), float, without gradient.
    """
    with torch.no_grad():
        ratio = log_ratio.exp()
        rho, value_next = ratio.clamp(max=rho_clip), value_next.masked_fill(terminated, 0.0)
        delta = rho * (rew + gamma * value_next - value)
        decay = (gamma * trace_lambda) * ratio.clamp(max=trace_clip) * ~cut
        vs = value + carried_back(delta, decay)
        vs_next = torch.where(cut, value_next, torch.cat((vs[1:], value_next[-1:])))
        return vs, rho * (rew + gamma * vs_next - value)
