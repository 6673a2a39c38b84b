"""What became of every input of an attack, counted; the tests and `make attack` read the same counts."""

import re
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterable

Counts = dict[str, int]
GREEDY_KIB = 200_000


def tally(
    reads: Iterable[Callable[[], object]], refusal: type[Exception], says: str = "", limit_s: float = 2.0
) -> Counts:
    """Read damaged inputs, one by one.

    Args:
        reads: each reads an input; they are called in turn, before the next one is made.
        refusal: the named error that is right.
        says: pattern of its text.
        limit_s: seconds of computing that an input may cost.

    Returns:
        How many were `tried`, `refused` and `accepted`; how many raised anything else (`raw`, shown on stderr) or took
        too long (`slow`); and `greedy`, 1 if memory grew by 200 MB.
    """
    counts = dict.fromkeys(("tried", "refused", "accepted", "raw", "slow", "greedy"), 0)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for read in reads:
        start = time.process_time()
        try:
            read()
            found = "accepted"
        except Exception as error:
            found = "refused" if isinstance(error, refusal) and re.search(says, str(error)) else "raw"
            if found == "raw":
                traceback.print_exc(file=sys.stderr)
        counts["tried"] += 1
        counts[found] += 1
        counts["slow"] += time.process_time() - start > limit_s
    counts["greedy"] = int(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before > GREEDY_KIB)
    return counts


def all_refused(counts: Counts) -> bool:
    """Whether every input was refused by the right error, in time."""
    return counts["refused"] == counts["tried"] > 0 and not counts["slow"] and not counts["greedy"]


def none_raw(counts: Counts) -> bool:
    """Whether every input was refused by the right error or read, in time."""
    return counts["refused"] + counts["accepted"] == counts["tried"] > 0 and not counts["slow"] and not counts["greedy"]
