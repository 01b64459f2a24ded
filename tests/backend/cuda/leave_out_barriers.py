#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Leaves each barrier of the kernels out in turn and says which test finds the race.

  leave_out_barriers.py [--only TEXT] PROGRAM...

The programs are suites of kernels on the emulation of a device, compiled with -fsanitize=thread:
`ninja -C build/dev kernel_barriers` builds and runs them. First each test runs with all barriers; then
each barrier is left out of the tests whose kernels come to it, the fastest first, until one reports a
race. Without a race where there is a barrier too few, the script fails, as it does where a race is
reported with all of them. --only takes the barriers with TEXT in FILE:LINE.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

KERNELS = Path(__file__).parents[3] / "include/plait/backend/cuda/kernels"


def barriers():
    """All in the source, as FILE:LINE."""
    return [f"{path.name}:{number}" for path in sorted(KERNELS.glob("*.hpp"))
            for number, line in enumerate(path.read_text().splitlines(), 1) if "__syncthreads();" in line]


def tests(program):
    said = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
    suite = ""
    for line in said.splitlines():
        name = line.split("#")[0].strip()
        if name.endswith("."):
            suite = name
        elif suite and line.startswith(" "):
            yield program, suite + name


def run(test, **variables):
    """(what it says, seconds)"""
    program, name = test
    begin = time.monotonic()
    done = subprocess.run([program, f"--gtest_filter={name}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace", env=os.environ | {"TSAN_OPTIONS": "halt_on_error=1"} | variables)
    if "unexpected memory mapping" in done.stdout:
        sys.exit("skipped: the thread sanitizer does not run on this kernel of Linux")
    return done, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", metavar="TEXT")
    parser.add_argument("programs", nargs="+", metavar="PROGRAM")
    args = parser.parse_args()
    chosen = [each for each in barriers() if args.only in each]

    everything = [test for program in args.programs for test in tests(program)]
    reached = {each: [] for each in chosen}
    failed = []
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        for test, (done, seconds) in zip(everything, threads.map(lambda t: run(t, PLAIT_LIST_BARRIERS="1"), everything)):
            if done.returncode != 0:
                failed.append(test[1])
                print(f"{test[1]} fails with all barriers:\n{done.stdout[-4000:]}")
            for path, line in re.findall(r"^barrier (\S+):(\d+)$", done.stdout, re.MULTILINE):
                reached.get(f"{Path(path).name}:{line}", []).append((seconds, test))

        def who_finds(barrier):
            for _, test in sorted(reached[barrier]):
                if "ThreadSanitizer: data race" in run(test, PLAIT_LEAVE_OUT_BARRIER=f"kernels/{barrier}")[0].stdout:
                    return test[1]
            return None

        missed = []
        for barrier, by in zip(chosen, threads.map(who_finds, chosen)):
            if by is None:
                missed.append(barrier)
            print(f"{barrier:32} {by or ('not found' if reached[barrier] else 'in no test')}", flush=True)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} left-out barriers were found, "
          f"{len(everything) - len(failed)} of {len(everything)} tests pass with all")
    return 1 if failed or missed else 0


if __name__ == "__main__":
    sys.exit(main())
