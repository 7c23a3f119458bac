"""How long loads from shared storage really take, against what the settings say."""

_RATE = 0.1
_LEAST, _MOST = 0.2, 20.0


class LoadFit:
    """A factor on the settings' load time, fitted to times to first token of requests that waited for nobody.

    What such a request takes beyond its prefill is the load. How far off the prefill is predicted is fitted along, by
    requests that loaded nothing, so that a wrong profile is not taken for a slow disk.
    """

    def __init__(self) -> None:
        self.scale = 1.0
        """load time, observed over that of the settings"""
        self._prefill_scale = 1.0

    def observe(self, ttft: float, prefill: float, load: float) -> None:
        """Take in a request that had the engine for itself.

        ttft: seconds that it took. prefill, load: what was predicted, the load with the present scale; 0 for none.
        """
        if load <= 0.0:
            if prefill > 0.0:
                self._prefill_scale = _moved(self._prefill_scale, ttft / prefill)
            return
        by_settings = load / self.scale
        self.scale = _moved(self.scale, (ttft - self._prefill_scale * prefill) / by_settings)


def _moved(scale: float, seen: float) -> float:
    return scale + _RATE * (min(max(seen, _LEAST), _MOST) - scale)
