"""Shapes of programs: few while padding is cheaper, each batch's own in the end."""

import pytest

from keras_transformer.translation.shape_plan import ShapePlan

pytestmark = pytest.mark.no_backend


def test_a_small_job_has_one_shape():
    plan = ShapePlan(program_positions=10_000)
    assert plan.shared([(64, 64), (64, 32), (8, 8)]) == [(64, 64)] * 3


def test_a_shape_is_compiled_where_it_saves_more_than_it_costs():
    plan = ShapePlan(program_positions=10_000)
    job = [(64, 64)] * 2 + [(64, 48)] * 9 + [(64, 32)] * 5 + [(64, 16)]
    # 6 * 64 * 32 positions with 32, 15 * 64 * 16 with 48; after 48, 32 saves too few.
    assert plan.shared(job) == [(64, 64)] * 2 + [(64, 48)] * 15


def test_what_was_padded_counts_in_later_jobs():
    plan = ShapePlan(program_positions=10_000)
    job = [(64, 64), (64, 32), (64, 32)]
    found = [plan.shared(job)[1] for _ in range(4)]
    assert found == [(64, 64)] * 2 + [(64, 32)] * 2


def test_a_longer_batch_and_one_of_more_rows_have_shapes_of_their_own():
    plan = ShapePlan(program_positions=10_000)
    plan.shared([(64, 32)] * 2)
    assert plan.shared([(64, 32), (64, 96)]) == [(64, 32), (64, 96)]
    assert plan.shared([(128, 16)]) == [(128, 16)]


def test_what_is_compiled_for_a_single_batch_is_used_by_jobs():
    plan = ShapePlan(program_positions=10_000)
    assert plan.own([(1, 8)]) == [(1, 8)]
    assert plan.own([(64, 32)]) == [(64, 32)]
    assert plan.own([(1, 16)]) == [(1, 16)]
    job = [(64, 64), (64, 24), (1, 8), (1, 16)]
    assert plan.shared(job) == [(64, 64), (64, 32), (1, 8), (1, 16)]


def test_rows_are_dropped_once_many_batches_were_searched():
    plan = ShapePlan(program_positions=10_000)
    assert not plan.drops_rows((64, 64))
    plan.shared([(64, 64)] * 10 + [(64, 32)])  # 45,056 positions, padding included
    assert not plan.drops_rows((64, 64))
    plan.own([(64, 64)])
    plan.own([(64, 64)])
    assert plan.drops_rows((64, 64))
    assert not plan.drops_rows((64, 32))
