"""Policies as files that need no argosy: ONNX, TorchScript, programs of torch.export."""

from __future__ import annotations

import contextlib
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Literal, TypeAlias, Unpack, cast

import torch

import argosy
from argosy.env.plain import space_to_plain
from argosy.errors import ArgosyError, ConfigError, require
from argosy.files import replacing
from argosy.ops.products import torch_alone
from argosy.policy import Policy
from argosy.policy.graph import PolicyGraph
from argosy.run.saved import Which, load

Format: TypeAlias = Literal["onnx", "torchscript", "program"]
FORMATS: dict[str, Format] = {".onnx": "onnx", ".pt": "torchscript", ".pt2": "program"}
"""By the file's ending."""
METADATA = "argosy.json"
"""Under which name a file says what goes in and what comes out."""
_Run: TypeAlias = Callable[[Sequence[torch.Tensor]], Sequence[torch.Tensor]]
_CHECKED_ROWS = 16


def export(
    source: Policy | str | PathLike[str],
    path: str | Path,
    *,
    format: Format | None = None,
    trust: bool = False,
    **which: Unpack[Which],
) -> Path:
    """Write a policy as one file that acts as `Policy.predict` does, without argosy.

    Its inputs are batches [B, ...] of any size: `obs`, or `obs.KEY` for each entry of a dict, as the environment gives
    them, and with memory `state` [B, S], zeros where an episode begins. Its outputs are `act` [B, *act] in the
    environment's scale and dtype and, with memory, `state_next`. Normaliser, masks and the mapping of actions are
    inside. What the file acts like is compared with the policy before it is kept.

    Args:
        source: the policy; or the folder of a run or of a fleet's, or a policy's file, as for `load`.
        path: the file.
        format: onnx (needs the extra `export`), torchscript or program (of torch.export); None: by the file's ending,
            .onnx, .pt or .pt2.
        trust: see `load`.
        which: policy, version and tag, see `load`.

    Returns:
        The file.

    Raises:
        ConfigError: the format is unknown, or the policy cannot be exported; says why.
        MissingExtraError: the exporter is not installed.
        CheckpointError, TrustError: as `load` says.
    """
    path = Path(path)
    chosen = format or FORMATS.get(path.suffix)
    if chosen is None or chosen not in _WRITERS:
        known = ", ".join(f"{name} ({suffix})" for suffix, name in FORMATS.items())
        raise ConfigError(f"the file {str(path)!r} and the format {format!r} do not say what to write; choose: {known}")
    if chosen == "onnx":
        for module in ("onnx", "onnxscript", "onnxruntime"):
            require(module, "export")
    if not isinstance(source, Policy):
        source = load(source, trust=trust, **which)
    graph = PolicyGraph(source)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _quiet(), torch.no_grad(), torch_alone(), replacing(path) as file:
            _check(graph, _WRITERS[chosen](graph, Path(file.name), _metadata(graph, source)))
    except ArgosyError:
        raise
    except OSError as error:
        raise ConfigError(f"{str(path)!r} cannot be written: {error}") from error
    except Exception as error:  # whatever an exporter says of a forward that it cannot follow
        raise ConfigError(
            f"{type(source).__name__} cannot be exported as {chosen}; its forward() must go through torch alone, and "
            f"take the same way whatever the values: {type(error).__name__}: {error}"
        ) from error
    return path


def input_names(graph: PolicyGraph) -> list[str]:
    """Return the inputs of an exported policy, in order."""
    return [*graph.parts, *(["state"] if graph.has_state else [])]


def output_names(graph: PolicyGraph) -> list[str]:
    """Return the outputs of an exported policy, in order."""
    return ["act", *(["state_next"] if graph.has_state else [])]


def _write_onnx(graph: PolicyGraph, path: Path, metadata: str) -> _Run:
    import onnxruntime

    program: Any = torch.onnx.export(
        graph,
        graph.example(2),
        dynamo=True,
        input_names=input_names(graph),
        output_names=output_names(graph),
        dynamic_shapes=_any_batch(graph),
        verbose=False,
    )
    program.model.metadata_props[METADATA] = metadata
    program.save(path, external_data=False)
    session: Any = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    def run(inputs: Sequence[torch.Tensor]) -> Sequence[torch.Tensor]:
        feed = {name: value.numpy() for name, value in zip(input_names(graph), inputs, strict=True)}
        return [torch.from_numpy(output) for output in session.run(None, feed)]

    return run


def _write_torchscript(graph: PolicyGraph, path: Path, metadata: str) -> _Run:
    script: Any = torch.jit.trace(graph, graph.example(2), check_trace=False)  # type: ignore[no-untyped-call]  # torch's
    torch.jit.save(script, str(path), _extra_files={METADATA: metadata.encode()})
    return lambda inputs: cast(Sequence[torch.Tensor], script(*inputs))


def _write_program(graph: PolicyGraph, path: Path, metadata: str) -> _Run:
    program = torch.export.export(graph, graph.example(2), dynamic_shapes=_any_batch(graph), strict=False)
    with path.open("wb") as file:  # by name, torch insists on an ending
        torch.export.save(program, file, extra_files={METADATA: metadata})
    return lambda inputs: cast(Sequence[torch.Tensor], program.module()(*inputs))


_WRITERS: dict[Format, Callable[[PolicyGraph, Path, str], _Run]] = {
    "onnx": _write_onnx,
    "torchscript": _write_torchscript,
    "program": _write_program,
}


def _any_batch(graph: PolicyGraph) -> dict[str, Any]:
    batch = torch.export.Dim("batch")
    return {"inputs": tuple({0: batch} for _ in input_names(graph))}


def _metadata(graph: PolicyGraph, policy: Policy) -> str:
    return json.dumps(
        {
            "argosy": argosy.__version__,
            "version": policy.version,
            "inputs": input_names(graph),
            "outputs": output_names(graph),
            "observation_space": space_to_plain(policy.acts_on),
            "action_space": space_to_plain(policy.action_space),
        }
    )


def _check(graph: PolicyGraph, run: _Run) -> None:
    """Compare what was written with the policy, on observations and a batch that the exporter has not seen."""
    inputs = graph.example(_CHECKED_ROWS, seed=1)
    for name, own, other in zip(output_names(graph), graph(*inputs), run(inputs), strict=True):
        same = torch.isclose(own.double(), other.double(), rtol=1e-3, atol=1e-4).reshape(_CHECKED_ROWS, -1).all(dim=1)
        if int(same.sum()) < _CHECKED_ROWS - 1:  # two actions may be equally good
            raise ConfigError(
                f"what was exported of {type(graph.policy).__name__} gives another {name} than the policy for "
                f"{_CHECKED_ROWS - int(same.sum())} of {_CHECKED_ROWS} observations: its forward() depends on values "
                "that are not tensors"
            )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Let exporters keep what they say of their own code to themselves."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
