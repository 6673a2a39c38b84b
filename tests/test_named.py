"""Classes by name."""

import collections
import json
import re

import pytest

from argosy import named
from argosy.errors import ConfigError, TrustError
from argosy.named import Registry, check_trusted, trust_names, trust_written


def test_a_class_is_found_by_its_name_given_as_itself_or_by_module():
    registry = Registry("shape", {"ordered": ("OrderedDict", "collections")})
    registry.register("plain", dict)
    assert registry.load("plain") is dict
    assert registry.load("ordered").__name__ == "OrderedDict"
    assert registry.load("collections:Counter").__name__ == "Counter"
    assert registry.names() == ["ordered", "plain"]
    assert "plain" in registry
    assert "collections:Counter" not in registry


def test_registries_do_not_share_names():
    known = {"ordered": ("OrderedDict", "collections")}
    Registry("shape", known).register("plain", dict)
    assert "plain" not in Registry("shape", known)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("orderd", "unknown shape 'orderd'; did you mean 'ordered'"),
        ("collections:Missing", "shape 'collections:Missing': 'Missing' could not be imported from 'collections'"),
        ("no_such_module:Thing", "could not be imported from 'no_such_module'"),
    ],
)
def test_what_cannot_be_found_is_named(name: str, message: str):
    with pytest.raises(ConfigError, match=re.escape(message)):
        Registry("shape", {"ordered": ("OrderedDict", "collections")}).load(name)


def test_names_are_given_once_and_with_a_module():
    registry = Registry("shape", {"ordered": ("OrderedDict", "collections")})
    with pytest.raises(ConfigError, match="shape 'ordered' is registered already"):
        registry.register("ordered", dict)
    with pytest.raises(ConfigError, match="needs module="):
        registry.register("counter", "Counter")


@pytest.fixture
def nothing_trusted(monkeypatch):
    monkeypatch.setattr(named, "_TRUSTED", set())


def test_a_class_has_one_name(nothing_trusted):
    registry = Registry("shape", {"ordered": ("OrderedDict", "collections")})
    assert registry.name_of(collections.OrderedDict) == "ordered"
    assert registry.name_of(collections.Counter) == "collections:Counter"
    assert registry.load("collections:Counter") is collections.Counter
    anew = type("Counter", (), {"__module__": "collections"})
    assert registry.name_of(anew) == "collections:Counter"
    assert registry.load("collections:Counter") is anew


def test_classes_within_classes_are_found():
    assert Registry("shape").load("argosy.named:Registry.register") is Registry.register


def test_code_that_a_file_names_has_to_be_named_by_the_user(nothing_trusted):
    data = {"a": ["x:X", {"b": "y:Y"}], "c": "plain", "device": "cuda:1", "d": 3}
    with pytest.raises(TrustError, match=re.escape("'f' names code that would be imported: a 'x:X', a.b 'y:Y'; ")):
        check_trusted(data, "'f'", but=("device",))
    trust_names({"anywhere": "x:X"})
    Registry("shape").register("y:Y", dict)
    check_trusted(data, "'f'", but=("device",))


def test_what_a_user_wrote_down_is_not_asked_for_again_in_the_same_folder(nothing_trusted, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    data = {"task": "mine:Env", "env": {"kwargs": {"size": 3}}, "sizes": (1, 2)}
    trust_written(data)
    trust_written(data)
    assert len((tmp_path / "state/argosy/written").read_text().splitlines()) == 1
    named._TRUSTED.clear()  # a later process
    check_trusted(json.loads(json.dumps(data)), "'f'")
    named._TRUSTED.clear()
    with pytest.raises(TrustError):  # the same names, another argument
        check_trusted(data | {"env": {"kwargs": {"size": 4}}}, "'f'")
    monkeypatch.chdir(tmp_path)  # where another module may have that name
    with pytest.raises(TrustError):
        check_trusted(data, "'f'")
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    trust_written(data)  # nowhere to note it


def test_where_there_is_no_name_the_form_of_one_s_own_is_told():
    with pytest.raises(ConfigError, match="unknown thing 'mine'; one of your own is MODULE:NAME"):
        Registry("thing", {}).source("mine")
