"""The use cases, over one open store.

Everything a tool or a command does is a method here; wiring happens only here. Wrong input is refused
with an LcmError before anything is written, and a read writes nothing.
"""

from __future__ import annotations
