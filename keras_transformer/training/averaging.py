"""The mean of several checkpoints, which translates better than the last one.

Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 6.1.
"""

from pathlib import Path

import numpy as np

from keras_transformer.errors import InputError
from keras_transformer.models.weights import assign
from keras_transformer.models.weights import read_arrays
from keras_transformer.training.checkpoints import list_checkpoints
from keras_transformer.translator import Translator


def average(run_folder, last, output):
    """Averages the last checkpoints of a run folder into a model folder.

    Args:
        run_folder: what `train` wrote.
        last: how many checkpoints.
        output: the model folder to write.

    Raises:
        InputError: where there are fewer checkpoints, or a folder is not right.
    """
    run_folder = Path(run_folder)
    checkpoints = list_checkpoints(run_folder)
    if not 1 <= last <= len(checkpoints):
        raise InputError(
            f"{run_folder} has {len(checkpoints)} checkpoints; --last must be between "
            f"1 and that, got {last}"
        )
    translator = Translator.load(run_folder / "averaged")
    steps = list(checkpoints)[-last:]
    paths = [checkpoints[step] for step in steps]
    assign(translator.model, average_checkpoints(paths), run_folder)
    listed = ", ".join(map(str, steps))
    translator.save(output, f"# Average of the steps {listed} of {run_folder.name}\n")


def average_checkpoints(paths):
    """`{path: array}`: the mean of the weights of several checkpoints."""
    total = None
    for path in paths:
        arrays = read_arrays(Path(path, "model.weights.h5"))
        if total is None:
            total = {name: a.astype(np.float64) for name, a in arrays.items()}
            continue
        if total.keys() != arrays.keys():
            raise InputError(f"{path} has other weights than {paths[0]}")
        for name, array in arrays.items():
            total[name] += array
    return {name: (a / len(paths)).astype(np.float32) for name, a in total.items()}
