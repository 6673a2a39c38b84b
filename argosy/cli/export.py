"""`argosy export RUN -o FILE`: a policy as a file that needs no argosy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from argosy.cli.flags import parse
from argosy.cli.saved import SavedFlags
from argosy.run.export import export


@dataclass(frozen=True, kw_only=True)
class ExportFlags(SavedFlags):
    """What `argosy export` takes."""

    output: Annotated[str, tyro.conf.arg(aliases=["-o"])]
    """The file, FILE.onnx, FILE.pt (TorchScript) or FILE.pt2 (torch.export)."""
    format: Literal["onnx", "torchscript", "program"] | None = None
    """What is written (None: as the file's ending says)."""


def main(args: Sequence[str]) -> int:
    """Write the file."""
    flags = parse(
        ExportFlags,
        args,
        prog="argosy export",
        description="Write a policy that a run has saved as a file that acts without argosy.",
    )
    print(f"policy: {export(flags.run, flags.output, format=flags.format, **flags.chosen)}")
    return 0
