"""A compiled `update`: torch.compile makes a few kernels of the many small ones that a minibatch takes."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from argosy.algorithm.base import Algorithm
from argosy.algorithm.optim import Optim
from argosy.errors import ArgosyError, ConfigError


def compile_update(algorithm: Algorithm) -> None:
    """Let `algorithm.update` run compiled, from its first call on.

    Compiled are forward passes, losses and the way back. What looks at values stays outside and as it is: `prepare`,
    which names what is not finite before anything is computed of it, the optimisers' steps, each a fused kernel behind
    its guard, and `_finish`. Losses are the same within rounding, state and checkpoints have the same form.

    The first update compiles, and each whose batch has a new shape; how long the first one took is written to stderr.
    TorchInductor keeps what it has made in the folder that TORCHINDUCTOR_CACHE_DIR names, or else in one of the
    system's folder of temporary files, so that the next run of such networks waits less.

    Raises:
        ConfigError: it learns without gradients, or prepares two batches in an update. What torch cannot compile raises
            one at the first update.
    """
    name = type(algorithm).__name__
    optimisers = [part for part in algorithm.parts().values() if isinstance(part, Optim)]
    if not optimisers or algorithm.expert_rows:
        why = "learns from two batches at once" if optimisers else "learns without gradients"
        raise ConfigError(f"compile is 'update', but {name} {why}; leave it out")
    prepare, plain = algorithm.prepare, algorithm.update
    compiled: Callable[[Any], Any] | None = None

    def update(batch: Any) -> Any:
        nonlocal compiled
        start, prepared, begins = time.perf_counter(), prepare(batch), compiled is None
        if compiled is None:  # not before: whoever only acts need not wait for torch's compilers
            for owner, method in ((algorithm, "_finish"), *((optim, "step") for optim in optimisers)):
                left_out = torch.compiler.disable(getattr(owner, method))  # type: ignore[no-untyped-call]  # torch's own
                setattr(owner, method, left_out)
            compiled = torch.compile(plain)
        algorithm.prepare = lambda batch: batch  # type: ignore[method-assign]  # of this object, for this call
        try:
            stats = compiled(prepared)
        except ArgosyError:
            raise
        except RuntimeError as error:  # of torch's compilers; later on it has another cause, such as memory
            if not begins:
                raise
            raise ConfigError(f"compile is 'update', but torch cannot compile {name}: {error}; leave it out") from error
        finally:
            algorithm.prepare = prepare  # type: ignore[method-assign]
        if begins:
            sys.stderr.write(f"compile: the first update of {name} took {time.perf_counter() - start:.1f} s\n")
        return stats

    algorithm.update = update  # type: ignore[method-assign]
