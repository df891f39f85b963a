"""The exponent of a power law is found."""

import pytest

from benchmarks.fit import exponent

SIZES = (1024, 4096, 16384, 65536)


@pytest.mark.parametrize('power', [0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_law_is_its_power(power):
    assert exponent(SIZES, [3e-6 * size**power for size in SIZES]) == pytest.approx(power)


def test_the_exponent_of_noisy_data_is_the_least_squares_slope():
    # log2 of the costs over log2 of the sizes: (0, 0), (1, 2), (2, 1): slope 1 / 2
    assert exponent([1, 2, 4], [1, 4, 2]) == pytest.approx(0.5)


def test_a_single_size_has_no_exponent():
    with pytest.raises(ValueError, match='two different'):
        exponent([8, 8], [1, 2])
