#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs that scripts/gpu has built, one after the other, and makes tables of their results.

  run.py [--minutes N] [--store FOLDER] [--llmc SOURCES] [--test-option OPTION]... [PART]... PROGRAMS RESULTS

RESULTS gets the output of each program as soon as it is printed. After each program run.py writes
RESULTS.tar.gz, and FOLDER/gpu_results.tar.gz, again with all results. So if run.py itself is ended, the
results of ended programs are not lost. A program that takes three times its expected seconds is ended,
and the next one runs. Exit code 1 if something fails.
"""

import argparse
import glob
import json
import os
import re
import shutil
import signal
import site
import struct
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import table

HERE = Path(__file__).resolve().parent
FIRST = ("machine", "goal", "tests", "switches", "pytorch", "llmc", "batch4", "variants", "processes")
SECOND = ("sanitizers", "counters")
PARTS = FIRST + SECOND + ("operations",)
BATCH = 32
# Rehearsals without a GPU are short.
SCALE = float(os.environ.get("PLAIT_GPU_SECONDS_SCALE", "1"))
# The suites of the kernels come first: if they fail, later results mean nothing.
ORDER = ("kernels", "device", "cudnn_graphs", "cudnn_attention", "attention_engine", "launch_checks", "launch",
         "training", "training_bfloat16", "training_stages", "training_images")
# A kernel of each kind, which `backend_cuda_measure` runs.
PROFILED = "regex:layer_norm_backward|cross_entropy|attention|adamw|column_sums"


class Call:
    """One command: `seconds` is its expected time; `lacks` the reason why it cannot run, or ""."""

    def __init__(self, part, what, log, seconds, command, lacks="", **environment):
        self.part, self.what, self.log = part, what, log
        self.seconds = seconds * SCALE
        self.command, self.lacks, self.environment = [str(word) for word in command], lacks, environment

    @property
    def limit(self):
        return 3 * self.seconds


def kill_session(process):
    """Ends a process and all processes that it has started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


# ---- Tools and GPUs ------------------------------------------------------------------------------

def answer(*command):
    """The exit code of a command and its output; (None, "") after a minute. Ends all that it has started."""
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                   start_new_session=True, universal_newlines=True)
    except OSError:
        return None, ""
    try:
        said = process.communicate(timeout=60 * SCALE)[0]
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        kill_session(process)
    return process.returncode, said


def output_of(*command):
    return answer(*command)[1].strip()


def gpus():
    """The names of the usable GPUs, and the driver."""
    lines = output_of("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    return [line for line in lines.splitlines() if "," in line]


def python_with_torch():
    for candidate in ("python3", "/usr/bin/python3"):
        if answer(candidate, "-c", "import torch; exit(not torch.cuda.is_available())")[0] == 0:
            return candidate
    return None


def missing_libraries(programs):
    said = output_of("ldd", *(str(program) for program in programs.iterdir()))
    return sorted(set(re.findall(r"^\s*(\S+) => not found", said, re.MULTILINE)))


def find_libraries(programs):
    """Adds PyTorch's copies of CUDA's libraries if programs from another machine miss them."""
    if missing_libraries(programs):
        packages = {*site.getsitepackages(),
                    *output_of("python3", "-c", "import site; print(*site.getsitepackages(), sep='\\n')").splitlines()}
        folders = sorted(folder for package in packages for kind in ("nvidia/*/lib", "nvidia/*/*/lib")
                         for folder in glob.glob(f"{package}/{kind}"))
        os.environ["LD_LIBRARY_PATH"] = ":".join(
            filter(None, [os.environ.get("LD_LIBRARY_PATH", ""), *folders]))


# ---- The list of commands, the most important first ----------------------------------------------

def calls_of(args, has_gpu):
    programs = args.programs.resolve()
    no_gpu = "" if has_gpu else "no GPU"
    there = {re.sub(r"^backend_cuda_(.*)_gpu_test$", r"\1", program.name)
             for program in programs.glob("backend_cuda_*_gpu_test")}
    tests = [name for name in ORDER if name in there]
    tests += sorted(there - set(tests) - {"process"})
    long_tests = ("training", "training_bfloat16", "training_stages", "training_images", "kernels")

    def test(name):
        return programs / f"backend_cuda_{name}_gpu_test"

    def steps(part, what, log, seconds, *options):
        return Call(part, what, f"{log}.log", seconds,
                    [programs / "step_benchmark", *options, "--output", args.results / f"{log}.json"], no_gpu)

    fastest = ("--replay", "--cudnn")
    yield Call("machine", "libraries and GPU", "machine.log", 10,
               ["sh", "-c", 'ldd "$@" | grep "not found"; nvidia-smi; nvcc --version; python3 --version', "sh",
                *sorted(programs.iterdir())], no_gpu)
    yield steps("goal", f"steps of GPT-2, batch {BATCH}, replayed, cuDNN", f"plait_{BATCH}", 30,
                "--batch", BATCH, *fastest, "--recorded", 5)

    for name in tests:
        yield Call("tests", name, f"{name}.log", 45 if name in long_tests else 15, [test(name), *args.test_option],
                   "" if name in ("launch_checks", "cudnn_graphs") else no_gpu)
    yield Call("tests", "examples/thrust_layer", "thrust_layer.log", 15, [programs / "thrust_layer_gpu"], no_gpu)

    for switch, what in (("free-attention", "attention that need not be deterministic"),
                         ("own-gelu", "gelu by plait's own kernel"),
                         ("two-pass-loss --two-pass-norm --own-residual", "separate kernels for the loss, layer norms and sums of residuals"),
                         ("fused-bias", "gradients of biases by cuBLASLt"),
                         ("time-products", "the fastest of the offered products")):
        options = f"--{switch}".split(" ")
        yield steps("switches", f"batch {BATCH}, {what}", f"plait_{BATCH}_{options[0][2:]}", 15,
                    "--batch", BATCH, *fastest, *options)

    python = python_with_torch() if has_gpu else None
    no_torch = no_gpu or ("" if python else "python3 has no PyTorch that sees a GPU")

    def pytorch(part, batch, variant):
        log = f"pytorch_{batch}_{variant}"
        return Call(part, f"steps in PyTorch, batch {batch}, {variant}", f"{log}.log", 45,
                    [python or "python3", HERE / "compare_pytorch.py", "--batch", batch, "--variant", variant,
                     "--output", args.results / f"{log}.json"], no_torch)

    yield pytorch("pytorch", BATCH, "compiled")
    yield pytorch("pytorch", BATCH, "compiled-cudnn")

    no_sources = no_gpu or ("" if args.llmc else "no sources; --llmc FOLDER names them")
    folder = args.llmc or Path("llm.c")
    yield Call("llmc", "llm.c is built", "llmc_build.log", 40,
               ["make", "-C", folder, "train_gpt2cu", "NO_MULTI_GPU=1", "NO_USE_MPI=1",
                "GPU_COMPUTE_CAPABILITY=" + os.environ.get("CUDAARCHS", "90")], no_sources)
    tokens = args.results / "llmc_tokens"
    for batch in (BATCH, 4):
        yield Call("llmc", f"steps in llm.c, batch {batch}", f"llmc_{batch}.log", 20,
                   [folder / "train_gpt2cu", "-e", "d12", "-i", tokens, "-j", tokens, "-b", batch, "-t", 1024,
                    "-d", 1024 * batch, "-x", 25, "-v", 0, "-s", 0, "-h", 0, "-l", "3e-4"], no_sources)

    yield steps("batch4", "steps of GPT-2, batch 4, replayed, cuDNN", "plait_4", 15, "--batch", 4, *fastest,
                "--recorded", 5)
    yield pytorch("batch4", 4, "compiled-graphs")

    for what, options in (("launched, cuDNN", ("--cudnn",)), ("replayed, own attention", ("--replay",))):
        log = f"plait_{BATCH}_" + what.replace(", ", "_").replace(" ", "_")
        yield steps("variants", f"steps of GPT-2, batch {BATCH}, {what}", log, 25, "--batch", BATCH, *options)

    # Processes that wait for each other may hang if one fails, so more important parts precede them.
    if "process" in there:
        for number in ("One", "Two"):
            yield Call("processes", f"cuda_process, {number.lower()} process{'es' if number == 'Two' else ''}",
                       f"process_{number}.log", 20,
                       [test("process"), f"--gtest_filter=*.{number}Process*", *args.test_option], no_gpu,
                       PLAIT_TEST_SECONDS="50")

    sanitizer = shutil.which("compute-sanitizer")
    lacks = no_gpu or ("" if sanitizer else "compute-sanitizer is missing")
    for tool, options in (("memcheck", ("--report-api-errors", "no")), ("racecheck", ())):
        # Tests cause errors of calls on purpose, and check the reports.
        yield Call("sanitizers", f"kernels under {tool}", f"kernels.{tool}.log", 60,
                   [sanitizer or "compute-sanitizer", "--tool", tool, *options, "--error-exitcode", 1,
                    test("kernels")], lacks, PLAIT_TEST_SECONDS="150")
    ncu = shutil.which("ncu")
    yield Call("counters", "counters of five kernels", "counters.log", 40,
               [ncu or "ncu", "--kernel-name", PROFILED, "--filter-mode", "per-launch-config", "--launch-count", 1,
                "--clock-control", "none", "--set", "basic", programs / "backend_cuda_measure"],
               no_gpu or ("" if ncu else "ncu is missing"))
    yield Call("operations", "single operations", "operations.log", 40, [programs / "backend_cuda_measure"], no_gpu)


class CacheFill:
    """Lets PyTorch compile on the other cores while tests run, but not while anything is timed."""

    def __init__(self, results, has_gpu):
        self.process, self.log = None, results / "pytorch_compile.log"
        python = python_with_torch() if has_gpu else None
        if python is None:
            return
        cache = {"TORCHINDUCTOR_FX_GRAPH_CACHE": "1", "TORCHINDUCTOR_CACHE_DIR": "/tmp/plait_torch_cache"}
        os.environ.update(cache)
        with open(self.log, "w", encoding="utf-8") as file:
            self.process = subprocess.Popen(
                [python, HERE / "compare_pytorch.py", "--only-compile", "--batch", str(BATCH), "--variant", "compiled",
                 "--variant", "compiled-cudnn"], stdout=file, stderr=subprocess.STDOUT, start_new_session=True)

    def end(self, seconds=0):
        if self.process is None:
            return
        try:
            self.process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            pass
        kill_session(self.process)
        self.process = None


# ---- Running the commands ------------------------------------------------------------------------

def write_tokens(path, samples=64, sequence=1024, vocabulary=50257):
    """Random tokens, like step_benchmark's, in a file for llm.c."""
    count = samples * sequence + 1
    state, tokens = 1, []
    for _ in range(count):
        state = state * 1103515245 + 12345 & 0x7fffffff
        tokens.append((state >> 8) % vocabulary)
    header = [20240520, 1, count] + [0] * 253
    path.write_bytes(struct.pack("<256i", *header) + struct.pack(f"<{count}H", *tokens))


def llmc_json(said, batch, machine):
    """The steps that llm.c prints, as a line like those of step_benchmark; None if there are too few."""
    ms = [float(one) for one in re.findall(r"^step +\d+/\d+ .*?\| ([0-9.]+) ms", said, re.MULTILINE)][5:]
    if len(ms) < 3:
        return None
    median = sorted(ms)[len(ms) // 2]
    parameters, layers, width, sequence = 124439808, 12, 768, 1024
    flops = 6 * parameters + 6 * layers * width * sequence
    rate = 1e3 * batch * sequence / median
    return [{"program": "llm.c", "variant": "as it is", "device": machine, "cuda": None, "size": "gpt2",
             "plan": "serial", "precision": "bfloat16", "batch": batch, "largest": False, "sequence": sequence,
             "parameters": parameters, "flops_per_token": flops, "steps": len(ms),
             "step_ms": {"median": median, "least": min(ms), "greatest": max(ms)}, "tokens_per_second": rate,
             "tflops": 1e-12 * flops * rate, "memory_bytes": None}]


def outcome(call, log, limit):
    """The end of a command in words, and True if it is a failure."""
    begin = time.monotonic()
    with open(log, "w", encoding="utf-8") as file:
        try:
            process = subprocess.Popen(call.command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                       start_new_session=True, env={**os.environ, **call.environment})
        except OSError as problem:
            return f"FAILED: {problem}", True
        try:
            code = process.wait(timeout=limit)
        except BaseException as problem:  # an exception that ends this program also ends the child
            kill_session(process)
            if not isinstance(problem, subprocess.TimeoutExpired):
                raise
            return f"FAILED: not over in {limit:.0f} s, see {log}", True
        kill_session(process)  # processes that it has left
    said = log.read_text(encoding="utf-8", errors="replace")
    if code:
        print(*said.splitlines()[-20:], sep="\n", flush=True)
        ended = f"by signal {-code}" if code < 0 else f"with {code}"
        return f"FAILED: ended {ended}, see {log}", True
    reason = re.search(r"no GPU: .*", said)
    if reason:
        return f"skipped: {reason[0]}", False
    if "  PASSED  ] 0 tests" in said:
        skipped = re.search(r": Skipped\n(.*)", said)  # GoogleTest says why below the place
        return f"skipped: {skipped[1] if skipped else 'no test was run'}", False
    some = re.search(r"SKIPPED  \] (\d+ tests?), listed", said)
    return f"passed, {time.monotonic() - begin:.0f} s" + (f", {some[1]} skipped" if some else ""), False


class Results:
    """The folder of results and its archives, which are complete at every moment."""

    def __init__(self, folder, store, machine):
        self.folder, self.machine, self.checks = folder, machine, []
        self.archives = [Path(f"{folder}.tar.gz")]
        if store:
            store.mkdir(parents=True, exist_ok=True)
            self.archives.append(store / "gpu_results.tar.gz")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self.archive()

    def enter(self, what, how):
        print(f"   {how}", flush=True)
        self.checks.append((what, how))
        self.archive()

    def text(self):
        measured = []
        for file in sorted(self.folder.glob("*.json")):
            try:
                measured += [file] if json.loads(file.read_text()) else []
            except ValueError:
                pass  # ended while it wrote
        return self.machine + "\n\n" + table.text_of(self.checks, measured) + "\n"

    def archive(self):
        (self.folder / "gpu.md").write_text(self.text(), encoding="utf-8")
        for path in self.archives:
            new = path.with_name(f".{path.name}.new")
            with tarfile.open(new, "w:gz") as file:
                file.add(self.folder, self.folder.name, filter=lambda each: None if "tokens" in each.name else each)
            os.replace(new, path)  # one or the other exists at every moment


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--llmc", type=Path)
    parser.add_argument("--test-option", action="append", default=[])
    parser.add_argument("words", nargs="+", metavar="PART|FOLDER")
    args = parser.parse_args()
    *parts, args.programs, args.results = args.words
    if not set(parts) <= {*PARTS, "first", "second"}:
        parser.error(f"the parts are {', '.join(PARTS)}, and first and second for those of a call each")
    wanted = {part for word in parts for part in {"first": FIRST, "second": SECOND}.get(word, (word,))}
    args.programs, args.results = Path(args.programs), Path(args.results)

    end = time.monotonic() + 60 * args.minutes if args.minutes else float("inf")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    there = gpus()
    machine = "; ".join(there) if there else "no GPU here: what needs one was skipped"
    results = Results(args.results, args.store, machine)
    failed = False
    cache = None
    try:
        find_libraries(args.programs)
        for call in calls_of(args, bool(there)):
            if wanted and call.part not in wanted:
                continue
            if call.part == "tests" and cache is None and (not wanted or "pytorch" in wanted):
                cache = CacheFill(args.results, bool(there))
            elif call.part != "tests" and cache is not None:
                cache.end(20 * SCALE)
            left = end - time.monotonic()
            print(f"== {call.what} (about {call.seconds:.0f} s): {' '.join(call.command)}", flush=True)
            if call.lacks:
                results.enter(call.what, f"skipped: {call.lacks}")
            elif left < call.seconds:
                results.enter(call.what, f"skipped: of {args.minutes:g} min, {max(left, 0):.0f} s are left")
            else:
                if call.part == "llmc" and call.log != "llmc_build.log":
                    write_tokens(args.results / "llmc_tokens")
                log = args.results / call.log
                how, is_failure = outcome(call, log, min(left, call.limit))
                failed |= is_failure
                batch = re.fullmatch(r"llmc_(\d+)\.log", call.log)
                line = batch and llmc_json(log.read_text(errors="replace"), int(batch[1]),
                                           there[0].split(",")[0] if there else "host")
                if line:
                    (args.results / f"llmc_{batch[1]}.json").write_text(json.dumps(line))
                results.enter(call.what, how)
    finally:
        if cache is not None:
            cache.end()
        results.archive()
    print("\n" + results.text(), end="")
    sys.exit(failed)


if __name__ == "__main__":
    main()
