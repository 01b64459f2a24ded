#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""digits.py PROGRAM SCRATCH: the handwritten digits that scikit-learn's package has, unpacked as a table and given to
PROGRAM. It is looked for where Python finds sklearn, and in the wheel that PLAIT_SKLEARN_WHEEL names."""
import gzip
import importlib.util
import os
import subprocess
import sys
import zipfile

NAME = "sklearn/datasets/data/digits.csv.gz"


def packed():
    wheel = os.environ.get("PLAIT_SKLEARN_WHEEL")
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
        print("skipped: scikit-learn, whose package has the digits, was not found (python3-sklearn, or PLAIT_SKLEARN_WHEEL)")
        return 0
    os.makedirs(scratch, exist_ok=True)
    path = os.path.join(scratch, "digits.csv")
    with open(path, "wb") as out:
        out.write(gzip.decompress(data))
    return subprocess.run([program, path]).returncode


sys.exit(main())
