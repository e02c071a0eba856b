"""What tests cost in processor seconds, their processes included: `make test-budget`, which fails above the limits.

Other programs change these figures by a tenth or more, and the machine does: the limits are meant for two quiet cores.
"""

import resource
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib import import_module

import pytest

TEST_S, ALL_S = 2.0, 480.0  # of one test that is not marked slow; of all of them
_SETUP, _CALL = "processor seconds of fixtures", "processor seconds"
_spent = dict[str, dict[str, float]]()


def _seconds() -> float:
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


@contextmanager
def _timed(item: pytest.Item, name: str) -> Iterator[None]:
    began = _seconds()
    try:
        yield
    finally:
        item.user_properties.append((name, _seconds() - began))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None]:
    """Note what the fixtures of a test cost; the first test pays for what others share."""
    with _timed(item, _SETUP):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Note what a test costs."""
    with _timed(item, _CALL):
        return (yield)


def pytest_collection_finish() -> None:
    """Import what takes two seconds, which one test would pay for all."""
    import_module("store.tables")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect what was noted, here or in a worker."""
    if report.when == "teardown":
        noted = [pair for pair in report.user_properties if pair[0] in (_SETUP, _CALL)]
        _spent[report.nodeid] = {name: float(str(seconds)) for name, seconds in noted}


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where tests cost too much."""
    if session.exitstatus == 0 and not hasattr(session.config, "workerinput") and (_dear() or _sum() > ALL_S):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show what each folder costs, and the tests above the limit."""
    folders: dict[str, list[float]] = {}
    for name, parts in _spent.items():
        folders.setdefault("/".join(name.split("::")[0].split("/")[:-1][:3]), []).append(sum(parts.values()))
    terminalreporter.section("processor seconds")
    for folder, costs in sorted(folders.items(), key=lambda pair: -sum(pair[1])):
        terminalreporter.write_line(f"{sum(costs):8.1f} {len(costs):5} {folder}")
    terminalreporter.write_line(f"{_sum():8.1f} {len(_spent):5} all, of {ALL_S:g}")
    for seconds, name in sorted(_dear(), reverse=True):
        terminalreporter.write_line(f"{seconds:8.1f}       {name}")


def _sum() -> float:
    return sum(sum(parts.values()) for parts in _spent.values())


def _dear() -> list[tuple[float, str]]:
    return [(parts[_CALL], name) for name, parts in _spent.items() if parts.get(_CALL, 0.0) > TEST_S]
