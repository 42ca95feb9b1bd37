"""Searches by the rules of `transformers` find what its `generate` finds.

The models are theirs; only the search is ours. `reference` beside them holds what
`generate` gave. B batch, W beam width, L most tokens, V vocabulary.
"""

import json
import os

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import beam_search
from keras_transformer.decoding import greedy_search
from keras_transformer.decoding.logits_processors import chain

pytestmark = [
    pytest.mark.one_backend,
    pytest.mark.skipif(keras.backend.backend() != "torch", reason="the models' own"),
]

LENGTH = 20
EVERY = bool(os.environ.get("EVERY_TEST"))
FAMILIES = (
    *("marian", "marian-languages", "marian-separate", "m2m100", "nllb", "mbart"),
    *("mbart50", "bart", "t5", "t5-v1_1", "mt5", "byt5", "madlad"),
)
#: Without the rules of their configs, and with them: what is forbidden and forced.
CASES = [(family, prefix) for family in FAMILIES for prefix in ("plain_", "")]
FEW = [("marian", "plain_"), ("nllb", "")]


class Search:
    """Searches of a family's sources with its own model."""

    def __init__(self, folder, family):
        transformers = pytest.importorskip("transformers")
        path = folder / "reference" / f"{family}.json"
        self.reference = json.loads(path.read_text("utf-8"))
        self.rules = json.loads(
            (folder / family / "generation_config.json").read_text("utf-8")
        )
        model = transformers.AutoModelForSeq2SeqLM
        self.model = model.from_pretrained(folder / family).eval()
        self.pad, self.end, self.start = (
            self.rules[f"{name}_token_id"] for name in ("pad", "eos", "decoder_start")
        )

    def __call__(self, ids, forced, **options):
        """Hypotheses of one source: ids from the start token on, and scores."""
        torch = pytest.importorskip("torch")
        width = options.get("beam_size", 1)
        source = torch.tensor([ids]).expand(width, -1)
        memory = self.model.get_encoder()(source)
        forbidden = [word for (word,) in forced.get("bad_words_ids", [])]

        def decode_step(tokens, position, constants, cache):
            written = torch.cat([cache, tokens.reshape(width, 1, 1)], dim=2)
            logits = self.model(
                encoder_outputs=memory,
                attention_mask=torch.ones_like(source),
                decoder_input_ids=written[:, 0].long(),
                use_cache=False,
            ).logits[:, -1]
            logits[:, forbidden] = -1e9  # before the softmax
            return logits[None], written

        first, end = (
            forced.get(f"forced_{name}_token_id") is not None for name in ("bos", "eos")
        )
        limits = ops.convert_to_tensor(np.array([LENGTH], "int32"))
        constants = {"limits": limits}
        if first:
            token = np.array([forced["forced_bos_token_id"]], "int32")
            constants["forced_start"] = ops.convert_to_tensor(token)
        reorder = {"reorder": lambda cache, beams: cache[beams[0].long()]}
        search = beam_search if width > 1 else greedy_search
        with torch.no_grad():
            found = search(
                decode_step,
                constants,
                torch.zeros((width, 1, 0), dtype=torch.int32),
                limits,
                length=LENGTH,
                process=chain(first=first, forced_end=end, end_id=self.end),
                start_id=self.start,
                end_id=self.end,
                pad_id=self.pad,
                **(reorder if width > 1 else {}),
                **options,
            )
        parts = found.tokens[0], found.lengths[0], found.scores[0]
        return [
            ([self.start, *tokens[:length].tolist()], score)
            for tokens, length, score in zip(
                *map(ops.convert_to_numpy, parts), strict=True
            )
        ]

    def beams(self, ids, forced, setting):
        early_stopping = setting["early_stopping"]
        heuristic = "_heuristic" if early_stopping is False else ""
        return self(
            ids,
            forced,
            beam_size=setting["num_beams"],
            top_beams=setting["num_beams"],
            normalization="power",
            length_penalty=setting["length_penalty"],
            patience=1.0 if early_stopping is True else None,
            rules=f"transformers{heuristic}",
        )


@pytest.mark.parametrize(("family", "prefix"), CASES if EVERY else FEW)
def test_hypotheses_are_those_of_generate(family, prefix, shared_data):
    search = Search(shared_data / "pretrained", family)
    reference, forced = search.reference, {} if prefix else search.rules
    for source, expected in zip(
        reference["input_ids"], reference[f"{prefix}greedy"], strict=True
    ):
        ((ids, _),) = search(source, forced)
        assert ids == expected["ids"]
    settings = reference[f"{prefix}beams"]
    for setting in settings if EVERY else settings[:2]:
        for source, expected in zip(
            reference["input_ids"], setting["hypotheses"], strict=True
        ):
            found = search.beams(source, forced, setting)
            assert [ids for ids, _ in found] == [h["ids"] for h in expected]
            np.testing.assert_allclose(
                [score for _, score in found],
                [h["score"] for h in expected],  # rounded
                rtol=1e-4,
                atol=1e-5,
            )
