# SPDX-License-Identifier: Apache-2.0
"""Options as berth has them: see _options, which calls do not import."""
from __future__ import annotations

from collections.abc import Mapping

TYPE_CHECKING = False       # of typing, which takes longer to import than a command to run
if TYPE_CHECKING:
    from typing import Any, Dict


def words_of(options: Mapping[str, Any]) -> Dict[str, Any]:
    """Options as berth has them: hyphens, pairs as NAME=VALUE, numbers as text."""
    out: Dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, Mapping):
            value = pairs_of(value)
        elif isinstance(value, (list, tuple)):
            value = [str(one) for one in value]
        elif value is not None and not isinstance(value, bool):
            value = str(value)
        if value is not None and value is not False:
            out[name.replace("_", "-")] = value
    return out


def pairs_of(pairs: Any) -> Any:
    """["NAME=VALUE", ...] of a mapping, a list or nothing."""
    if isinstance(pairs, Mapping):
        return [f"{name}={value}" for name, value in pairs.items()]
    return None if pairs is None else list(pairs)
