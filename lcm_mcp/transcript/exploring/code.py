"""Code: told by its top-level declarations.

Python is parsed where that is short work; every other language, and Python that does not parse, is read by a
pattern of lines. A declaration is top-level where it stands at the margin, or in something that only holds
others, such as a namespace. A body in which its path's language declares nothing is not taken for code.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator

from lcm_mcp.transcript.exploring.bodies import Body
from lcm_mcp.transcript.exploring.languages import BY_EXTENSION, BY_NAME, LANGUAGES, PYTHON, Language
from lcm_mcp.transcript.exploring.naming import Named, grouped
from lcm_mcp.wording import counted

LONGEST_LINE = 300
PARSED_CHARACTERS = 200_000
_SIGNS_LEAST, _SIGNS_CHARACTERS = 3, 20_000
_COMMENT = ("//", "/*", "*", "#!", "--")

_NAMES = ("name", "name2", "name3")

Found = tuple[str, str]


def declared(body: Body) -> Found | None:
    """Code in the language that the path says."""
    language = BY_EXTENSION.get(body.extension) or BY_NAME.get(body.name)
    if body.extension == "h" and re.search(r"^(?:class|namespace|template)\b", body.ruled, re.MULTILINE):
        language = BY_EXTENSION["hpp"]
    return None if language is None else _told(language, body)


def guessed(body: Body) -> Found | None:
    """Code under a path that says nothing: the language of which there are most signs, if there are some."""
    if body.extension and body.extension not in ("txt", "in", "tmpl", "template", "bak", "orig"):
        return None
    text = body.text[:_SIGNS_CHARACTERS]
    signs = {each.name: len(each.sign.findall(text)) for each in LANGUAGES}
    best = max(LANGUAGES, key=lambda each: signs[each.name])
    enough = signs[best.name] >= _SIGNS_LEAST or (text.startswith(("#!", "<?php")) and signs[best.name])
    return _told(best, body) if enough else None


def _told(language: Language, body: Body) -> Found | None:
    names = _parsed(body) if language is PYTHON else None
    if names is None:
        names = list(_ruled(language, body.ruled))
    if not names:
        return None
    return language.name, grouped(counted(body.lines, "line"), names)


# --- Python, parsed


def _parsed(body: Body) -> list[Named] | None:
    """What Python's own parser says; None where it cannot read the body, or that would take long."""
    if not body.whole or len(body.text) > PARSED_CHARACTERS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the file's own, such as an invalid escape
            tree = ast.parse(body.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return [named for statement in tree.body for named in _python(statement)]


def _python(statement: ast.stmt) -> Iterator[Named]:
    match statement:
        case ast.ClassDef(name=name):
            yield "class", name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield "def", name
        case ast.Assign(targets=targets):
            names = (each.id for each in targets if isinstance(each, ast.Name))
            yield from (("const", name) for name in names if name.isupper())
        case ast.AnnAssign(target=ast.Name(id=name)) if name.isupper():
            yield "const", name
        case ast.If(body=inside) | ast.Try(body=inside):
            yield from (named for each in inside for named in _python(each))
        case _:
            return


# --- any language, by lines


def _ruled(language: Language, text: str) -> Iterator[Named]:
    """Declarations at the margin, and those in what holds others."""
    found = list(_lines(language, text))
    margin = min((indent for indent, _ in found), default=0)
    at_margin = [named for indent, named in found if indent == margin]
    within = [(indent, named) for indent, named in found if indent > margin]
    yield from at_margin
    if at_margin and within and all(kind in language.outer for kind, _ in at_margin):
        inner = min(indent for indent, _ in within)
        yield from (named for indent, named in within if indent == inner)


def _lines(language: Language, text: str) -> Iterator[tuple[int, Named]]:
    for line in text.split("\n"):
        short = line[:LONGEST_LINE].rstrip()
        bare = short.lstrip()
        if not bare or bare.startswith(_COMMENT):
            continue
        if found := language.declaration.match(bare):
            groups = found.groupdict()
            kind = groups.get("kind") or groups.get("kind2") or language.default
            name = next((groups[key] for key in _NAMES if groups.get(key)), "")
            yield len(short) - len(bare), (kind.lower(), name)
