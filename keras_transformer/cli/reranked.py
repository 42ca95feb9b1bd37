"""The options `--rerank` and `--mbr-metric`: candidates chosen by a user's metric."""

import dataclasses
from typing import TYPE_CHECKING
from typing import Any

import typer

if TYPE_CHECKING:
    from keras_transformer.config.decoding import DecodingOptions
    from keras_transformer.learned_metrics import Metric
    from keras_transformer.translation.hypothesis import Hypothesis

_FLAGS = ("--rerank", "--mbr-metric")
_NUM_SAMPLES = 32  # as with --mbr


def asked(
    rerank: str | None, mbr_metric: str | None, decoding: dict[str, Any]
) -> "Reranking | None":
    """What the flags ask for; None where neither is given.

    Args:
        rerank: the value of `--rerank`.
        mbr_metric: that of `--mbr-metric`.
        decoding: the decoding flags; those of MBR are taken out of it.

    Raises:
        InputError: where there is no such metric.
    """
    given = dict(zip(_FLAGS, (rerank, mbr_metric), strict=True))
    given |= {"--mbr": decoding.get("mbr")}
    flags = [flag for flag, value in given.items() if value]
    if len(flags) > 1:
        raise typer.BadParameter(
            f"{' and '.join(flags)} choose in different ways; give one of them"
        )
    if not flags or flags == ["--mbr"]:
        return None
    from keras_transformer import learned_metrics

    (flag,) = flags
    ((path, metric),) = learned_metrics.found([str(given[flag])], flag).items()
    return Reranking(path, metric, flag, decoding.pop("mbr_candidates", None))


@dataclasses.dataclass
class Reranking:
    """The choice among candidates by a metric.

    Args:
        path: the name of the metric.
        metric: the metric.
        flag: the flag that named it.
        count: the number of candidates; None for the beam size, of samples 32.
        sampled: whether the candidates are samples.
    """

    path: str
    metric: "Metric"
    flag: str
    count: int | None
    sampled: bool = False

    def candidates(self, options: "DecodingOptions", top_beams: int) -> dict[str, Any]:
        """The decoding options of a search that gives the candidates.

        Args:
            options: the others of the search.
            top_beams: how many of them are chosen.
        """
        self.sampled = options.sampling
        default = _NUM_SAMPLES if options.sampling else options.beam_size
        count = self.count or max(default, top_beams)
        if count == 1:
            raise typer.BadParameter(
                f"{self.flag} has one candidate to choose from; give --beam-size or "
                f"--mbr-candidates"
            )
        if count < top_beams:
            raise typer.BadParameter(
                f"{self.flag} chooses --top-beams {top_beams} from "
                f"--mbr-candidates {count}; give more candidates"
            )
        search = (
            {} if options.sampling else {"beam_size": max(count, options.beam_size)}
        )
        changes = {"top_beams": count, **search}
        own = {name: None for name in ("mbr", "mbr_candidates")}
        return changes | (own if options.mbr else {})

    def __call__(
        self,
        sources: list[str],
        hypotheses: "list[list[Hypothesis]]",
        top_beams: int,
    ) -> "list[list[Hypothesis]]":
        """The `top_beams` best of each line."""
        from keras_transformer.translation import reranking

        if self.flag == "--rerank":
            rows = reranking.by_quality(hypotheses, sources, self.path, self.metric)
        else:
            rows = reranking.by_risk(
                hypotheses, sources, self.path, self.metric, sampled=self.sampled
            )
        return [row[:top_beams] for row in rows]
