"""Values with a skewed distribution: a few are frequent, most are rare."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt


def zipf_borders(values: int, exponent: float) -> npt.NDArray[np.float64]:
    """Return the cumulated shares of ranks 1 to `values`, where rank k has a share proportional to 1 / k ** exponent."""
    shares = np.arange(1, values + 1, dtype=np.float64) ** -exponent
    borders: npt.NDArray[np.float64] = np.cumsum(shares) / shares.sum()
    return borders


def draw(generator: np.random.Generator, borders: npt.NDArray[np.float64], count: int) -> npt.NDArray[np.int64]:
    """Draw indexes from 0, each as often as its share says.

    Args:
        generator: Seed of the draw.
        borders: Cumulated shares, the last of them 1.
        count: How many.
    """
    found = np.searchsorted(borders, generator.random(count), side="right")
    return np.minimum(found, len(borders) - 1).astype(np.int64)
