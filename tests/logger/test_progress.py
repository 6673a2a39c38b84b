"""The progress bar: where it stands, and that it shows nothing where there is no terminal."""

import sys

from argosy.logger import ProgressBar


def test_on_a_terminal_it_goes_on_from_where_it_was_opened_and_ends_at_the_total(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    bar = ProgressBar(True, unit="row")
    bar.open(total=20, position=10)
    bar.move(15)
    assert bar._bar.n == 15
    bar.show(loss=0.25)
    bar.move(27)
    assert bar._bar.n == 20
    bar.show(test=3.0)
    bar.close()
    assert "loss=0.25, test=3" in capsys.readouterr().err
    bar.open(total=20, position=20)
    bar.close()


def test_without_a_terminal_it_writes_nothing_but_lines(capsys):
    for enabled in (True, False):
        bar = ProgressBar(enabled)
        bar.open(total=10, position=0)
        bar.move(5)
        bar.show(loss=1.0)
        bar.close()
    assert capsys.readouterr().err == ""
    bar.write("a line")
    assert capsys.readouterr().err == "a line\n"
