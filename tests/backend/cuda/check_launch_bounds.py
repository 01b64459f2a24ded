#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each kernel is launched with the number of threads that its __launch_bounds__ names.

  check_launch_bounds.py FOLDER [--planted]

A device refuses a launch of more threads than the kernel was compiled for; the emulation does not know that number.
FOLDER has the headers of the kernels. For each kernel with bounds, as in `__launch_bounds__(core_threads, 3)`, each launch
is looked up: the number of threads in its launch_shape, which is made in the call or in a function that the call names,
has to be core_threads and nothing else. --planted changes the bounds of each kernel and the shape of each launch, one at
a time, and expects a complaint.
"""

import re
import sys
from pathlib import Path

BRACKETS = {"(": re.compile("[()]"), "{": re.compile("[{}]")}
BODY = re.compile(r"\s*(const\s*)?(->\s*[\w:<>]+\s*)?\{")
ARGUMENTS_OF_TEMPLATE = r"(?:<[^<>()]*(?:<[^<>()]*>[^<>()]*)*>)?"


def balanced(text, begin):
    """The text between the bracket at `begin` and its partner."""
    opening, depth = text[begin], 0
    for match in BRACKETS[opening].finditer(text, begin):
        depth += 1 if match[0] == opening else -1
        if depth == 0:
            return text[begin + 1:match.start()]
    raise ValueError(f"no partner of {text[begin:begin + 40]!r}")


def parts(text):
    """The arguments of a call, without spaces, `detail::` and casts of a name."""
    out, depth, now = [], 0, ""
    for letter in text:
        depth += (letter in "({[<") - (letter in ")}]>")
        if letter == "," and depth == 0:
            out.append(now)
            now = ""
        else:
            now += letter
    plain = [re.sub(r"\s+|detail::", "", part) for part in out + [now]]
    return [re.sub(r"^static_cast<unsigned>\((\w+)\)$", r"\1", part) for part in plain]


def bounds_of(text):
    """The expression of the number of threads, for each kernel with bounds."""
    found = {}
    for match in re.finditer(r"__launch_bounds__\s*\(", text):
        inside = balanced(text, match.end() - 1)
        name = re.match(r"\)\s*(?:__global__\s+)?void\s+(\w+)", text[match.end() + len(inside):])
        found[name[1]] = parts(inside)[0]
    return found


def functions_of(text):
    """Parameters and bodies of the functions and local functions, by name."""
    found = {}
    for match in re.finditer(r"\b(\w+)(?:\s*=\s*\[[^\]]*\])?\s*\(", text):
        try:
            parameters = balanced(text, match.end() - 1)
        except ValueError:
            continue
        body = BODY.match(text, match.end() + len(parameters) + 1)
        if body:
            names = [re.search(r"\w*$", part.strip())[0] for part in parameters.split(",")]
            found.setdefault(match[1], []).append((names, balanced(text, body.end() - 1)))
    return found


def threads_in(shape):
    """The number of threads of a launch_shape that is written out."""
    for part in parts(shape):
        if part.startswith(".threads="):
            return part[len(".threads="):]
    return (parts(shape) + ["1", "1"])[1]


def threads_of(call, function, functions):
    """The numbers of threads that a call launches a kernel with."""
    found = [threads_in(balanced(call, match.end() - 1)) for match in re.finditer(r"\blaunch_shape\s*\{", call)]
    if found:
        return found
    for helper in re.finditer(rf"(\w+){ARGUMENTS_OF_TEMPLATE}\s*\(", f"{function}({call})"):
        for names, body in functions.get(helper[1], []):
            for match in re.finditer(r"\b(?:launch_shape|return)\s*\{", body):
                threads = threads_in(balanced(body, match.end() - 1))
                if threads in names:
                    given = parts(balanced(f"{function}({call})", helper.end() - 1))
                    threads = given[names.index(threads)]
                found.append(threads)
    return found


def complaints(text):
    bounds, functions = bounds_of(text), functions_of(text)
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
            launched = set(threads_of(inside, function, functions))
            if launched != {threads}:
                yield f"{name}: its bounds are {threads}, it is launched with {', '.join(sorted(launched)) or 'no shape'}"


def planted(text):
    """Pairs of what was changed and the text: other bounds, and shapes that kernels with bounds are launched with."""
    for match in re.finditer(r"__launch_bounds__\s*\(", text):
        yield balanced(text, match.end() - 1), text[:match.end()] + "2 * " + text[match.end():]
    for match in re.finditer(r"\b(?:launch_shape\s*|return\s+)\{", text):
        inside = balanced(text, match.end() - 1)
        threads = threads_in(inside)
        at = inside.rfind(threads)
        if not threads.endswith("threads") or at < 0:
            continue

        def with_threads(other):
            return text[:match.end()] + inside[:at] + other + inside[at + len(threads):] + text[match.end() + len(inside):]

        if list(complaints(with_threads("other_threads"))):  # some kernel of those is launched with it
            for other in (f"2 * {threads}", "1024"):
                yield f"{inside}: {other}", with_threads(other)


def main():
    folder, *plants = sys.argv[1:]
    text = "".join(re.sub(r"//[^\n]*", "", path.read_text()) for path in sorted(Path(folder).glob("*.hpp")))
    found = list(complaints(text))
    if plants:
        all_planted = list(planted(text))
        silent = [what for what, changed in all_planted if not list(complaints(changed))]
        print(f"{len(all_planted)} planted", *(f"not found: {' '.join(what.split())}" for what in silent), sep="\n")
        sys.exit(bool(silent) or bool(found))
    print("\n".join(found) if found else f"{len(bounds_of(text))} kernels have bounds")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
