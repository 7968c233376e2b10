"""An agent's turns, with lcm-mcp keeping the history: append what was said, get what to send.

`python agent_loop.py STORE QUESTION…` takes a turn for each question. `model` stands for yours.
"""

import asyncio
import sys
from typing import Any

from mcp import Client, StdioServerParameters

SESSION = "my-agent"
WINDOW_TOKENS = 8_000


def model(messages: list[dict[str, Any]]) -> str:
    """Call your model here; this one only counts what it was sent."""
    return f"I was sent {len(messages)} messages."


async def messages_for(lcm: Client, question: dict[str, str]) -> list[dict[str, Any]]:
    """The next request's messages, in OpenAI's form, after appending the question."""
    given: dict[str, Any] = {"append": [question], "window_tokens": WINDOW_TOKENS}
    messages: list[dict[str, Any]] = []
    while given:  # a long request comes in pages
        arguments = {"session": SESSION, "format": "openai", **given}
        page: dict[str, Any] = (await lcm.call_tool("prepare_context", arguments)).structured_content or {}
        messages += [shown["message"] for shown in page["messages"]]
        given = {"cursor": page["next_cursor"]} if page["next_cursor"] else {}
    return messages


async def main(store: str, questions: list[str]) -> None:
    server = StdioServerParameters(command=sys.executable, args=["-m", "lcm_mcp", "--db", store, "serve"])
    async with Client(server) as lcm:
        for number, question in enumerate(questions):
            # An entry_id of your own makes a retry harmless: the same entry is stored once.
            asked = {"role": "user", "content": question, "entry_id": f"q{number}"}
            answer = model(await messages_for(lcm, asked))
            said = {"role": "assistant", "content": answer, "entry_id": f"a{number}"}
            await lcm.call_tool("lcm_append", {"session": SESSION, "entries": [said]})
            print(answer)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
