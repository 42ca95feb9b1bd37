"""YAML without surprises: YAML 1.2's numbers and words, each key once.

PyYAML follows YAML 1.1, for which `5e-3` is a word, `no` is false, `1:30` is 90 and
the last of two equal keys wins.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from keras_transformer.errors import InputError

_TAG = "tag:yaml.org,2002:"
_RESOLVERS = [
    (f"{_TAG}null", re.compile(r"(~|null|Null|NULL|)\Z")),
    (f"{_TAG}bool", re.compile(r"(true|True|TRUE|false|False|FALSE)\Z")),
    (f"{_TAG}int", re.compile(r"[-+]?(0|[1-9][0-9]*)\Z")),
    (
        f"{_TAG}float",
        re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z"),
    ),
]


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers = {None: _RESOLVERS}  # noqa: RUF012  # PyYAML's own form

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # PyYAML refuses what is no name
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"{key.value!r} stands here twice; remove one",
                    problem_mark=key.start_mark,
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    # What either YAML 1.1 or 1.2 takes for something else is quoted.
    yaml_implicit_resolvers = {  # noqa: RUF012  # PyYAML's own form
        **yaml.SafeDumper.yaml_implicit_resolvers,
        None: _RESOLVERS,
    }


def parse(text: str, where: str) -> Any:
    """The content of one YAML document.

    Raises:
        InputError: naming `where` and the line.
    """
    try:
        return yaml.load(text, _Loader)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InputError(f"{where}{line}: not valid YAML: {error.problem}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise InputError(
            f"{where}, line {line}: not valid YAML: {error.reason}"
        ) from None
    except (LookupError, TypeError, ValueError, AttributeError):  # of `!!int abc`
        raise InputError(
            f"{where}: not valid YAML: a tag (!!) does not go with its value; remove it"
        ) from None
    except RecursionError:
        raise InputError(f"{where}: not valid YAML: nested too deeply") from None


def dump(content: Any) -> str:
    """One YAML document, which `parse` reads back as it was."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
