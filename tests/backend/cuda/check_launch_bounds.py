#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each kernel is launched with the number of threads that its __launch_bounds__ names.

  check_launch_bounds.py FOLDER [--planted]

A device refuses a launch of more threads than the kernel was compiled for; emulated kernels do not know for how many that
was. FOLDER has the headers of the kernels. For each kernel with bounds, as in `__launch_bounds__(core_threads, 3)`, each
launch is looked up: the shape that is made in the call, or in the function that the call goes to or gets its shape from,
has to name core_threads and no other number of threads. --planted gives one kernel other bounds and expects a complaint.
"""

import re
import sys
from pathlib import Path

CLOSING = {"(": ")", "{": "}"}
THREADS = r"\b\w+_threads\b"
PARTS_OF_A_BLOCK = {"warp_threads", "product_threads"}
ARGUMENTS_OF_TEMPLATE = r"(?:<[^<>()]*(?:<[^<>()]*>[^<>()]*)*>)?"


def balanced(text, begin):
    """The text between the bracket at `begin` and its partner."""
    opening, depth = text[begin], 0
    for at in range(begin, len(text)):
        depth += (text[at] == opening) - (text[at] == CLOSING[opening])
        if depth == 0:
            return text[begin + 1:at]
    raise ValueError(f"no partner of {text[begin:begin + 40]!r}")


def bounds_of(text):
    """Of each kernel with bounds the name of its number of threads."""
    found = {}
    for match in re.finditer(r"__launch_bounds__\s*\(", text):
        inside = balanced(text, match.end() - 1)
        name = re.match(r"\)\s*(?:__global__\s+)?void\s+(\w+)", text[match.end() + len(inside):])
        found[name[1]] = re.findall(THREADS, inside)[0]
    return found


def bodies_of(text):
    """The bodies of the functions and local functions by their names, without those of kernels."""
    found = {}
    for match in re.finditer(r"\b(\w+)(?:\s*=\s*\[[^\]]*\])?\s*\(", text):
        try:
            arguments = balanced(text, match.end() - 1)
        except ValueError:
            continue
        rest = text[match.end() + len(arguments) + 1:]
        if re.match(r"\s*(const\s*)?(->\s*[\w:<>]+\s*)?\{", rest):
            found.setdefault(match[1], []).append(balanced(rest, rest.index("{")))
    return found


def complaints(text):
    bounds, bodies = bounds_of(text), bodies_of(text)
    calls = {name: [] for name in bounds}
    for match in re.finditer(rf"\b(launch\w*){ARGUMENTS_OF_TEMPLATE}\s*\(", text):
        try:
            inside = balanced(text, match.end() - 1)
        except ValueError:
            continue
        for name in set(re.findall(r"\w+", inside)) & set(bounds):
            calls[name].append((match[1], inside))
    for name, threads in bounds.items():
        if not calls[name]:
            yield f"{name}: no launch of it was found"
        for function, inside in calls[name]:
            shapes = [inside]
            for helper in [function, *re.findall(rf"(\w+){ARGUMENTS_OF_TEMPLATE}\s*\(", inside)]:
                shapes += bodies.get(helper, [])
            named = {word for shape in shapes for word in re.findall(THREADS, shape)} - PARTS_OF_A_BLOCK
            if named != {threads}:
                yield f"{name}: its bounds are {threads}, its launch names {', '.join(sorted(named)) or 'none'}"


def main():
    folder, *planted = sys.argv[1:]
    text = "".join(re.sub(r"//[^\n]*", "", path.read_text()) for path in sorted(Path(folder).glob("*.hpp")))
    if planted:
        wrong = 0
        for name, threads in bounds_of(text).items():
            other = "loss_threads" if threads != "loss_threads" else "block_threads"
            changed = re.sub(rf"(__launch_bounds__\s*\(\s*(?:detail::)?){threads}(?=[^;{{]*\b{name}\b)(?![^;{{]*__launch_bounds__)",
                             rf"\g<1>{other}", text)
            if changed == text or not any(line.startswith(f"{name}:") for line in complaints(changed)):
                print(f"other bounds of {name} were not found")
                wrong += 1
        sys.exit(wrong > 0)
    found = list(complaints(text))
    print("\n".join(found) if found else f"{len(bounds_of(text))} kernels have bounds")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
