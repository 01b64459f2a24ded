#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""compare_traces.py FOLDER

scripts/compare_traces: the first tensor that differs, with and without a tolerance, files with different lines, and the
sentences for files that are not traces."""
import os
import shutil
import subprocess
import sys

root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
folder = os.path.abspath(sys.argv[1])
script = os.path.join(root, "scripts", "compare_traces")
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
os.chdir(folder)
failures = 0

LINES = ["0 forward 4 1.5 2 0.25 0123456789abcdef fc", "0 backward 4 0.5 1 -0.5 1123456789abcdef fc",
         "0 gradient 8 -1 3 0.75 2123456789abcdef fc.weight", "1 forward 4 1.5 2 1.25 3123456789abcdef fc"]


def write(name, lines, first="plait trace 2"):
    with open(name, "w", encoding="utf-8") as out:
        out.write("\n".join([first, "# a comment", ""] + lines) + "\n")


def expect(name, arguments, code, *texts):
    global failures
    got = subprocess.run([sys.executable, script] + arguments, capture_output=True, text=True)
    said = got.stdout + got.stderr
    if got.returncode != code or any(text not in said for text in texts) or "Traceback" in said:
        failures += 1
        print("FAILED: %s: exit code %d, expected %d and %s:\n%s" % (name, got.returncode, code, texts, said),
              file=sys.stderr)


def changed(number, field, text):
    words = LINES[number].split(" ", 7)
    words[field] = text
    return LINES[:number] + [" ".join(words)] + LINES[number + 1:]


write("A", LINES)
write("same", LINES)
expect("equal", ["A", "same"], 0, "equal: 4 tensors of 2 steps")

write("B", changed(1, 6, "ffffffffffffffff"))
expect("another hash", ["A", "B"], 1, "first difference: step 0 backward fc\n",
       "  A: count 4, sum 0.5, norm 1, weighted_sum -0.5, hash 1123456789abcdef\n",
       "  B: count 4, sum 0.5, norm 1, weighted_sum -0.5, hash ffffffffffffffff\n")
expect("another hash with a tolerance", ["--tolerance", "0", "A", "B"], 0, "equal: ")

write("B", changed(2, 4, "3.0003"))
expect("a norm within the tolerance", ["--tolerance", "1.1e-4", "A", "B"], 0)
expect("a norm beyond the tolerance", ["--tolerance", "0.9e-4", "A", "B"], 1, "step 0 gradient fc.weight")
write("B", changed(3, 3, "1.5003"))  # the norm is 2, and the square root of the count is 2
expect("a sum within the tolerance", ["--tolerance", "0.8e-4", "A", "B"], 0)
expect("a sum beyond the tolerance", ["--tolerance", "0.7e-4", "A", "B"], 1, "step 1 forward fc")
write("B", changed(3, 5, "1.2503"))
expect("a weighted sum within the tolerance", ["--tolerance", "0.8e-4", "A", "B"], 0)
expect("a weighted sum beyond the tolerance", ["--tolerance", "0.7e-4", "A", "B"], 1, "step 1 forward fc")
write("B", changed(3, 5, "-"))
expect("no weighted sum", ["--tolerance", "0", "A", "B"], 0, "equal: 4 tensors of 2 steps")
write("B", changed(3, 5, "nan"))
expect("a weighted sum that is nan", ["--tolerance", "0.1", "A", "B"], 1, "weighted_sum nan")
write("B", changed(0, 2, "5"))
expect("another count", ["--tolerance", "0.5", "A", "B"], 1, "step 0 forward fc", "count 5")

write("B", [line.replace("0123456789abcdef", "-") for line in LINES])
expect("no hash", ["A", "B"], 0)
write("B", [LINES[0].replace("0123456789abcdef", "-").replace("1.5", "1.25")] + LINES[1:])
expect("no hash and another sum", ["A", "B"], 1, "step 0 forward fc", "hash -")
write("B", [LINES[0].replace("0123456789abcdef", "-").replace("0.25", "0.5")] + LINES[1:])
expect("no hash and another weighted sum", ["A", "B"], 1, "step 0 forward fc", "weighted_sum 0.5, hash -")
write("nan", changed(0, 4, "nan"))
expect("nan in both", ["--tolerance", "0.1", "nan", "nan"], 0)
expect("nan in one", ["--tolerance", "0.1", "A", "nan"], 1, "step 0 forward fc", "norm nan")
expect("nan in the other", ["--tolerance", "0.1", "nan", "A"], 1, "step 0 forward fc", "norm nan")

write("B", LINES[:1] + ["0 forward 4 1 1 - - a layer with spaces"] + LINES[2:])
for option, code in (([], 1), (["--common"], 0)):
    expect("lines of one file", option + ["A", "B"], code, "equal in 3 of 5 tensors\n",
           "  1 is only in 'A': step 0 backward fc\n", "  1 is only in 'B': step 0 forward a layer with spaces\n")
write("B", LINES[:1])
expect("a run that stopped", ["B", "A"], 1, "equal in 1 of 4 tensors\n",
       "  3 are only in 'A', the first is step 0 backward fc\n", "write --common if only the tensors of both files count")
write("B", changed(1, 6, "ffffffffffffffff")[:2])
expect("a run that stopped after a difference", ["--common", "A", "B"], 1, "first difference: step 0 backward fc\n",
       "  2 are only in 'A', the first is step 0 gradient fc.weight\n")
write("B", ["7 forward 4 1 1 - - fc"])
expect("no common line", ["A", "B"], 2, "'A' and 'B' have no tensor of a step in common")

expect("a missing file", ["A", "none"], 2, "'none' cannot be read: No such file or directory")
expect("a folder", ["A", "."], 2, "'.' is not a regular file")
write("B", LINES, "step,loss")
expect("another file", ["A", "B"], 2, "'B' is not a trace: its first line is not 'plait trace 2'")
write("B", LINES, "plait trace 1")
expect("an older file", ["A", "B"], 2, "'B' has the format 'plait trace 1', whose lines have no weighted sum; trace the run "
       "again, or write 'plait trace 2' in the first line and a - between the norm and the hash of each line")
write("B", [])
expect("no lines", ["A", "B"], 2, "'B' has no line of a tensor")
for lines, text in (
        (["0 forward 4 1.5 2 - -"], "line 4: it has 7 fields instead of the 8 fields "
         "'step pass count sum norm weighted_sum hash name'"),
        (changed(1, 1, "update"), "line 5: the pass 'update' is none of forward, backward, gradient, parameter"),
        (changed(1, 0, "-1"), "line 5: the step '-1' is not a number"),
        (changed(1, 2, "4.5"), "line 5: the count '4.5' is not a number"),
        (changed(1, 3, "x"), "line 5: the sum 'x' is not a number"),
        (changed(1, 4, "-2"), "line 5: the norm '-2' is negative"),
        (changed(1, 5, "y"), "line 5: the weighted_sum 'y' is not a number or -"),
        (changed(1, 6, "12"), "line 5: the hash '12' is not 16 hexadecimal digits or -"),
        (LINES + LINES[:1], "line 8: step 0 has two lines 'forward fc'")):
    write("B", lines)
    expect(text, ["A", "B"], 2, "'B', " + text)
with open("B", "wb") as out:
    out.write(b"plait trace 2\n\xff\xfe\n")
expect("bytes", ["A", "B"], 2, "'B' is not a trace: it is not text")
for given in ("-1", "1", "nan"):
    expect("tolerance " + given, ["--tolerance=" + given, "A", "same"], 2,
           "--tolerance: '%s' is not a number from 0 to below 1" % given)
expect("tolerance x", ["--tolerance", "x", "A", "same"], 2, "--tolerance: 'x' is not a number\n")
expect("one file", ["A"], 2, "usage: compare_traces [--tolerance T] [--common] A B")
sys.exit(failures != 0)
