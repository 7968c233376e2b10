"""What a client is told there is: tools with their schemas, resources and templates, as they stand in a file.

Deriving them from the code loads all of it, and a client wants them before anything else. `make reference`
writes the file from the code, and a test compares the two. Refused: nothing; what is not in the file is
not offered.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import mcp_types as types
from pydantic import BaseModel

from lcm_mcp.tools import ToolsetName

if TYPE_CHECKING:
    from lcm_mcp.server.resources import Resource
    from lcm_mcp.tools.tool import Tool

FILE: Final = Path(__file__).parent / "published.json"


class Published(BaseModel):
    """Every tool once, the toolsets as their places in that list, and the lists of resources."""

    tools: tuple[types.Tool, ...]
    toolsets: Mapping[ToolsetName, tuple[int, ...]]
    resources: tuple[types.Resource, ...]
    templates: tuple[types.ResourceTemplate, ...]

    def toolset(self, name: ToolsetName) -> list[types.Tool]:
        return [self.tools[place] for place in self.toolsets[name]]


@cache
def published() -> Published:
    """The file's content."""
    return Published.model_validate_json(FILE.read_bytes())


def derived() -> Published:
    """What the code itself says: the file as it has to be."""
    from mcp.shared.uri_template import UriTemplate

    from lcm_mcp.server.inspector import view
    from lcm_mcp.server.resources import RESOURCES
    from lcm_mcp.tools.toolsets import TOOLSETS

    def told(tool: Tool[Any, Any]) -> types.Tool:
        return types.Tool(
            name=tool.name,
            title=tool.title,
            description=tool.description,
            input_schema=tool.input_schema,
            output_schema=tool.output_schema,
            annotations=types.ToolAnnotations(
                title=tool.title,
                read_only_hint=tool.effects.read_only,
                destructive_hint=tool.effects.destructive,
                idempotent_hint=tool.effects.idempotent,
                open_world_hint=False,
            ),
            _meta=view.meta_of(tool.name),
        )

    def about(each: Resource) -> dict[str, Any]:
        return {key: getattr(each, key) for key in ("name", "title", "description", "mime_type")}

    distinct = list({id(tool): tool for tools in TOOLSETS.values() for tool in tools}.values())
    return Published(
        tools=tuple(map(told, distinct)),
        toolsets={name: tuple(map(distinct.index, tools)) for name, tools in TOOLSETS.items()},
        resources=tuple(
            types.Resource(uri=each.uri, **about(each))
            for each in RESOURCES
            if not UriTemplate.is_template(each.uri)
        ),
        templates=tuple(
            types.ResourceTemplate(uri_template=each.uri, **about(each))
            for each in RESOURCES
            if UriTemplate.is_template(each.uri)
        ),
    )
