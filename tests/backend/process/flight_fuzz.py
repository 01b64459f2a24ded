#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Damages the flight records of a job in many ways; scripts/flight answers each time, or refuses in one sentence.
  flight_fuzz.py FLIGHT FOLDER"""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import random
import shutil
import sys
import tempfile

loader = importlib.machinery.SourceFileLoader("flight", sys.argv[1])
spec = importlib.util.spec_from_loader("flight", loader)
flight = importlib.util.module_from_spec(spec)
sys.dont_write_bytecode = True
loader.exec_module(flight)
chance = random.Random(7)
names = sorted(os.listdir(sys.argv[2]))


def answer(folder):
    """Exit code and what is said on standard error."""
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["flight", "--all", "300", folder]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = flight.main()
        except flight.Bad as problem:
            code = 2
            print(problem, file=sys.stderr)
    return code, err.getvalue()


def damage(data):
    data = bytearray(data)
    how = chance.randrange(5)
    if how == 0:
        return data[:chance.randrange(len(data))]
    if how == 1:
        return bytes(chance.randrange(256) for _ in range(chance.randrange(6000)))
    for _ in range(chance.choice([1, 3, 50])):
        at = chance.randrange(chance.choice([128, 4096, 5000, len(data)]))
        if how == 2:
            data[at] = chance.randrange(256)
        else:
            word = chance.choice([b"\xff" * 8, b"\0" * 8, b"\xff" * 7 + b"\x7f", b"\0" * 7 + b"\x80", chance.randbytes(8)])
            data[at & ~7:(at & ~7) + 8] = word
    return data[:len(data)]


with tempfile.TemporaryDirectory() as folder:
    for name in names:
        shutil.copy(os.path.join(sys.argv[2], name), folder)
    sound = {name: open(os.path.join(folder, name), "rb").read() for name in names}
    seen = set()
    for i in range(600):
        for name in chance.sample(names, chance.choice([1, 1, len(names)])):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(damage(sound[name]))
        code, said = answer(folder)
        seen.add(code)
        assert code in (0, 1, 2) and (code == 2) == bool(said), (i, code, said)
        for name in names:
            with open(os.path.join(folder, name), "wb") as file:
                file.write(sound[name])
    assert seen >= {1, 2}, seen
    for name, change, words in [("version", (8, b"\1"), "has version 1 of the format"), ("order", (12, b"\7"), "byte order"),
                                ("magic", (0, b"\0" * 8), "is not complete"), ("end", (48, b"\1"), "contradict each other")]:
        path = os.path.join(folder, names[0])
        data = bytearray(sound[names[0]])
        data[change[0]:change[0] + len(change[1])] = change[1]
        with open(path, "wb") as file:
            file.write(data)
        code, said = answer(folder)
        assert code == 2 and words in said, (name, code, said)
    os.remove(path)
    os.symlink("/etc/passwd", path)
    code, said = answer(folder)
    assert code == 2 and "symbolic links" in said, said
