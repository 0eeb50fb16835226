"""Boards and cards as objects: a name or a TOML file, and changes of its values."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Mapping, TypeVar

from . import _mmcq

if TYPE_CHECKING:
    import pandas

_Same = TypeVar("_Same", bound="_Thing")

#: The board of all calls that get no `platform`.
DEFAULT = "generic"


def _word(value: Any) -> str:
    """Returns a value as text, as the option `--set` of `mmcq` takes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(json.dumps(item) if isinstance(item, str) else _word(item) for item in value) + "]"
    return str(value)


class _Thing:
    """The common part of boards and cards: a name, and changes of values."""

    _prefix = ""

    def __init__(self, name: str | os.PathLike[str], changes: Mapping[str, Any] | None = None):
        self.name = os.fspath(name)
        self.changes = dict(changes or {})
        self.params()  # Raises ValueError for a wrong name or key.

    def with_(self: _Same, **changes: Any) -> _Same:
        """Returns a copy with more changes; `__` stands for a dot: `with_(cost__wake_us=40)`."""
        dotted = {key.replace("__", "."): value for key, value in changes.items()}
        return type(self)(self.name, {**self.changes, **dotted})

    def _set(self) -> list[str]:
        return [f"{self._prefix}{key}={_word(value)}" for key, value in self.changes.items()]

    def _listed(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def params(self) -> pandas.DataFrame:
        """Returns all values, as a frame: key, value, unit, kind, range, source."""
        import pandas

        return pandas.DataFrame(self._listed()).set_index("key")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return False
        return (self.name, self.changes) == (other.name, other.changes)

    def __hash__(self) -> int:
        return hash((self.name, tuple(self._set())))

    def __repr__(self) -> str:
        changes = f", {self.changes}" if self.changes else ""
        return f"{type(self).__name__}({self.name!r}{changes})"


class Platform(_Thing):
    """A board: a name of `mmcq.platforms()`, or a TOML file.

    >>> Platform("hsq-sprd", {"cost.wake_us": 40})
    Platform('hsq-sprd', {'cost.wake_us': 40})
    """

    def _listed(self) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = json.loads(_mmcq.params(self.name, None, self._set()))
        return [param for param in listed if not param["key"].startswith("card.")]


class Card(_Thing):
    """A card: a name of `mmcq.cards()`, or a TOML file. Its keys have no `card.` before them.

    >>> Card("pro-plus-128", {"read_first_us": 90})
    Card('pro-plus-128', {'read_first_us': 90})
    """

    _prefix = "card."

    def _listed(self) -> list[dict[str, Any]]:
        listed = json.loads(_mmcq.params(DEFAULT, self.name, self._set()))
        own = [param for param in listed if param["key"].startswith(self._prefix)]
        return [{**param, "key": param["key"][len(self._prefix) :]} for param in own]


def scene(
    platform: str | os.PathLike[str] | Platform,
    card: str | os.PathLike[str] | Card | None,
    changes: Mapping[str, Any] | None,
) -> tuple[str, str | None, list[str]]:
    """Returns the names of board and card, and all changes, as the module `_mmcq` takes them."""
    words: list[str] = []
    if isinstance(platform, Platform):
        words += platform._set()
        platform = platform.name
    if isinstance(card, Card):
        words += card._set()
        card = card.name
    if changes is not None and not isinstance(changes, Mapping):
        raise ValueError(f"set {changes!r}: expected a mapping, such as {{'cost.wake_us': 40}}")
    words += [f"{key}={_word(value)}" for key, value in (changes or {}).items()]
    return os.fspath(platform), None if card is None else os.fspath(card), words


def whole(name: str, value: int, least: int = 0) -> int:
    """Returns `value`; raises ValueError if it is below `least` or needs more than 64 bits."""
    if not least <= value < 2**64:
        raise ValueError(f"{name} {value}: expected a whole number from {least} on")
    return value
