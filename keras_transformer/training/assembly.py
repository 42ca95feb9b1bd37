"""Assembly of a run from its config: texts, batches, model, validation."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any
from typing import NamedTuple

from keras_transformer import backends
from keras_transformer import learned_metrics
from keras_transformer.backends.distribution import Distribution
from keras_transformer.backends.random_seed import set_random_seed
from keras_transformer.config.languages import Languages
from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.buckets import GPU_SIZES_MULTIPLE_OF
from keras_transformer.data.encoding import encode_pairs
from keras_transformer.data.packing import PackedBatches
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.piece_table import common_special_ids
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import told_of
from keras_transformer.evaluation import check_options
from keras_transformer.learned_metrics import Metric
from keras_transformer.models.kinds import num_weights
from keras_transformer.models.translation_model import TranslationModel
from keras_transformer.training import batch_rule
from keras_transformer.training import run_folder
from keras_transformer.training.config import RunConfig
from keras_transformer.training.corpora import Corpora
from keras_transformer.training.corpora import TrainingPairs
from keras_transformer.training.corpora import languages_of
from keras_transformer.training.corpora import load_tokenizers
from keras_transformer.training.corpora import make_tokenizers
from keras_transformer.training.model import compiled_model
from keras_transformer.training.own_loss import LossFactory
from keras_transformer.training.own_loss import cross_entropy
from keras_transformer.training.token_budget import find_batch_tokens
from keras_transformer.training.validation import Validation
from keras_transformer.translator import Translator


class Parts(NamedTuple):
    """The parts of a run: texts, batches, model, validation."""

    batches: TokenBatches
    translator: Translator
    validation: Validation | None
    test: ParallelText | None
    encoded: str | None  # the digest of the training text's ids, if known
    metrics: Mapping[str, Metric]  # of the user


def build_parts(
    config: RunConfig,
    distribution: Distribution,
    say: Callable[[str], None],
    make_loss: LossFactory = cross_entropy,
) -> Parts:
    """The `Parts` of a run, with fresh weights.

    The chief creates tokenizers and encoded text once and keeps them in the run folder.

    Args:
        config: a `RunConfig`.
        distribution: the `Distribution` of the training.
        say: a function that receives messages for people.
        make_loss: what makes the loss.

    Raises:
        InputError: where a text is faulty, or not the one that the run began with.
    """
    training = config.training
    check_options(**config.evaluation.options)
    metrics = learned_metrics.found(config.evaluation.metrics, "evaluation.metrics")
    corpora, tokenizers, text, languages = _encoded(config, distribution, say)
    say(f"training: {text.report}")
    rule = batch_rule.batch_rule(config.output)

    def make_model() -> TranslationModel:
        set_random_seed(training.seed)
        model = compiled_model(config, tokenizers, make_loss)
        model.draws_by_row = rule > 1
        return model

    options: dict[str, Any] = {
        "rows_multiple_of": distribution.num_replicas * training.micro_batches,
        "source_end": config.model["source_end"],
        "sizes_multiple_of": batch_rule.sizes_multiple_of(config.output),
        "max_positions": config.longest,
        "rule": rule,
        "augment": text.augment,
        "span_corruption": text.span_corruption,
        **common_special_ids(tokenizers),
    }
    make_batches: Callable[..., TokenBatches] = functools.partial(
        TokenBatches,
        text.pairs,
        batch_source_tokens=config.data.batch_source_tokens,
        **options,
    )
    make_unpacked = make_batches
    if config.data.packing is not None:
        make_batches = functools.partial(
            PackedBatches, text.pairs, length=config.data.packing, **options
        )

    def find() -> int:
        try_batches = functools.partial(make_batches, shuffle=False)
        tokens = find_batch_tokens(
            make_model,
            try_batches,
            distribution.part,
            config.data.batch_source_tokens,
        )
        say(f"data.batch_tokens: {tokens} found")
        return tokens

    batch_tokens = run_folder.batch_tokens(config.output, config, distribution, find)
    batches = make_batches(
        batch_tokens,
        seed=training.seed,
        shares=text.shares,
        bpe_dropout=text.bpe_dropout,
    )
    if isinstance(batches, PackedBatches):
        unpacked = make_unpacked(batch_tokens, shares=text.shares)
        say(
            f"data.packing: {len(text.pairs):,} pairs in {batches.num_rows:,} rows of "
            f"{batches.length} positions; {batches.padding:.1%} of the target "
            f"positions are padding ({unpacked.padding:.1%} without packing)"
        )
    model = make_model()
    known_words = None
    if distribution.is_chief:  # the chief saves models
        known_words = run_folder.keep_known_words(config, corpora)
    translator = Translator(
        model,
        *tokenizers,
        known_words=known_words,
        languages=languages,
        about=run_folder.about(config),
        **config.decoding.model_dump(),
    )
    _check_texts(config, corpora, translator)
    validation = None
    if corpora.validation is not None:
        validation = _validation(
            config,
            translator,
            corpora.validation,
            batch_tokens,
            distribution,
            metrics,
            say,
        )
    learning = sum(math.prod(weight.shape) for weight in model.trainable_weights)
    fewer = training.lora is not None or training.freeze
    say(
        f"{num_weights(model):,} weights"
        + (f" ({learning:,} learn)" if fewer else "")
        + f"; {len(batches)} batches an epoch in "
        f"{len(batches.shapes)} shapes of about "
        f"{batches.num_tokens / len(batches):.0f} target tokens"
    )
    return Parts(batches, translator, validation, corpora.test, text.digest, metrics)


def _encoded(
    config: RunConfig, distribution: Distribution, say: Callable[[str], None]
) -> tuple[Corpora, tuple[Tokenizer, Tokenizer], TrainingPairs, Languages | None]:
    """The corpora of a run, its two tokenizers, the training text, the languages."""
    folder = config.output
    if not distribution.is_chief:
        distribution.wait_for_preparation()  # for the files of the chief
    corpora = Corpora(config.data)
    if distribution.is_chief:
        run_folder.keep_corpus(folder, corpora)
        run_folder.check_files(folder)
        _keep_batches(config, distribution, say)
        source, target = make_tokenizers(
            config.tokenizer, corpora.sample, folder, corpora.symbols
        )
        languages = run_folder.keep_languages(config, source)
        run_folder.keep_teacher(config, languages)
        run_folder.keep_origin(config)
    else:
        run_folder.check_corpus(folder, corpora)
        source, target = load_tokenizers(config.tokenizer, folder)
        languages = run_folder.languages(folder)
    text = corpora.encode(
        source,
        target,
        folder / run_folder.ENCODED,
        config.longest,
        say,
        split_symbols=batch_rule.batch_rule(folder) == 1,
        languages=languages,
        source_end=config.model["source_end"],
    )
    run_folder.check_encoded(folder, text.digest)
    if distribution.is_chief:
        distribution.wait_for_preparation()
    distribution.wait_for_preparation()  # for those that keep an encoding of their own
    return corpora, (source, target), text, languages


def _keep_batches(
    config: RunConfig, distribution: Distribution, say: Callable[[str], None]
) -> None:
    """Records the batch rule of a new run; reports changes of an older run."""
    path = config.output / batch_rule.FILE
    shares = distribution.num_replicas, config.training.micro_batches
    if not path.exists():
        is_under_way = run_folder.has_weights(config.output)
        multiple = GPU_SIZES_MULTIPLE_OF if backends.on_gpu() else 1
        record = batch_rule.new_record(is_under_way, *shares, multiple)
        run_folder.write(path, record)
    batch_rule.tell_changes(config.output, *shares, say)


def _check_texts(config: RunConfig, corpora: Corpora, translator: Translator) -> None:
    """Refuses validation and test lines that could not be translated later."""
    for part, text, corpus in (
        ("validation", corpora.validation, config.data.validation),
        ("test", corpora.test, config.data.test),
    ):
        if text is not None:
            with told_of(f"data.{part}"):
                translator.check(text.source, **languages_of(corpus))


def _validation(
    config: RunConfig,
    translator: Translator,
    text: ParallelText,
    batch_tokens: int,
    distribution: Distribution,
    metrics: Mapping[str, Metric],
    say: Callable[[str], None],
) -> Validation:
    tokenizers = (translator.tokenizer, translator.target_tokenizer)
    with told_of("data.validation"):
        codes = languages_of(config.data.validation)
        pairs, report = encode_pairs(
            text,
            *tokenizers,
            config.data.max_length,
            languages=translator.languages,
            **codes,
        )
        say(f"validation: {report}")
        batches = TokenBatches(
            pairs,
            batch_tokens,
            shuffle=False,
            rows_multiple_of=distribution.num_replicas,
            source_end=config.model["source_end"],
            batch_source_tokens=config.data.batch_source_tokens,
            sizes_multiple_of=batch_rule.sizes_multiple_of(config.output),
            max_positions=config.longest,
            rule=batch_rule.batch_rule(config.output),
            **common_special_ids(tokenizers),
        )
    return Validation(
        translator,
        text,
        batches.from_step(0, part=distribution.part),
        len(batches),
        config.training.best_metric,
        config.evaluation.options,
        codes,
        metrics,
    )
