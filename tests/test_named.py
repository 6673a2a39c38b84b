"""Classes by name."""

import re

import pytest

from argosy.errors import ConfigError
from argosy.named import Registry


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
