"""How an observation reads: what a request shows, what it weighs, and what was done for it."""

from __future__ import annotations

from lcm_mcp.service.prepared import Counts, Done, Observation, Section
from lcm_mcp.tools.text import listed, paid, paragraph, quoted
from lcm_mcp.wording import count


def observation(seen: Observation) -> str:
    """Everything an observation says, in lines."""
    return paragraph(
        f"Observation of {seen.prepared}, made {seen.made_at}: session {quoted(seen.session)}, status "
        f"{seen.status}, strategy {seen.strategy}, {seen.regime}; notes: {listed(map(quoted, seen.notes))}",
        f"  for provider {quoted(seen.provider)}, model {quoted(seen.model)}",
        f"  tokens: window {_known(seen.window_tokens)} ({seen.window_source}), trigger "
        f"{_known(seen.trigger_tokens)}, swap {_known(seen.swap_tokens)}, tail {_known(seen.tail_tokens)}, "
        f"summaries {_known(seen.summary_tokens)}, pins {_known(seen.pin_tokens)}",
        f"  estimate {seen.estimated_input_tokens} tokens ({seen.estimate_method}), {_calibrated(seen)}, "
        f"{_measured(seen)}",
        f"  of {count(seen.rows, 'row')}: before {_counts(seen.before)}; after {_counts(seen.after)}",
        f"  cut {seen.cut or 'none'}, prefix {seen.prefix_sha256 or 'none'}; done: {_done(seen.done)}",
        *map(_section, seen.sections),
    )


def _known(tokens: int | None) -> str:
    return "unknown" if tokens is None else str(tokens)


def _calibrated(seen: Observation) -> str:
    if seen.bytes_per_token is None:
        return "not calibrated"
    return f"calibrated {_known(seen.calibrated_input_tokens)} (at {seen.bytes_per_token:g} bytes a token)"


def _measured(seen: Observation) -> str:
    if seen.provider_input_tokens is None:
        return "not measured yet"
    return f"the provider counted {seen.provider_input_tokens} ({_known(seen.provider_cached_tokens)} cached)"


def _counts(counts: Counts) -> str:
    return (
        f"{count(counts.tokens, 'token')}, {count(counts.summaries, 'summary', 'summaries')}, "
        f"{count(counts.tail_rows, 'row')} verbatim"
    )


def _done(done: Done | None) -> str:
    if done is None:
        return "nothing"
    return (
        f"{count(done.leaves, 'leaf', 'leaves')}, {count(done.parents, 'parent')} and "
        f"{count(done.written, 'other summary', 'other summaries')} (nodes {listed(done.nodes)}), levels "
        f"{listed(map(str, done.levels))}, {done.source_tokens} into {done.summary_tokens} tokens, "
        f"in {done.seconds:g} s; {_models(done)}"
    )


def _models(done: Done) -> str:
    if not done.model_calls:
        return "no model called"
    tokens = done.model_input_tokens + done.model_output_tokens
    uncounted = f", {done.uncounted_tokens} uncounted" if done.uncounted_tokens else ""
    return f"{count(done.model_calls, 'call')} of models{paid(tokens, done.cost_usd)}{uncounted}"


def _section(section: Section) -> str:
    return (
        f"  {section.id} {section.kind} {quoted(section.label)}: {count(section.items, 'item')}, "
        f"{count(section.bytes, 'byte')}, {section.tokens} tokens, from {listed(section.sources)}\n"
        f"    {quoted(section.preview)}"
    )
