"""The message formats, by the names that prepare_context takes.

Each format is one module; adding one means a module and a line in the table here. A format takes
values and gives values: no I/O, no settings, no estimates.
"""

from __future__ import annotations

from collections.abc import Mapping

from lcm_mcp.projection.formats import anthropic, neutral, openai, text
from lcm_mcp.projection.model import Format, Projection, Rendered
from lcm_mcp.projection.wire import Dialect, assemble

DIALECTS: Mapping[Format, Dialect] = {
    "messages": neutral.DIALECT,
    "anthropic": anthropic.DIALECT,
    "openai": openai.DIALECT,
}


def render(projection: Projection, form: Format) -> Rendered:
    """Turn a projection into the messages of a format, preamble not included."""
    dialect = DIALECTS.get(form)
    return text.render(projection) if dialect is None else assemble(projection, dialect)
