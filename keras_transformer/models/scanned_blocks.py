"""Scan over layers: equal blocks that are compiled as one.

N blocks, B batch, T positions, D hidden_dim.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops
from keras import tree

from keras_transformer import backends
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors


def can_scan(blocks: Sequence[Any]) -> bool:
    """Whether blocks differ in nothing but the values of their weights."""
    try:
        first, *others = map(_description, blocks)
    except (NotImplementedError, ValueError):  # no blocks, or a part without a config
        return False
    return bool(others) and all(description == first for description in others)


def _description(block: Any) -> Any:
    """What must be the same, for the program of one block to be that of another."""
    groups = block.trainable_variables, block.non_trainable_variables
    weights = [[(tuple(v.shape), v.dtype) for v in group] for group in groups]
    return _without_names(keras.saving.serialize_keras_object(block)), weights


def _without_names(config: Any) -> Any:
    """A serialized layer without the names of layers."""
    if isinstance(config, dict):
        return {k: _without_names(v) for k, v in config.items() if k != "name"}
    if isinstance(config, list | tuple):
        return [_without_names(entry) for entry in config]
    return config


def scanned(
    run: Callable[..., Tensor],
    blocks: Sequence[Any],
    hidden: Tensor,
    inputs: Sequence[Tensors] | None = None,
    **arguments: Any,
) -> Tensor:
    """The output of blocks, each on that of the one before, by one loop.

    A compiler has one block to compile and not N. The weights of the blocks are put
    together at each step, which takes the memory of a copy.

    Args:
        run: `run(block, hidden, *inputs, **arguments)`, the output of a block.
        blocks: built blocks for which `can_scan` holds.
        hidden: the input of the first block, (B, T, D).
        inputs: the other inputs of each block, nested tensors.
        arguments: of every call.

    Returns:
        The output of the last block, (B, T, D).
    """
    first = blocks[0]
    weights, states = first.trainable_variables, first.non_trainable_variables

    def step(hidden: Tensor, of_block: Tensors) -> tuple[Tensor, list[Tensor]]:
        values, state_values, own_inputs = of_block
        mapping = [*zip(weights, values, strict=True)]
        mapping += zip(states, state_values, strict=True)
        with keras.StatelessScope(state_mapping=mapping) as scope:
            output = run(first, hidden, *own_inputs, **arguments)
            return output, [scope.get_current_value(state) for state in states]

    layers = (
        _stacked([[v.value for v in block.trainable_variables] for block in blocks]),
        _stacked(
            [[v.value for v in block.non_trainable_variables] for block in blocks]
        ),
        _stacked(list(inputs) if inputs is not None else [() for _ in blocks]),
    )
    hidden, new_states = backends.scan(step, hidden, layers)
    for index, block in enumerate(blocks):
        frozen = {id(weight) for weight in block.non_trainable_weights}
        for state, values in zip(
            block.non_trainable_variables, new_states, strict=True
        ):
            if id(state) not in frozen:  # the seeds of dropout
                state.assign(values[index])
    return hidden


def _values(variables: Sequence[Any]) -> list[Tensor]:
    return [variable.value for variable in variables]


def _stacked(of_blocks: list[Any]) -> Any:
    """Nested tensors with an axis of blocks in front."""
    return tree.map_structure(lambda *tensors: ops.stack(tensors), *of_blocks)
