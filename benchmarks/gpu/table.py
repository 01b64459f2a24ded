#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes Markdown tables of the JSON of step_benchmark and compare_pytorch.py.

  table.py FILE.json... [--checks FILE.tsv]

The checks are lines of "what<TAB>result" and come first. The model FLOP utilisation of every line is
relative to the fastest matrix product that step_benchmark has measured on the same device.
"""

import argparse
import json
from pathlib import Path


def rows(header, lines):
    yield "| " + " | ".join(header) + " |"
    yield "|" + "---|" * len(header)
    for line in lines:
        yield "| " + " | ".join(line) + " |"


def number(value, digits=0):
    return f"{value:,.{digits}f}".replace(",", " ")


def step_table(runs):
    roofs = {}  # by device, in TFLOP/s
    for run in runs:
        if run.get("roof_tflops"):
            roofs[run["device"]] = max(run["roof_tflops"], roofs.get(run["device"], 0))
    for device in sorted({run["device"] for run in runs}):
        of_device = [run for run in runs if run["device"] == device]
        cuda = sorted({run["cuda"] for run in of_device if run["cuda"]})
        models = sorted({(run["size"], run["parameters"], run["flops_per_token"], run["sequence"])
                         for run in of_device})
        roof = roofs.get(device)
        yield f"{device}" + (f", CUDA {' and '.join(cuda)}" if cuda else "") + (
            f"; fastest bfloat16 product {roof:.0f} TFLOP/s" if roof else "")
        for size, parameters, flops, sequence in models:
            yield (f"{size}: {number(parameters)} parameters, sequences of {sequence}, "
                   f"{1e-6 * flops:.1f} MFLOP per token (6 N + 6 L C T)")
        yield ""
        header = ("program", "precision", "batch", "ms per step", "least to greatest", "tokens/s",
                  "TFLOP/s", "MFU", "memory")
        lines = []
        for run in sorted(of_device, key=lambda run: (run["largest"], run["batch"])):
            ms, memory = run["step_ms"], run["memory_bytes"]
            lines.append((f"{run['program']}, {run['variant']}", run["precision"],
                          f"{run['batch']}" + (" (largest)" if run["largest"] else ""),
                          f"{ms['median']:.2f}", f"{ms['least']:.2f} to {ms['greatest']:.2f}",
                          number(run["tokens_per_second"]), f"{run['tflops']:.3g}",
                          f"{run['tflops'] / roof:.1%}" if roof else "",
                          f"{memory / 2**30:.1f} GiB" if memory else ""))
        yield from rows(header, lines)
        yield ""


def kernel_table(run):
    kernels = run["kernels"]
    total = sum(kernel["us"] for kernel in kernels)
    yield (f"Kernels of a step, {run['program']}, {run['variant']}, batch {run['batch']}: "
           f"{1e-3 * total:.2f} ms in all of the {run['step_ms']['median']:.2f} ms of a step.")
    yield ""
    yield from rows(("kernel", "calls", "us", "share"),
                    [(f"`{kernel['name'][:90]}`", f"{kernel['calls']:.1f}", f"{kernel['us']:.1f}",
                      f"{kernel['share']:.1%}") for kernel in kernels])
    yield ""


def comparison(runs):
    """The fastest line of each, for each batch that both have measured on a device."""
    for device, batch in sorted({(run["device"], run["batch"]) for run in runs}):
        here = [run for run in runs if (run["device"], run["batch"]) == (device, batch)]
        ours, theirs = ([run for run in here if (run["program"] == "plait") == is_ours]
                        for is_ours in (True, False))
        if ours and theirs:
            best, other = (max(some, key=lambda run: run["tokens_per_second"])
                           for some in (ours, theirs))
            ratio = best["tokens_per_second"] / other["tokens_per_second"]
            yield (f"Batch {batch}: plait ({best['variant']}) is {ratio:.2f} times as fast as "
                   f"{other['program']} ({other['variant']}).")
            yield ""


def text_of(checks, paths):
    """All tables, for (what, result) pairs and for the readable files."""
    text = [*rows(("check", "result"), checks), ""] if checks else []
    runs = [run for path in paths for run in json.loads(Path(path).read_text())]
    text += step_table(runs)
    text += comparison(runs)
    for run in runs:
        if run.get("kernels"):
            text += kernel_table(run)
    return "\n".join(text).rstrip()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="*", type=Path, metavar="FILE.json")
    parser.add_argument("--checks", type=Path, metavar="FILE.tsv")
    args = parser.parse_args()
    lines = args.checks.read_text().splitlines() if args.checks else []
    print(text_of([line.split("\t") for line in lines], args.runs))


if __name__ == "__main__":
    main()
