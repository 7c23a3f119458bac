"""Line plots as SVG, to stand within a page: no library in the browser, no network, light and dark."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, isfinite, log10

WIDTH, HEIGHT = 640, 340
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 50
COLORS = ("#3b6fd4", "#d4593b", "#2f9e62", "#9a58c9", "#b8860b", "#108d9e", "#c2478d", "#737373", "#6b8e23", "#a0522d")
DASHES = ("", "7 3", "2 3", "9 3 2 3")
"""so that lines can be told apart without their colour"""

Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Series:
    """One line."""

    name: str
    points: Sequence[Point]
    """in ascending order of x; what is not finite is left out"""
    band: Sequence[tuple[float, float, float]] = ()
    """x, lowest and highest y: how sure the line is"""


@dataclass(frozen=True, slots=True)
class _Axis:
    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        low, high = (log10(self.low), log10(self.high)) if self.log else (self.low, self.high)
        place = log10(max(value, self.low)) if self.log else value
        share = (place - low) / (high - low) if high > low else 0.5
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def ticks(self) -> list[float]:
        if self.log:
            powers = range(floor(log10(self.low)), floor(log10(self.high)) + 1)
            factors = (1, 2, 5) if len(powers) <= 3 else (1,)
            every = [10.0**power * factor for power in powers for factor in factors]
            return [tick for tick in every if self.low <= tick * 1.0001 and tick <= self.high * 1.0001]
        span = self.high - self.low or 1.0
        step = 10 ** floor(log10(span / 5))
        step = next(step * factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 6)
        return [step * number for number in range(ceil(self.low / step), floor(self.high / step + 1e-9) + 1)]


def lines(
    title: str, x: str, y: str, series: Sequence[Series], *, log_x: bool = False, y_high: float | None = None
) -> str:
    """A plot of lines that begins at y = 0. x, y: what the axes show. log_x: for x > 0 only. y_high: its upper end."""
    finite = [[point for point in one.points if isfinite(point[0]) and isfinite(point[1])] for one in series]
    every = [point for points in finite for point in points if not log_x or point[0] > 0]
    if not every:
        return f"<p>{escape(title)}: nothing to show.</p>"
    across = _Axis(min(at for at, _ in every), max(at for at, _ in every), LEFT, WIDTH - RIGHT, log_x)
    up = _Axis(0.0, y_high or max(value for _, value in every) * 1.05 or 1.0, HEIGHT - BOTTOM, TOP)
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 18 * ceil(len(series) / 3)}" role="img" aria-label="{escape(title)}">',
        f'<text x="{LEFT}" y="18" class="title">{escape(title)}</text>',
        *_grid(across, up, x, y),
    ]
    for number, (one, points) in enumerate(zip(series, finite, strict=True)):
        color, dash = COLORS[number % len(COLORS)], DASHES[number % len(DASHES)]
        if one.band:
            there = [f"{across.at(at):.1f},{up.at(high):.1f}" for at, _, high in one.band]
            back = [f"{across.at(at):.1f},{up.at(low):.1f}" for at, low, _ in reversed(one.band)]
            parts.append(f'<polygon points="{" ".join(there + back)}" fill="{color}" opacity="0.15"/>')
        path = " ".join(f"{across.at(at):.1f},{up.at(value):.1f}" for at, value in points)
        stroke = f'stroke="{color}" stroke-width="2" stroke-dasharray="{dash}"'
        parts.append(f'<polyline points="{path}" fill="none" {stroke}/>')
        left, top = LEFT + 190 * (number % 3), HEIGHT + 18 * (number // 3)
        parts.append(f'<line x1="{left}" y1="{top}" x2="{left + 24}" y2="{top}" {stroke}/>')
        parts.append(f'<text x="{left + 30}" y="{top + 4}">{escape(one.name)}</text>')
    return "".join([*parts, "</svg>"])


def _grid(across: _Axis, up: _Axis, x: str, y: str) -> list[str]:
    parts = []
    for tick in across.ticks():
        at = across.at(tick)
        parts.append(f'<line x1="{at:.1f}" y1="{TOP}" x2="{at:.1f}" y2="{HEIGHT - BOTTOM}" class="grid"/>')
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{_short(tick)}</text>')
    for tick in up.ticks():
        at = up.at(tick)
        parts.append(f'<line x1="{LEFT}" y1="{at:.1f}" x2="{WIDTH - RIGHT}" y2="{at:.1f}" class="grid"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{_short(tick)}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<text x="{(LEFT + WIDTH) / 2}" y="{HEIGHT - 16}" text-anchor="middle">{escape(x)}</text>')
    parts.append(
        f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">{escape(y)}</text>'
    )
    return parts


def _short(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:.4g}"
