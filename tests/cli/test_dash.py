"""The live page: for whoever has the token, under this machine's own names, read-only, and there at once."""

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from argosy.cli.live import Dash, Dashboard, new_token, page_maker
from argosy.errors import ConfigError

ROOT = Path(__file__).parents[2]


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer.status, dict(answer.getheaders()), answer.read().decode()


@pytest.fixture
def serve():
    servers = []

    def start(make, **options):
        servers.append(Dashboard(make, 0.05, **options))
        threading.Thread(target=servers[-1].run, daemon=True).start()
        return servers[-1]

    yield start
    for server in servers:
        server.shutdown()


def until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def make_run(folder, name, steps=3):
    folder.mkdir(parents=True)
    config = {"algorithm": name, "task": name, "seed": 0, "config": {name: name}}
    (folder / "config.json").write_text(json.dumps(config))
    rows = [{"env_step": step, "test/return_mean": float(step), name: 1.0} for step in range(steps)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ConfigError, match="there is no folder 'nowhere'"):
        Dash(runs=(str(tmp_path), "nowhere"))()


def test_only_who_has_the_token_gets_the_page_and_nothing_else_is_there(serve):
    server = serve(lambda: "the page", token="right")
    until(lambda: ask(server, "/?token=right")[2] == "the page")
    assert server.url == f"http://127.0.0.1:{server.server_port}/?token=right"
    for path in ("/", "/?token=", "/?token=wrong", "/?token=right2", "/?token=%ff", "/?t=right"):
        status, _, body = ask(server, path)
        assert status == 403
        assert "the page" not in body
    for path in ("/x?token=right", "/../etc/passwd?token=right", "/config.json?token=right"):
        assert ask(server, path)[0] == 404
    for method in ("POST", "PUT", "DELETE", "OPTIONS"):
        assert ask(server, "/?token=right", method)[0] == 501
    status, headers, body = ask(server, "/?token=right", "HEAD")
    assert (status, body) == (200, "")
    assert headers["Cache-Control"] == "no-store"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "default-src 'none'" in headers["Content-Security-Policy"]


def test_what_is_folded_is_open_for_who_asks_so(serve):
    server = serve(lambda: "<details>&lt;details&gt;", token="right")
    until(lambda: ask(server, "/?token=right")[2] == "<details>&lt;details&gt;")
    assert ask(server, "/?token=right&open")[2] == "<details open>&lt;details&gt;"
    assert ask(server, "/?open")[0] == 403


def test_a_page_of_another_site_that_leads_here_by_its_name_gets_nothing(serve):
    server = serve(lambda: "the page", token=None)
    until(lambda: ask(server, "/")[2] == "the page")
    port = server.server_port
    for host, status in [(f"localhost:{port}", 200), (f"127.0.0.1:{port}", 200), (f"evil.example:{port}", 403),
                         ("127.0.0.1", 403), (f"localhost:{port}.evil.example", 403), ("", 403)]:  # fmt: skip
        assert ask(server, "/", Host=host)[0] == status, host


def test_what_others_can_reach_needs_a_token_and_a_port_must_be_free():
    with pytest.raises(ConfigError, match="do not leave the token out"):
        Dashboard(str, host="0.0.0.0")
    with Dashboard(str, token="x") as server, pytest.raises(ConfigError, match="--port takes another"):
        Dashboard(str, port=server.server_port)
    assert len({new_token() for _ in range(100)}) == 100
    assert len(new_token()) >= 32


def test_the_page_follows_runs_and_their_names_stay_text(tmp_path, serve):
    name = "<script>alert(1)</script>\"'&"
    server = serve(page_maker([str(tmp_path)], None, 2.0))
    until(lambda: "not readable: " in ask(server, "/")[2])  # no run yet
    make_run(tmp_path / "a", name)
    until(lambda: "1 runs" in ask(server, "/")[2])
    make_run(tmp_path / "b", "ppo")
    until(lambda: "2 runs" in ask(server, "/")[2])
    body = ask(server, "/")[2]
    assert 'http-equiv="refresh" content="2"' in body
    assert "<script" not in body
    assert "&lt;script&gt;" in body
    assert not re.search(r"<[^>]*\son\w+=", body)
    with (tmp_path / "b" / "metrics.jsonl").open("a") as file:
        file.write('{"env_step": 9, "test/return_mean": 77.5}\n')
    until(lambda: "77.5" in ask(server, "/")[2])


def test_the_same_runs_are_not_rendered_again(tmp_path):
    make_run(tmp_path / "a", "ppo")
    make = page_maker([str(tmp_path)], None, 5.0)
    assert make() is make()


def test_a_page_that_fails_is_tried_again(serve):
    pages = iter([None, "the page", *["the page"] * 1000])
    server = serve(lambda: next(pages) or 1 / 0)
    until(lambda: ask(server, "/")[2] == "the page")


def test_it_is_there_at_once_with_500_runs(tmp_path):
    for number in range(500):
        make_run(tmp_path / str(number), f"algorithm{number % 25}", steps=10)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = f"import sys; from argosy.cli import main; main(['dash', {str(tmp_path)!r}, '--port', '{port}'])"
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen([sys.executable, "-c", command], env=env, stdout=subprocess.PIPE, text=True)
    try:
        began = time.monotonic()
        url = re.search(r"http://127\.0\.0\.1:\d+(\S+)", process.stdout.readline())
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", url.group(1))
        answer = connection.getresponse()
        assert answer.status == 200
        assert "being read" in answer.read().decode()  # nothing heavy has been imported yet
        assert time.monotonic() - began < 10  # a hang; a quiet machine takes well below 2 s
    finally:
        process.kill()
        process.wait()
