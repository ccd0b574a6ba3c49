"""The directive `operators-table`: rows of `python -m torch_openreg.ops`.

    ```{operators-table}
    :key: PrivateUse1
    ```

It asks the package that is installed, so the table is that of the code. `:counts:`
gives the number of operators by tier instead. For a key other than that of dense
tensors only openreg's own kernels are told: what PyTorch fills in by itself for
every backend is no news.
"""

from collections import Counter
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective


def load_ops():
    """`torch_openreg.ops`, or an error that says how to get it."""
    try:
        from torch_openreg import ops
    except ImportError as error:
        raise ExtensionError(
            "the table of operators needs torch_openreg; `make build` builds it",
            error,
        ) from error
    return ops


def counts(found):
    """How many operators each tier has, as a table."""
    tiers = Counter((operator.tier, operator.runs) for operator in found)
    rows = (f"| {tier} | {runs} | {n} |" for (tier, runs), n in tiers.most_common())
    return "\n".join(["| tier | runs | operators |", "| --- | --- | ---: |", *rows])


class OperatorsTable(SphinxDirective):
    option_spec = {"key": directives.unchanged, "counts": directives.flag}

    def run(self) -> list[nodes.Node]:
        ops = load_ops()
        package = Path(ops.__file__).parent
        for source in (Path(ops.__file__), *sorted(package.glob("lib/*.so"))):
            self.env.note_dependency(str(source))
        key = self.options.get("key", ops.DENSE)
        if key not in ops.KEYS:
            raise self.error(f"no such key: {key}; there are {', '.join(ops.KEYS)}")
        own = [tier for tier in ops.ALL_TIERS if tier not in ("composite", "other")]
        found = ops.operators(key=key, tiers=() if key == ops.DENSE else own)
        if not found:
            return self.parse_text_to_nodes("None yet.")
        if "counts" in self.options:
            return self.parse_text_to_nodes(counts(found))
        box = nodes.container(classes=["operators-table"])
        box += self.parse_text_to_nodes(ops.markdown(found))
        return [box]


def setup(app: Sphinx) -> dict[str, object]:
    app.add_directive("operators-table", OperatorsTable)
    app.add_js_file("operators_table.js")
    return {"parallel_read_safe": True, "parallel_write_safe": True}
