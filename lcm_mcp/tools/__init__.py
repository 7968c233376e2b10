"""The tools a client sees, one a file; which there are stands in toolsets.

The tools speak to the service alone, and none takes a path. Importing this package loads none of them: a
server says what it offers before it loads what answers.
"""

from __future__ import annotations

from typing import Literal

ToolsetName = Literal["read", "agent", "all"]
"""What one client is given of the tools."""
