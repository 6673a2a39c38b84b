"""Versions of policy parameters: tags, metadata, garbage collection, atomic files.

A version is kept as one safetensors blob (a uint8 array): what is written to disk, what travels, and what a reader
decodes are the same bytes, so that the store never looks inside and nothing that is loaded can execute code.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np

from argosy.errors import CheckpointError, ConfigError, nearest
from argosy.files import damage_named, numbered, read_json, remove_torn, write_atomically
from argosy.policy.base import PolicyCheckpoint
from argosy.trainer.blob import Blob, check, decode, encode

Files: TypeAlias = dict[Path, bytes | Blob | None]
"""What files are to hold; None: they are to go."""
Metadata: TypeAlias = dict[str, object]
LATEST, BEST = "latest", "best"
RETURN = "return_mean"
"""What evaluations say of a version, and `best` goes by."""


def _best_of(known: _Versions, key: str, version: int) -> int:
    """Return the version, of those that are kept, that has most of `key`, the oldest of several; `version` if none."""
    told = {kept: known.metadata.get(kept, {}).get(key) for kept in sorted(known.blobs)}
    found = {kept: value for kept, value in told.items() if isinstance(value, int | float)}
    return max(found, key=lambda kept: found[kept], default=version)


def write_files(files: Files) -> None:
    """Write and remove them, each one atomically."""
    for path, data in files.items():
        if data is None:
            path.unlink(missing_ok=True)
        else:
            write_atomically(path, data if isinstance(data, bytes) else data.data)


@dataclass
class _Versions:
    """All that is known of one policy name."""

    blobs: dict[int, Blob | None] = field(default_factory=dict)
    """None: in its file alone."""
    tags: dict[str, int] = field(default_factory=dict)
    metadata: dict[int, Metadata] = field(default_factory=dict)
    token: int = 0


class ParameterStore:
    """Holds the newest versions of each policy and every tagged one; `latest` is the tag of the last push.

    Args:
        directory: keep everything there and start from what is there; None: in memory.
        keep: untagged versions to keep per policy; older ones are dropped at each push.
        deferred: leave the files to whoever calls `unwritten`, `write_files` and `written`; else a method returns when
            they are written.
        mend: remove what a dying process has left half-written, and set damaged versions aside; for the only one who
            writes there, since others would take files from under its hands.

    Raises:
        ConfigError: `keep` is below 1.
        CheckpointError: the directory's index cannot be read.
    """

    def __init__(
        self, directory: Path | None = None, *, keep: int = 10, deferred: bool = False, mend: bool = False
    ) -> None:
        if keep < 1:
            raise ConfigError(f"ParameterStore keep is {keep}; it must be >= 1")
        self.directory, self.keep, self._deferred, self._mends = directory, keep, deferred, mend
        self._policies: dict[str, _Versions] = {}
        self._files: Files = {}  # of versions
        self._indices: set[str] = set()  # names whose index is to be written
        # Readers compare tokens for equality only. Starting at the clock makes a restarted store's tokens new.
        self._token = time.time_ns()
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            for folder in sorted(path for path in directory.iterdir() if path.is_dir()):
                self._policies[folder.name] = self._read(folder)

    # -- writing -------------------------------------------------------------------------------------------------------

    def push(
        self,
        name: str,
        checkpoint: PolicyCheckpoint | Blob,
        *,
        version: int | None = None,
        tags: Iterable[str] = (),
        metadata: Mapping[str, object] | None = None,
    ) -> int:
        """Store a version and make it `latest`; pushing a version again replaces it.

        Args:
            name: of the policy; becomes a folder's name.
            checkpoint: a policy's checkpoint, or its `encode`d form together with `version`.
            version: needed for a blob; taken from the checkpoint otherwise.
            tags: further tags that move to this version.
            metadata: plain JSON values, for `find`.

        Raises:
            ConfigError: the name cannot be a folder's name, or a blob came without version.
        """
        if not name or name != Path(name).name or name.startswith("."):
            raise ConfigError(f"policy name {name!r} cannot be used; take letters, digits, '-' and '_'")
        if isinstance(checkpoint, np.ndarray):
            if version is None:
                raise ConfigError(f"policy {name!r}: a blob was pushed without its version")
            blob = checkpoint
        else:
            blob, version = encode(checkpoint), checkpoint["version"]
        known = self._policies.setdefault(name, _Versions())
        if self.directory is not None:
            (self.directory / name).mkdir(exist_ok=True)
            self._files[self._file(name, version)] = blob
        known.blobs[version] = blob
        known.metadata[version] = {"time": time.time(), **(metadata or {})}
        known.tags.update(dict.fromkeys((LATEST, *tags), version))
        self.gc(name)
        self._changed(name, known)
        return version

    def tag(self, name: str, version: int, tag: str) -> None:
        """Move `tag` to a version, which is kept as long as it has a tag."""
        known = self._holding(name, version)
        known.tags[tag] = version
        self._changed(name, known, parameters=tag == LATEST)

    def update_metadata(self, name: str, version: int, values: Mapping[str, object]) -> None:
        """Add plain JSON values to what is known of a version."""
        known = self._holding(name, version)
        known.metadata[version].update(values)
        self._changed(name, known, parameters=False)

    def tag_best(
        self,
        name: str,
        version: int,
        values: Mapping[str, object],
        *,
        key: str,
        tag: str,
        pin: str | None = None,
    ) -> bool:
        """Add `values` to what is known of a version; move `tag` to the version that has most of `key`.

        The store compares with what it knows itself, so that this holds across evaluation workers and their restarts.

        Raises:
            CheckpointError: the version has no more the tag `pin` of who evaluated it: it was forgotten, and what has
                its number now, if anything, is another one.
        """
        if pin is not None and self._known(name).tags.get(pin) != version:
            raise CheckpointError(f"version {version} of policy {name!r} was forgotten while it was evaluated")
        self.update_metadata(name, version, values)
        best = _best_of(self._known(name), key, version)
        if self._known(name).tags.get(tag) != best:
            self.tag(name, best, tag)
        return best == version

    def gc(self, name: str, keep: int | None = None) -> list[int]:
        """Drop untagged versions but the newest `keep`; returns the dropped ones."""
        known = self._known(name)
        untagged = sorted(set(known.blobs) - set(known.tags.values()))
        count = self.keep if keep is None else keep
        dropped = untagged[: max(0, len(untagged) - count)]
        self._drop(name, known, dropped)
        self._flush()
        return dropped

    def roll_back(self, name: str, version: int) -> list[int]:
        """Forget all versions above `version`, as a learner does that resumed there; returns the forgotten ones.

        Tags on forgotten versions go, except `latest`, which moves to the newest that is left, and `best`, which moves
        to the one of these that an evaluation has found to return most.
        """
        known = self._policies.get(name)
        if known is None:
            return []
        gone = sorted(v for v in known.blobs if v > version)
        if gone:
            left, was_best = set(known.blobs) - set(gone), BEST in known.tags
            known.tags = {tag: v for tag, v in known.tags.items() if v <= version}
            if left:
                known.tags[LATEST] = max(left)
            self._drop(name, known, gone)
            if left and was_best and BEST not in known.tags:
                known.tags[BEST] = _best_of(known, RETURN, max(left))
            self._changed(name, known)
        return gone

    # -- reading -------------------------------------------------------------------------------------------------------

    def get(self, name: str, identifier: int | str = LATEST) -> PolicyCheckpoint:
        """Return the checkpoint of a version or a tag.

        Raises:
            CheckpointError: there is no such policy, version or tag.
        """
        version = identifier if isinstance(identifier, int) else self.version_of(name, identifier)
        return decode(self.blob(name, version))

    def blob(self, name: str, version: int) -> Blob:
        """Return a version as it was pushed, from memory or its file.

        Raises:
            CheckpointError: there is no such policy or version, or its file cannot be read.
        """
        blob = self._holding(name, version).blobs[version]
        if blob is not None:
            return blob
        return _read_blob(self._file(name, version))

    def newest(self, name: str, token: int = 0) -> tuple[int, int] | None:
        """Return (token, latest version), None when nothing changed since `token` or nothing is there."""
        known = self._policies.get(name)
        if known is None or known.token == token or LATEST not in known.tags:
            return None
        return known.token, known.tags[LATEST]

    def version_of(self, name: str, tag: str) -> int:
        """Return the version that has a tag.

        Raises:
            CheckpointError: no version has it.
        """
        known = self._known(name)
        if tag not in known.tags:
            raise CheckpointError(f"policy {name!r} has no version tagged {tag!r}; {nearest(tag, known.tags)}")
        return known.tags[tag]

    def names(self) -> list[str]:
        """Return the names of the policies."""
        return sorted(self._policies)

    def versions(self, name: str) -> list[int]:
        """Return the versions that are kept, oldest first."""
        return sorted(self._known(name).blobs)

    def tags(self, name: str) -> dict[str, int]:
        """Return tag -> version."""
        return dict(self._known(name).tags)

    def metadata(self, name: str, version: int) -> Metadata:
        """Return what was said of a version; `time` is when it was pushed, in seconds since 1970."""
        return dict(self._holding(name, version).metadata[version])

    def find(self, name: str, where: Callable[[Metadata], bool]) -> list[int]:
        """Return the versions, oldest first, whose metadata satisfy `where`."""
        known = self._known(name)
        return [version for version in sorted(known.blobs) if where(dict(known.metadata[version]))]

    def unwritten(self) -> Files:
        """Return what files are to hold from now on and forget it."""
        files = self._files
        if self.directory is not None:
            for name in self._indices:
                known = self._policies[name]
                index = {"tags": known.tags, "metadata": {str(v): m for v, m in known.metadata.items()}}
                files[self.directory / name / "index.json"] = json.dumps(index).encode()
        self._files, self._indices = {}, set()
        return files

    def written(self, files: Files) -> None:
        """Hear that files hold this: versions among them need no memory any more."""
        for path, data in files.items():
            blobs = self._policies[path.parent.name].blobs
            if isinstance(data, np.ndarray) and blobs.get(int(path.stem)) is data:
                blobs[int(path.stem)] = None

    # -- inside --------------------------------------------------------------------------------------------------------

    def _known(self, name: str) -> _Versions:
        if name not in self._policies:
            raise CheckpointError(f"the store holds no policy {name!r}; {nearest(name, self._policies)}")
        return self._policies[name]

    def _holding(self, name: str, version: int) -> _Versions:
        known = self._known(name)
        if version not in known.blobs:
            raise CheckpointError(f"policy {name!r} has no version {version}; kept: {sorted(known.blobs)}")
        return known

    def _file(self, name: str, version: int) -> Path:
        assert self.directory is not None
        return self.directory / name / f"{version}.safetensors"

    def _changed(self, name: str, known: _Versions, *, parameters: bool = True) -> None:
        if parameters:
            self._token += 1
            known.token = self._token
        self._indices.add(name)
        self._flush()

    def _flush(self) -> None:
        if not self._deferred:
            files = self.unwritten()
            write_files(files)
            self.written(files)

    def _drop(self, name: str, known: _Versions, versions: Iterable[int]) -> None:
        for version in versions:
            del known.blobs[version], known.metadata[version]
            if self.directory is not None:
                self._files[self._file(name, version)] = None

    def _read(self, folder: Path) -> _Versions:
        """Load what a folder holds. Tags of a version that is damaged move to the newest one before it."""
        if self._mends:
            remove_torn(folder)
        index_path = folder / "index.json"
        with damage_named(index_path):
            index = read_json(index_path) if index_path.exists() else {}
            tags = {str(tag): int(version) for tag, version in index.get("tags", {}).items()}
            metadata = {int(v): dict(cast(Metadata, values)) for v, values in index.get("metadata", {}).items()}
        found: list[int] = []
        for version, path in numbered(folder).items():
            try:
                _read_blob(path)
                found.append(version)
            except CheckpointError as error:
                if path.exists():  # else it was dropped meanwhile
                    aside = f"it is kept as {path.replace(path.with_suffix('.damaged')).name}, " if self._mends else ""
                    warnings.warn(f"{error}; {aside}the version before it is used", stacklevel=2)
        known = _Versions(
            blobs=dict.fromkeys(sorted(found)),
            tags={tag: max(kept) for tag, version in tags.items() if (kept := [v for v in found if v <= version])},
            metadata={version: metadata.get(version, {}) for version in found},
        )
        if found and LATEST not in known.tags:  # died between the version's file and the index
            known.tags[LATEST] = max(found)
        self._token += 1
        known.token = self._token
        return known


def _read_blob(path: Path) -> Blob:
    try:
        return check(np.fromfile(path, np.uint8))
    except (OSError, CheckpointError) as error:
        raise CheckpointError(f"version {path.stem} of policy {path.parent.name!r} cannot be read: {error}") from error
