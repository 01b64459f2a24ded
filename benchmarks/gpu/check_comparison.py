#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the parts of the benchmarks that run on a processor: compare_pytorch.py trains the same
model as train_gpt and counts its work as step_benchmark does, and table.py shows the results of both.

  check_comparison.py STEP_BENCHMARK TRAIN_GPT FOLDER
"""

import csv
import json
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TEXT = HERE.parents[1] / "tests" / "oracle" / "text.txt"


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE,
                          universal_newlines=True).stdout


def python_with_torch():
    for python in ("python3", "/usr/bin/python3"):
        tried = subprocess.run([python, "-c", "import torch, numpy"], stderr=subprocess.DEVNULL)
        if tried.returncode == 0:
            return python
    return None


def check(holds, text):
    if not holds:
        sys.exit(f"check_comparison.py: {text}")


def near(got, expected, tolerance):
    return abs(got - expected) <= tolerance * abs(expected)


def check_run(measured, steps):
    who, ms = measured["program"], measured["step_ms"]
    check(measured["steps"] == steps, f"{who}: {measured['steps']} steps")
    check(0 < ms["least"] <= ms["median"] <= ms["greatest"], f"{who}: {ms}")
    rate = 1e3 * 8 * measured["sequence"] / ms["median"]
    check(near(measured["tokens_per_second"], rate, 1e-9), f"{who}: not {rate} tokens/s")
    tflops = 1e-12 * rate * measured["flops_per_token"]
    check(near(measured["tflops"], tflops, 1e-9), f"{who}: not {tflops} TFLOP/s")


def cells(measured, roof):
    """The numbers in the program's line of the table."""
    ms = measured["step_ms"]
    rate = f"{measured['tokens_per_second']:,.0f}".replace(",", " ")
    return (f"| {ms['median']:.2f} | {ms['least']:.2f} to {ms['greatest']:.2f} | {rate} | "
            f"{measured['tflops']:.3g} | {100 * measured['tflops'] / roof:.1f}% |")


def main():
    step_benchmark, train_gpt, folder = sys.argv[1:]
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    python = python_with_torch()
    if python is None:
        print("skipped: Python with torch and numpy is not installed")
        return

    same = ("--size", "tiny", "--data", TEXT, "--batch", 8, "--learning-rate", 3e-3)
    start, losses = folder / "start.safetensors", folder / "losses.csv"
    run(train_gpt, *same, "--seed", 1, "--steps", 0, "--save", start)
    run(train_gpt, *same, "--seed", 1, "--steps", 10, "--in-order", "--generate", 0,
        "--losses", losses)
    pytorch, = json.loads(run(python, HERE / "compare_pytorch.py", *same, "--device", "cpu",
                              "--variant", "eager", "--warm-up", 1, "--steps", 9, "--init", start))
    plait, = json.loads(run(step_benchmark, "--size", "tiny", "--precision", "float",
                            "--backend", "host", "--batch", 8, "--warm-up", 1, "--steps", 3))

    with open(losses, newline="") as file:
        expected = [float(row["loss"]) for row in csv.DictReader(file)]
    got = pytorch["first_loss"], pytorch["last_loss"]
    check(near(got[0], expected[0], 1e-5) and near(got[1], expected[-1], 1e-5),
          f"losses: PyTorch {got}, plait {expected}")
    for key in ("size", "plan", "sequence", "batch", "parameters", "flops_per_token"):
        check(pytorch[key] == plait[key], f"{key}: PyTorch {pytorch[key]}, plait {plait[key]}")
    check_run(plait, 3)
    check_run(pytorch, 9)

    # Results as from a GPU.
    plait.update(roof_tflops=4.0, memory_bytes=3 << 30,
                 kernels=[{"name": "k<1>", "calls": 2, "us": 1500, "share": 0.75},
                          {"name": "1 others", "calls": 1.5, "us": 500, "share": 0.25}])
    (folder / "plait.json").write_text(json.dumps([plait]))
    (folder / "pytorch.json").write_text(json.dumps([pytorch]))
    (folder / "checks.tsv").write_text("a check\tpassed\n")
    table = run(python, HERE / "table.py", "--checks", folder / "checks.tsv", folder / "plait.json",
                folder / "pytorch.json")
    print(table)
    for part in ("| a check | passed |", "tiny: 136 960 parameters",
                 "fastest bfloat16 product 4 TFLOP/s",
                 "| plait, launched | float | 8 " + cells(plait, 4) + " 3.0 GiB |",
                 "| PyTorch ", cells(pytorch, 4), "plait, launched, batch 8: 2.00 ms in all",
                 "| `k<1>` | 2.0 | 1500.0 | 75.0% |"):
        check(part in table, f"the table has no '{part}'")


if __name__ == "__main__":
    main()
