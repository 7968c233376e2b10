"""The message formats, by the names that prepare_context takes.

Each format is one module; adding one means a module and a line in each table here. A format takes
values and gives values: no I/O, no settings, no estimates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from lcm_mcp.projection.formats import anthropic, neutral, openai, text
from lcm_mcp.projection.model import Format, Message, Projection, Rendered
from lcm_mcp.projection.wire import Dialect, assemble

DIALECTS: Mapping[Format, Dialect] = {
    "messages": neutral.DIALECT,
    "anthropic": anthropic.DIALECT,
    "openai": openai.DIALECT,
}
CHECKS: Mapping[Format, Callable[[Sequence[Message]], list[str]]] = {
    "messages": neutral.check,
    "anthropic": anthropic.check,
    "openai": openai.check,
    "text": text.check,
}


def render(projection: Projection, form: Format) -> Rendered:
    """Turn a projection into the messages of a format, preamble not included."""
    dialect = DIALECTS.get(form)
    return text.render(projection) if dialect is None else assemble(projection, dialect)


def check_order(messages: Sequence[Message], form: Format) -> list[str]:
    """Say what a provider would refuse in the order of these messages; empty where it is valid."""
    return CHECKS[form](messages)
