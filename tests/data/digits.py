#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""digits.py PROGRAM SCRATCH: the handwritten digits that scikit-learn's package has, unpacked as a table and given to
PROGRAM. It is looked for in the wheel that PLAIT_SKLEARN_WHEEL names, in that of build/digits, which scripts/test
fetches, and where Python finds sklearn."""
import glob
import gzip
import importlib.util
import os
import subprocess
import sys
import zipfile

NAME = "sklearn/datasets/data/digits.csv.gz"


def packed():
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    wheels = glob.glob(os.path.join(root, "build", "digits", "scikit_learn-*.whl"))
    wheel = os.environ.get("PLAIT_SKLEARN_WHEEL") or next(iter(wheels), None)
    if wheel:
        return zipfile.ZipFile(wheel).read(NAME)
    found = importlib.util.find_spec("sklearn")
    for folder in found.submodule_search_locations if found else []:
        path = os.path.join(os.path.dirname(folder), NAME)
        if os.path.exists(path):
            return open(path, "rb").read()
    return None


def main():
    program, scratch = sys.argv[1:3]
    data = packed()
    if data is None:
        print("skipped: scikit-learn, whose package has the digits, was not found (python3-sklearn, or a wheel in "
              "PLAIT_SKLEARN_WHEEL or build/digits)")
        return 0
    os.makedirs(scratch, exist_ok=True)
    path = os.path.join(scratch, "digits.csv")
    with open(path, "wb") as out:
        out.write(gzip.decompress(data))
    return subprocess.run([program, path]).returncode


sys.exit(main())
