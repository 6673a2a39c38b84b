"""Files of buffers, ours and Tianshou's, as data sets."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from argosy.data.batch import Batch
from argosy.data.buffer.columns import REQUIRED
from argosy.data.buffer.replay import ReplayBuffer
from argosy.data.buffer.rings import Rings
from argosy.data.buffer.state import Stored, is_tianshou, read_state
from argosy.data.datasets.source import Ends, Source, as_flags, as_rewards, known_ends, read_rows, read_steps
from argosy.data.hdf5 import HDF5Tree
from argosy.data.tree import flatten

_KEPT = ("stack_num", "ignore_obs_next", "sample_avail")
"""Options that say how rows are drawn, not how they came."""


def is_buffer(root: HDF5Tree) -> bool:
    """Say whether a file is one of these."""
    return "argosy_buffer" in root.attrs or is_tianshou(root)


def open_buffer(root: HDF5Tree) -> Source:
    """Return the transitions of a buffer's file, sub-buffer after sub-buffer."""
    stored = read_state(root, HDF5Tree.lazy)
    attributes = {name: root.attrs[name] for name in root.attrs if name not in ("argosy_buffer", "options")}
    rows, ends = int(stored.state["rings"]["count"].sum()), None
    if is_tianshou(root) and rows and "obs_next" not in root.group("_meta"):
        names, columns, rings = ("terminated", "truncated"), stored.state["columns"], _rings(stored)
        terminated, truncated = (as_flags(columns[name].read(0, rows), name) for name in names)
        ends = known_ends(terminated, truncated, rings.stop[rings.all_stored()])

    def whole() -> ReplayBuffer:
        group = None if is_tianshou(root) else root.group("columns")
        columns = stored.state["columns"] if group is None else group.values(HDF5Tree.mapped)
        # whoever learns from them is another policy than the one that acted: states and priorities would be foreign
        columns = {name: column for name, column in columns.items() if name != "policy"}
        state = {"rings": stored.state["rings"], "columns": columns}
        return ReplayBuffer.from_stored(stored._replace(options=stored.options | {"priority": None}, state=state))

    return Source(
        path=root.path,
        close=root.close,
        format="Tianshou" if is_tianshou(root) else "argosy",
        rows=rows if ends is None else int(ends.known.sum()),
        read=lambda size: _read(stored, ends, size),
        whole=whole if ends is None or ends.known.all() else None,
        options={name: stored.options[name] for name in _KEPT if name in stored.options},
        attributes={} if is_tianshou(root) else attributes,
        notes=(*(() if ends is None else ends.notes("obs_next")), *_further(stored)),
    )


def _further(stored: Stored) -> tuple[str, ...]:
    """Say, where it is so, which columns a conversion leaves out."""
    further = [".".join(keys) for keys in flatten(stored.state["columns"]) if keys[0] not in REQUIRED]
    note = f"`argosy data convert` leaves out {', '.join(further)}: it keeps {', '.join(REQUIRED)}"
    return (note,) if further else ()


def _rings(stored: Stored) -> Rings:
    rings = Rings(stored.sizes)
    rings.load_state_dict(stored.state["rings"])
    return rings


def _read(stored: Stored, ends: Ends | None, size: int) -> Iterator[Batch]:
    rings = _rings(stored)
    slot = rings.all_stored()
    stop, cut, first = rings.stop[slot], rings.cut[slot], rings.first[slot]
    columns, rows = stored.state["columns"], len(stop)
    if not rows:
        return
    following = columns.get("obs_next")
    known = next(map(len, flatten(following).values()), -1)
    ends_only = stored.options.get("ignore_obs_next", False) and known != rows
    stops = np.concatenate([[0], np.cumsum(stop)])
    for start in range(0, rows, size):
        end = min(start + size, rows)
        at_end = stop[start:end]
        obs, after = read_steps(columns["obs"], start, end, rows)
        part = Batch(
            obs=obs,
            act=read_rows(columns["act"], start, end),
            rew=as_rewards(columns["rew"].read(start, end), "rew"),
            terminated=as_flags(columns["terminated"].read(start, end), "terminated"),
            truncated=as_flags(columns["truncated"].read(start, end), "truncated"),
        )
        part.first = first[start:end]
        part.cut = cut[start:end] | at_end & ~(part.terminated | part.truncated)
        part.truncated = part.truncated | part.cut
        if ends_only:  # the next row's, but for the last rows of segments
            found = Batch(obs_next=after, copy=True)
            if at_end.any():
                found[at_end] = Batch(obs_next=read_rows(following, int(stops[start]), int(stops[end])))
            part.obs_next = found.obs_next
        else:
            part.obs_next = read_rows(following, start, end)
        yield part if ends is None else ends.put_into(part, start)
