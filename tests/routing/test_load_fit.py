from random import Random

import pytest

from routing.load_fit import LoadFit


@pytest.mark.parametrize("scale", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("prefill_scale", [0.7, 1.0, 2.0])
def test_it_finds_how_much_longer_loads_take_even_where_prefill_is_mispredicted(
    scale: float, prefill_scale: float
) -> None:
    fit, random = LoadFit(), Random(0)
    for _ in range(400):
        prefill, load = random.uniform(0.05, 0.2), random.uniform(0.03, 0.1)
        noise = random.uniform(0.95, 1.05)
        fit.observe(prefill_scale * prefill * noise, prefill, 0.0)
        fit.observe((prefill_scale * prefill + scale * load) * noise, prefill, load * fit.scale)
    assert fit.scale == pytest.approx(scale, rel=0.25)


def test_one_strange_request_moves_it_little() -> None:
    fit = LoadFit()
    fit.observe(3600.0, 0.1, 0.05)
    assert fit.scale < 3.0
    fit.observe(0.0, 0.1, 0.05)
    assert fit.scale > 0.0
