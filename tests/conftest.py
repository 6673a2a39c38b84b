"""What all tests need."""

import signal
import sys
from pathlib import Path

# What algorithms declare for the tests that they share (tests/algorithm/declared.py) is read by several folders.
sys.path.insert(0, str(Path(__file__).parent / "algorithm"))

# A shell starts background jobs with Ctrl-C ignored, and all that they start inherits it: the tests of it would hang.
signal.signal(signal.SIGINT, signal.default_int_handler)
