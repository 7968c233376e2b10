"""Files of MCP clients as people have them: commented, indented by tabs, full of other things."""

from __future__ import annotations

CURSOR = """{
  "mcpServers": {
    "github": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-github"],
      "env": { "GITHUB_TOKEN": "ghp_x" }
    }
  }
}
"""

CLAUDE_DESKTOP = '{"globalShortcut": "Ctrl+Space", "mcpServers": {}}'

CLAUDE_CODE = """{
  "numStartups": 41,
  "tipsHistory": { "new-user-warmup": 1, "größe": 1.50 },
  "projects": {
    "/home/ada/loom": {
      "mcpServers": { "lcm": { "command": "of-the-project" } },
      "history": []
    }
  },
  "oauthAccount": null
}"""

VSCODE = """\
{
\t// Servers for every workspace
\t"inputs": [
\t\t{ "type": "promptString", "id": "key", "password": true },
\t],
\t"servers": {
\t\t/* the one we pay for */
\t\t"search": {
\t\t\t"type": "http",
\t\t\t"url": "https://search.example/mcp", // not { here "lcm": }
\t\t}, // end of search
\t},
}
"""

CODEX = """\
# What I use
model = "gpt-5"   # the large one
approval_policy = "on-request"

[mcp_servers.docs]
command = "npx"
args = ["-y", "docs-mcp"]   # slow to start

[projects."/home/ada/loom"]
trust_level = "trusted"
"""

ZED = """\
// Zed settings
//
// For information on how to configure Zed, see the Zed
// documentation: https://zed.dev/docs/configuring-zed
{
  "ui_font_size": 16,
  "theme": {
    "mode": "system",
    "light": "One Light", // a "quoted" word
    "dark": "One Dark",
  },
}
"""

FILES = {
    "claude-desktop": CLAUDE_DESKTOP,
    "claude-code": CLAUDE_CODE,
    "cursor": CURSOR,
    "vscode": VSCODE,
    "codex": CODEX,
    "zed": ZED,
}
