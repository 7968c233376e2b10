"""Numbers with their words, as the service and the tools say them."""

from __future__ import annotations


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 row`, `1200 rows`."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"
