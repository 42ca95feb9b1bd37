"""Packing in a run: what it says, what it resumes, what it refuses."""

import digit_text
import pytest
from small_run import assert_equal_runs
from small_run import metrics
from small_run import terminating_at

from keras_transformer.errors import InputError
from keras_transformer.training import load_config
from keras_transformer.training import run as running
from keras_transformer.training import train

pytestmark = pytest.mark.one_backend

PACKED = ["data.packing=24", "data.max_length=24", "training.checkpoint_every=2"]


def test_a_packed_run_has_one_shape_and_resumes(config_file, capsys, monkeypatch):
    digit_text.write_files(config_file.parent, "train", 40)
    config = load_config(config_file, [*PACKED, "output=whole"])
    train(config)
    said = capsys.readouterr().err
    assert "data.packing: 40 pairs in " in said
    assert "of the target positions are padding (" in said
    assert " in 1 shapes of about " in said
    rest = load_config(config_file, [*PACKED, "output=resumed"])
    with monkeypatch.context() as patch:
        patch.setattr(running, "Progress", terminating_at(3))
        with pytest.raises(running.Interrupted):
            train(rest)
    train(rest)
    assert_equal_runs(config_file.parent / "whole", config_file.parent / "resumed")
    assert "val_nll" in metrics(config_file.parent / "whole")[-1]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["data.packing=20"],
            "packing 20 does not hold a pair of max_length 200",
        ),
        ([*PACKED, "data.batch_source_tokens=64"], "remove batch_source_tokens"),
        ([*PACKED, "model.attention_window=2"], "data.packing: .*attention_window"),
        (
            [*PACKED, "model={kind: recurrent, preset: tiny}"],
            "data.packing is for model.kind transformer",
        ),
    ],
)
def test_what_does_not_go_with_packing_is_refused(config_file, overrides, message):
    with pytest.raises(InputError, match=message):
        train(load_config(config_file, overrides))
