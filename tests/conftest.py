"""What all tests need."""

import signal
import sys
from pathlib import Path

# Several folders read what algorithms declare for the tests that they share (tests/algorithm/declared.py), and play the
# games for several agents (tests/distributed/games.py), and compare with peers (tests/peers/peers.py).
sys.path[:0] = [str(Path(__file__).parent / folder) for folder in ("algorithm", "distributed", "peers")]

# A shell starts background jobs with Ctrl-C ignored, and all that they start inherits it: the tests of it would hang.
signal.signal(signal.SIGINT, signal.default_int_handler)
