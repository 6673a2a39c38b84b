"""Writes tests/report/rliable.json: what rliable says of some scores.

Run it where `pip install rliable "pandas<3"` was done.
"""

import json
from pathlib import Path

import numpy as np
from rliable import library, metrics

rng = np.random.default_rng(0)
cases = []
for runs, tasks in ((5, 1), (3, 5), (10, 4)):
    ours, others = rng.gamma(2.0, 1.0, (runs, tasks)), rng.gamma(1.7, 1.0, (runs + 1, tasks))
    point, bounds = library.get_interval_estimates(
        {"a": ours}, lambda s: np.array([metrics.aggregate_iqm(s)]), reps=20_000
    )
    taus = np.linspace(0.0, 4.0, 9)
    cases.append(
        {
            "scores": ours.tolist(),
            "others": others.tolist(),
            "iqm": float(point["a"][0]),
            "interval": bounds["a"][:, 0].tolist(),
            "thresholds": taus.tolist(),
            "profile": [float(library.run_score_deviation(ours, tau)) for tau in taus],
            "improvement": float(metrics.probability_of_improvement(ours, others)),
        }
    )
Path(__file__).with_name("rliable.json").write_text(json.dumps(cases, indent=1) + "\n")
