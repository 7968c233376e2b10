"""lcm_redo: a node that is no good is made again, by the summarizers in force, from what it was made from.

No transaction is open while a summarizer works; what it wrote is stored only if the node still says what it
said then. Requests show the new text from the next cut on. What the node said is kept and can be described.
"""

from __future__ import annotations

import apsw

from lcm_mcp.dag import store as dag
from lcm_mcp.dag.model import Node, Stale, Tier
from lcm_mcp.dag.redoing import supersede
from lcm_mcp.errors import InvalidArgument
from lcm_mcp.service.folding import remake
from lcm_mcp.service.memory import memory_policy
from lcm_mcp.service.times import now_ms
from lcm_mcp.service.workplace import Workplace, addressed, existing_node, parse_node
from lcm_mcp.transcript.sessions import Session
from lcm_mcp.values import frozen


@frozen
class Redone:
    """A node made again: changed is false where the same text came of it, and then nothing was written.

    level, model and tokens are of the text that stands then, tokens as shown; parents were made of the old
    text and stay as they are.
    """

    session: str
    node: str
    changed: bool
    level: int
    model: str
    tokens_before: int
    tokens: int
    parents: tuple[str, ...]


async def redo(work: Workplace, id: str, key: str | None) -> Redone:
    """Make a node's summary again. Raises SummarizerFailed, and InvalidArgument where none can be had."""
    session, node, before = await work.store.read(_find, work, id, key)
    made = await remake(work, session.id, node, memory_policy(work.settings.lcm))
    if made is None:
        problem = f"no summary of #{node.id} is smaller than its source"
        raise InvalidArgument("id", problem, "It stays as it is.")
    changed = made.primary.text != before.text
    if changed and isinstance(
        await work.store.write(supersede, session.id, node.id, before.text, made, now_ms()), Stale
    ):
        raise InvalidArgument("id", f"#{node.id} was changed meanwhile", "Describe it and try again.")
    above = await work.store.read(dag.parents, session.id, node.id)
    stands = made.primary if changed else before
    return Redone(
        session=session.key,
        node=f"#{node.id}",
        changed=changed,
        level=stands.level,
        model=stands.model,
        tokens_before=before.tokens,
        tokens=stands.tokens,
        parents=tuple(f"#{parent}" for parent in above),
    )


def _find(db: apsw.Connection, work: Workplace, id: str, key: str | None) -> tuple[Session, Node, Tier]:
    address = parse_node(id, "id")
    session, _ = addressed(db, work, address, key)
    node = existing_node(db, session, address.node)
    return session, node, dag.tiers(db, session.id, node.id)["primary"]
