import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import length_penalty


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_is_that_of_wu_et_al(alpha):
    lengths = np.arange(1, 200, dtype="int32")
    penalties = ops.convert_to_numpy(length_penalty(lengths, alpha))
    expected = (5.0 + lengths) ** alpha / (5.0 + 1.0) ** alpha
    np.testing.assert_allclose(penalties, expected, rtol=1e-6)
    assert penalties.dtype == "float32"


def test_one_token_costs_nothing():
    assert float(length_penalty(1, 0.6)) == 1.0
