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

LINES = ["0 forward 4 1.5 2 0123456789abcdef fc", "0 backward 4 0.5 1 1123456789abcdef fc",
         "0 gradient 8 -1 3 2123456789abcdef fc.weight", "1 forward 4 1.5 2 3123456789abcdef fc"]


def write(name, lines, first="plait trace 1"):
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
    words = LINES[number].split(" ", 6)
    words[field] = text
    return LINES[:number] + [" ".join(words)] + LINES[number + 1:]


write("A", LINES)
write("same", LINES)
expect("equal", ["A", "same"], 0, "equal: 4 tensors of 2 steps")

write("B", changed(1, 5, "ffffffffffffffff"))
expect("another hash", ["A", "B"], 1, "first difference: step 0 backward fc\n",
       "  A: count 4, sum 0.5, norm 1, hash 1123456789abcdef\n", "  B: count 4, sum 0.5, norm 1, hash ffffffffffffffff\n")
expect("another hash with a tolerance", ["--tolerance", "0", "A", "B"], 0, "equal: ")

write("B", changed(2, 4, "3.0003"))
expect("a norm within the tolerance", ["--tolerance", "1.1e-4", "A", "B"], 0)
expect("a norm beyond the tolerance", ["--tolerance", "0.9e-4", "A", "B"], 1, "step 0 gradient fc.weight")
write("B", changed(3, 3, "1.5003"))  # the norm is 2, and the square root of the count is 2
expect("a sum within the tolerance", ["--tolerance", "0.8e-4", "A", "B"], 0)
expect("a sum beyond the tolerance", ["--tolerance", "0.7e-4", "A", "B"], 1, "step 1 forward fc")
write("B", changed(0, 2, "5"))
expect("another count", ["--tolerance", "0.5", "A", "B"], 1, "step 0 forward fc", "count 5")

write("B", [line.replace("0123456789abcdef", "-") for line in LINES])
expect("no hash", ["A", "B"], 0)
write("B", [LINES[0].replace("0123456789abcdef", "-").replace("1.5", "1.25")] + LINES[1:])
expect("no hash and another sum", ["A", "B"], 1, "step 0 forward fc", "hash -")
write("nan", changed(0, 4, "nan"))
expect("nan in both", ["--tolerance", "0.1", "nan", "nan"], 0)
expect("nan in one", ["--tolerance", "0.1", "A", "nan"], 1, "step 0 forward fc", "norm nan")
expect("nan in the other", ["--tolerance", "0.1", "nan", "A"], 1, "step 0 forward fc", "norm nan")

write("B", LINES[:1] + ["0 forward 4 1 1 - a layer with spaces"] + LINES[2:])
expect("lines of one file", ["A", "B"], 0, "equal: 3 tensors", "only 'A' has 1 lines, first: step 0 backward fc",
       "only 'B' has 1 lines, first: step 0 forward a layer with spaces")
write("B", ["7 forward 4 1 1 - fc"])
expect("no common line", ["A", "B"], 2, "'A' and 'B' have no tensor of a step in common")

expect("a missing file", ["A", "none"], 2, "'none' cannot be read: No such file or directory")
expect("a folder", ["A", "."], 2, "'.' is not a regular file")
write("B", LINES, "step,loss")
expect("another file", ["A", "B"], 2, "'B' is not a trace: its first line is not 'plait trace 1'")
write("B", [])
expect("no lines", ["A", "B"], 2, "'B' has no line of a tensor")
for lines, text in (
        (["0 forward 4 1.5 2 -"], "line 4: it has 6 fields instead of the 7 fields 'step pass count sum norm hash name'"),
        (changed(1, 1, "update"), "line 5: the pass 'update' is none of forward, backward, gradient, parameter"),
        (changed(1, 0, "-1"), "line 5: the step '-1' is not a number"),
        (changed(1, 2, "4.5"), "line 5: the count '4.5' is not a number"),
        (changed(1, 3, "x"), "line 5: the sum 'x' is not a number"),
        (changed(1, 4, "-2"), "line 5: the norm '-2' is negative"),
        (changed(1, 5, "12"), "line 5: the hash '12' is not 16 hexadecimal digits or -"),
        (LINES + LINES[:1], "line 8: step 0 has two lines 'forward fc'")):
    write("B", lines)
    expect(text, ["A", "B"], 2, "'B', " + text)
with open("B", "wb") as out:
    out.write(b"plait trace 1\n\xff\xfe\n")
expect("bytes", ["A", "B"], 2, "'B' is not a trace: it is not text")
for given in ("-1", "1", "nan", "x"):
    expect("tolerance " + given, ["--tolerance=" + given, "A", "same"], 2, "--tolerance")
expect("one file", ["A"], 2, "usage: compare_traces [--tolerance T] A B")
sys.exit(failures != 0)
