"""How twenty languages declare things: a pattern of lines for each, and what only that language looks like.

A pattern has named groups: kind, where the language says it in a word, and name. It sees a line without its
indentation. Signs are only asked where the path does not tell the language.
"""

from __future__ import annotations

import re

from lcm_mcp.values import frozen

_NOT_A_CALL = r"(?!(?:return|else|if|for|while|switch|case|new|throw|delete|do|goto|typedef|using|await)\b)"
_GO = r"(?P<kind>func|type|const|var)\s+(?:\([^)]{1,80}\)\s*)?(?P<name>\w+)"


@frozen
class Language:
    """default is the kind of a declaration that the language has no word for; outer are kinds that hold
    others and say little themselves, so that what stands in them is told too."""

    name: str
    extensions: frozenset[str]
    declaration: re.Pattern[str]
    sign: re.Pattern[str]
    default: str
    outer: frozenset[str]


def _language(
    name: str,
    extensions: str,
    declaration: str,
    sign: str,
    *,
    default: str = "function",
    outer: str = "",
    flags: re.RegexFlag | int = 0,
) -> Language:
    return Language(
        name,
        frozenset(extensions.split()),
        re.compile(declaration, flags),
        re.compile(sign, re.MULTILINE | flags),
        default,
        frozenset(outer.split()),
    )


_JAVASCRIPT = (
    r"(?:export\s+)?(?:default\s+)?(?:declare\s+)?(?:abstract\s+)?(?:async\s+)?"
    r"(?:(?P<kind>function|class{types})\b\*?\s*(?P<name>[\w$]+)"
    r"|(?P<kind2>const|let|var)\s+(?P<name2>[\w$]+)(?![^=]{{0,80}}=\s*(?:await\s+)?(?:require|import)\s*\())"
)
# The type of a C function may stand on the line before.
_C_FUNCTION = rf"{_NOT_A_CALL}(?:[A-Za-z_][\w:<>,\[\]]*[\s*&]+)*?(?P<name2>[A-Za-z_~][\w:~]*)\s*\([^;=]*$"

PYTHON = _language(
    "python",
    "py pyi pyw",
    r"(?:async\s+)?(?P<kind>def|class)\s+(?P<name>\w+)",
    r"^(?:async )?(?:def|class) \w+.*:\s*(?:#.*)?$|^from [\w.]+ import |^#!.*python",
)
LANGUAGES = (
    PYTHON,
    _language(
        "typescript",
        "ts tsx mts cts",
        _JAVASCRIPT.format(types="|interface|type|enum|namespace|module"),
        r"^(?:export )?(?:interface|type|enum) \w+|^import type |[\w)]: (?:string|number|boolean|void)\b",
        outer="namespace module",
    ),
    _language(
        "javascript",
        "js jsx mjs cjs",
        _JAVASCRIPT.format(types=""),
        r"^import .* from ['\"]|^(?:const|var) .*= require\(|^module\.exports|^export |^(?:async )?function ",
    ),
    _language(
        "java",
        "java",
        r"(?:(?:public|protected|private|static|final|abstract|sealed|non-sealed|strictfp)\s+)*"
        r"(?P<kind>class|interface|enum|record|@interface)\s+(?P<name>\w+)",
        r"^(?:import|package) [\w.*]+;\s*$|^public (?:final |abstract )?(?:class|interface|enum) ",
    ),
    _language(
        "csharp",
        "cs",
        r"(?:(?:public|protected|private|internal|static|sealed|abstract|partial|readonly|unsafe|file)\s+)*"
        r"(?P<kind>namespace|class|interface|struct|enum|record|delegate)\s+(?:struct\s+|class\s+)?"
        r"(?P<name>[\w.]+)",
        r"^using [\w.]+;\s*$|^namespace [\w.]+",
        outer="namespace",
    ),
    _language(
        "cpp",
        "cpp cc cxx hpp hh hxx ipp inl cu",
        r"(?:(?:template\s*<[^>]{0,80}>|inline|static|constexpr|extern\s+\"C\"|typedef)\s*)*"
        r"(?:(?P<kind>namespace|class|struct|enum|union|concept)\s+(?:class\s+)?(?P<name>[\w:]+)(?!.*;)"
        rf"|{_C_FUNCTION})",
        r"^#include <\w+>\s*$|^namespace [\w:]+|^template\s*<|\bstd::|^(?:class|struct) \w+.*[:{]",
        outer="namespace",
    ),
    _language(
        "c",
        "c h",
        r"(?:(?:static|inline|extern|typedef)\s+)*"
        rf"(?:(?P<kind>struct|enum|union)\s+(?P<name>\w+)\s*(?:\{{|$)|\}}\s*(?P<name3>\w+)\s*;|{_C_FUNCTION})",
        r"^#include [<\"][\w/.-]+\.h[>\"]|^#define \w+|^(?:static )?(?:void|int|char|struct \w+) [*\w]+\(",
    ),
    _language("go", "go", _GO, r"^package \w+\s*$|^func (?:\([^)]*\) )?\w+\(|^type \w+ (?:struct|interface)"),
    _language(
        "rust",
        "rs",
        r"(?:pub(?:\([^)]{1,40}\))?\s+)?(?:(?:default|async|unsafe|const|extern(?:\s+\"\w+\")?)\s+)*"
        r"(?:(?P<kind>fn|struct|enum|trait|mod|type|union|static|const|macro_rules!)\s+(?:mut\s+)?(?P<name>\w+)"
        r"|(?P<kind2>impl)(?:<[^{]{0,80}?>)?\s+(?P<name2>[^{]{1,80}?)\s*(?:where\b.*)?(?:\{|$))",
        r"^(?:pub )?(?:async )?fn \w+|^use [\w:]+|^impl\b|^#\[derive|^mod \w+;",
    ),
    _language(
        "php",
        "php phtml",
        r"(?:(?:abstract|final|readonly|public|private|protected|static)\s+)*"
        r"(?P<kind>namespace|class|interface|trait|enum|function)\s+&?(?P<name>[\w\\]+)",
        r"^<\?php|^[ \t]*\$\w+ = |^use [\w\\]+;",
    ),
    _language(
        "ruby",
        "rb rake gemspec",
        r"(?P<kind>module|class|def)\s+(?P<name>(?:self\.)?[\w:?!=<]+)",
        r"^require(?:_relative)? ['\"]|^end\s*$|^[ \t]+attr_\w+ |^module \w+",
        outer="module",
    ),
    _language(
        "kotlin",
        "kt kts",
        r"(?:(?:public|private|internal|protected|open|abstract|sealed|data|enum|annotation|inline|value"
        r"|suspend|override|operator|infix|tailrec|const|lateinit|expect|actual|external|inner|companion)\s+)*"
        r"(?P<kind>class|interface|object|fun interface|fun|val|var|typealias)\s+(?:<[^>]{1,80}>\s*)?"
        r"(?P<name>[\w.?<>]+)",
        r"^package [\w.]+\s*$|^import [\w.]+\s*$|^(?:suspend )?fun \w+|^(?:data|sealed) class ",
    ),
    _language(
        "swift",
        "swift",
        r"(?:(?:@\w+(?:\([^)]{0,60}\))?|public|private|internal|open|fileprivate|final|static|indirect|override"
        r"|mutating)\s+)*(?P<kind>class|struct|enum|protocol|extension|func|actor|typealias|let|var)\s+"
        r"(?P<name>[\w.]+)",
        r"^import (?:Foundation|UIKit|SwiftUI|Combine)\b|^func \w+.*->|^(?:struct|extension) \w+.*\{",
    ),
    _language(
        "sql",
        "sql ddl",
        r"create\s+(?:or\s+replace\s+)?(?:temp(?:orary)?\s+|unique\s+|materialized\s+|virtual\s+)*"
        r"(?P<kind>table|view|index|function|procedure|trigger|type|schema|sequence|database)\s+"
        r"(?:if\s+not\s+exists\s+)?(?P<name>[\w.\"`\[\]]+)",
        r"^[ \t]*(?:create (?:table|view|index|or replace)|insert into|alter table|select .+ from)\b",
        flags=re.IGNORECASE,
    ),
    _language(
        "shell",
        "sh bash zsh ksh",
        r"(?:function\s+(?P<name>[\w:.-]+)|(?P<name2>[\w:.-]+)\s*\(\s*\))\s*(?:\(\s*\)\s*)?(?:\{|\(|$)",
        r"^#!.*\b(?:ba|z|k|da)?sh\b|^[ \t]*(?:fi|done|esac)\s*$|^set -[eux]",
    ),
    _language(
        "powershell",
        "ps1 psm1",
        r"(?P<kind>function|class|enum|filter)\s+(?P<name>[\w:-]+)",
        r"^function \w+-\w+|^param\s*\(|^[ \t]*\[CmdletBinding",
        flags=re.IGNORECASE,
    ),
    _language(
        "scala",
        "scala sc",
        r"(?:(?:private|protected|final|sealed|abstract|implicit|lazy|override|inline|case)\s+)*"
        r"(?P<kind>class|object|trait|enum|def|val|type|given)\s+(?P<name>\w+)",
        r"^import [\w.]+\{|^(?:case class|object|trait) \w+",
    ),
    _language(
        "dart",
        "dart",
        r"(?:(?:abstract|base|final|sealed|interface)\s+)*"
        rf"(?:(?P<kind>class|mixin|extension|enum|typedef)\s+(?P<name>\w+)|{_C_FUNCTION})",
        r"^import 'package:|^import 'dart:",
    ),
    _language(
        "lua",
        "lua",
        r"(?:local\s+)?function\s+(?P<name>[\w.:]+)",
        r"^local \w+ = require|^(?:local )?function [\w.:]+\(|^end\s*$",
    ),
    _language("r", "r", r"(?P<name>[\w.]+)\s*(?:<-|=)\s*function\s*\(", r"^library\(\w+\)|<- function\("),
    _language(
        "css",
        "css scss sass less",
        r"(?P<name>[.#@:*a-zA-Z][^{};]{0,100}?)\s*(?:\{|,$)",
        r"^[.#]?[\w-]+ \{\s*$|^[ \t]+[\w-]+: [^;{\n]+;\s*$|^@media ",
        default="rule",
    ),
    _language(
        "perl",
        "pl pm",
        r"(?P<kind>package|sub)\s+(?P<name>[\w:]+)",
        r"^use (?:strict|warnings)|^[ \t]*my [$@%]\w+|^sub \w+",
    ),
    _language(
        "make",
        "mk mak",
        r"(?P<name>[\w./%$()-]+)\s*:(?!=)",
        r"^\.PHONY:|^\t(?:\$\(|@)|^[\w-]+:(?: [\w./-]+)*\s*$",
        default="target",
    ),
)
BY_NAME = {name: each for each in LANGUAGES for name in ("makefile", "gnumakefile") if each.name == "make"}
BY_EXTENSION = {extension: each for each in LANGUAGES for extension in each.extensions}
