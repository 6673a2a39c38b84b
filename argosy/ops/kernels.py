"""The functions of torch that it does not document, all in this place: what a new version of torch may take away."""

from collections.abc import Callable

import torch
from torch.autograd.graph import Node

foreach_copy_ = torch._foreach_copy_
"""Copies tensors of a list into those of another one."""
foreach_div_ = torch._foreach_div_
"""Divides the tensors of a list."""
foreach_lerp_ = torch._foreach_lerp_
"""Moves the tensors of a list towards those of another one."""
foreach_norm = torch._foreach_norm
"""Norms of the tensors of a list."""
fused_adam_ = torch._fused_adam_
"""One step of Adam over lists of parameters, gradients and moments."""
fused_adamw_ = torch._fused_adamw_
"""The same with decoupled weight decay."""
linear_pointwise: Callable[..., torch.Tensor] = torch.ops.mkldnn._linear_pointwise
"""oneDNN's x [m, k] @ weight [n, k]' + bias, and a function of it."""
is_wanted: Callable[[Node], bool] = torch._C._will_engine_execute_node
"""Whether the backward pass that runs goes on to a node of its graph; of a leaf it may refuse to tell."""
unscale_check_ = torch._amp_foreach_non_finite_check_and_unscale_
"""Sets a number to 1 where a list of tensors, which it multiplies with another number, holds NaN or infinity."""
