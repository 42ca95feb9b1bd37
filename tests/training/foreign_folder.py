"""Model folders with the special ids and tokenizer files of other toolkits' models."""

import io

import keras
import sentencepiece

import keras_transformer as kt

#: What SentencePiece's trainer is told about ids.
TRAINER_IDS = {
    "marian": {"bos_id": -1, "eos_id": 0, "unk_id": 1},  # and no padding
    "nllb": {"pad_id": 1, "bos_id": 0, "eos_id": 2, "unk_id": 3},
}
#: Padding, start and end of the models; Marian's padding comes after all pieces.
IDS = {"marian": (272, 272, 0), "nllb": (1, 2, 2)}
SIZES = {
    "hidden_dim": 16,
    "intermediate_dim": 24,
    "num_heads": 2,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
}
# `bos_piece` of the trainer's specification, which says which piece is the start.
_ENDS_START = b"\x12\x07\xf2\x02\x04</s>"


def tokenizer(family, letters=""):
    """A tokenizer of digits and these letters, with the ids of a family."""
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([f"0123456789{letters}"] * 20),
        model_writer=content,
        vocab_size=300,
        model_type="bpe",
        byte_fallback=True,
        split_digits=True,
        hard_vocab_limit=False,
        minloglevel=2,
        **TRAINER_IDS[family],
    )
    model = content.getvalue() + (_ENDS_START if family == "nllb" else b"")
    return kt.data.Tokenizer(model)


def write(folder, family, **options):
    """A model folder whose two tokenizer files share one vocabulary of ids."""
    tokenizers = tokenizer(family, "ab"), tokenizer(family, "cd")
    keras.utils.set_random_seed(3)
    config = kt.TransformerConfig(
        vocabulary_size=tokenizers[0].vocabulary_size,
        output_bias=True,
        dropout=0.0,
        **SIZES,
        **tokenizers[0].special_ids,
    )
    translator = kt.Translator(kt.Transformer(config), *tokenizers, **options)
    translator.save(folder)
    return translator
