"""Brings the text of a recipe into the folder `data` beside this file.

    python tutorials/configs/prepare.py multi30k
    python tutorials/configs/prepare.py iwslt14      # needs: pip install sacremoses
    python tutorials/configs/prepare.py wmt14
    python tutorials/configs/prepare.py wmt14_fr
    python tutorials/configs/prepare.py tatoeba_en_de

What was downloaded stays in `data/downloads`, what was prepared in `data/<name>`, and
Multi30k's tokenized text in `data/multi30k_tok`.
"""

import argparse
import gzip
import hashlib
import re
import shutil
import tarfile
import urllib.request
import zipfile
from pathlib import Path

HERE = Path(__file__).parent
DATA = HERE / "data"

MULTI30K = (
    "https://github.com/multi30k/dataset/archive/"
    "a3d2e0d26b56f3846f66a952536ffed4e401d05a.tar.gz"
)
# The corpus of https://wit3.fbk.eu/2014-01, where fairseq keeps it.
IWSLT14 = "https://dl.fbaipublicfiles.com/fairseq/data/iwslt14/de-en.tgz"
WMT14 = {
    "europarl-v7": "https://www.statmt.org/wmt13/training-parallel-europarl-v7.tgz",
    "commoncrawl": "https://www.statmt.org/wmt13/training-parallel-commoncrawl.tgz",
    "news-commentary-v9": "https://www.statmt.org/wmt14/training-parallel-nc-v9.tgz",
}
# Each corpus of English and French: its archive, and its files there.
WMT14_FR = {
    **{corpus: (url, f"{corpus}.fr-en.{{}}") for corpus, url in WMT14.items()},
    "un": (
        "https://www.statmt.org/wmt13/training-parallel-un.tgz",
        "undoc.2000.fr-en.{}",
    ),
    "giga-fren": (
        "https://www.statmt.org/wmt10/training-giga-fren.tar",
        "giga-fren.release2.fixed.{}.gz",
    ),
}
# Of WMT14's archives, from TensorFlow Datasets, which lacks the last two. Multi30k's
# texts have digests in multi30k.sha256; of IWSLT14 none is published; Tatoeba's text
# grows.
SHA256 = {
    "training-parallel-europarl-v7.tgz": (
        "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7"
    ),
    "training-parallel-commoncrawl.tgz": (
        "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5"
    ),
    "training-parallel-nc-v9.tgz": (
        "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485"
    ),
}
# What these files had when the papers were written; others give other scores.
LINES = {
    "iwslt14/train.de.gz": 160_239,
    "iwslt14/valid.de": 7283,
    "iwslt14/test.de": 6750,
    "wmt14/europarl-v7.de.gz": 1_920_209,
    "wmt14/commoncrawl.de.gz": 2_399_123,
    "wmt14/news-commentary-v9.de.gz": 201_288,
    "wmt14/newstest2013.de": 3000,
    "wmt14/newstest2014.de": 3003,
}
TATOEBA = "https://www.manythings.org/anki/deu-eng.zip"


def multi30k(folder):
    """29 000 image descriptions in en, de and fr: as they are, and lc.norm.tok."""
    lines = (HERE / "multi30k.sha256").read_text().splitlines()
    expected = {name: digest for digest, name in map(str.split, lines)}
    found = set()
    for path, data in members(fetch(MULTI30K)):
        name = path.partition("/data/task1/")[2].removesuffix(".gz")
        if name not in expected:
            continue
        text = gzip.decompress(data) if path.endswith(".gz") else data
        if hashlib.sha256(text).hexdigest() != expected[name]:
            raise SystemExit(f"{path} of {MULTI30K} is not the text it was: no sha256")
        part, _, file = name.partition("/")
        place = folder if part == "raw" else folder.with_name(f"{folder.name}_{part}")
        write(place / (f"{file}.gz" if file.startswith("train.") else file), text)
        found.add(name)
    if missing := sorted(expected.keys() - found):
        raise SystemExit(f"{MULTI30K} has no {', '.join(missing)}")


def iwslt14(folder):
    """160 000 sentences of TED talks, split and tokenized as most papers have them.

    Moses' tokenizer, lower case, pairs of 1 to 175 words a side and at most 1.5 times
    as many as the other; each 23rd pair validates.
    """
    from sacremoses import MosesTokenizer

    languages = ("de", "en")
    tokenizers = {language: MosesTokenizer(language) for language in languages}

    def tokenized(text, language):
        return tokenizers[language].tokenize(text, return_str=True)

    files = {path.rpartition("/")[2]: data for path, data in members(fetch(IWSLT14))}
    sides = [files[f"train.tags.de-en.{lang}"].decode() for lang in languages]
    pairs = []
    for lines in zip(*(side.split("\n") for side in sides), strict=True):
        # Tags around titles and descriptions go; other tags are about the talk.
        texts = [re.sub(r"</?(title|description)>", "", line).strip() for line in lines]
        if any(text.startswith("<") for text in texts):
            continue
        pair = list(map(tokenized, texts, languages))
        short, long = sorted(len(side.split()) for side in pair)
        if short >= 1 and long <= 175 and long <= 1.5 * short:
            pairs.append([side.lower() for side in pair])
    for side, language in enumerate(languages):
        lines = [pair[side] for pair in pairs]
        write_lines(folder / f"valid.{language}", lines[22::23])
        del lines[22::23]
        write_lines(folder / f"train.{language}.gz", lines)
        test = []
        for name in (".dev2010", "X.dev2012", ".tst2010", ".tst2011", ".tst2012"):
            text = files[f"IWSLT14.TED{name}.de-en.{language}.xml"].decode()
            for segment in re.findall(r'<seg id="\d+">(.*?)</seg>', text):
                segment = segment.strip().replace("’", "'")
                test.append(tokenized(segment, language).lower())
        write_lines(folder / f"test.{language}", test)


def wmt14(folder):
    """4.5 million pairs of parliament, web and news; newstest 2013 and 2014 (full)."""
    for corpus, url in WMT14.items():
        wanted = {f"{corpus}.de-en.{language}" for language in ("de", "en")}
        for path, data in members(fetch(url), wanted):
            language = path.rpartition(".")[2]
            write(folder / f"{corpus}.{language}.gz", data)
            wanted.discard(path.rpartition("/")[2])
        if wanted:
            raise SystemExit(f"{url} has no {', '.join(sorted(wanted))}")
    news(folder, "en-de")


def wmt14_fr(folder):
    """41 million pairs of parliaments, UN, web and news; newstest 2013 and 2014."""
    for corpus, (url, name) in WMT14_FR.items():
        wanted = {
            name.format(language): folder / f"{corpus}.{language}.gz"
            for language in ("en", "fr")
        }
        unpack(fetch(url), wanted)
    news(folder, "en-fr")


def news(folder, pair):
    """The validation and the test text of WMT14, such as of `en-de`."""
    import sacrebleu.utils

    source_language, target_language = pair.split("-")
    for name, test_set in (("newstest2013", "wmt13"), ("newstest2014", "wmt14/full")):
        source = sacrebleu.utils.get_source_file(test_set, pair)
        (reference,) = sacrebleu.utils.get_reference_files(test_set, pair)
        write(folder / f"{name}.{source_language}", Path(source).read_bytes())
        write(folder / f"{name}.{target_language}", Path(reference).read_bytes())


def tatoeba_en_de(folder):
    """Everyday sentences; a dev set of 2000 pairs that shares no sentence with train.

    The text grows from month to month, so that scores of two downloads do not compare.
    """
    with zipfile.ZipFile(fetch(TATOEBA)) as archive:
        lines = archive.read("deu.txt").decode().strip().split("\n")
    pairs = sorted({tuple(line.split("\t")[:2]) for line in lines})
    groups = connected(pairs)
    groups.sort(key=lambda group: hashlib.sha256(repr(group).encode()).digest())
    dev, train = [], []
    for group in groups:
        (train if len(dev) + len(group) > 2000 else dev).extend(group)
    for name, part in (("dev.{}", dev), ("train.{}.gz", train)):
        for side, language in enumerate(("en", "de")):
            write_lines(folder / name.format(language), [pair[side] for pair in part])


def connected(pairs):
    """Groups of pairs, such that no sentence of either side is in two groups."""
    parent = {}

    def root(sentence):
        while parent.setdefault(sentence, sentence) != sentence:
            parent[sentence] = sentence = parent[parent[sentence]]
        return sentence

    for english, german in pairs:
        parent[root(("en", english))] = root(("de", german))
    groups = {}
    for pair in pairs:
        groups.setdefault(root(("en", pair[0])), []).append(pair)
    return list(groups.values())


def fetch(url):
    """The path of what a URL holds, downloaded unless it was before, and checked."""
    path = DATA / "downloads" / url.rpartition("/")[2]
    if not path.exists():
        print(f"downloading {url}", flush=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.tmp")
        request = urllib.request.Request(url, headers={"User-Agent": "prepare.py"})
        try:
            source = urllib.request.urlopen(request)
        except OSError as error:  # no network, or no such file any more
            reason = getattr(error, "reason", error)
            raise SystemExit(
                f"cannot download {url}: {reason}; check the network, or put the file "
                f"there yourself: {path}"
            ) from None
        with source, temporary.open("wb") as target:
            announced = source.headers.get("Content-Length")
            shutil.copyfileobj(source, target)
        size = temporary.stat().st_size
        if announced is not None and size != int(announced):
            temporary.unlink()
            raise SystemExit(
                f"{url} broke off after {size} of {announced} bytes; run this again"
            )
        temporary.replace(path)
    if expected := SHA256.get(path.name):
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != expected:
            raise SystemExit(
                f"{path} is not the published file: its sha256 is {found}, not "
                f"{expected}; remove it and run this again"
            )
    return path


def members(path, names=None):
    """`(path, content)` of each file of a tar archive, or of those with such names."""
    with tarfile.open(path) as archive:
        for member in archive:
            if member.isfile() and (
                names is None or member.name.rpartition("/")[2] in names
            ):
                yield member.name, archive.extractfile(member).read()


def unpack(archive_path, wanted):
    """Files of a tar archive, gzipped, piece by piece: `{name there: path}`."""
    missing = dict(wanted)
    with tarfile.open(archive_path) as archive:
        for member in archive:
            path = missing.pop(member.name.rpartition("/")[2], None)
            if path is None:
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f"{path.name}.tmp")
            source = archive.extractfile(member)
            with temporary.open("wb") as target:
                if member.name.endswith(".gz"):
                    shutil.copyfileobj(source, target)
                else:
                    with gzip.GzipFile("", "wb", fileobj=target, mtime=0) as packed:
                        shutil.copyfileobj(source, packed)
            temporary.replace(path)
            print(path, flush=True)
    if missing:
        raise SystemExit(f"{archive_path} has no {', '.join(sorted(missing))}")


def write_lines(path, lines):
    write(path, "".join(f"{line}\n" for line in lines).encode())


def write(path, data):
    """A whole file or none, gzipped where its name says so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.tmp")
    compressed = path.suffix == ".gz"
    temporary.write_bytes(gzip.compress(data, mtime=0) if compressed else data)
    temporary.replace(path)
    num_lines = data.count(b"\n")
    known = LINES.get(f"{path.parent.name}/{path.name}", num_lines)
    note = "" if num_lines == known else f"; the published text has {known}"
    print(f"{path}: {num_lines} lines{note}", flush=True)


TASKS = (multi30k, iwslt14, wmt14, wmt14_fr, tatoeba_en_de)
CORPORA = {task.__name__: task for task in TASKS}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("corpus", choices=CORPORA)
    name = parser.parse_args().corpus
    CORPORA[name](DATA / name)
