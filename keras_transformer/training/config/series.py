"""Several runs from one config: with several seeds, and in stages.

The keys `seeds`, `stages` and `baseline` of a config file; each run has a `RunConfig`
without them.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import TypeVar

import pydantic

from keras_transformer.config.faults import first_fault
from keras_transformer.errors import InputError
from keras_transformer.training.config.conventions import filled
from keras_transformer.training.config.conventions import has_keys
from keras_transformer.training.config.run_config import OF_SERIES
from keras_transformer.training.config.run_config import Document
from keras_transformer.training.config.run_config import RunConfig
from keras_transformer.training.config.run_config import is_of_run
from keras_transformer.training.config.run_config import override
from keras_transformer.training.config.run_config import read_document
from keras_transformer.training.config.section import Section
from keras_transformer.training.config.series_keys import SeriesKeys
from keras_transformer.training.config.series_keys import StageKeys

TRANSLATION = "translation_by"
_NOTHING = "none"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
#: Sections that a trained model decides.
_TRAINED = ("model", "tokenizer")
_NEW = "new_vocabulary"
#: Keys of a corpus, and arguments of a translator.
_CODES = ("source_language", "target_language")
_SIDES = ("source", "target")
#: Texts, of which a stage has its own or the common one.
_WHOLE = ("validation", "test")

_Keys = TypeVar("_Keys", bound=Section)


@dataclasses.dataclass(frozen=True)
class Translation:
    """A text that the model of an earlier run translates.

    Args:
        by: the name of the run.
        text: the file of its lines.
        output: the file of the translations.
        languages: the codes of both, where that model is multilingual.
    """

    by: str
    text: Path
    output: Path
    languages: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class SeriesRun:
    """One run of a series.

    Args:
        name: its folder in that of the series.
        stage: its stage; `""` where there are none.
        after: the name of the run whose model it begins with; None for none.
        content: its config, without output and without the model of that run.
        seed: its seed, where there are several.
    """

    name: str
    stage: str
    after: str | None
    content: dict[str, Any]
    seed: int | None


@dataclasses.dataclass(frozen=True)
class Series:
    """Several runs, in the order in which they are trained.

    Args:
        folder: the folder of their run folders.
        runs: the runs.
        baseline: a run folder to compare with; None for none.
        document: the config file.
    """

    folder: Path
    runs: tuple[SeriesRun, ...]
    baseline: Path | None
    document: Document

    def run(self, name: str) -> SeriesRun:
        """The run of a name."""
        (found,) = (run for run in self.runs if run.name == name)
        return found

    def config(self, run: SeriesRun) -> RunConfig:
        """The config of a run; the run whose model it begins with has finished.

        Raises:
            InputError: where it is not valid.
        """
        content = self._content(run)
        if run.after is not None:
            folder = (self.folder / run.after / "averaged").absolute()
            content["model"] = {**_keys(content, "model"), "folder": str(folder)}
        return self.document.config(content, _about(run))

    def translations(self, run: SeriesRun) -> list[Translation]:
        """The texts that earlier runs translate for a run."""
        found = []
        for corpus in _corpora(run.content):
            for side, other in (_SIDES, _SIDES[::-1]):
                if _is_translation(corpus.get(side)):
                    if corpus.get("prefix"):
                        raise InputError(
                            f"{self.document.where}: {_about(run)}{TRANSLATION} "
                            f"translates lines as they are in the files; remove the "
                            f"prefix of that corpus"
                        )
                    by = self._name(run, corpus[side][TRANSLATION])
                    codes = self._languages(run, by, corpus, side)
                    for path in _files(corpus[other]):
                        text = Path(self.document.path.parent, path)
                        output = self._output(by, path, codes)
                        found.append(Translation(by, text, output, codes))
        return found

    def configs(self) -> dict[str, RunConfig]:
        """The configs of all runs by name, as far as they are known before the first.

        Raises:
            InputError: where one is not valid.
        """
        begins: dict[str, RunConfig] = {}
        texts: dict[Path, Path] = {}
        for run in self.runs:
            content = self._content(run)
            if run.after is not None:
                self._check_after(run, content, begins[run.after])
                folder = str((self.folder / run.after / "averaged").absolute())
                content = _as_begun(content, begins[run.after], folder)
            config = self.document.config(content, _about(run))
            self._check_vocabulary(run, config, begins)
            if config.training.distribution in ("torchrun", "multi_worker"):
                raise InputError(
                    f"{self.document.where}: {_about(run)}training.distribution "
                    f"{config.training.distribution} has several processes, of which "
                    f"each run is a command of its own; give each run a config"
                )
            for translation in self.translations(run):
                text = texts.setdefault(translation.output, translation.text)
                if text != translation.text:
                    raise InputError(
                        f"{self.document.where}: {text} and {translation.text}, which "
                        f"{translation.by} translates, have one name; rename one"
                    )
            begins[run.name] = config
        return begins

    def _check_after(
        self, run: SeriesRun, content: Mapping[str, Any], before: RunConfig
    ) -> None:
        """Refuses keys that do not go with the model of an earlier stage."""
        where = f"{self.document.where}: {_about(run)}"
        begins = f"{run.stage} goes on from {run.after}"
        if content.get("conventions") is not None:
            raise InputError(
                f"{where}conventions are those of a new model, and {begins}; give them "
                f"to the stages that begin anew"
            )
        own, trained = _keys(content, "model"), before.plain()["model"]
        for key, value in own.items():
            is_known = key in {*before.model, "preset", "folder"} - {_NEW}
            if is_known and not key.endswith("dropout") and value != trained.get(key):
                raise InputError(
                    f"{where}model.{key} {value!r} is not that of the model, since "
                    f"{begins}; remove it, or begin anew (after: {_NOTHING})"
                )
        if own.get(_NEW):
            return
        tokenizer = content.get("tokenizer")
        if tokenizer and tokenizer != {"shared": before.tokenizer.shared}:
            raise InputError(
                f"{where}the tokenizer is that of {run.after}, since {begins}; remove "
                f"tokenizer, or set model.{_NEW} to true"
            )

    def _check_vocabulary(
        self, run: SeriesRun, config: RunConfig, begins: Mapping[str, RunConfig]
    ) -> None:
        """Refuses tags and languages that the tokenizer of an earlier stage lacks."""
        owner = run
        while owner.after is not None and not _keys(owner.content, "model").get(_NEW):
            owner = self.run(owner.after)
        if owner is run:
            return
        first = begins[owner.name]
        paths = first.tokenizer.path, first.tokenizer.source_path
        begins = first.model.get("folder") and not first.model.get(_NEW)
        if begins or any(paths) or first.data.phrasebook:
            return  # what it has is in files
        where = f"{self.document.where}: {_about(run)}"
        known = [corpus.tag for corpus in first.data.train or ()]
        known += first.tokenizer.user_defined_symbols or ()
        for corpus in config.data.train or ():
            if corpus.tag is not None and corpus.tag not in known:
                raise InputError(
                    f"{where}the tag {corpus.tag} of a corpus is none of the "
                    f"tokenizer's, which is trained by {owner.stage}; add it to "
                    f"tokenizer.user_defined_symbols there"
                )
        if config.data.has_languages and not first.data.has_languages:
            raise InputError(
                f"{where}its corpora have languages, and the model of {owner.stage}, "
                f"which it goes on from, is told none; give source_language and "
                f"target_language to the corpora of {owner.stage}, too"
            )

    def _content(self, run: SeriesRun) -> dict[str, Any]:
        """The config of a run with its output and with the paths of translations."""
        content = copy.deepcopy(run.content)
        for corpus in _corpora(content):
            for side, other in (_SIDES, _SIDES[::-1]):
                if _is_translation(corpus.get(side)):
                    by = self._name(run, corpus[side][TRANSLATION])
                    codes = self._languages(run, by, corpus, side)
                    corpus[side] = [
                        str(self._output(by, path, codes).absolute())
                        for path in _files(corpus[other])
                    ]
        return {**content, "output": str(self.folder / run.name)}

    def _name(self, run: SeriesRun, stage: Any) -> str:
        """The run of an earlier stage, of the same seed where it has several."""
        for earlier in self.runs[: self.runs.index(run)]:
            if earlier.stage == stage and earlier.seed in (None, run.seed):
                return earlier.name
        where = f"{self.document.where}: {_about(run)}{TRANSLATION} {stage!r}"
        if any(one.stage == stage for one in self.runs[: self.runs.index(run)]):
            raise InputError(
                f"{where} has other seeds; give both stages the same, or {stage} none"
            )
        raise InputError(f"{where} is not an earlier stage; give the name of one")

    def _languages(
        self, run: SeriesRun, by: str, corpus: Mapping[str, Any], side: str
    ) -> dict[str, str]:
        """From which language the run `by` makes a side of a corpus, and into which.

        Nothing where that run does not name the languages of its own text.
        """
        translator = self.run(by)
        texts = _corpora(translator.content)
        keys = _CODES if side == "target" else _CODES[::-1]
        codes: dict[str, str] = {}
        for name, key in zip(_CODES, keys, strict=True):
            if any(text.get(name) for text in texts):
                if not corpus.get(key):
                    raise InputError(
                        f"{self.document.where}: {_about(run)}{TRANSLATION} {by} has "
                        f"several languages; give that corpus {' and '.join(_CODES)}"
                    )
                codes[name] = corpus[key]
        return codes

    def _output(self, by: str, path: str, codes: Mapping[str, str]) -> Path:
        name = Path(path).name
        for packed in (".gz", ".bz2", ".xz", ".zst"):
            name = name.removesuffix(packed)
        folder = ".".join([by.replace("/", "."), *codes.values()])
        return self.folder / "translations" / folder / name


def load_runs(
    path: str | Path | None, overrides: Sequence[str] = ()
) -> RunConfig | Series:
    """Reads a config file, of one run or of several.

    Args:
        path: see `load_config`.
        overrides: see `load_config`; of a series they are for each of its runs, but
            those of `model` and `tokenizer` only for runs that begin from nothing, or
            take the common tokenizer for a new vocabulary.

    Raises:
        InputError: naming file, key and what is expected.
    """
    document = read_document(path, overrides)
    content = document.content
    keys = {key: content[key] for key in OF_SERIES if content.get(key) is not None}
    base = {key: value for key, value in content.items() if key not in OF_SERIES}
    if not keys:
        return document.config(base)
    if is_of_run(document.path):
        raise InputError(
            f"{document.where} is in a run folder, and {next(iter(keys))} is for "
            f"several runs; remove it, or give the config file of all runs"
        )
    given = _validated(SeriesKeys, keys, document.where)
    if given.seeds is None and given.stages is None:
        raise InputError(
            f"{document.where}: baseline is what the runs of seeds or stages are "
            f"compared with; give one of them, or remove baseline"
        )
    output = base.pop("output", None) or f"runs/{document.name or _phrasebook(base)}"
    runs = tuple(_runs(document, base, given))
    baseline = None if given.baseline is None else Path(given.baseline).expanduser()
    series = Series(Path(output).expanduser(), runs, baseline, document)
    series.configs()  # refuses what is not valid
    return series


def _phrasebook(base: Mapping[str, Any]) -> str:
    return f"phrasebook-{base['data']['phrasebook']}"


def _runs(
    document: Document, base: dict[str, Any], given: SeriesKeys
) -> Iterator[SeriesRun]:
    if given.stages is None:
        for seed in _list(given.seeds):
            yield SeriesRun(f"seed-{seed}", "", None, _seeded(base, seed), seed)
        return
    seeds_of: dict[str, list[int | None]] = {}
    before: str | None = None
    for number, fields in enumerate(given.stages):
        where = f"{document.where}: stages.{number}: "
        own = {key: fields[key] for key in StageKeys.model_fields if key in fields}
        stage = _validated(StageKeys, own, where.removesuffix(": "))
        name = stage.name
        _check_name(name, seeds_of, where)
        after = _before(stage, before, seeds_of, where)
        seeds = _list(stage.seeds or given.seeds)
        if after is not None and seeds_of[after] != [None] and seeds != seeds_of[after]:
            raise InputError(
                f"{where}{name} goes on from {after}, which has other seeds; give both "
                f"the same, or {after} none"
            )
        content = _content(document, base, fields, after)
        for seed in seeds:
            label = name if seed is None else f"{name}/seed-{seed}"
            origin = after
            if after is not None and seeds_of[after] != [None]:
                origin = f"{after}/seed-{seed}"
            yield SeriesRun(label, name, origin, _seeded(content, seed), seed)
        seeds_of[name], before = seeds, name


def _content(
    document: Document,
    base: dict[str, Any],
    fields: Mapping[str, Any],
    after: str | None,
) -> dict[str, Any]:
    """The config of a stage: the common one, with what is its own in its place."""
    own = {k: v for k, v in fields.items() if k not in StageKeys.model_fields}
    if "output" in own:
        raise InputError(
            f"{document.where}: stage {fields['name']}: output is one folder for all "
            f"stages; remove it there, and give it above stages"
        )
    if after is not None:
        dropped = [*_TRAINED]
        if _keys(own, "model").get(_NEW) and own.get("tokenizer") is None:
            dropped.remove("tokenizer")  # which makes its vocabulary, too
        base = {key: value for key, value in base.items() if key not in dropped}
    content = _merged(base, own)
    for text in document.overrides:
        section = text.partition("=")[0].partition(".")[0]
        if section not in (*OF_SERIES, *_TRAINED, "output"):
            override(content, text)
    return content


def _as_begun(
    content: dict[str, Any], before: RunConfig, folder: str
) -> dict[str, Any]:
    """The config of a stage before the model that it goes on from is there.

    As in a run folder whose `model.folder` is gone, the model section is whole.
    """
    given = content.get("model")
    if given is not None and not has_keys(given):
        return content  # which is refused
    own = _keys(content, "model")
    if Path(folder).exists():
        return {**content, "model": {**own, "folder": folder}}
    origin = before.plain()
    begun = {k: v for k, v in origin["model"].items() if k != _NEW}
    content = {**content, "model": {**begun, **own, "folder": folder}}
    if not own.get(_NEW):
        content["tokenizer"] = origin["tokenizer"]
    return content


def _keys(content: Mapping[str, Any], section: str) -> dict[str, Any]:
    """The keys of a section that have a value, as far as it has some."""
    keys = content.get(section)
    return filled(keys, {}) if has_keys(keys) else {}


def _before(
    stage: StageKeys, before: str | None, known: Mapping[str, Any], where: str
) -> str | None:
    after = before if stage.after is None else stage.after
    if after is None or stage.after == _NOTHING:
        return None
    if after not in known:
        raise InputError(
            f"{where}after {after!r} is not an earlier stage; give the name of one, or "
            f"{_NOTHING}"
        )
    return after


def _check_name(name: str, known: Mapping[str, Any], where: str) -> None:
    if not _NAME.fullmatch(name) or name in (_NOTHING, "translations"):
        raise InputError(
            f"{where}{name!r} is no name of a stage; use letters, digits, hyphens and "
            f"underscores, and neither {_NOTHING} nor translations"
        )
    if name in known:
        raise InputError(f"{where}there is another stage {name}; rename one")


def _merged(base: Any, own: Any) -> Any:
    """Keys of both, at any depth; those of `own` win."""
    if not isinstance(base, dict) or not isinstance(own, dict):
        return copy.deepcopy(own)
    merged = copy.deepcopy(base)
    for key, value in own.items():
        both = key in base and key not in _WHOLE
        merged[key] = _merged(base[key], value) if both else copy.deepcopy(value)
    return merged


def _seeded(content: dict[str, Any], seed: int | None) -> dict[str, Any]:
    if seed is None:
        return content
    return _merged(content, {"training": {"seed": seed}})


def _list(seeds: int | tuple[int, ...] | None) -> list[int | None]:
    if seeds is None:
        return [None]
    return list(range(1, seeds + 1)) if isinstance(seeds, int) else list(seeds)


def _validated(kind: type[_Keys], fields: Mapping[str, Any], where: str) -> _Keys:
    try:
        return kind.model_validate(fields)
    except pydantic.ValidationError as error:
        raise InputError(f"{where}: {first_fault(error, kind, '')}") from None


def _about(run: SeriesRun) -> str:
    return f"stage {run.stage}: " if run.stage else ""


def _corpora(content: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The corpora of the training text, as far as they look like some."""
    data = content.get("data")
    train = data.get("train") if isinstance(data, dict) else None
    return [c for c in train if isinstance(c, dict)] if isinstance(train, list) else []


def _is_translation(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {TRANSLATION}


def _files(value: Any) -> list[str]:
    files = value if isinstance(value, list) else [value]
    if not files or not all(isinstance(path, str) and path for path in files):
        raise InputError(
            f"{TRANSLATION} translates the other side of a corpus, which must be a "
            f"file, or a list of files, got {value!r}"
        )
    return files
