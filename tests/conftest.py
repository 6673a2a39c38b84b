"""What all tests need."""

import signal

# A shell starts background jobs with Ctrl-C ignored, and all that they start inherits it: the tests of it would hang.
signal.signal(signal.SIGINT, signal.default_int_handler)
