"""Conventions: how known toolkits differ from the paper, as defaults of a run config.

`docs/conventions.md` explains each difference, and says what has no key here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from typing import Literal
from typing import NamedTuple
from typing import TypeAlias
from typing import TypeGuard

import pydantic

#: Names of the conventions.
ConventionsName: TypeAlias = Literal[
    "paper", "tensor2tensor", "fairseq", "marian", "opennmt"
]


class Conventions(NamedTuple):
    """Defaults of three sections, where they are not the paper's.

    Attributes:
        model: fields of `TransformerConfig`.
        training: keys of the section.
        decoding: options.
        rate_scale: the factor of the paper's learning rate, which depends on D and the
            warm-up; None where `training` has the rate, or it is the paper's.
    """

    model: Mapping[str, Any]
    training: Mapping[str, Any]
    decoding: Mapping[str, Any]
    rate_scale: float | None = None


#: The order is that of the columns in `docs/conventions.md`.
CONVENTIONS: dict[str, Conventions] = {
    "paper": Conventions({}, {}, {}),
    # transformer_base, which is transformer_base_v3, of 1.15.7.
    "tensor2tensor": Conventions(
        {
            "normalize_first": True,
            "attention_dropout": 0.1,
            "activation_dropout": 0.1,
            "position": "sinusoidal_halves_t2t",
        },
        {"warmup_steps": 8000, "optimizer": {"beta_2": 0.997}},
        {},
        rate_scale=2.0,
    ),
    # transformer_iwslt_de_en as examples/translation trains it, of 0.12.2.
    "fairseq": Conventions(
        {
            "dropout": 0.3,
            "tie_embeddings": "target",
            "layer_norm_epsilon": 1e-5,
            "use_bias": True,
            "position": "sinusoidal_halves_t2t",
            "position_offset": 2,
        },
        {
            "warmup_steps": 4000,
            "learning_rate": 5e-4,
            "optimizer": {"name": "adamw", "epsilon": 1e-8, "weight_decay": 1e-4},
        },
        {"beam_size": 5, "normalization": "power", "length_penalty": 1.0},
    ),
    # --task transformer-base of 1.12.43.
    "marian": Conventions(
        {"output_bias": True, "use_bias": True, "position": "sinusoidal_halves_t2t"},
        {"warmup_steps": 16_000, "learning_rate": 3e-4},
        {"beam_size": 8, "normalization": "power", "length_penalty": 1.0},
    ),
    # The Transformer of the FAQ of OpenNMT-py 3.5.1.
    "opennmt": Conventions(
        {
            "normalize_first": True,
            "attention_dropout": 0.1,
            "activation_dropout": 0.1,
            "output_bias": True,
            "feed_forward_bias": False,
            "source_end": False,
        },
        {"warmup_steps": 8000, "optimizer": {"beta_2": 0.998, "epsilon": 1e-8}},
        {"beam_size": 5, "normalization": "power", "length_penalty": 1.0},
        rate_scale=2.0,
    ),
}


def conventions_of(name: Any, model: Any) -> Conventions:
    """The conventions of a name; the paper's, which change nothing, of None.

    Args:
        name: as it was given.
        model: the model section as it was given.

    Raises:
        ValueError: there are none of that name, or none for such a model.
    """
    if name is None:
        return CONVENTIONS["paper"]
    if name not in list(CONVENTIONS):
        raise ValueError(
            f"conventions: expected one of {', '.join(CONVENTIONS)}, got {name!r}"
        )
    if not has_keys(model):
        return CONVENTIONS[name]
    if model.get("folder") is not None:
        raise ValueError(
            "conventions are those of a new model, and model.folder names a trained "
            "one; remove one of the two"
        )
    if model.get("kind") not in (None, "transformer"):
        raise ValueError(
            f"conventions are those of kind transformer, and model.kind is "
            f"{model['kind']!r}; remove one of the two"
        )
    return CONVENTIONS[name]


def has_keys(section: Any) -> TypeGuard[Mapping[str, Any]]:
    """Whether a section has keys at all."""
    return isinstance(section, Mapping)


def filled(section: Any, defaults: Mapping[str, Any]) -> Any:
    """A section with the defaults for what was not given; a fault as it is."""
    if isinstance(section, pydantic.BaseModel):
        section = section.model_dump(exclude_unset=True)
    if not has_keys(section):
        return section
    given = {key: value for key, value in section.items() if value is not None}
    return {**defaults, **given}


def filled_training(section: Any, toolkit: Conventions, hidden_dim: int) -> Any:
    """The training section with the defaults of a toolkit for what was not given.

    They are for Adam. Adafactor, whose rates are relative to the weights, keeps its own
    learning rate and settings.

    Args:
        section: as it was given.
        toolkit: its conventions.
        hidden_dim: the D of the model, by which `rate_scale` counts.
    """
    given = filled(section, {})
    optimizer = filled(given.get("optimizer", {}), {}) if has_keys(given) else None
    if not has_keys(optimizer):
        return section
    defaults, of_adam = dict(toolkit.training), toolkit.training.get("optimizer", {})
    if optimizer.get("name") == "adafactor":
        defaults.pop("learning_rate", None)
        return {**defaults, **given, "optimizer": optimizer}
    if optimizer.get("name") == "adam":
        of_adam = {key: of_adam[key] for key in of_adam if key != "weight_decay"}
    training = {**defaults, **given, "optimizer": {**of_adam, **optimizer}}
    warmup = training.get("warmup_steps")
    if toolkit.rate_scale and isinstance(warmup, int) and warmup > 0:
        rate = toolkit.rate_scale * (hidden_dim * warmup) ** -0.5
        training.setdefault("learning_rate", rate)
    return training
