"""From a run config to a trained model folder, in a run folder that can be resumed."""

import json
import signal
import sys
import time
from pathlib import Path

import keras

from keras_transformer import backends
from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.corpus import encode_pairs
from keras_transformer.errors import InputError
from keras_transformer.evaluation import evaluate
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.models import Transformer
from keras_transformer.models.weights import assign
from keras_transformer.training.callbacks import KeepRandomState
from keras_transformer.training.callbacks import Progress
from keras_transformer.training.callbacks import StopOnSignal
from keras_transformer.training.callbacks import learning_rate
from keras_transformer.training.checkpoints import average_checkpoints
from keras_transformer.training.checkpoints import list_checkpoints
from keras_transformer.training.checkpoints import restore_checkpoint
from keras_transformer.training.checkpoints import save_checkpoint
from keras_transformer.training.config import difference
from keras_transformer.training.config import load_config
from keras_transformer.training.corpora import make_tokenizers
from keras_transformer.training.corpora import read_corpora
from keras_transformer.training.metrics import NegativeLogLikelihood
from keras_transformer.training.metrics import TokenAccuracy
from keras_transformer.training.schedules import InverseSquareRoot
from keras_transformer.training.schedules import adam
from keras_transformer.translator import Translator

_SAMPLES = 5  # translations printed at the end


class Interrupted(Exception):
    """A signal ended the run; a checkpoint was written first.

    Attributes:
        exit_code: 128 + the number of the signal: 130 for ctrl-C, 143 for SIGTERM.
    """

    def __init__(self, message, number):
        super().__init__(message)
        self.exit_code = 128 + number


def train(config):
    """Trains as a `RunConfig` says, or goes on with its run folder.

    Prints progress to standard error and the scores of the test text to standard
    output. Leaves `averaged/` and `best/` in the run folder: model folders.

    Returns:
        The scores of the test text, or None where there is none.

    Raises:
        InputError: where config, data or folders are not right.
        Interrupted: where a signal stopped it; the run can be resumed.
    """
    return Run(config).train()


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
    paths = [path for _, path in checkpoints[-last:]]
    assign(translator.model, average_checkpoints(paths), run_folder)
    steps = ", ".join(str(step) for step, _ in checkpoints[-last:])
    translator.save(output, f"# Average of the steps {steps} of {run_folder.name}\n")


class Run:
    """One run: its folder, texts, model, and the loop over windows of steps."""

    def __init__(self, config):
        self.config = config
        self.folder = Path(config.output)
        self.step = 0
        self.best = None  # validation BLEU of `best/`
        self.seconds = 0.0  # spent in training steps, over all resumes

    def train(self):
        _open(self.folder, self.config)
        self.corpora = read_corpora(self.config.data)
        self._prepare()
        checkpoints = list_checkpoints(self.folder)
        if checkpoints:
            self._restore(checkpoints[-1][1])
        if self.step < self.config.training.steps:
            with StopOnSignal() as stop:
                while self.step < self.config.training.steps:
                    self._train_window(stop)
        else:
            _say(f"finished already: {self.folder} has all {self.step} steps")
        return self._finish()

    # === Before the first step ===

    def _prepare(self):
        config, training = self.config, self.config.training
        keras.utils.set_random_seed(training.seed)
        text = self.corpora.train
        self.tokenizers = make_tokenizers(config.tokenizer, text, self.folder)
        self.batches = self._batches(text, "training", shuffle=True)
        self.validation = None
        if self.corpora.validation is not None:
            self.validation = self._batches(
                self.corpora.validation, "validation", shuffle=False
            )
        sizes = [tokenizer.vocabulary_size for tokenizer in self.tokenizers]
        model_config = config.transformer_config(*sizes)
        self.model = Transformer(model_config, dtype=training.precision)
        self.model.compile(
            optimizer=adam(_schedule(training, model_config)),
            loss=LabelSmoothedCrossEntropy(training.label_smoothing),
            metrics=[NegativeLogLikelihood(), TokenAccuracy()],
        )
        self.model.optimizer.build(self.model.trainable_variables)
        self.translator = Translator(
            self.model,
            *self.tokenizers,
            beam_size=config.decoding.beam_size,
            length_penalty=config.decoding.length_penalty,
        )
        _say(
            f"{model_config.num_weights:,} weights; {len(self.batches)} batches an "
            f"epoch in {len(self.batches.shapes)} shapes of about "
            f"{self._tokens_per_step():.0f} target tokens"
        )

    def _batches(self, text, name, shuffle):
        data = self.config.data
        pairs, report = encode_pairs(text, *self.tokenizers, data.max_length)
        _say(f"{name}: {report}")
        seed = self.config.training.seed
        return TokenBatches(pairs, data.batch_tokens, shuffle=shuffle, seed=seed)

    def _tokens_per_step(self):
        return self.batches.num_tokens / len(self.batches)

    def _restore(self, path):
        state = restore_checkpoint(path, self.model)
        self.step, self.best = state["step"], state["best"]
        self.seconds = state["seconds"]
        _say(f"resumed from step {self.step}")

    # === The loop ===

    def _train_window(self, stop):
        """Steps up to the next validation or checkpoint, then that."""
        training = self.config.training
        end = min(
            training.steps,
            _next_multiple(self.step, training.validate_every),
            _next_multiple(self.step, training.checkpoint_every),
        )
        progress = Progress(self.step, training.steps, self._tokens_per_step())
        began = time.monotonic()
        history = self.model.fit(
            self.batches.from_step(self.step),
            steps_per_epoch=end - self.step,
            shuffle=False,
            verbose=0,
            callbacks=[progress, stop, KeepRandomState()],
        )
        self.seconds += time.monotonic() - began
        self.step += stop.step
        _stop_on_nan(history.history, self.step)
        logs = {name: values[-1] for name, values in history.history.items()}
        logs["learning_rate"] = learning_rate(self.model.optimizer)
        logs["seconds"] = round(self.seconds, 1)
        stopped = stop.signal is not None
        last = self.step == training.steps
        if not stopped and (last or self.step % training.validate_every == 0):
            logs |= self._validate()
        self._log(logs)
        if stopped or last or self.step % training.checkpoint_every == 0:
            state = {"best": self.best, "seconds": self.seconds}
            keep = max(training.keep_checkpoints, training.average_last)
            save_checkpoint(self.folder, self.model, self.step, state, keep)
        if stopped:
            name = signal.Signals(stop.signal).name
            raise Interrupted(
                f"stopped by {name} at step {self.step}; run the same command again to "
                f"go on from there",
                stop.signal,
            )

    def _validate(self):
        if self.validation is None:
            return {}
        values = self.model.evaluate(self.validation, verbose=0, return_dict=True)
        text = self.corpora.validation
        hypotheses = self.translator.translate(text.source, beam_size=1)
        (bleu,) = evaluate(hypotheses, text.target, metrics=("bleu",))
        logs = {f"val_{name}": value for name, value in values.items()}
        logs["val_bleu"] = bleu.score
        _say(
            f"step {self.step}: validation nll {values['nll']:.4f}, "
            f"token accuracy {values['token_accuracy']:.4f}, "
            f"greedy BLEU {bleu.score:.2f}"
        )
        if self.best is None or bleu.score > self.best:
            self.best = bleu.score
            card = _card(self.config, self.step, [f"Validation, greedy: {bleu}"])
            self.translator.save(self.folder / "best", card)
        return logs

    def _log(self, logs):
        path = self.folder / "logs" / "metrics.jsonl"
        path.parent.mkdir(exist_ok=True)
        values = {name: round(float(value), 6) for name, value in logs.items()}
        with path.open("a") as file:
            file.write(json.dumps({"step": self.step, **values}) + "\n")

    # === After the last step ===

    def _finish(self):
        training = self.config.training
        paths = [path for _, path in list_checkpoints(self.folder)]
        paths = paths[-training.average_last :]
        if len(paths) > 1:
            assign(self.model, average_checkpoints(paths), self.folder)
        scores, lines = None, []
        if self.corpora.test is not None:
            scores = self._test()
            lines = [f"Test: {score}" for score in scores]
        card = _card(self.config, self.step, lines)
        self.translator.save(self.folder / "averaged", card)
        _say(f"model folder: {self.folder / 'averaged'}")
        if scores is not None:
            bleu = scores[0]
            print(f"test BLEU = {bleu.score:.1f} {bleu.signature}", flush=True)
        return scores

    def _test(self):
        text = self.corpora.test
        _say(f"translating {len(text)} test lines")
        hypotheses = self.translator.translate(text.source)
        output = self.folder / "test.hypotheses.txt"
        output.write_text("".join(f"{h}\n" for h in hypotheses), encoding="utf-8")
        scores = evaluate(hypotheses, text.target)
        for i in range(0, len(text), max(len(text) // _SAMPLES, 1)):
            print(f"  source     {text.source[i]}")
            print(f"  model      {hypotheses[i]}")
            print(f"  reference  {text.target[i]}\n")
        exact = sum(h == r for h, r in zip(hypotheses, text.target, strict=True))
        minutes = self.seconds / 60
        print(f"{self.step} steps in {minutes:.1f} minutes of training")
        print(f"exact matches: {exact} of {len(text)} ({exact / len(text):.1%})")
        for score in scores:
            print(score)
        return scores


def _open(folder, config):
    """A new run folder, or one of an equal config."""
    path = folder / "config.yaml"
    try:
        if path.exists():
            changes = difference(load_config(path), config)
            if changes:
                raise InputError(
                    f"{folder} was begun with another config ({'; '.join(changes)}); "
                    f"choose another output, or go back to that config"
                )
            return
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise InputError(
                f"{folder} exists and is not a run folder; choose another output, or "
                f"remove it"
            )
        folder.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(config.to_yaml(), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise InputError(
            f"cannot write the run folder {folder}: {error.strerror}; choose another "
            f"output"
        ) from None


def _schedule(training, model_config):
    hidden_dim, warmup = model_config.hidden_dim, training.warmup_steps
    schedule = InverseSquareRoot(hidden_dim, warmup)
    if training.learning_rate is not None:
        schedule = InverseSquareRoot.with_peak(
            training.learning_rate, hidden_dim, warmup
        )
    if training.schedule == "inverse_square_root":
        return schedule
    peak = float(schedule(warmup - 1))
    return keras.optimizers.schedules.CosineDecay(
        0.0,
        decay_steps=max(training.steps - warmup, 1),
        warmup_target=peak,
        warmup_steps=warmup,
    )


def _next_multiple(step, interval):
    return (step // interval + 1) * interval


def _stop_on_nan(history, step):
    loss = history["loss"][-1]
    if loss != loss:
        raise InputError(
            f"the loss is not a number since step {step} or shortly before; lower "
            f"training.learning_rate or lengthen training.warmup_steps"
        )


def _say(text):
    print(text, file=sys.stderr, flush=True)


def _card(config, step, lines):
    """The README.md of a model folder."""
    scores = "\n".join(f"* {line}" for line in lines) or "* not scored"
    return (
        f"# A translation model\n\n{step} steps of `keras-transformer train` on the "
        f"{backends.name} backend.\n\n## Scores\n\n{scores}\n\n"
        f"## Config\n\n```yaml\n{config.to_yaml()}```\n"
    )
