"""From many runs to an answer: robust averages over runs and tasks, how sure they are, and a page that shows them."""

from argosy.report.comparison import compare as compare
from argosy.report.fleet import read_fleets as read_fleets
from argosy.report.page import render as render
from argosy.report.runs import Run as Run
from argosy.report.runs import read_runs as read_runs
from argosy.report.statistics import Interval as Interval
from argosy.report.statistics import band as band
from argosy.report.statistics import difference as difference
from argosy.report.statistics import improvement as improvement
from argosy.report.statistics import interval as interval
from argosy.report.statistics import iqm as iqm
from argosy.report.statistics import profile as profile
from argosy.report.study import read_studies as read_studies
