"""The values of a projection: what goes into a wire format, and what comes out.

A projection is history (summaries already rendered, fenced and escaped) and a tail of rows. A format
turns it into messages; each says which rows it shows, and the notes count what could not be shown as
it was. Nothing here reads a store, measures tokens, or knows any provider's JSON.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from lcm_mcp.transcript.model import JsonObject, Row
from lcm_mcp.values import frozen

Format = Literal["messages", "anthropic", "openai", "text"]
FORMATS: tuple[Format, ...] = ("messages", "anthropic", "openai", "text")


@frozen
class TailRow:
    """A row shown verbatim, with the address to cite it by ("e104", or "s7/e104"). Images are loaded."""

    ref: str
    row: Row


@frozen
class Projection:
    """What a request shows after its preamble: history (None: no cut yet), then rows, oldest first.

    Where it continues, the tail is the end of a longer one, from a row on at which a message begins
    (wire.begins_message); only the end is rendered.
    """

    history: str | None
    tail: Sequence[TailRow]
    continues: bool = False


@frozen
class Notes:
    """How many things a rendering could not show in their native form, as counts of parts.

    renamed_calls are native, under another id than the stored one.
    """

    labelled_calls: int = 0
    labelled_results: int = 0
    reasoning_left_out: int = 0
    images_as_metadata: int = 0
    opaque_left_out: int = 0
    renamed_calls: int = 0

    def __add__(self, other: Notes) -> Notes:
        return Notes(
            self.labelled_calls + other.labelled_calls,
            self.labelled_results + other.labelled_results,
            self.reasoning_left_out + other.reasoning_left_out,
            self.images_as_metadata + other.images_as_metadata,
            self.opaque_left_out + other.opaque_left_out,
            self.renamed_calls + other.renamed_calls,
        )


@frozen
class Message:
    """One message of a request: `body` is the format's JSON, "role" included.

    sources are the rows it accounts for, oldest first. Over all messages they are the tail's
    refs, each once and in order: a row split over several messages belongs to the first of them, a row
    with nothing to show to the message after it (at the end: before it). History and invented messages
    account for none.
    """

    role: str
    body: JsonObject
    sources: tuple[str, ...]


@frozen
class Rendered:
    messages: tuple[Message, ...]
    notes: Notes
