"""Files that are one JSON document: told from JSON lines by how they begin, and read whole.

A document is at most as long as a line may be. What is wrong in it is what may be wrong in a line; a document
that was cut short holds nothing that can be read.
"""

from __future__ import annotations

import io
import re
from pathlib import Path

from lcm_mcp.transcript.blocks import Block
from lcm_mcp.transcript.importers.compressed import open_transcript
from lcm_mcp.transcript.importers.jsonl import MAX_LINE_BYTES, BadLine, LineEnd, Object, read_lines

BEFORE_TEXT = b"\xef\xbb\xbf \t\r\n"
# Over several lines, or an array of objects: its inner lines may look like records.
_DOCUMENT = re.compile(rb"[\[{][ \t]*\r?\n|\[\s*\{")
_WRAPPED = "document"


def is_document(head: bytes) -> bool:
    """Whether a file that begins so is one JSON document, not JSON lines."""
    return _DOCUMENT.match(head.lstrip(BEFORE_TEXT)) is not None


def document_object(path: Path) -> Object | BadLine:
    """A file's document, as the field "document" of an object. Raises OSError."""
    with open_transcript(path) as file:
        content = file.read(MAX_LINE_BYTES - 100).lstrip(BEFORE_TEXT)
        if file.read(1):
            return BadLine(1, 0, f"the document is longer than {MAX_LINE_BYTES // (1024 * 1024)} MB")
    # No string of JSON holds a line's end, so that the document is one line without them.
    line = b'{"' + _WRAPPED.encode() + b'":' + content.replace(b"\n", b" ").replace(b"\r", b" ") + b"}"
    found = next((each for each in read_lines(io.BytesIO(line)) if not isinstance(each, LineEnd)), None)
    if isinstance(found, Object) and len(found.value) == 1:
        return found
    problem = found.problem if isinstance(found, BadLine) else "more than a document stands in it"
    return BadLine(1, 0, problem)


def json_object(content: bytes) -> Block | None:
    """The one JSON object that stands in some bytes, None where there is none."""
    line = content.replace(b"\n", b" ").replace(b"\r", b" ")
    found = next((each for each in read_lines(io.BytesIO(line)) if not isinstance(each, LineEnd)), None)
    return found.value if isinstance(found, Object) else None
