"""What was learned from data, beside who made them: two tables of docs/benchmarks.md, from the results that are there.

    python benchmarks/learning/from_data.py

`run.py` makes the results.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import run

from argosy.report import Interval, interval

EXPERT = re.compile(r"(expert(?:-ppo|-(?:ppo|sac)-1m)?)(-\d+k)?")
"""Labels of rows that learned from an expert by their presets: the data's name, and thousands of updates."""
BEHAVIOUR = {"Hopper-v5": 506.0, "Pendulum-v1": -667.6}
"""Mean return of the episodes in `mixed`, which the files say themselves."""
BEGIN, END = "<!-- from experts: written by benchmarks/learning/from_data.py -->", "<!-- end of from experts -->"
MIXED_BEGIN, MIXED_END = "<!-- from mixed data: written by from_data.py -->", "<!-- end of from mixed data -->"


def main() -> int:
    """Write both tables; 0."""
    rows = [json.loads(path.read_text()) for path in sorted(run.RESULTS.glob("*.json"))]
    run.put(experts(rows), BEGIN, END)
    run.put(mixed(rows), MIXED_BEGIN, MIXED_END)
    return 0


def experts(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of a table: what share of the expert's return each seed has."""
    lines = [
        "| task | data | algorithm | updates | final policies within 5 % of the expert "
        "| their returns in % of its, by seed | interquartile mean | best versions within 5 % |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    found = [
        (row["task"], match[1], row["algorithm"], row["seeds"][0]["updates"], row)
        for row in rows
        if row.get("expert_share") and (match := EXPERT.fullmatch(row["label"]))
    ]
    for task, data, algorithm, updates, row in sorted(found, key=lambda row: row[:4]):
        seeds, share = row["seeds"], row["expert_share"]
        finals = [run.final_return(seed) for seed in seeds]
        bars = [run.near(seed["expert_return"], share) for seed in seeds]
        shares = [100 * of(final, seed["expert_return"]) for final, seed in zip(finals, seeds, strict=True)]
        counts = [
            sum(value >= bar for value, bar in zip(values, bars, strict=True))
            for values in (finals, [seed["test_return_mean"] for seed in seeds])
        ]
        lines.append(
            f"| {task} | {data} | {algorithm} | {updates:,} | {counts[0]} of {len(seeds)} "
            f"| {', '.join(str(round(share)) for share in shares)} | {interval(shares).value:.1f} "
            f"| {counts[1]} of {len(seeds)} |"
        )
    return lines


def of(value: float, expert: float) -> float:
    """Return a return's share of an expert's, as `run.near` counts it: -152.3 is 0.95 of -145."""
    return 1 - (expert - value) / abs(expert)


def mixed(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the lines of a table: whether final policies are above cloning and above the data, by intervals."""
    lines = [
        "| task | algorithm | updates | final policies: interquartile mean, 95 % interval (seeds) "
        "| beside cloning's interval | beside the data |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    found = [row for row in rows if row.get("label") == "mixed" and row["task"] in BEHAVIOUR]
    returns = {(row["task"], row["algorithm"]): [run.final_return(seed) for seed in row["seeds"]] for row in found}
    for row in sorted(found, key=lambda row: (row["task"], row["algorithm"] != "bc", row["algorithm"])):
        task, algorithm = row["task"], row["algorithm"]
        own, cloning = interval(returns[task, algorithm]), interval(returns[task, "bc"])
        data = BEHAVIOUR[task]
        lines.append(
            f"| {task} | {algorithm} | {row['seeds'][0]['updates']:,} | {run.said(returns[task, algorithm])} "
            f"({len(row['seeds'])}) | {'' if algorithm == 'bc' else beside(own, cloning.low, cloning.high)} "
            f"| {beside(own, data, data)} |"
        )
    return lines


def beside(own: Interval, low: float, high: float) -> str:
    """Say where an interval lies beside another one; of one seed there is none."""
    if math.isnan(own.low):
        return "one seed"
    return "above" if own.low > high else "below" if own.high < low else "they touch"


if __name__ == "__main__":
    raise SystemExit(main())
