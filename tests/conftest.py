"""What all tests need."""

import os
import signal
import sys
from pathlib import Path

# Before torch comes in: small networks gain nothing from more threads, and lose half their speed where tests run side
# by side. The processes that tests start take it over.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# Code that a run names is asked for in every process, as if another user had made the run.
os.environ["XDG_STATE_HOME"] = os.devnull

# Several folders read what algorithms declare for the tests that they share (tests/algorithm/declared.py), and play the
# games for several agents (tests/distributed/games.py), and compare with peers (tests/peers/peers.py).
sys.path[:0] = [str(Path(__file__).parent / folder) for folder in ("algorithm", "distributed", "peers")]

# A shell starts background jobs with Ctrl-C ignored, and all that they start inherits it: the tests of it would hang.
signal.signal(signal.SIGINT, signal.default_int_handler)
