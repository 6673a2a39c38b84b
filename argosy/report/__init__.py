"""From many runs to an answer: robust averages over runs and tasks, how sure they are, and a page that shows them."""

from argosy.report.comparison import compare as compare
from argosy.report.fleet import read_fleets as read_fleets
from argosy.report.page import render as render
from argosy.report.runs import Run as Run, read_runs as read_runs
from argosy.report.statistics import (
    Interval as Interval,
    band as band,
    difference as difference,
    improvement as improvement,
    interval as interval,
    iqm as iqm,
    profile as profile,
)
from argosy.report.study import read_studies as read_studies
