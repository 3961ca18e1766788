"""What modules brought is frozen once, and again only when more modules came."""

from __future__ import annotations

import gc
import sys
from types import ModuleType

import pytest

from standfast.spark import thrift


@pytest.fixture
def unfrozen(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(thrift, "_seen", [0])
    yield
    gc.unfreeze()


def test_objects_of_modules_are_frozen_once(unfrozen, monkeypatch):
    before = len(gc.get_objects())
    thrift.spare_modules()
    frozen = gc.get_freeze_count()
    assert frozen > before // 2
    assert len(gc.get_objects()) < before // 10, "a collection has little to look at"
    later = [[] for _ in range(1000)]
    thrift.spare_modules()
    assert gc.get_freeze_count() <= frozen, "what comes later is collected as ever"
    monkeypatch.setitem(sys.modules, "a module that came", ModuleType("came"))
    thrift.spare_modules()
    assert gc.get_freeze_count() > frozen + 900
    assert len(later) == 1000
