"""Checkpoint averaging: the mean of several checkpoints, better than the last one.

Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 6.1.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from keras_transformer.errors import InputError
from keras_transformer.files.plain_file import plain_file
from keras_transformer.models.translation_model import TranslationModel
from keras_transformer.models.weights import assign
from keras_transformer.models.weights import merged
from keras_transformer.models.weights import read_arrays
from keras_transformer.models.weights import weight_values
from keras_transformer.training import report
from keras_transformer.training import run_folder as run_folders
from keras_transformer.training.checkpoints import check_checkpoint
from keras_transformer.training.checkpoints import has_digests
from keras_transformer.training.checkpoints import read_checkpoint
from keras_transformer.training.checkpoints import restore_snapshot
from keras_transformer.training.config import RunConfig
from keras_transformer.training.config import TrainingSection
from keras_transformer.training.config import load_config
from keras_transformer.training.corpora import load_tokenizers
from keras_transformer.training.model import compiled_model
from keras_transformer.training.model import new_model
from keras_transformer.training.moving_average import averaged
from keras_transformer.training.run_state import State
from keras_transformer.training.run_state import newest_state
from keras_transformer.training.run_state import regular_checkpoints
from keras_transformer.training.run_state import scored_checkpoints
from keras_transformer.training.validation import Scores
from keras_transformer.training.validation import best_steps
from keras_transformer.translator import Translator


def average(
    run_folder: str | Path,
    last: int,
    output: str | Path,
    best: int | None = None,
    say: Callable[[str], None] = report.say,
) -> list[int]:
    """Averages checkpoints of a run folder, finished or not, into a model folder.

    With `training.ema`, it averages the moving averages. A damaged checkpoint is
    reported, and the one before it is used.

    Args:
        run_folder: a folder written by `train`.
        last: the number of latest checkpoints; those saved at a signal, between two
            regular ones, do not count.
        output: the model folder to write.
        best: the number of best checkpoints in validation, instead of `last`.
        say: a function that receives messages; by default they are printed to standard
            error.

    Returns:
        The steps of the averaged checkpoints.

    Raises:
        InputError: where there are fewer checkpoints, or a folder is not valid.
    """
    run_folder = Path(run_folder)
    if not (run_folder / "config.yaml").exists():
        raise InputError(f"{run_folder} is not a run folder; give one that train wrote")
    config = load_config(plain_file(run_folder, "config.yaml"))
    run_folders.check_files(run_folder)
    paths = _paths_to_average(run_folder, config.training, last, best, say)
    tokenizers = load_tokenizers(config.tokenizer, run_folder)
    if config.training.ema is None:
        model = new_model(config, tokenizers)
        reader = weights_reader(config.training)
        weights = average_checkpoints(list(paths.values()), reader)
    else:
        model = compiled_model(_without_teacher(config), tokenizers)
        weights = average_checkpoints(
            list(paths.values()), partial(_running_mean, model)
        )
    assign(model, weights, run_folder)
    known_words = run_folders.known_words(run_folder)
    options = config.decoding.model_dump()
    languages = run_folders.languages(run_folder)
    translator = Translator(
        model,
        *tokenizers,
        known_words=known_words,
        languages=languages,
        about=run_folders.about(config),
        **options,
    )
    card = f"# Average of the steps {_listed(paths)} of {run_folder.name}\n"
    translator.save(output, card)
    return list(paths)


def _paths_to_average(
    run_folder: Path,
    training: TrainingSection,
    last: int,
    best: int | None,
    say: Callable[[str], None],
) -> dict[int, Path]:
    """`{step: path}` of the complete checkpoints to average, in rising order."""
    checkpoints: dict[int, Path] = {}
    scores: Scores = []
    if (state := newest_state(run_folder, say)) is not None:
        interval, scores = training.checkpoint_every, state.scores
        checkpoints = regular_checkpoints(run_folder, state, interval)
        if best is not None:
            checkpoints = scored_checkpoints(run_folder, state)
            lost = [s for s in best_steps(scores, best) if s not in checkpoints]
            if lost and 1 <= best <= len(scores):
                raise InputError(
                    f"of the {best} best validations of {run_folder}, the checkpoints "
                    f"of steps {_listed(sorted(lost))} were not kept; set "
                    f"training.keep_best {best} before training, or use "
                    f"{run_folder / 'best'}, the model of the best one"
                )
    option, count, kind = "last", last, ""
    if best is not None:
        option, count, kind = "best", best, " with a validation"

    def choose(checkpoints: Mapping[int, Path]) -> list[int]:
        return steps_to_average(checkpoints, scores, last, best)

    if 1 <= count <= len(checkpoints):
        checkpoints = without_damaged(checkpoints, choose, say)
    if not 1 <= count <= len(checkpoints):
        raise InputError(
            f"{run_folder} has {len(checkpoints)} checkpoints{kind}; --{option} must "
            f"be between 1 and that, got {count}"
        )
    paths = {step: checkpoints[step] for step in choose(checkpoints)}
    if not all(map(has_digests, paths.values())):
        say(f"{run_folder} has checkpoints of an earlier version: read unchecked")
    return paths


def without_damaged(
    checkpoints: Mapping[int, Path],
    choose: Callable[[Mapping[int, Path]], list[int]],
    say: Callable[[str], None],
) -> dict[int, Path]:
    """The checkpoints without damaged ones that would be chosen.

    Args:
        checkpoints: `{step: path}`.
        choose: a function of checkpoints that returns the steps to use.
        say: a function that receives a message for each damaged one.
    """
    remaining = dict(checkpoints)
    intact: set[int] = set()
    while unknown := [step for step in choose(remaining) if step not in intact]:
        for step in unknown:
            try:
                check_checkpoint(remaining[step])
                intact.add(step)
            except InputError as error:
                say(f"warning: {error}; another checkpoint is used instead")
                del remaining[step]
    return remaining


def steps_to_average(
    checkpoints: Mapping[int, Path],
    scores: Scores,
    last: int | None,
    best: int | None,
) -> list[int]:
    """The steps of the checkpoints to average, in rising order.

    Args:
        checkpoints: `{step: path}`; some may be missing after a full disk.
        scores: `[step, score]` of each validation.
        last: the number of latest checkpoints.
        best: the number of best checkpoints with a score; None for `last`.
    """
    if best is None:
        return list(checkpoints)[-(last or 0) :]
    stored = [(step, score) for step, score in scores if step in checkpoints]
    return sorted(best_steps(stored, best))


def steps_to_deliver(
    checkpoints: Mapping[int, Path], state: State, training: TrainingSection
) -> tuple[list[int], str]:
    """The steps that a run averages at its end, and a warning or "".

    There are none where the current weights are used: where averaging is off, and where
    the newest checkpoint is lost, so that a mean would be one of old weights. Missing
    checkpoints are not among the best.

    Args:
        checkpoints: `{step: path}`, complete; some may be missing after a full disk.
        state: the state of the run; `step` is its last step.
        training: the section of the config.
    """
    last, best = training.average_last, training.average_best
    if not best and (last or 1) == 1:
        return [], ""
    steps = steps_to_average(checkpoints, state.scores, last, best)
    due = state.regular_steps(training.checkpoint_every)
    written = [*(step for step in due if step < state.step), state.step]
    lost = [step for step in written[-(last or 1) :] if step not in checkpoints]
    if best or not lost:
        return steps, ""
    if state.step in lost:
        steps = []
    mean = f"is the mean of the steps {_listed(steps)}"
    content = mean if steps else f"has the weights of step {state.step} alone"
    return steps, f"checkpoints are missing: {_listed(lost)}; averaged/ {content}"


def _listed(steps: Iterable[int]) -> str:
    return ", ".join(map(str, steps))


def _weights(path: Path) -> dict[str, np.ndarray]:
    return read_arrays(path / "model.weights.h5")


def weights_reader(
    training: TrainingSection,
) -> Callable[[Path], dict[str, np.ndarray]]:
    """What reads the weights of a checkpoint, for `average_checkpoints`.

    Args:
        training: the section of the config; adapters (LoRA) are added to their
            matrices, so that the mean is one of models.
    """
    if training.lora is None:
        return _weights
    scale = training.lora.scale
    return lambda path: merged(_weights(path), scale)


def _without_teacher(config: RunConfig) -> RunConfig:
    """A config whose model has the same weights, without the folder of the teacher."""
    training = config.training.model_copy(update={"distillation": None})
    return config.model_copy(update={"training": training})


def _running_mean(model: TranslationModel, path: Path) -> dict[str, np.ndarray]:
    """The moving average of a checkpoint, which a run with `training.ema` validates."""
    snapshot, _ = read_checkpoint(path)
    restore_snapshot(snapshot, model, path)
    with averaged(model):
        return weight_values(model)


def average_checkpoints(
    paths: Sequence[Path], weights: Callable[[Path], dict[str, np.ndarray]] = _weights
) -> dict[str, np.ndarray]:
    """The mean weights of several checkpoints, `{path: array}`.

    Args:
        paths: the paths of the checkpoints.
        weights: a function that reads the weights of one.
    """
    total: dict[str, np.ndarray] = {}
    for path in paths:
        arrays = weights(path)
        if not total:
            total = {name: a.astype(np.float64) for name, a in arrays.items()}
            continue
        _check_same(path, arrays, paths[0], total)
        for name, array in arrays.items():
            total[name] += array
    return {name: (a / len(paths)).astype(np.float32) for name, a in total.items()}


def _check_same(
    path: Path,
    arrays: Mapping[str, np.ndarray],
    first: Path,
    others: Mapping[str, np.ndarray],
) -> None:
    """Refuses weights of other names or shapes than those of the first checkpoint."""
    for name in sorted(arrays.keys() | others.keys()):
        shapes = [
            held[name].shape if name in held else "none" for held in (arrays, others)
        ]
        if shapes[0] != shapes[1]:
            raise InputError(
                f"{path} is of another model than {first}: the weight {name!r} has "
                f"shape {shapes[0]}, and {shapes[1]} there; average checkpoints of one "
                f"run"
            )
