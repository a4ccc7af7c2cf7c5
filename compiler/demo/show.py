"""This file is the `onnxc demo` command: compile, run, and tell what was seen, what it is and how long that took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

import numpy as np

import onnxc
from onnxc import runtime
from onnxc.link import copy_output

HERE = Path(__file__).parent
#: From no ink to full ink; a pixel is 0 to 16.
RAMP = " .:-=+*#%@"
TIMED_RUNS = 201


def show_demo(folder: Path, tell: Callable[[str], None]) -> None:
    """Fills `folder` with the model, the artefact, the header and the C example; `tell` gets the lines to print."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("digits.onnx", "digits.npz", "digits.c", "train_digits.py"):
        copy_output(HERE / name, folder / name)
    copy_output(header(), folder / "onnxc.h")
    report = onnxc.compile(folder / "digits.onnx", folder / "digits.so")
    tell(f"compiled {folder / 'digits.onnx'} to {report.summary()}")

    session = onnxc.InferenceSession(folder / "digits.so")
    data = np.load(folder / "digits.npz")
    images, labels = data["images"], data["labels"]
    (probability,) = session.run(None, {"image": images})
    answers = probability.argmax(axis=1)
    tell("\nten scans that the training did not see:\n\n" + draw(images))
    tell("answer  " + columns(map(str, answers)))
    tell("is      " + columns(map(str, labels)))
    tell("sure    " + columns(f"{sure:.1%}" for sure in probability.max(axis=1)))
    tell(f"\n{(answers == labels).sum()} of {len(labels)} right, {time_an_image(session, images):.1f} µs an image")
    tell(how_to_go_on(folder))


def draw(images: np.ndarray) -> str:
    """The images [n, 1, 8, 8] side by side, drawn in characters."""
    shade = np.rint(images[:, 0] * ((len(RAMP) - 1) / 16)).astype(int)
    rows = ["        " + "  ".join("".join(RAMP[s] for s in image[y]) for image in shade) for y in range(8)]
    return "\n".join(row.rstrip() for row in rows) + "\n"


def columns(texts: Iterable[str]) -> str:
    """The texts under the images."""
    return "".join(f"{text:<10}" for text in texts).rstrip()


def time_an_image(session: onnxc.InferenceSession, images: np.ndarray) -> float:
    """The median time of a run on one image in microseconds, Python's share included."""
    feed = {"image": np.ascontiguousarray(images[:1])}
    times = []
    for _ in range(TIMED_RUNS):
        start = time.perf_counter()
        session.run(None, feed)
        times.append(time.perf_counter() - start)
    return 1e6 * median(times)


def header() -> Path:
    """The C header of compiled models, which lies with the installed runtime."""
    return Path(runtime.__path__[0]) / "onnxc.h"


def how_to_go_on(folder: Path) -> str:
    """Where the header and the C example lie, and how they are used."""
    model, example = folder / "digits.onnx", folder / "digits.c"
    objects, program = folder / "digits.o", folder / "digits"
    return (
        f"the C header is {folder / 'onnxc.h'}, a program in C that runs the model {example}:\n"
        f"  onnxc compile {model} -o {objects}\n"
        f"  cc {example} {objects} -o {program} -pthread && {program}\n"
        f"(without a C compiler: python -m ziglang cc instead of cc)"
    )
