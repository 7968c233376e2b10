"""What is told of a file by rule: its kind from the body, up to twelve names, never a guess or an error."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lcm_mcp.transcript.exploring import HEAD_CHARACTERS, explore
from lcm_mcp.transcript.exploring.languages import LANGUAGES
from lcm_mcp.transcript.exploring.naming import SUMMARY_CHARACTERS

# One body a kind: what it is called, what it says, and what is told of it.
CASES = (
    (
        "a.py",
        "import os\n\nLIMIT = 3\n\nclass Pier:\n    def measure(self): ...\n\nasync def main(): ...\n",
        "python",
        "8 lines: const LIMIT; class Pier; def main",
    ),
    (
        "a.py",
        "class Broken(:\n    pass\ndef still_found(x):\n",
        "python",
        "3 lines: class Broken; def still_found",
    ),
    (
        "a.ts",
        "export interface Pier { a: string }\nexport const open = () => 1\nimport x = require('y')\n"
        "export default async function main() {}\ntype Id = string\n",
        "typescript",
        "5 lines: interface Pier; const open; function main; type Id",
    ),
    (
        "a.js",
        "const fs = require('fs')\nclass Pier {}\nfunction* walk() {}\n",
        "javascript",
        "3 lines: class Pier; function walk",
    ),
    (
        "A.java",
        "package a;\npublic final class Pier {\n  void run() {}\n}\nenum Kind { A }\n",
        "java",
        "5 lines: class Pier; enum Kind",
    ),
    (
        "A.cs",
        "using System;\nnamespace Harbour\n{\n    public sealed class Pier\n    {\n        int x;\n    }}\n",
        "csharp",
        "7 lines: namespace Harbour; class Pier",
    ),
    (
        "a.cpp",
        "#include <map>\nnamespace harbour {\nclass Pier;\n}\nclass Boat : public Ship {\n};\n"
        "int Boat::sail(int knots) {\n  return sink(knots);\n}\n",
        "cpp",
        "9 lines: namespace harbour; class Boat; function Boat::sail",
    ),
    (
        "a.c",
        "struct pier {\n  int x;\n};\nstatic int\nmeasure(int pier)\n{\n  return 1;\n}\nint main() {\n}\n",
        "c",
        "10 lines: struct pier; function measure, main",
    ),
    (
        "a.go",
        "package main\n\ntype Pier struct{}\n\nfunc (p *Pier) Measure() int { return 1 }\n\nfunc main() {}\n",
        "go",
        "7 lines: type Pier; func Measure, main",
    ),
    (
        "a.rs",
        "use std::fmt;\npub struct Pier;\nimpl fmt::Display for Pier {\n}\npub(crate) fn go() {}\n",
        "rust",
        "5 lines: struct Pier; impl fmt::Display for Pier; fn go",
    ),
    (
        "a.php",
        "<?php\nnamespace Harbour;\nfinal class Pier {\n  public function go() {}\n}\nfunction tide() {}\n",
        "php",
        "6 lines: namespace Harbour; class Pier; function tide",
    ),
    (
        "a.rb",
        "module Harbour\n  class Pier\n    def go; end\n  end\nend\n",
        "ruby",
        "5 lines: module Harbour; class Pier",
    ),
    (
        "a.kt",
        "package a\n\ndata class Pier(val x: Int)\nsuspend fun Pier.go() {}\nprivate val tide = 1\n",
        "kotlin",
        "5 lines: class Pier; fun Pier.go; val tide",
    ),
    (
        "a.swift",
        "import Foundation\npublic struct Pier {\n}\nextension Pier: Equatable {\n}\nfunc go() {}\n",
        "swift",
        "6 lines: struct Pier; extension Pier; func go",
    ),
    (
        "a.sql",
        "CREATE TABLE IF NOT EXISTS pier (id int);\ncreate or replace view tide as select 1;\n",
        "sql",
        "2 lines: table pier; view tide",
    ),
    (
        "a.sh",
        "#!/bin/bash\nset -e\ngo() {\n  echo\n}\nfunction tide {\n}\n",
        "shell",
        "7 lines: function go, tide",
    ),
    ("tool", "#!/usr/bin/env python3\nimport os\ndef main():\n    pass\n", "python", "4 lines: def main"),
    (
        "a.json",
        '{"name": "pier", "deps": {"a": 1, "b": 2, "c": 3, "d": 4}, "list": [1, 2]}',
        "json",
        "object, 3 keys: name, deps {a b c +1}, list [2]",
    ),
    ("a.json", '[{"id": 1}, {"id": 2, "tag": 3}]', "json", "array of 2 objects, keys: id, tag"),
    (
        "a.json",
        '{\n  "name": "pier",\n  "deps": {\n    "a": 1,\n',
        "json",
        "object, not complete, 4 lines, keys: name, deps",
    ),
    ("a.py", '{"error": "no such file"}', "json", "object, 1 key: error"),
    ("a.log", '{"at": 1, "say": "a"}\n{"at": 2, "who": "b"}\n{"at"', "jsonl", "3 rows, keys: at, say, who"),
    ("a.csv", "pier,metres\n1,7\n2,14\n", "table", "2 columns, 2 rows: pier, metres"),
    (
        "data.txt",
        "pier\tmetres\ttide\n" + "1\t7\tlow\n" * 5,
        "table",
        "3 columns, 5 rows: pier, metres, tide",
    ),
    (
        "a.md",
        "# Harbour\n\n```\n# no heading\n```\n\n## Piers\n",
        "markdown",
        "7 lines, headings: Harbour, Piers",
    ),
    ("a.toml", '[project]\nname = "x"\n[tool.a]\nb = 1\n', "toml", "2 keys: project {name}, tool {a}"),
    ("a.yaml", "name: pier\non:\n  push:\njobs: {}\n", "yaml", "4 lines, keys: name, on, jobs"),
    ("a.ini", "[pier]\nmetres = 7\n[tide]\n", "ini", "2 sections: pier {1}, tide {0}"),
    (
        "a.xml",
        "<?xml version='1.0'?><piers><pier/><tide/><pier/></piers>",
        "xml",
        "1 line, root piers: pier, tide",
    ),
    (
        "a.html",
        "<!DOCTYPE html><title>Harbour</title><h1>Piers <b>north</b></h1>",
        "html",
        "1 line, headings: Harbour, Piers north",
    ),
    (
        "x.patch",
        "diff --git a/pier.py b/pier.py\n--- a/pier.py\n+++ b/pier.py\n@@\n",
        "diff",
        "4 lines, changes: pier.py",
    ),
    (
        "a.ipynb",
        json.dumps(
            {
                "nbformat": 4,
                "cells": [
                    {"cell_type": "markdown", "source": ["# Tides"]},
                    {"cell_type": "code", "source": []},
                ],
            }
        ),
        "notebook",
        "2 cells, 1 of code, headings: Tides",
    ),
    (
        "a.txt",
        "\nThe harbour has piers.\nAnd more.\n",
        "text",
        "3 lines, 34 characters, begins: The harbour has piers.",
    ),
    (
        "a.py",
        "The file was not found, so here is prose.\n",
        "text",
        "1 line, 42 characters, begins: The file was not found, so here is prose.",
    ),
    ("a.zig", "pub fn main() void {}\n", "unknown", "1 line, 22 characters"),
    ("a.txt", "QUJD" * 1000, "unknown", "1 line, 4,000 characters"),
    ("a.bin", "\x01\x02\ufffd\ufffd" * 50, "unknown", "200 characters"),
    ("", "", "text", "1 line, 0 characters, begins: "),
)


@pytest.mark.parametrize(("path", "body", "kind", "summary"), CASES)
def test_a_body_is_told_by_the_rule_of_its_family(path: str, body: str, kind: str, summary: str) -> None:
    found = explore(path, body)
    assert (found.kind, found.summary) == (kind, summary)


@pytest.mark.parametrize("mark", ["→", "\t", ": ", " | "])
def test_line_numbers_that_a_tool_put_before_the_lines_are_no_part_of_a_file(mark: str) -> None:
    lines = ["class Pier:", "    x = 1", "", "def go(): ...", ""]
    shown = "\n".join(f"{number:6}{mark}{line}" for number, line in enumerate(lines, 7))
    found = explore("/src/pier.py", f"{shown}\n\n<system-reminder>\nclass Not: ...\n</system-reminder>")
    assert found.kind == "python"
    assert found.summary.endswith(": class Pier; def go")
    assert found.head == "\n".join(lines) + "\n"


def test_numbers_that_are_a_column_of_their_own_stay() -> None:
    rows = "".join(f"{number * 10}\tpier {number}\t7\n" for number in range(1, 9))
    assert explore("piers.tsv", rows).head == rows


def test_names_are_twelve_at_most_and_the_others_counted() -> None:
    found = explore("a.py", "".join(f"def f{number}(): ...\n" for number in range(30)))
    assert found.summary == f"30 lines: def {', '.join(f'f{number}' for number in range(12))} (+18 more)"


def test_long_names_give_way_so_that_the_line_stays_a_line() -> None:
    found = explore("a.py", "".join(f"def {'a' * 50}{number}(): ...\n" for number in range(30)))
    assert len(found.summary) <= SUMMARY_CHARACTERS
    assert found.summary.endswith(" (+27 more)")


@given(
    st.sampled_from(["", "x", ".json", ".md", ".csv", ".xml", ".html", ".toml", ".ini", ".yaml", ".ipynb"])
    | st.sampled_from([f"a.{extension}" for each in LANGUAGES for extension in each.extensions]),
    st.text(
        st.sampled_from("ab1 \n\t{}[]()<>\"':,=#-*/&!\\\x00\ud83d") | st.characters(codec="utf-8"),
        max_size=80,
    ),
)
def test_no_body_is_an_error_and_no_summary_more_than_a_line(path: str, body: str) -> None:
    found = explore(path, body)
    assert len(found.summary) <= SUMMARY_CHARACTERS
    assert "\n" not in found.summary
    assert len(found.head) <= HEAD_CHARACTERS
    assert explore(path, body) == found


@pytest.mark.parametrize(
    "piece", ["(", "a*", "a b ", "\n", "[", '{"a":', "<!--", "<a", "a,", "- ", "=", "\t", "a\n"]
)
def test_a_body_made_to_be_slow_is_read_like_any_other(piece: str) -> None:
    body = piece * (300_000 // len(piece))
    for name in ("a.py", "a.cpp", "a.rs", "a.json", "a.html", "a.xml", "a.toml", "a.yaml", "a.csv", "plain"):
        assert explore(name, body).summary
