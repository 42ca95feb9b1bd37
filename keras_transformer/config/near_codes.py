"""Suggestions of language codes, for messages about unknown ones."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Iterable

_MOST = 3

#: The two-letter codes of ISO 639-1, each with its codes of three letters (ISO 639-3;
#: first the one of 639-2, then single languages that stand for it in model names).
_PAIRS = """
aa aar|ab abk|ae ave|af afr|ak aka,twi|am amh|an arg|ar ara,arb|as asm|av ava|ay aym,ayr
az aze,azj|ba bak|be bel|bg bul|bi bis|bm bam|bn ben|bo bod|br bre|bs bos|ca cat|ce che
ch cha|co cos|cr cre|cs ces|cu chu|cv chv|cy cym|da dan|de deu,ger|dv div|dz dzo|ee ewe
el ell|en eng|eo epo|es spa|et est,ekk|eu eus|fa fas,pes|ff ful,fuv|fi fin|fj fij|fo fao
fr fra,fre|fy fry|ga gle|gd gla|gl glg|gn grn,gug|gu guj|gv glv|ha hau|he heb|hi hin
ho hmo|hr hrv|ht hat|hu hun|hy hye|hz her|ia ina|id ind|ie ile|ig ibo|ii iii|ik ipk
io ido|is isl|it ita|iu iku|ja jpn|jv jav|ka kat|kg kon|ki kik|kj kua|kk kaz|kl kal
km khm|kn kan|ko kor|kr kau,knc|ks kas|ku kur,kmr|kv kom|kw cor|ky kir|la lat|lb ltz
lg lug|li lim|ln lin|lo lao|lt lit|lu lub|lv lav,lvs|mg mlg,plt|mh mah|mi mri|mk mkd
ml mal|mn mon,khk|mr mar|ms msa,zsm|mt mlt|my mya|na nau|nb nob|nd nde|ne nep,npi|ng ndo
nl nld,dut|nn nno|no nor,nob|nr nbl|nv nav|ny nya|oc oci|oj oji|om orm,gaz|or ori,ory
os oss|pa pan|pi pli|pl pol|ps pus,pbt|pt por|qu que,quy|rm roh|rn run|ro ron,rum|ru rus
rw kin|sa san|sc srd|sd snd|se sme|sg sag|si sin|sk slk|sl slv|sm smo|sn sna|so som
sq sqi,als|sr srp|ss ssw|st sot|su sun|sv swe|sw swa,swh|ta tam|te tel|tg tgk|th tha
ti tir|tk tuk|tl tgl|tn tsn|to ton|tr tur|ts tso|tt tat|tw twi|ty tah|ug uig|uk ukr
ur urd|uz uzb,uzn|ve ven|vi vie|vo vol|wa wln|wo wol|xh xho|yi yid,ydd|yo yor|za zha
zh zho,cmn,chi|zu zul
"""


def near_codes(code: str, known: Iterable[str]) -> list[str]:
    """The codes that somebody may have meant, the nearest first; at most three.

    Those of the same language, then those that look alike.

    Args:
        code: as it was given.
        known: the codes to choose from.

    Example:

    >>> from keras_transformer.config.near_codes import near_codes
    >>> near_codes("en", ["deu_Latn", "eng_Latn"])
    ['eng_Latn']
    """
    known = list(known)
    wanted, _ = _parts(code)
    same = [other for other in known if _names(_parts(other)[0]) & _names(wanted)]
    # Of zho_Hans and zho_Hant the one with the script or country that was given.
    scripts = _parts(code)[1]
    same.sort(key=lambda other: _parts(other)[1] != scripts)
    alike = difflib.get_close_matches(code, known, n=_MOST)
    return list(dict.fromkeys([*same, *alike]))[:_MOST]


def two_letter_code(code: str) -> str:
    """The code of ISO 639-1 of a language, or what there is instead.

    Args:
        code: of the language, with or without script and country.

    Example:

    >>> from keras_transformer.config.near_codes import two_letter_code
    >>> two_letter_code("deu_Latn"), two_letter_code("pt-BR"), two_letter_code("gsw")
    ('de', 'pt', 'gsw')
    """
    language, _ = _parts(code)
    if len(language) == 2:
        return language
    return next((name for name in sorted(_names(language)) if len(name) == 2), language)


def _parts(code: str) -> tuple[str, str]:
    """The language of a code such as `zho_Hant`, and the rest of it, in small letters.

    What stands around it (`__de__`, `>>deu<<`) does not count.
    """
    words = re.findall(r"[^\W_]+", code.lower())
    return (words or [""])[0], "_".join(words[1:])


def _names(language: str) -> set[str]:
    return _table().get(language) or {language}


@functools.cache
def _table() -> dict[str, set[str]]:
    """All names of the language of each code."""
    table: dict[str, set[str]] = {}
    for line in _PAIRS.split("\n"):
        for pair in filter(None, line.split("|")):
            two, _, three = pair.partition(" ")
            names = {two, *three.split(",")}
            for name in names:
                table.setdefault(name, set()).update(names)
    return table
