"""JUnit's XML: a suite per level, a case per check."""

import xml.etree.ElementTree as ET

from ..check import base_id
from ..levels import LEVELS, find

# What XML cannot hold, such as the escapes of a terminal.
CONTROL = {code: None for code in range(32) if chr(code) not in "\t\n\r"}


def document(run, guide):
    """The text of the file."""
    root = ET.Element("testsuites", name=f"torch_conformance {run.device}")
    for level in LEVELS:
        results = run.of_level(level.number)
        if not results:
            continue
        suite = ET.SubElement(
            root,
            "testsuite",
            name=f"level {level.number}: {level.title}",
            tests=str(len(results)),
            failures=str(sum(r.good is False for r in results)),
            skipped=str(sum(r.status in ("absent", "expected") for r in results)),
            time=f"{sum(r.seconds for r in results):.3f}",
        )
        for result in results:
            add_case(suite, result, guide)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def add_case(suite, result, guide):
    """One check."""
    group, name = result.id.split(".", 1)
    seconds = f"{result.seconds:.3f}"
    case = ET.SubElement(suite, "testcase", classname=group, name=name, time=seconds)
    message = result.message.translate(CONTROL)
    check = find(base_id(result.id))
    if result.good is False:
        failure = ET.SubElement(case, "failure", type=result.status, message=message)
        failure.text = (
            f"{check.proves}\ncall: {check.call}\nwrite: {check.write}\n"
            f"guide: {guide}/{check.page}"
        )
    elif result.status != "passed":
        ET.SubElement(case, "skipped", message=f"{result.status}: {message}")
