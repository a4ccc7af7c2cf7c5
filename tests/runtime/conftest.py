"""The hand-made models, each built once a test run."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from tests.runtime import handmade
from tests.runtime.handmade import FLOAT, INT64, Workshop


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Workshop:
    if platform.machine() != "x86_64":
        pytest.skip("the hand-made models are for x86-64")
    return Workshop(tmp_path_factory.mktemp("workshop"))


@pytest.fixture(scope="session")
def add(workshop: Workshop) -> Path:
    return workshop.library(handmade.add())


@pytest.fixture(scope="session")
def positive(workshop: Workshop) -> Path:
    return workshop.library(handmade.simple("positive", INT64, ("N",), ("M",)))


@pytest.fixture(scope="session")
def gather(workshop: Workshop) -> Path:
    errors = ("not this one", "node 'Gather_3' (Gather): index out of range")
    return workshop.library(handmade.simple("gather", INT64, ("N",), ("N",), FLOAT, errors=errors))


@pytest.fixture(scope="session")
def meeting(workshop: Workshop) -> Path:
    return workshop.library(handmade.simple("meeting", INT64, (2,), (1,)))


@pytest.fixture(scope="session")
def regions(workshop: Workshop) -> Path:
    manifest = handmade.simple("regions", INT64, (3,), ("extent",))
    return workshop.library(manifest)
