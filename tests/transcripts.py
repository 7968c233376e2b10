"""Transcript files for tests: the samples that the tests carry, and ones made up on the spot."""

from __future__ import annotations

import json
from pathlib import Path

SAMPLES = Path(__file__).parent / "data" / "claude-code"


def neutral_file(path: Path, *texts: str) -> Path:
    """A transcript in neutral JSON lines at that path, user and assistant in turns."""
    roles = ("user", "assistant")
    lines = [json.dumps({"role": roles[n % 2], "content": text}) for n, text in enumerate(texts)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path
