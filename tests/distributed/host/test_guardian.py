import os
import subprocess
import sys

import psutil
import pytest

from argosy.distributed.host.guardian import descendants

DRIVER = """
import subprocess, time
from argosy.distributed.host.guardian import Guardian
helper = subprocess.Popen(["sleep", "60"], start_new_session=True)
guardian = Guardian(grace_s=0.1)
print(helper.pid, flush=True)
{then}
"""


def start(then):
    driver = subprocess.Popen([sys.executable, "-c", DRIVER.format(then=then)], stdout=subprocess.PIPE, text=True)
    return driver, psutil.Process(int(driver.stdout.readline()))


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="a guardian needs /proc")
def test_what_a_killed_driver_leaves_is_ended():
    driver, _ = start("time.sleep(60)")
    children = psutil.Process(driver.pid).children()
    assert set(descendants(driver.pid)) == {child.pid for child in children}
    assert len(children) == 2  # the helper and the guardian
    driver.kill()
    driver.communicate()
    assert not psutil.wait_procs(children, timeout=10)[1]


def test_closed_guardian_ends_nothing():
    driver, helper = start("guardian.close()")
    assert driver.wait(10) == 0
    assert helper.is_running()
    helper.kill()
    driver.stdout.close()
