"""What tables say of the machine, by an `nvidia-smi` that the test has written."""

import json
import os
import time

import pytest
from gpu import report

pytestmark = [
    pytest.mark.no_backend,
    pytest.mark.skipif(os.name == "nt", reason="needs a program that sh runs"),
]

#: Says what card there is; asked to go on, lines of its load.
PROGRAM = """#!/bin/sh
echo "$@" >> {folder}/asked
case "$*" in
*--loop=1*) echo "1980, 2619, 650.5, 60"
    echo "1200, 2619, 700.5, 65"
    echo "[N/A], 2619, 700.5, 65"
    echo "1710, 2619, 600.5, 61"
    touch {folder}/told
    exec sleep 60;;
*) echo "{card}"; exit {status};;
esac
"""
CARD = "NVIDIA H200, 570.86, 143771, 1980, 3201, 700.00"


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    """`nvidia_smi(card, status)`: a program of that name is found first."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)

    def write(card, status=0):
        path = folder / "nvidia-smi"
        path.write_text(PROGRAM.format(folder=tmp_path, card=card, status=status))
        path.chmod(0o755)

    return write


def test_a_card_is_named_and_watched(nvidia_smi, tmp_path, capsys):
    nvidia_smi(CARD)
    with report.Machine() as machine:
        end = time.monotonic() + 30
        while not (tmp_path / "told").exists() and time.monotonic() < end:
            time.sleep(0.01)
    assert machine.card == machine.facts["device"] == "NVIDIA H200"
    assert machine.facts["card"]["power.limit"] == "700.00"
    assert machine.facts["load"] == {
        "clocks.sm": {"median": 1710, "highest": 1980},
        "clocks.mem": {"median": 2619, "highest": 2619},
        "power.draw": {"median": 650.5, "highest": 700.5},
        "temperature.gpu": {"median": 61, "highest": 65},
    }
    card, load = (tmp_path / "asked").read_text().splitlines()
    assert card.startswith("--query-gpu=name,driver_version,memory.total,clocks.max.sm")
    assert load.startswith("--query-gpu=clocks.sm,clocks.mem,power.draw,temperature")
    machine.print()
    output = capsys.readouterr().out
    assert output.startswith("NVIDIA H200; Python ") and "load: {" in output


def test_a_driver_without_a_card_is_no_card(nvidia_smi):
    nvidia_smi("No devices were found", status=6)
    with report.Machine() as machine:
        pass
    assert machine.card is None
    assert {"card", "load"}.isdisjoint(machine.facts)


def head(settings, device="NVIDIA H200", **versions):
    machine = {"device": device, "versions": {"jax": "0.10.2", **versions}}
    return {"benchmark": "decoding", "settings": settings, "machine": machine}


def test_what_another_command_has_done_is_gone_on_with(tmp_path):
    path = tmp_path / "found.json"
    settings = {"preset": "base", "source": None}
    assert report.begun(None, head(settings)) == {}
    assert report.begun(path, head(settings)) == {}
    before = head(settings)
    before["machine"]["load"] = {"clocks.sm": {"median": 1980}}
    report.write_json(path, {**before, "rounds": {"batch 1, beam 1": {}}})
    now = report.begun(path, head(settings))
    assert now["rounds"] == {"batch 1, beam 1": {}}


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (head({"preset": "big"}), "settings.preset base, here big"),
        (head({"preset": "base"}, "NVIDIA L4"), "device NVIDIA H200, here NVIDIA L4"),
        (head({"preset": "base"}, torch="2.9"), "versions.torch None, here 2.9"),
    ],
)
def test_numbers_of_two_machines_are_not_mixed(tmp_path, other, message):
    path = tmp_path / "found.json"
    path.write_text(json.dumps({**head({"preset": "base"}), "rounds": {}}))
    with pytest.raises(SystemExit, match=f"{message}: give another file for --json"):
        report.begun(path, other)


def test_a_file_of_another_benchmark_is_not_gone_on_with(tmp_path):
    path = tmp_path / "found.json"
    path.write_text(json.dumps({"benchmark": "quality", "runs": []}))
    with pytest.raises(SystemExit, match="benchmark quality, here decoding"):
        report.begun(path, head({"preset": "base"}))
