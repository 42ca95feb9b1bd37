"""Two small corpora, and the cache that they are encoded into."""

import gzip

import pytest
from cached_text import WORDS

from keras_transformer.data import encoded_corpus
from keras_transformer.data import line_reader
from keras_transformer.data.corpus import CorpusFiles
from keras_transformer.data.encoded_corpus import encode_corpora
from keras_transformer.data.encoding import PairEncoder
from keras_transformer.data.filters import Filters
from keras_transformer.data.tokenizer import Tokenizer


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train([WORDS], 269)


@pytest.fixture
def corpora(tmp_path):
    """Two corpora: of two shards, one gzipped; and of columns. The last pair twice."""

    def write(name, lines, pack=bytes):
        path = tmp_path / name
        path.write_bytes(pack("".join(f"{line}\n" for line in lines).encode()))
        return path

    first = [f"{number} {WORDS}" for number in range(30)]
    sources = (write("1.en", first[:20]), write("2.en.gz", first[20:], gzip.compress))
    targets = (write("1.de", first[10:]), write("2.de", first[:10]))
    columns = write("3.tsv", ["x\ty", "\tz", "x\ty", f"{first[29]}\t{first[9]}"])
    return [CorpusFiles(sources, targets), CorpusFiles(tsv=(columns,))]


@pytest.fixture
def encode(tmp_path, corpora, tokenizer):
    """Encodes into one folder; says what it was told."""

    def encode_them(corpora=corpora, tokenizer=tokenizer, **filters):
        said = []
        encoder = PairEncoder(tokenizer, tokenizer, Filters(99, **filters))
        folder = tmp_path / "cache"
        found = encode_corpora(folder, corpora, encoder, workers=1, say=said.append)
        found_again.append(said)
        return found

    found_again = []
    encode_them.said = found_again
    return encode_them


@pytest.fixture
def no_encoding(monkeypatch):
    """From here on, encoding and reading are faults."""

    def forbid():
        for module, name in (
            (encoded_corpus, "write_corpora"),
            (line_reader.LineReader, "__enter__"),
        ):
            monkeypatch.setattr(module, name, lambda *arguments: pytest.fail("reads"))

    return forbid
