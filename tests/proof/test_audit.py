"""`make audit` says plainly whether anything is known, nothing is, or nobody could be asked."""

from __future__ import annotations

import pytest
from audit import verdict

SOUND = {"name": "a", "version": "1", "vulns": []}
WEAK = {"name": "b", "version": "2", "vulns": [{"id": "CVE-1", "fix_versions": ["3"]}]}
UNKNOWN = {"name": "c", "skip_reason": "c: not found"}


@pytest.mark.parametrize(
    ("packages", "status", "said"),
    [
        pytest.param([SOUND], 0, ["audit: nothing is known against any of 1 packages"], id="none weak"),
        pytest.param(
            [SOUND, WEAK, UNKNOWN], 1, ["b 2: CVE-1, mended in 3", "audit: 1 known weaknesses"], id="one weak"
        ),
        pytest.param(
            [SOUND, UNKNOWN],
            2,
            ["c: not found", "audit: NOT AUDITED: no answer about 1 packages"],
            id="one not asked about",
        ),
        pytest.param(
            [], 2, ["no route", "audit: NOT AUDITED: no answer about all packages"], id="no service"
        ),
    ],
)
def test_the_verdict(packages, status, said):
    """Exit status and words follow what the service answered, and no answer is not taken for a good one."""
    found, lines = verdict(packages, "no route")
    assert found == status
    assert [line[: len(begin)] for line, begin in zip(lines, said, strict=False)] == said
