"""How two threads fare while another process keeps one of the two cores busy: onnxc beside other runtimes.

    python -m tests.bench.beside_busy MODEL.onnx [--against openvino,onnxruntime] [--rounds 8] [--json OUT.json]

Runs `onnxc bench --threads 2` alone and beside a busy process pinned to the second CPU, in turn, and prints for every
runtime both medians and how many times longer a run takes beside it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from statistics import median


def _spin(cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})
    while True:
        pass


@contextmanager
def busy(cpu: int):
    """A process that does nothing but run, on that CPU."""
    process = multiprocessing.get_context("fork").Process(target=_spin, args=(cpu,), daemon=True)
    process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


def medians(model: Path, against: str, rounds: int) -> dict[str, float]:
    """Runtime → median wall time of a run in ms."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "bench.json"
        options = ["--against", against, "--threads", "2", "--rounds", str(rounds), "--json", str(out)]
        subprocess.run([sys.executable, "-m", "onnxc", "bench", str(model), *options], check=True, capture_output=True)
        return {side["runner"]: 1e3 * median(side["blocks"]) for side in json.loads(out.read_text())["runners"]}


def main() -> int:
    """Alternates twice, so that drift meets both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--against", default="openvino")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    cpu = sorted(os.sched_getaffinity(0))[1]
    alone, beside = [], []
    for _ in range(2):
        alone.append(medians(arguments.model, arguments.against, arguments.rounds))
        with busy(cpu):
            beside.append(medians(arguments.model, arguments.against, arguments.rounds))
    rows = {name: [median(side[name] for side in sides) for sides in (alone, beside)] for name in alone[0]}
    for name, (quiet, loud) in rows.items():
        print(f"{name:14} alone {quiet:9.3f} ms   beside a busy process {loud:9.3f} ms   {loud / quiet:.2f} times")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
