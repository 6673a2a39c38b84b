"""An algorithm whose updates take long, for tests of old experience."""

import time

from argosy.algorithm import IMPALA


class SlowIMPALA(IMPALA):
    def update(self, batch):
        time.sleep(0.1)
        return super().update(batch)
