"""Findings as files: JSON, and a page for each."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ._finding import Finding
from ._page import page


def save(findings: Sequence[Finding], path: str | Path) -> None:
    """`path` gets the JSON; the pages are next to it: report.json, report.1.html."""
    path = Path(path)
    for number, finding in enumerate(findings, 1):
        beside = path.with_suffix(f".{number}.html")
        beside.write_text(page(finding), encoding="utf-8")
        finding.page = beside.name
    text = {"version": 1, "findings": [finding.to_dict() for finding in findings]}
    path.write_text(json.dumps(text, indent=2) + "\n", encoding="utf-8")
