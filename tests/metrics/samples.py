"""What the default registry says, and how it has changed."""

from __future__ import annotations

from typing import Any

from prometheus_client import REGISTRY


def sample(name: str, **labels: str) -> float | None:
    """The value of one series; None when there is none."""
    return REGISTRY.get_sample_value(name, labels)


def series(*prefixes: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every series whose name begins so, by name and labels."""
    return {
        (found.name, tuple(sorted(found.labels.items()))): found.value
        for family in REGISTRY.collect()
        for found in family.samples
        if found.name.startswith(prefixes)
    }


class Change:
    """How series have changed since it was made."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.before = series(name)

    def by(self, label: str) -> dict[str, float]:
        """The changes by the value of one label; those that did not change are left out."""
        found: dict[str, float] = {}
        for key, value in series(self.name).items():
            name, labels = key
            change = value - self.before.get(key, 0.0)
            if name == self.name and change:
                of = dict(labels)[label]
                found[of] = found.get(of, 0.0) + change
        return found

    def total(self) -> Any:
        """All changes together."""
        now = {key: value for key, value in series(self.name).items() if key[0] == self.name}
        return sum(value - self.before.get(key, 0.0) for key, value in now.items())
