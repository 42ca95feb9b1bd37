import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import length_penalty
from keras_transformer.decoding.length_penalty import normalized

pytestmark = pytest.mark.one_backend


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_is_that_of_wu_et_al(alpha):
    lengths = np.arange(1, 200, dtype="int32")
    penalties = ops.convert_to_numpy(length_penalty(lengths, alpha))
    expected = (5.0 + lengths) ** alpha / (5.0 + 1.0) ** alpha
    np.testing.assert_allclose(penalties, expected, rtol=1e-6)
    assert penalties.dtype == "float32"


def test_one_token_costs_nothing():
    assert float(length_penalty(1, 0.6)) == 1.0


def test_power_is_average_with_one_and_none_with_zero():
    lengths = np.arange(200, dtype="int32")
    totals = np.linspace(-1.0, -90.0, 200, dtype="float32")

    def scores(normalization, alpha=0.6):
        tensors = map(ops.convert_to_tensor, (totals, lengths))
        return ops.convert_to_numpy(normalized(*tensors, normalization, alpha))

    np.testing.assert_array_equal(scores("power", 1.0), scores("average"))
    np.testing.assert_array_equal(scores("power", 0.0), scores("none"))
    for alpha in (0.8, 2.0, 10.0):
        expected = totals / np.maximum(lengths, 1).astype("float64") ** alpha
        np.testing.assert_allclose(scores("power", alpha), expected, rtol=1e-5)
    with pytest.raises(ValueError, match="got 'powers'"):
        scores("powers")
