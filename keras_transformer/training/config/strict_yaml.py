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

#: Of a document: a value of one character takes a kilobyte while it is read.
MOST_CHARACTERS = 2**17
_NUMBERS = (f"{_TAG}int", f"{_TAG}float")
_COLLECTIONS = (f"{_TAG}map", f"{_TAG}seq")
_LONGEST_NUMBER = 1000
_MOST_NODES = 2**18  # a file of the largest size has no more without aliases


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
    if len(text) > MOST_CHARACTERS:
        raise InputError(
            f"{where}: a config has at most {MOST_CHARACTERS} characters; shorten it"
        )
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        _check_nodes(node, {})
        return loader.construct_document(node)
    except InputError as error:
        raise InputError(f"{where}{error}") from None
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
    finally:
        if loader is not None:
            loader.dispose()


def _check_nodes(node: yaml.Node, counts: dict[int, int | None]) -> int:
    """How many nodes one stands for, those that its aliases repeat included.

    Args:
        node: of the document.
        counts: of the nodes that are known; None of those that are being counted.

    Raises:
        InputError: where they are too many, hold themselves, or a number is too long.
    """
    where = f", line {node.start_mark.line + 1}: "
    if id(node) in counts:
        if (count := counts[id(node)]) is None:
            raise InputError(f"{where}an alias (*) stands for itself; write it out")
        return count
    counts[id(node)] = None
    count = 1
    if isinstance(node, yaml.ScalarNode):
        if node.tag in _NUMBERS and len(node.value) > _LONGEST_NUMBER:
            raise InputError(f"{where}a number of {len(node.value)} digits; shorten it")
    elif node.tag not in _COLLECTIONS:
        raise InputError(
            f"{where}the tag {node.tag[:100]!r} is not for configs; remove it"
        )
    else:
        pairs = node.value if isinstance(node, yaml.MappingNode) else [node.value]
        count += sum(_check_nodes(part, counts) for pair in pairs for part in pair)
    if count > _MOST_NODES:
        raise InputError(
            f"{where}aliases (*) repeat more than {_MOST_NODES} values; write out "
            f"what is needed"
        )
    counts[id(node)] = count
    return count


def dump(content: Any) -> str:
    """One YAML document, which `parse` reads back as it was."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
