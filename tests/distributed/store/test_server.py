import shutil

import numpy as np
import pytest
import torch

from argosy.distributed.host.base import Context, PeerLostError
from argosy.distributed.store.parameters import ParameterStore
from argosy.distributed.store.server import ParameterServer
from argosy.errors import CheckpointError
from argosy.trainer.blob import decode, encode


@pytest.fixture
def server(tmp_path):
    return ParameterServer(Context("store", 0, connect=lambda name: None), tmp_path / "p", keep=2)


def blob(version):
    return encode({"version": version, "state_dict": {"w": torch.full((3,), float(version))}})


def fetched(news):
    return decode(news.result(0)[2]().result(0))


def test_readers_hear_at_once_and_who_pushed_when_it_is_on_the_disk(server, tmp_path):
    news = server.newest("a")
    pushed = server.push("a", blob(0), 0)
    assert fetched(news)["version"] == 0
    assert not pushed.done()
    server.poll()
    assert pushed.result(0) == 0
    assert ParameterStore(tmp_path / "p").get("a")["version"] == 0


def test_tags_evaluations_and_what_was_forgotten_are_on_the_disk_before_the_answer(server, tmp_path):
    for version in range(3):
        server.push("a", blob(version), version)
    answers = [server.tag("a", 2, "mine"), server.tag_best("a", 1, {"r": 5.0}, "r", "best"), server.roll_back("a", 1)]
    assert not any(answer.done() for answer in answers)
    server.poll()
    assert [answer.result(0) for answer in answers] == [None, True, [2]]
    again = ParameterStore(tmp_path / "p")
    assert again.versions("a") == [0, 1]
    assert again.tags("a") == {"latest": 1, "best": 1}
    assert again.metadata("a", 1)["r"] == 5.0


def test_written_versions_are_read_from_the_disk(server):
    given = np.array(blob(0))
    server.push("a", given, 0)
    server.poll()
    given[:] = 0  # whose memory it was may use it again
    server.push("a", blob(1), 1, ("best",))
    server.roll_back("a", 0)
    assert fetched(server.newest("a"))["version"] == 0


def test_who_pushed_hears_of_a_disk_that_cannot_be_written_to(server, tmp_path):
    pushed = server.push("a", blob(0), 0)
    shutil.rmtree(tmp_path / "p")
    with pytest.raises(CheckpointError, match="cannot be written"):
        server.poll()
    with pytest.raises(PeerLostError, match="could not write"):
        pushed.result(0)


def test_all_is_on_the_disk_when_it_was_closed(server, tmp_path):
    pushed, news = server.push("a", blob(0), 0), server.newest("b")
    server.close()
    assert pushed.result(0) == 0
    assert ParameterStore(tmp_path / "p").versions("a") == [0]
    for answer in (news, server.push("a", blob(1), 1), server.newest("a")):
        with pytest.raises(PeerLostError):
            answer.result(0)


def test_in_memory_it_keeps_a_copy(tmp_path):
    server = ParameterServer(Context("store", 0, connect=lambda name: None), None)
    given = np.array(blob(0))
    server.push("a", given, 0)
    given[:] = 0
    server.poll()
    assert fetched(server.newest("a"))["version"] == 0


def test_a_version_is_read_once_however_many_ask_for_it_and_tags_need_none(server, tmp_path):
    first = server.newest("a")
    server.push("a", blob(0), 0)
    server.poll()
    (tmp_path / "p" / "a" / "0.safetensors").unlink()
    assert fetched(first)["version"] == fetched(server.newest("a"))["version"] == 0
    server.tag_best("a", 0, {"r": 1.0}, "r", "best")
    server.poll()
    assert server._store.tags("a") == {"latest": 0, "best": 0}
