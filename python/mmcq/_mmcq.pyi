"""The laboratory, in Rust: arguments are text, and results are JSON."""

from os import PathLike
from typing import Any, Callable, Mapping, Optional, Sequence, Union

Load = Union[Sequence[str], str, PathLike[str]]

__version__: str

def run(
    job: Load, platform: str, card: Optional[str], setting: str, seed: int, set: Sequence[str]
) -> tuple[str, list[str]]: ...
def explain(
    job: Load, platform: str, card: Optional[str], setting: str, seed: int, set: Sequence[str]
) -> tuple[str, str, list[str]]: ...
def replay(
    traces: Sequence[str],
    options: Mapping[str, Any],
    platform: str,
    card: Optional[str],
    setting: str,
    seed: int,
    set: Sequence[str],
) -> tuple[str, list[str]]: ...
def fit(
    figures: Mapping[str, Any],
    how: Mapping[str, Any],
    platform: str,
    card: Optional[str],
    setting: str,
    seed: int,
    set: Sequence[str],
) -> str: ...
def torture(
    mode: str, ios: int, seed: int, shard: str, jobs: Optional[int], faults: float, cuts: int
) -> str: ...
def merge(lines: str) -> str: ...
def params(platform: str, card: Optional[str], set: Sequence[str]) -> str: ...
def platforms() -> list[str]:
    """The names of the boards that come with the package."""

def cards() -> list[str]:
    """The names of the cards that come with the package."""

def settings() -> list[str]:
    """The names of the settings: stacks, and the limit of bus and card."""

class Grid:
    def __init__(
        self,
        job: Load,
        over: Sequence[str],
        zips: Sequence[str],
        platform: str,
        card: Optional[str],
        setting: str,
        seed: int,
        set: Sequence[str],
    ) -> None: ...
    def points(self) -> int: ...
    def part(self, shard: str) -> list[int]: ...
    def lines(self, point: int) -> str: ...
    def run(self, points: Sequence[int], jobs: Optional[int], take: Callable[[str], None]) -> None: ...
