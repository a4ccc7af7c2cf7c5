"""Measures a folder of models against other runtimes, a model at a time, and writes one JSON file.

    python -m tests.bench.suite FOLDER [--only a,b] [--against onnxruntime,openvino] [--threads 1] [--json OUT.json]

FOLDER holds NAME.onnx files; inputs are those of `onnxc bench` (random and seeded). Every model is compiled for this
CPU and measured by `onnxc bench`: interleaved blocks, one process a runtime, CPU time for one thread and wall time for
more. Prints the ratio to the best runtime of each row that agrees, and the geometric mean.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> int:
    """Runs the suite; 1 if a model could not be measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--against", default="onnxruntime,openvino")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows, ratios, failed = [], [], 0
    for model in sorted(arguments.folder.glob("*.onnx")):
        if arguments.only and model.stem not in arguments.only.split(","):
            continue
        row = measured(model, arguments)
        rows.append(row)
        if "error" in row:
            failed += 1
            print(f"{model.stem:24} {row['error']}", flush=True)
            continue
        best, ratio = best_ratio(row["result"])
        ratios.append(ratio)
        print(f"{model.stem:24} {ratio:.2f} of {best}", flush=True)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"{arguments.threads} thread(s): geometric mean {mean:.3f} over {len(ratios)} models")
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1) + "\n")
    return 1 if failed else 0


def measured(model: Path, arguments: argparse.Namespace) -> dict:
    """One model's row: what `onnxc bench --json` wrote, or the error."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "bench.json"
        options = [
            "--against",
            arguments.against,
            "--threads",
            str(arguments.threads),
            "--rounds",
            str(arguments.rounds),
        ]
        command = [sys.executable, "-m", "onnxc", "bench", str(model), *options, "--json", str(out)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return {"model": model.stem, "error": done.stderr.strip().splitlines()[-1] if done.stderr else "failed"}
        return {"model": model.stem, "result": json.loads(out.read_text())}


def best_ratio(result: dict) -> tuple[str, float]:
    """(the fastest other runtime, the median over rounds of our time by its time)."""
    best = max(result["ratios"], key=result["ratios"].__getitem__)
    return best, result["ratios"][best]


if __name__ == "__main__":
    sys.exit(main())
