#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks run.py with programs and a GPU that only pretend to be: the order, what is skipped for want of
time, failures, time-outs and the archive, also after a signal.

  check_run.py FOLDER
"""

import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = {
    "backend_cuda_device_gpu_test": "echo '[  PASSED  ] 3 tests.'",
    "backend_cuda_kernels_gpu_test": "echo broken; exit 1",
    "backend_cuda_launch_checks_gpu_test": "echo '[  PASSED  ] 1 test.'",
    "backend_cuda_process_gpu_test": "exit 0",
    "backend_cuda_thrust_gpu_test": "sleep 60 & wait",
    "thrust_layer_gpu": "echo 'no GPU: all are asleep'",
    "step_benchmark": "exit 0",
    "backend_cuda_measure": "exit 0",
}


def check(holds, text):
    if not holds:
        sys.exit(f"check_run.py: {text}")


def script(path, text):
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def main():
    folder = Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    programs, results, store, tools = (folder / name for name in ("gpu", "results", "store", "tools"))
    for each in (programs, tools):
        each.mkdir(parents=True)
    for name, text in PROGRAMS.items():
        script(programs / name, text)
    without_gpu = {**os.environ, "PATH": f"{tools}:/usr/bin:/bin", "PLAIT_GPU_LIMIT": "2"}

    def run(*words):
        command = [sys.executable, HERE / "run.py", *words, programs, results]
        return subprocess.run([str(word) for word in command], env=without_gpu, timeout=120,
                              stdout=subprocess.PIPE, universal_newlines=True)

    script(tools / "nvidia-smi", "exit 9")
    done = run("--minutes", 1)
    table = (results / "gpu.md").read_text()
    order = [line.split(" | ")[0][2:] for line in table.splitlines() if line.startswith("| ")][1:]
    check(done.returncode == 0, "without a GPU it fails")
    check(order[0] == "device" and order[order.index("examples/thrust_layer") + 1:][:3] ==
          ["steps of GPT-2, batch 32", "steps in PyTorch, batch 32", "steps in PyTorch, batch 4"],
          f"the order is {order}")
    skipped = table.count("skipped: no GPU")
    check(skipped == len(order) - 1 and "launch_checks | passed" in table, f"not skipped: {table}")

    script(tools / "nvidia-smi", "echo 'Pretended GPU, 1.0'")
    done = run("--minutes", 1, "--store", store)
    table = (store / "gpu.md").read_text()
    check(done.returncode == 1, "a failure is not one")
    for line in ("Pretended GPU, 1.0", "| device | passed, 0 s |", "| kernels | skipped: of 1 min, ",
                 "| thrust | FAILED: not over in 2 s, see ", "no GPU: all are asleep",
                 "| steps of GPT-2, batch 32 | skipped: of 1 min, "):
        check(line in table, f"'{line}' is not in: {table}")
    done = run("tests")
    check("| kernels | FAILED, see " in done.stdout and "broken" in done.stdout, done.stdout)
    with tarfile.open(f"{results}.tar.gz") as archive:
        check({"results/gpu.md", "results/kernels.log"} <= set(archive.getnames()),
              "the archive is not whole")

    Path(f"{results}.tar.gz").unlink()
    shutil.rmtree(results)
    words = [sys.executable, HERE / "run.py", "tests", programs, results]
    running = subprocess.Popen(words, env={**without_gpu, "PLAIT_GPU_LIMIT": "60"},
                               stdout=subprocess.DEVNULL)
    while not (results / "thrust.log").exists():
        time.sleep(0.05)
    running.send_signal(signal.SIGTERM)
    check(running.wait(timeout=20) == 143, "a signal does not end it")
    with tarfile.open(f"{results}.tar.gz") as archive:
        check("results/device.log" in archive.getnames(), "after a signal nothing is archived")


if __name__ == "__main__":
    main()
