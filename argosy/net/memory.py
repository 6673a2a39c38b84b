"""Recurrent layers that know where a sequence starts anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn

from argosy.data import tree
from argosy.data.protocols import SampleBatch
from argosy.process import check_memory


class Memory(nn.Module):
    """Gated recurrent unit (Cho et al., 2014, https://arxiv.org/abs/1406.1078) or long short-term memory.

    The state is one array [..., state_size], so that it can be stored and sent like any other; its first columns are
    the output (an LSTM's hidden state, before its cell state; Hochreiter and Schmidhuber, 1997).

    Args:
        kind: "gru" or "lstm".
        in_features: width F of the input.
        size: width H of the output.
    """

    def __init__(self, kind: Literal["gru", "lstm"], in_features: int, size: int) -> None:
        super().__init__()
        check_memory(4 * 16 * size * (in_features + size), f"to learn a memory of {size:,} (net.memory_size)")
        self.cell: nn.GRUCell | nn.LSTMCell = (nn.GRUCell if kind == "gru" else nn.LSTMCell)(in_features, size)
        self.out_features = size
        self._known = KnownStates()
        self.state_size = size if kind == "gru" else 2 * size

    def output(self, state: torch.Tensor) -> torch.Tensor:
        """Return the output [..., H] that stands in states [..., S]."""
        return state[..., : self.out_features]

    def step(self, x: torch.Tensor, state: torch.Tensor | None) -> torch.Tensor:
        """Return the states [..., S] after one step with inputs [..., F] from states [..., S]; None: from zero."""
        flat_x, flat = x.reshape(-1, x.shape[-1]), None if state is None else state.reshape(-1, state.shape[-1])
        if isinstance(self.cell, nn.LSTMCell):
            after = torch.cat(self.cell(flat_x, None if flat is None else flat.chunk(2, dim=-1)), dim=-1)
        else:
            after = self.cell(flat_x, flat)
        return after.reshape(*x.shape[:-1], -1)

    def forward(self, x: torch.Tensor, stored: torch.Tensor, on_reset: torch.Tensor) -> torch.Tensor:
        """Run through sequences, with gradient through time.

        Args:
            x: [T, B, F] inputs.
            stored: [T, B, S] states before the steps, of which only those are read from which a sequence starts: the
                first row's and the marked ones.
            on_reset: [T, B] bool, rows that do not go on from the row before them.

        Returns:
            [T, B, S] states after the steps.
        """
        state = stored[0]
        after: list[torch.Tensor] = []
        for t, x_t in enumerate(x):
            if t > 0:
                state = torch.where(on_reset[t].unsqueeze(-1), stored[t], state)
            state = self.step(x_t, state)
            after.append(state)
        return torch.stack(after)

    def states_after(self, sample: SampleBatch, columns: slice | None, encoder: nn.Module) -> torch.Tensor:
        """Run through the sequences of a sample, or say what is known of them.

        Args:
            sample: obs [T, B, *obs], on_reset [T, B], and perhaps `policy.state`.
            columns: where `policy.state` has this memory's states; None: all sequences start from zero.
            encoder: what makes inputs [..., F] of the observations.

        Returns:
            [T, B, S] states after the rows.
        """
        stored = sample.policy.state if columns is not None and "state" in sample.policy else None
        read = tree.leaves({"obs": sample.obs, "on_reset": sample.on_reset, "stored": stored})
        causes = [leaf for _, leaf in read if leaf is not None]
        causes += [*encoder.parameters(), *self.parameters()]
        states = self._known.of(causes)
        if states is None:
            x = encoder(sample.obs)
            zeros = x.new_zeros(1, 1, self.state_size).expand(*sample.on_reset.shape, -1)
            states = self(x, zeros if stored is None else stored[..., columns], sample.on_reset)
            self._known.keep(causes, states)
        return states


class KnownStates:
    """States of the sequences that were read last, so that who asks for them again without gradient need not wait.

    Off-policy algorithms read a sample twice, for what was done and for what comes next: one of three passes of an
    update is spared. Copies and pickles of it start empty.
    """

    def __init__(self) -> None:
        self._causes: Sequence[torch.Tensor] = ()
        self._versions: list[int] = []
        self._states: torch.Tensor | None = None

    def __reduce__(self) -> tuple[type[KnownStates], tuple[()]]:
        return KnownStates, ()

    def of(self, causes: Sequence[torch.Tensor]) -> torch.Tensor | None:
        """Return what follows from these very tensors, none of them written to since; None if it is not known."""
        if torch.is_grad_enabled() or torch.compiler.is_compiling() or len(causes) != len(self._causes):
            return None
        is_same = all(new is old for new, old in zip(causes, self._causes, strict=True))
        return self._states if is_same and _versions(causes) == self._versions else None

    def keep(self, causes: Sequence[torch.Tensor], states: torch.Tensor) -> None:
        """Keep what follows from them, without its gradient."""
        if not torch.compiler.is_compiling() and not any(cause.is_inference() for cause in causes):
            self._causes, self._versions, self._states = causes, _versions(causes), states.detach()


def _versions(tensors: Sequence[torch.Tensor]) -> list[int]:
    """How often each was written to."""
    return [tensor._version for tensor in tensors]
