import warnings

import numpy as np
import pytest
import torch

from argosy.data import Batch, check_finite
from argosy.errors import DataError


@pytest.mark.parametrize("number", [1e19, 3e19, -3e38])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_large_numbers_are_finite_and_nothing_is_said(number, dtype):
    batch = Batch(obs=torch.full((64, 4), number, dtype=dtype), rew=torch.ones(64))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_finite(batch, "obs", "rew")
        check_finite(Batch(obs=batch.obs.numpy(), rew=np.ones(64, np.float32)), "obs", "rew")


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_not_finite_is_found_among_large_numbers(number):
    batch = Batch(obs=torch.full((64, 4), 3e38))
    batch.obs[5, 2] = number
    with pytest.raises(DataError, match=r"batch\.obs holds 1 NaN or infinite value\(s\).* at index \(5, 2\)"):
        check_finite(batch, "obs")
    with pytest.raises(DataError, match=r"batch\.obs\.a holds 1 NaN or infinite value\(s\).* at index \(5, 2\)"):
        check_finite(Batch(obs={"a": batch.obs.numpy(), "b": np.ones(64, np.int64), "c": None}), "obs")
    with pytest.raises(DataError, match=r"a tuple is no batch; of \(batch, indices\), a buffer's sample, give"):
        check_finite((batch, np.arange(64)), "obs")
