"""A policy with all that it takes to use it, as one file to share: a ZIP of few files whose names are known.

Whoever made the file may mean harm. So its members are read under the names below and no other, nothing in it is packed
more tightly than it says, and none of them is code: JSON, arrays (see `argosy.trainer.statefile`), pictures, text.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from argosy.errors import ArgosyError, CheckpointError
from argosy.files import replacing

CARD, CONFIG, SPACES, POLICY, CURVE, VIDEO = NAMES = (
    "README.md",
    "config.json",
    "policy.json",
    "policy.safetensors",
    "curve.png",
    "video.gif",
)
_NEEDED = (CONFIG, SPACES, POLICY)
_SMALL = 1 << 26
"""Bytes of a member other than the policy at most."""


def write_agent(path: Path, folder: Path) -> None:
    """Write what lies in a folder under the known names into a file, uncompressed."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as whole, zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as packed:
            for name in NAMES:
                file = folder / name
                if file.is_file() and (name == POLICY or file.stat().st_size <= _SMALL):
                    packed.write(file, name)
    except OSError as error:
        raise CheckpointError(f"{str(path)!r} could not be written: {error}") from error


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Path]:
    """Give a policy's file with what belongs beside it: one that `pack` wrote is unpacked, until the end."""
    if path.suffix != ".zip" or not path.is_file():
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="argosy-agent-", ignore_cleanup_errors=True) as folder:
        try:
            with zipfile.ZipFile(path) as packed:
                _unpack(packed, Path(folder))
        except (zipfile.BadZipFile, OSError, RuntimeError, ValueError, EOFError) as error:
            if isinstance(error, CheckpointError):
                raise CheckpointError(f"{str(path)!r} is no agent that argosy packed: {error}") from None
            raise CheckpointError(f"{str(path)!r} is damaged: {error}") from error
        try:
            yield Path(folder) / POLICY
        except ArgosyError as error:
            error.args = (str(error).replace(folder, str(path)),)
            raise


def _unpack(packed: zipfile.ZipFile, folder: Path) -> None:
    members = packed.infolist()
    names = [member.filename for member in members]
    if strange := sorted({name[:100] for name in names} - set(NAMES)):
        raise CheckpointError(f"it holds {strange[0]!r}")
    if len(set(names)) < len(names):
        raise CheckpointError("it holds a name twice")
    if missing := [name for name in _NEEDED if name not in names]:
        raise CheckpointError(f"it lacks {', '.join(missing)}")
    for member in members:
        if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
            raise CheckpointError(f"{member.filename} is compressed")  # so nothing is larger than the file itself
        if member.filename != POLICY and member.file_size > _SMALL:
            raise CheckpointError(f"{member.filename} has {member.file_size:,} bytes, more than {_SMALL:,}")
        with packed.open(member) as source, (folder / member.filename).open("xb") as target:
            shutil.copyfileobj(source, target)
