#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rehearses run.py without a GPU: stubs of programs and tools fail, crash and hang in each place in turn,
run.py is killed and stopped, and time runs out. The results must be complete up to that point, and the
whole run must end in time.

  check_run.py FOLDER
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
TESTS = ("device", "kernels", "cudnn_attention", "launch", "launch_checks", "training", "process", "thrust")
SCALE = 0.04  # a program that should take 30 s has 3.6 s
MODES = ("good", "fail", "hang", "crash")

# The script of every stub: it looks up its behaviour by the end of its command line.
STUB = r"""#!/bin/sh
words="$0 $*"
mode=good
while IFS='	' read -r piece how; do
  case "$words" in *"$piece") mode=$how ;; esac
  if [ "$piece" = all ]; then mode=$how; fi
done < "$PLAIT_REHEARSAL"
case $mode in
  fail) echo 'broken half-way'; exit 1 ;;
  hang) trap '' TERM INT; echo 'waits for ever'; sleep 1000 & wait; sleep 1000 ;;
  crash) echo 'about to crash'; kill -SEGV $$ ;;
esac
while [ $# -gt 0 ]; do
  if [ "$1" = --output ]; then cp "$PLAIT_REHEARSAL_LINE" "$2"; fi
  shift
done
"""
LINE = {"program": "plait", "variant": "replayed", "device": "Pretended GPU", "cuda": "13.0", "size": "gpt2",
        "plan": "serial", "precision": "bfloat16", "batch": 32, "largest": False, "sequence": 1024,
        "parameters": 124439808, "flops_per_token": 803e6, "steps": 20,
        "step_ms": {"median": 60.0, "least": 59.0, "greatest": 61.0}, "tokens_per_second": 546133.0, "tflops": 439.0,
        "memory_bytes": 1 << 35, "roof_tflops": 790.0,
        "kernels": [{"name": "k", "calls": 1, "us": 100.0, "share": 1.0}]}


def check(holds, text):
    if not holds:
        sys.exit(f"check_run.py: {text}")


def script(path, text):
    path.write_text(text)
    path.chmod(0o755)


class Rehearsal:
    """A folder with stubs, in which run.py runs."""

    def __init__(self, folder, has_gpu=True):
        shutil.rmtree(folder, ignore_errors=True)
        self.folder, self.results, self.store = folder, folder / "results", folder / "out"
        self.programs, tools, self.llmc = folder / "gpu", folder / "tools", folder / "llm.c"
        for each in (self.programs, tools, self.llmc):
            each.mkdir(parents=True)
        self.modes = folder / "modes"
        self.modes.write_text("")
        (folder / "line.json").write_text(json.dumps([LINE]))
        for name in TESTS:
            script(self.programs / f"backend_cuda_{name}_gpu_test", STUB + "echo '[  PASSED  ] 3 tests.'\n")
        for name in ("thrust_layer_gpu", "step_benchmark", "backend_cuda_measure"):
            script(self.programs / name, STUB + "echo done\n")
        for name in ("compute-sanitizer", "ncu", "python3", "make"):
            script(tools / name, STUB + "echo done\n")
        script(self.llmc / "train_gpt2cu", STUB + "for i in 1 2 3 4 5 6 7 8 9; do echo \"step    $i/9 | loss 9.0 (+nanz)|"
               " norm 1.0 (+nanz)| lr 3e-04 | 61.50 ms | 40.0% bf16 MFU | 532000 tok/s\"; done\n")
        script(tools / "nvidia-smi", "#!/bin/sh\n" + ("echo 'Pretended GPU, 1.0'" if has_gpu else "exit 9") + "\n")
        self.environment = {**os.environ, "PATH": f"{tools}:/usr/bin:/bin", "PLAIT_GPU_SECONDS_SCALE": str(SCALE),
                            "PLAIT_REHEARSAL": str(self.modes), "PLAIT_REHEARSAL_LINE": str(folder / "line.json")}

    def start(self, *words):
        command = [sys.executable, HERE / "run.py", "--store", self.store, "--llmc", self.llmc, *words,
                   self.programs, self.results]
        return subprocess.Popen([str(word) for word in command], env=self.environment, stdout=subprocess.PIPE,
                                universal_newlines=True)

    def run(self, *words):
        begin = time.monotonic()
        process = self.start(*words)
        said = process.communicate(timeout=100)[0]
        return process.returncode, said, time.monotonic() - begin

    def archived(self):
        """The results: the files of the one archive, by name."""
        check([each.name for each in self.store.iterdir() if not each.name.startswith(".")] == ["gpu_results.tar.gz"],
              f"not one archive in {self.store}")
        with tarfile.open(self.store / "gpu_results.tar.gz") as archive:
            return {Path(each.name).name: archive.extractfile(each).read().decode()
                    for each in archive.getmembers() if each.isfile()}

    def checks(self):
        """The lines of the table of checks, by action."""
        lines = [line[2:-2].split(" | ") for line in self.archived()["gpu.md"].splitlines() if line.startswith("| ")]
        return {line[0]: line[1] for line in lines if len(line) == 2 and line[0] != "check"}


def places(said):
    """(action, its command) in order, from the output of run.py."""
    return re.findall(r"^== (.*) \(about \d+ s\): (.*)$", said, re.MULTILINE)


def behave(rehearsal, order, turn):
    """Gives each place another behaviour; returns the behaviour by action."""
    modes, lines = {}, []
    for number, (what, command) in enumerate(order):
        modes[what] = MODES[(number + turn) % len(MODES)]
        first, *rest = command.replace("/without/", f"/{rehearsal.folder.name}/").split(" ")
        piece = " ".join([Path(first).name, *(rest or [""])])
        if what == "libraries and GPU":  # is not a stub
            modes[what] = "good"
            continue
        lines.append(f"{piece}\t{modes[what]}")
    rehearsal.modes.write_text("\n".join(lines) + "\n")
    return modes


def rehearse(folder, order, turn):
    rehearsal = Rehearsal(folder)
    modes = behave(rehearsal, order, turn)
    code, said, seconds = rehearsal.run()
    got, files = rehearsal.checks(), rehearsal.archived()
    check(code == 1, f"turn {turn}: it ends with {code}")
    check(list(got) == [what for what, _ in order], f"turn {turn}: the places are {list(got)}")
    for what, how in modes.items():
        expected = {"good": "passed, ", "fail": "FAILED: ended with 1, ", "crash": "FAILED: ended by signal 11, ",
                    "hang": "FAILED: not over in "}[how]
        check(got[what].startswith(expected), f"turn {turn}: {what} is to {how}: {got[what]}")
    for what, command in order:
        name = re.search(r"--output \S*/(\S+\.json)", command)
        if name:
            check((name[1] in files) == (modes[what] == "good"), f"turn {turn}: {name[1]}")
    check("waits for ever" in said or "broken half-way" in said, "the ends of logs are not shown")
    return seconds


def main():
    folder = Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)

    # Without a GPU run.py lists all actions in order.
    nothing = Rehearsal(folder / "without", has_gpu=False)
    code, said, _ = nothing.run()
    order = places(said)
    done = nothing.checks()
    check(code == 0 and set(done.values()) - {"skipped: no GPU"} == {done["launch_checks"]}, f"without a GPU: {done}")
    names = [what for what, _ in order]
    begin = ["libraries and GPU", "steps of GPT-2, batch 32, replayed, cuDNN", "kernels", "device", "cudnn_attention",
             "launch_checks", "launch", "training", "thrust", "examples/thrust_layer"]
    check(names[:len(begin)] == begin, f"the order is {names}")
    check(names.index("steps in PyTorch, batch 32, compiled") < names.index("llm.c is built") <
          names.index("steps of GPT-2, batch 4, replayed, cuDNN") < names.index("cuda_process, two processes"),
          f"the order is {names}")
    order_of_calls = [what for what in names if what != "single operations"]
    first, second = Rehearsal(folder / "first"), Rehearsal(folder / "second")
    done = [*places(first.run("first")[1]), *places(second.run("second")[1])]
    check([what for what, _ in done] == order_of_calls, f"the two calls do {done}")
    check(first.checks()["kernels"].startswith("passed") and "llmc_32.json" in first.archived() and
          "Batch 32: plait" in first.archived()["gpu.md"], f"the first call: {first.archived()['gpu.md']}")
    check(re.findall(r"--cudnn --([a-z -]+?) --output", str(done)) ==
          ["free-attention", "own-gelu", "two-pass-loss --two-pass-norm --own-residual", "fused-bias", "time-products"], f"the switches are not all there: {done}")
    check("--report-api-errors no" in str(done) and "--clock-control none" in str(done), "tools lack their options")

    # Each place fails, hangs and crashes once, and the others continue.
    with ThreadPoolExecutor(len(MODES)) as pool:
        turns = [pool.submit(rehearse, folder / f"turn{turn}", order, turn) for turn in range(len(MODES))]
        late = pool.submit(out_of_time, folder / "late", order)
        killed = pool.submit(ended_from_outside, folder / "killed", order)
        for one in (*turns, late, killed):
            one.result()
    print(f"{len(order)} places, each with {len(MODES)} ends: all came back")


def out_of_time(folder, order):
    """All stubs hang, and run.py has 3 seconds."""
    rehearsal = Rehearsal(folder)
    rehearsal.modes.write_text("all\thang\n")
    code, _, seconds = rehearsal.run("--minutes", "0.05")
    check(code == 1 and seconds < 40, f"out of time it ends with {code} after {seconds:.0f} s")
    got = rehearsal.checks()
    check(list(got) == [what for what, _ in order], f"out of time: {got}")
    check(got["training"].startswith("skipped: of 0.05 min, "), f"out of time: {got['training']}")


def ended_from_outside(folder, order):
    """Ends run.py by a signal that it can handle, and by one that it cannot."""
    for sent in (signal.SIGTERM, signal.SIGKILL):
        rehearsal = Rehearsal(folder)
        rehearsal.modes.write_text("backend_cuda_launch_gpu_test \thang\n")
        process = rehearsal.start()
        while not process.stdout.readline().startswith("== launch ("):
            pass
        time.sleep(0.2)
        process.send_signal(sent)
        code = process.wait(timeout=20)
        process.stdout.close()
        check(code == (143 if sent == signal.SIGTERM else -sent), f"after {sent} it ends with {code}")
        got = rehearsal.checks()
        names = [what for what, _ in order]
        check(list(got) == names[:names.index("launch")], f"after {sent} there is {list(got)}")
        check(f"plait_{32}.json" in rehearsal.archived(), f"after {sent} the goal is lost")


if __name__ == "__main__":
    main()
