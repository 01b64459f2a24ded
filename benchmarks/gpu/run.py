#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs that scripts/gpu has built, one after the other, and makes tables of what they say.

  run.py [--minutes N] [--store FOLDER] [--test-option OPTION]... [PART]... PROGRAMS RESULTS

What each of them says is in RESULTS, and in FOLDER, as soon as it ends; RESULTS.tar.gz is made at the
end, also if it comes by a signal. Exit code 1 if something fails.
"""

import argparse
import glob
import os
import re
import shutil
import signal
import site
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import table

HERE = Path(__file__).resolve().parent
PARTS = ("tests", "steps", "pytorch", "switches", "operations", "sanitizers")


class Call:
    """One command: `seconds` is what it may well take; `lacks` why it cannot be run, or ""."""

    def __init__(self, part, what, log, seconds, command, lacks="", **environment):
        self.part, self.what, self.log, self.seconds = part, what, log, seconds
        self.command, self.lacks, self.environment = [str(word) for word in command], lacks, environment


# ---- What is there -------------------------------------------------------------------------------

def output_of(*command):
    try:
        return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60,
                              universal_newlines=True).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""


def gpus():
    """The names of those that can be used, and the driver."""
    lines = output_of("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    return [line for line in lines.splitlines() if "," in line]


def python_with_torch():
    for candidate in ("python3", "/usr/bin/python3"):
        code = "import torch; exit(not torch.cuda.is_available())"
        try:
            if subprocess.run([candidate, "-c", code], stderr=subprocess.DEVNULL).returncode == 0:
                return candidate
        except OSError:
            pass
    return None


def find_libraries(programs):
    """Programs that come from another machine may miss CUDA's libraries; PyTorch brings the same."""
    def missing():
        said = output_of("ldd", *(str(program) for program in programs.iterdir()))
        return sorted(set(re.findall(r"^\s*(\S+) => not found", said, re.MULTILINE)))

    if missing():
        folders = [folder for packages in site.getsitepackages()
                   for folder in glob.glob(packages + "/nvidia/*/lib")]
        os.environ["LD_LIBRARY_PATH"] = ":".join(
            filter(None, [os.environ.get("LD_LIBRARY_PATH", ""), *folders]))
        if missing():
            print("libraries that are not found:", *missing(), flush=True)


# ---- What is done, the most important first ------------------------------------------------------

def calls_of(args, has_gpu):
    programs = args.programs.resolve()
    no_gpu = "" if has_gpu else "no GPU"
    tests = sorted(re.sub(r"^backend_cuda_(.*)_gpu_test$", r"\1", program.name)
                   for program in programs.glob("backend_cuda_*_gpu_test"))
    long_tests = ("training", "training_bfloat16", "training_stages", "kernels")

    def test(name):
        return programs / f"backend_cuda_{name}_gpu_test"

    for name in tests:
        if name == "process":
            for number in ("One", "Two"):
                what = f"cuda_process, {number.lower()} process{'es' if number == 'Two' else ''}"
                yield Call("tests", what, f"process_{number}.log", 20,
                           [test(name), f"--gtest_filter=*.{number}Process*", *args.test_option], no_gpu)
        else:
            yield Call("tests", name, f"{name}.log", 60 if name in long_tests else 15,
                       [test(name), *args.test_option],
                       "" if name in ("launch_checks", "cudnn_graphs") else no_gpu)
    yield Call("tests", "examples/thrust_layer", "thrust_layer.log", 15,
               [programs / "thrust_layer_gpu"], no_gpu)

    batches = os.environ.get("PLAIT_GPU_BATCHES", "32 4 64").split()
    python = python_with_torch() if has_gpu else None
    no_torch = no_gpu or ("" if python else "python3 has no PyTorch that sees a GPU")

    def steps(batch):
        return Call("steps", f"steps of GPT-2, batch {batch}", f"plait_{batch}.log", 60,
                    [programs / "step_benchmark", "--batch", batch, "--replay", "--cudnn",
                     "--recorded", 5, "--output", args.results / f"plait_{batch}.json"], no_gpu)

    def pytorch(batch):
        return Call("pytorch", f"steps in PyTorch, batch {batch}", f"pytorch_{batch}.log", 180,
                    [python or "python3", HERE / "compare_pytorch.py", "--batch", batch,
                     "--output", args.results / f"pytorch_{batch}.json"], no_torch)

    yield steps(batches[0])
    yield from (pytorch(batch) for batch in batches[:2])
    yield from (steps(batch) for batch in batches[1:])
    yield from (pytorch(batch) for batch in batches[2:])

    for switch, what in (("free-attention", "attention that need not be deterministic"),
                         ("own-gelu", "gelu by plait's own kernel"),
                         ("time-products", "the fastest of the offered products")):
        yield Call("switches", f"batch {batches[0]}, {what}", f"{switch}.log", 30,
                   [programs / "step_benchmark", "--batch", batches[0], "--replay", "--cudnn",
                    "--only-fastest", "--recorded", 5, f"--{switch}",
                    "--output", args.results / f"plait_{batches[0]}_{switch}.json"], no_gpu)

    yield Call("operations", "single operations", "operations.log", 60,
               [programs / "backend_cuda_measure"], no_gpu)
    ncu = shutil.which("ncu")
    yield Call("operations", "counters of kernels", "counters.log", 120,
               [ncu or "ncu", "--kernel-name", "regex:layer_norm|cross_entropy|attention|adamw|sums",
                "--launch-count", 40, "--set", "basic", programs / "backend_cuda_measure"],
               no_gpu or ("" if ncu else "ncu is missing"))

    sanitizer = shutil.which("compute-sanitizer")
    lacks = no_gpu or ("" if sanitizer else "compute-sanitizer is missing")
    for tool in os.environ.get("PLAIT_SANITIZERS", "memcheck racecheck").split():
        # Races are between the threads of a block, which only kernels have.
        names = ("device", "attention_engine", "training_bfloat16", "kernels")
        for name in names if tool == "memcheck" else ("attention_engine", "kernels"):
            # NCCL's own kernels are not ours to check, and wait for each other.
            yield Call("sanitizers", f"{name} under {tool}", f"{name}.{tool}.log", 120,
                       [sanitizer or "compute-sanitizer", "--tool", tool, "--error-exitcode", 1,
                        test(name), "--gtest_filter=-*ccl*"], lacks, PLAIT_TEST_STEPS="3")


# ---- Doing it ------------------------------------------------------------------------------------

def outcome(call, log, limit):
    """How it ended, and whether that is a failure."""
    begin = time.monotonic()
    with open(log, "w", encoding="utf-8") as file:
        process = subprocess.Popen(call.command, stdout=file, stderr=subprocess.STDOUT,
                                   start_new_session=True, env={**os.environ, **call.environment})
        try:
            code = process.wait(timeout=limit)
        except BaseException as problem:  # whatever ends us ends it
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not isinstance(problem, subprocess.TimeoutExpired):
                raise
            return f"FAILED: not over in {limit:.0f} s, see {log}", True
    said = log.read_text(encoding="utf-8", errors="replace")
    if code:
        print(*said.splitlines()[-20:], sep="\n", flush=True)
        return f"FAILED, see {log}", True
    reason = re.search(r"no GPU: .*", said)
    if reason:
        return f"skipped: {reason[0]}", False
    if "  PASSED  ] 0 tests" in said:
        skipped = re.search(r": Skipped\n(.*)", said)  # GoogleTest says why below the place
        return f"skipped: {skipped[1] if skipped else 'no test was run'}", False
    some = re.search(r"SKIPPED  \] (\d+ tests?), listed", said)
    return f"passed, {time.monotonic() - begin:.0f} s" + (f", {some[1]} skipped" if some else ""), False


class Results:
    """The folder of results and its copy, as they are at every moment."""

    def __init__(self, folder, store, machine):
        self.folder, self.store, self.machine, self.checks = folder, store, machine, []
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)

    def enter(self, what, how):
        print(f"   {how}", flush=True)
        self.checks.append((what, how))
        (self.folder / "gpu.md").write_text(self.text(), encoding="utf-8")
        if self.store:
            shutil.copytree(self.folder, self.store, dirs_exist_ok=True)

    def text(self):
        measured = sorted(file for file in self.folder.glob("*.json") if file.stat().st_size)
        return self.machine + "\n\n" + table.text_of(self.checks, measured) + "\n"

    def archive(self):
        if self.folder.is_dir():
            with tarfile.open(f"{self.folder}.tar.gz", "w:gz") as file:
                file.add(self.folder, self.folder.name)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=int)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--test-option", action="append", default=[])
    parser.add_argument("words", nargs="+", metavar="PART|FOLDER")
    args = parser.parse_args()
    *parts, args.programs, args.results = args.words
    if not set(parts) <= set(PARTS):
        parser.error(f"the parts are {', '.join(PARTS)}")
    args.programs, args.results = Path(args.programs), Path(args.results)

    end = time.monotonic() + 60 * args.minutes if args.minutes else float("inf")
    longest = float(os.environ.get("PLAIT_GPU_LIMIT", "540"))  # seconds, for one command
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    there = gpus()
    machine = "; ".join(there) if there else "no GPU here: what needs one was skipped"
    results = Results(args.results, args.store, machine)
    failed = False
    try:
        find_libraries(args.programs)
        for call in calls_of(args, bool(there)):
            if parts and call.part not in parts:
                continue
            left = end - time.monotonic()
            print(f"== {call.what} (about {call.seconds} s): {' '.join(call.command)}", flush=True)
            if call.lacks:
                results.enter(call.what, f"skipped: {call.lacks}")
            elif left < call.seconds:
                results.enter(call.what, f"skipped: of {args.minutes} min, {max(left, 0):.0f} s are left")
            else:
                how, is_failure = outcome(call, args.results / call.log, min(left, longest))
                failed |= is_failure
                results.enter(call.what, how)
    finally:
        results.archive()
    print("\n" + results.text(), end="")
    sys.exit(failed)


if __name__ == "__main__":
    main()
