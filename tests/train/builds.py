#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""builds.py PROGRAM...: every program trains to the losses of the first, within what docs/design/host_maths.md
says of builds for several processors: 1e-6 of the loss in float, 1e-13 in double."""
import subprocess
import sys

TOLERANCE = {"float": 1e-6, "double": 1e-13}


def losses(program):
    done = subprocess.run([program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    print(program.rpartition("/")[2], done.stderr.strip(), sep=": ")
    if done.returncode == 77:
        return None
    if done.returncode != 0:
        sys.exit(f"{program} ended with {done.returncode}")
    return [(kind, float(loss)) for kind, loss in (line.split() for line in done.stdout.splitlines())]


def main():
    wanted, wrong = losses(sys.argv[1]), 0
    if len(wanted) != 40 or wanted[19][1] > 0.9 * wanted[0][1]:
        sys.exit(f"{sys.argv[1]} has not trained: {wanted}")
    for program in sys.argv[2:]:
        worst = dict.fromkeys(TOLERANCE, 0.0)
        for (kind, loss), (_, expected) in zip(losses(program) or [], wanted):
            worst[kind] = max(worst[kind], abs(loss - expected) / expected)
        print("  " + ", ".join(f"{kind} {worst[kind]:.1e}" for kind in worst))
        wrong += any(worst[kind] > TOLERANCE[kind] for kind in worst)
    sys.exit(f"{wrong} of them differ by more than {TOLERANCE}" if wrong else 0)


main()
