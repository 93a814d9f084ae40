"""The suite's own rules: every skip says why; of large tables `make test` takes a part, and `make soak` the whole."""

from __future__ import annotations

import gc
import signal
from collections import Counter
from collections.abc import Generator

import pytest
from hypothesis import settings

# A deadline measures how busy the machine is. The suite ends in time on slow ones; the soak tries more.
settings.register_profile("suite", max_examples=30, deadline=None)
settings.register_profile("soak", max_examples=5_000, deadline=None)
settings.load_profile("suite")

_reasons: Counter[str] = Counter()

# What pytest writes where a test was skipped and nobody said why.
NO_REASON = {"", "unconditional skip", "<Skipped instance>"}


def pytest_configure() -> None:
    """A shell that runs this in the background has children ignore Ctrl-C, which tests send to theirs."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is marked
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Of a table of cases, `make test` takes the rows and columns that are named, and `make soak` the whole."""
    for item in items:
        for marker in item.iter_markers("representative"):
            given = item.callspec.id if isinstance(item, pytest.Function) and hasattr(item, "callspec") else ""
            if not set(marker.args) & set(given.split("-")):
                item.add_marker(pytest.mark.soak)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collecting makes no garbage, and a search for it takes half the time; what was collected lives until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def _reason(report: pytest.TestReport | pytest.CollectReport) -> str:
    _path, _line, text = report.longrepr if isinstance(report.longrepr, tuple) else ("", 0, "")
    return text.removeprefix("Skipped").removeprefix(":").strip()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and _reason(report) in NO_REASON:
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} is skipped without a reason: say what is missing and how to get it"
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        _reasons[_reason(report)] += 1


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.skipped:
        _reasons[_reason(report)] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _reasons:
        terminalreporter.section("skipped, and why")
        for reason, count in _reasons.most_common():
            terminalreporter.line(f"{count:4d}  {reason}")
