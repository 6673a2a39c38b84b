"""Processes tell where they are, whatever they are at."""

import ctypes
import multiprocessing
import threading
import time

import pytest

from argosy.stacks import StackReader, shown, tell_stack, thread_stack


def tell_and_keep_the_gil(pipe):
    """As a simulator does that computes in C."""
    tell_stack(pipe)
    while True:
        ctypes.PyDLL(None).usleep(900_000)  # the signal cuts it short


def tell_and_end(pipe):
    tell_stack(pipe)


def never_tell(pipe):
    time.sleep(60.0)


@pytest.fixture
def start():
    processes = []

    def make(target):
        ours, theirs = multiprocessing.Pipe(duplex=False)
        processes.append(multiprocessing.get_context("fork").Process(target=target, args=(theirs,), daemon=True))
        processes[-1].start()
        theirs.close()
        return StackReader(ours), processes[-1]

    yield make
    for process in processes:
        process.kill()
        process.join()


def asked(reader, pid, limit_s=20.0):
    deadline = time.monotonic() + limit_s
    while "does not tell" in (said := _ask(reader, pid, limit_s)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return said


def _ask(reader, pid, limit_s):
    reader.ask(pid)
    return reader.answer(limit_s)  # a second question would bring a second answer


def test_one_that_keeps_the_gil_in_c_tells_where_it_is(start):
    reader, process = start(tell_and_keep_the_gil)
    for _ in range(2):  # any number of times
        said = asked(reader, process.pid)
        assert said.count("in tell_and_keep_the_gil") == 1  # one answer; libraries may start threads in a fork
    assert process.is_alive()


def test_one_that_cannot_tell_is_left_alone(start):
    """The signal would end a process that has not prepared for it."""
    reader, process = start(never_tell)
    assert "does not tell" in asked(reader, process.pid, 0.5)
    assert process.is_alive()


def test_one_that_has_ended_is_named_so(start):
    reader, process = start(tell_and_end)
    process.join()
    assert "it has ended" in asked(reader, process.pid, 0.5)
    reader.close()
    assert "it has ended" in asked(reader, process.pid, 0.5)


def test_threads_and_equal_stacks():
    assert "test_threads_and_equal_stacks" in thread_stack(threading.get_ident())
    assert thread_stack(None) == "(the thread has ended)\n"
    assert shown({"a": "x\n", "b": "y", "c": "x\n"}) == "-- a, c:\nx\n-- b:\ny\n"
