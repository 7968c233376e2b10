"""Numbers with their words: plain where a model may read them, with thousands apart for people."""

from __future__ import annotations


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 row`, `1200 rows`."""
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 row`, `1,200 rows`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"
