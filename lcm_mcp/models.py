"""How large a model's context window is, by the model's name, from a catalogue that comes with the package.

The figures are those of genai-prices as it was released: read from its bundled data alone, never fetched,
so the answer is the same offline and moves only with an upgrade. A name matches what the catalogue itself
matches it with; what it does not know is unknown here too, and no name, however odd, is an error.
"""

from __future__ import annotations

import re
from functools import lru_cache
from math import ceil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from genai_prices.types import ModelInfo, Provider

_MAX_NAME = 200  # characters; longer is no model's name and would only fill the cache
_BRACKET = re.compile(r"\[([^\[\]]*)\]$")
_SIZE = re.compile(r"([1-9][0-9]{0,3})([km])", re.IGNORECASE)
_UNITS = {"k": 1_000, "m": 1_000_000}
# Where a name leads nowhere: the first also lists other makers' models as `maker/model`, the second has
# the regional names of one cloud (`us.anthropic.…`), which people write without saying the cloud.
_RESELLERS = ("openrouter", "aws")


def context_window(provider: str | None, model: str) -> int | None:
    """The context window of a model in tokens, or None where the model or its window is unknown.

    The figure is the `context_window` of genai-prices: what its maker publishes, for some models input
    and output together. A provider's own entry goes before that of the model's maker; a provider nobody
    knows is as none. Names may carry prefixes (`openrouter/anthropic/…`), dates and brackets, and one
    that ends in its window (`[1m]` is 1,000,000 tokens) is believed. Nothing is fetched. The first call
    of a process loads the catalogue, some tenths of a second.
    """
    if len(model) > _MAX_NAME or len(provider or "") > _MAX_NAME:
        return None
    return _window((provider or "").strip() or None, model.strip())


@lru_cache(maxsize=256)
def _window(provider: str | None, model: str) -> int | None:
    bracket = _BRACKET.search(model)
    if bracket is None:
        return _catalogued(provider, model)
    size = _SIZE.fullmatch(bracket[1].strip())
    if size is not None:
        return int(size[1]) * _UNITS[size[2].lower()]
    return _catalogued(provider, model[: bracket.start()].rstrip())


def _catalogued(provider: str | None, model: str) -> int | None:
    *prefixes, bare = pieces = model.split("/")
    seller, entry = None, None
    for start, said in enumerate([provider, *prefixes]):
        seller, entry = _listed(said, "/".join(pieces[start:]))
        if entry is not None and entry.context_window:
            return entry.context_window
    # A seller that lists the bare name without a figure may grant less than the maker does: no guess.
    if entry is None:
        maker, entry = _listed(None, bare)
        seller = maker or seller
    if entry is not None and entry.context_window:
        return entry.context_window
    names = [f"{maker}/{bare}" for maker in (*prefixes[-1:], *([seller.id] if seller else []))]
    return _resold([*names, bare] if entry is None else names)


def _resold(names: list[str]) -> int | None:
    for reseller in _RESELLERS:
        for name in names:
            _, entry = _listed(reseller, name)
            if entry is not None and entry.context_window:
                return entry.context_window
    return None


def _listed(said: str | None, name: str) -> tuple[Provider | None, ModelInfo | None]:
    """The provider said, or else the maker that the name tells, and its entry of that name."""
    from genai_prices.data import providers
    from genai_prices.data_snapshot import find_provider_by_id

    if said is None:
        makers = (each for each in providers if each.model_match and each.model_match.is_match(name))
        seller = next(makers, None)
    else:
        seller = find_provider_by_id(providers, said)
    return seller, None if seller is None else seller.find_model(name, all_providers=providers)


def price_micro_usd(
    provider: str | None, address: str | None, model: str, input_tokens: int, output_tokens: int
) -> int | None:
    """What a call costs in millionths of a US dollar, rounded up; None where no price is known.

    The provider is known by its name or by the address that is called; nothing is guessed for others.
    """
    from genai_prices import Usage, calc_price

    try:
        usage = Usage(input_tokens=input_tokens, output_tokens=output_tokens)
        if address is None:
            found = calc_price(usage, model, provider_id=provider)
        else:
            found = calc_price(usage, model, provider_api_url=address)
    except LookupError:
        return None
    return ceil(found.total_price * 1_000_000)
