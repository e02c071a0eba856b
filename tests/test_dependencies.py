"""The locks against pyproject.toml: every package is pinned for every system, with hashes. The licences are known."""

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.dependencies import (
    ELSEWHERE,
    EXPLAINED,
    LOCK,
    MACHINES,
    MODELS,
    PAGE,
    PERMISSIVE,
    PIN,
    PROJECT,
    identifiers,
    licence,
    lines,
    parts,
    pins,
    project,
    users,
)

ROW = re.compile(r"^\| ([\w.-]+) \| [\w.]+ \| (.+?) \|", re.MULTILINE)


def wanted() -> list[Requirement]:
    """Return the requirements of pyproject.toml that `make setup` installs from the lock."""
    groups = project()["dependency-groups"]
    texts = [text for name in ("dev", "build") for text in groups[name]]
    return [one for part, some in parts().items() if part != "models" for one in some] + list(map(Requirement, texts))


def rows() -> dict[str, str]:
    """Return the packages of docs/licences.md, with their licences."""
    found = ROW.findall(PAGE.read_text("utf-8"))
    return dict(found[1:] if found[0][0] == "package" else found)


@pytest.mark.parametrize("lock", [LOCK, MODELS], ids=lambda lock: lock.name)
def test_every_line_of_a_lock_is_one_version_with_hashes_and_names_no_place(lock: Path) -> None:
    assert lines(lock)
    assert [line for line in lines(lock) if not PIN.fullmatch(line)] == []
    comments = [line for line in lock.read_text("utf-8").splitlines() if line.startswith("#")]
    assert [line for line in comments if re.search(r"://|index|[/\\]\w", line)] == []


@pytest.mark.parametrize("line", ["numpy==2.4.6", "numpy @ file:///n.whl --hash=sha256:" + "0" * 64, "--index-url x"])
def test_a_line_without_version_or_hash_would_be_noticed(line: str) -> None:
    assert not PIN.fullmatch(line)


@pytest.mark.parametrize("machine", MACHINES, ids=lambda one: "-".join(list(one.values())[1:4]))
def test_the_lock_has_one_version_of_every_dependency_and_the_ranges_allow_it(machine: dict[str, str]) -> None:
    found = pins(LOCK, machine)
    versions = dict(found)
    assert len(versions) == len(found)
    here = [one for one in wanted() if not one.marker or one.marker.evaluate(machine)]
    assert [str(one) for one in here if canonicalize_name(one.name) not in versions] == []
    assert [str(one) for one in here if not one.specifier.contains(versions[canonicalize_name(one.name)])] == []


def test_the_lock_of_models_has_those_of_the_project_and_no_other() -> None:
    models = project()["dependency-groups"]["models"]
    assert sorted("==".join(pin) for pin in pins(MODELS, MACHINES[0])) == sorted(models)


def test_make_setup_runs_again_when_a_lock_changes() -> None:
    makefile = (PROJECT / "Makefile").read_text("utf-8")
    assert f"LOCKS  := tests/{LOCK.name} tests/{MODELS.name}\n" in makefile
    assert re.search(r"^\$\(READY\):.* \$\(LOCKS\)$", makefile, re.MULTILINE)


def test_the_page_of_licences_lists_every_package_that_pkb_runs_with_and_no_other() -> None:
    assert sorted(rows()) == sorted(users())
    assert set(users()) - {name for lock in (LOCK, MODELS) for one in MACHINES for name, _ in pins(lock, one)} == set()


def test_no_licence_asks_for_more_than_a_notice_unexplained() -> None:
    asking = {name for name, text in rows().items() if identifiers(text) - PERMISSIVE}
    assert asking == set(EXPLAINED)


def test_the_page_has_the_licences_that_the_installed_packages_declare() -> None:
    assert {name: text for name, text in rows().items() if text != licence(name)} == {}


def test_packages_of_other_systems_have_the_licence_that_they_declare_where_they_are_installed() -> None:
    assert {name: licence(name) for name in ELSEWHERE} == ELSEWHERE
