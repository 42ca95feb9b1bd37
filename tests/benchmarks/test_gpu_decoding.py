"""`gpu/decoding.py` at toy size, and how its batches are cut."""

import pytest
from peers.batches import by_length


@pytest.mark.one_backend
@pytest.mark.slow
def test_the_tables_of_decoding(run_benchmark, ours):
    arguments = ["--size", "toy", "--batch", 4, "--sentences", 6, "--rounds", 2]
    arguments += ["--seconds", 0, "--only", ours]
    output, found = run_benchmark("gpu.decoding", *arguments, "--beam", 2)
    (numbers,) = found["rounds"]["batch 4, beam 2"].values()
    assert f"| {ours} |" in output
    for row in numbers:
        assert row["sentences"] == 6 and row["tokens"] % (16 * 2) == 0
        assert row["tokens_per_second"] > 0
    # A second run measures nothing that is there.
    output, again = run_benchmark("gpu.decoding", *arguments, "--beam", 2)
    assert f"| {ours} |" in output
    assert again["rounds"] == found["rounds"]


@pytest.mark.no_backend
def test_batches_are_of_similar_length():
    sentences = [[5] * length for length in (3, 40, 17, 16, 2)]
    found = by_length(sentences, 2, most=9)
    sizes = [([len(row) for row in rows], length) for rows, length in found]
    assert sizes == [([40, 17], 64), ([16, 3], 16), ([2], 16)]


@pytest.mark.no_backend
def test_few_batches_are_spread_over_all_lengths():
    sentences = [[5] * length for length in range(1, 101)]
    found = by_length(sentences, 1, most=4)
    assert [len(rows[0]) for rows, _ in found] == [100, 75, 50, 25]
