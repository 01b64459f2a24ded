#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_comments.py ROOT [--planted] [--count]

The English of all comments and messages: headers, sources, tests, examples, benchmarks, CMake and scripts. A comment
begins with a noun or a verb, repeats nouns and names who acts. Prints a line for each fault; exit code 1 if there is
one. With --planted it plants a fault of each rule and fails unless each is found; with --count it prints the number
of faults of each rule and of each folder."""
import os
import re
import sys

# First words of an answer to a question; a comment is a statement.
OPENING = re.compile(r"(What|Where|Who|Whoever|Whether|Which|Of|Why|The same (of|for|in|as|with))\b")
# First words of a fragment after a member.
FRAGMENT = re.compile(r"(of|that|those|what|where|whether|who|which|behind)\b")
PHRASES = {
    "repeat the noun": r"\b(that|those) of\b|\b(one|ones) (that|which|who)\b|\bthe same of\b|\bof the same\.",
    "after, next to, except": r"(?<!one step )\b[Bb]ehind\b|\bbeside\b|\b[Bb]ut for\b",
    "the usual verb": r"\b[Aa]new\b|\bfor ever\b|\b[Ll]ies\b|\b[Ll]ets go\b|\b[Gg]ives back\b|\b(made|makes|make|making) again\b"
                      r"|\b(goes|go|going) on\b|\b(stands|stand) (in|at|for each|there|where|here)\b",
    "is not a": r"(?<![Tt]here )\b(is|are|was|were) (none of|no (?!longer\b|more\b|one\b|less\b|shorter\b|older\b|reason\b))",
    "name the actor": r"\b([Ww]hoever|[Ss]omebody|[Nn]obody|[Ww]hatever)\b",
    "with respect to": r"\bgradients? by (?!\w+ing\b)",
}
PHRASES = {rule: re.compile(words) for rule, words in PHRASES.items()}
RELATIVE = re.compile(r"\b(that|which|what|whose|who)\b", re.IGNORECASE)
MOST_RELATIVES = 3

FOLDERS = ("include", "tests", "examples", "benchmarks", "cmake", "scripts", ".ci")
SLASHES = (".hpp", ".ipp", ".cpp", ".cu", ".cuh", ".in")
# Lines that are right although a rule finds them: (path, beginning of the words in the fault): the reason.
EXCEPTIONS = {
    ("include/plait/draw/layer_list.ipp", '"...made again before the backward'): "a text of explain, which programs may read",
    ("include/plait/plan/explain.hpp", '"...made again before the backward'): "a text of explain, which programs may read",
    ("include/plait/plan/explain.hpp", '"...reduced behind the backward of'): "a text of explain, which programs may read",
    ("include/plait/plan/explain.hpp", '"...kind\\n  gradients are reduced behind the last slice, whe'): "a text of explain, which programs may read",
}


def comments_of(text, mark):
    """Each comment, as (line, whether it follows code, its text)."""
    out, block = [], None
    for number, line in enumerate(text.split("\n"), 1):
        if mark == "//":
            found = re.match(r"^((?:[^\"/]|/(?!/)|\"(?:[^\"\\]|\\.)*\")*?)//[/!]?(<?) ?(.*)$", line)
        else:
            found = re.match(r"^((?:[^\"'#]|\"(?:[^\"\\]|\\.)*\"|'[^']*')*?)(?:(?<=\s)|^)#()(?!!) ?(.*)$", line)
        if not found:
            block = None
            continue
        before, after, words = found.group(1), found.group(2), found.group(3)
        if before.strip() or after:
            if before.strip():
                block = [number, True, words]
                out.append(block)
            elif block is not None:
                block[2] += " " + words
            continue
        if block is not None and (block[1] or words.strip()):
            block[2] += " " + words
            continue
        if words.strip():
            block = [number, False, words]
            out.append(block)
        else:
            block = None
    return out


def messages_of(text):
    """Each text of a source in quotation marks, joined over lines, as (line, text)."""
    out = []
    for found in re.finditer(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', text):
        words = "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', found.group(0)))
        if words.count(" ") >= 3:
            out.append((text.count("\n", 0, found.start()) + 1, words))
    return out


def sentences_of(words):
    words = re.sub(r"`[^`]*`", "`code`", words)
    return re.split(r"(?<=[.:;?!])\s+|(?<=\.\))\s+", words)


def faults_of(path, text):
    """(line, rule, words) of each fault."""
    out = []
    mark = "//" if path.endswith(SLASHES) and "CMakeLists" not in path and not path.endswith(".cmake.in") else "#"
    for line, is_after, words in comments_of(text, mark):
        words = words.strip()
        if words.startswith(("SPDX", "NOLINT", "clang-format", "----", "====")) or not words:
            continue
        if OPENING.match(words):
            out.append((line, "a noun or a verb first", words))
        if is_after and FRAGMENT.match(words) and mark == "//":
            out.append((line, "a noun phrase or a sentence", words))
        spoken = re.sub(r"`[^`]*`", "`code`", words)
        for rule, phrase in PHRASES.items():
            if found := phrase.search(spoken):
                out.append((line, rule, "..." + spoken[max(0, found.start() - 30):found.end() + 20]))
        for sentence in sentences_of(spoken):
            if len(RELATIVE.findall(sentence)) > MOST_RELATIVES:
                out.append((line, "two sentences", sentence))
    if path.startswith("include") and mark == "//":
        for line, words in messages_of(text):
            for rule, phrase in PHRASES.items():
                if found := phrase.search(words):
                    out.append((line, rule, "\"..." + words[max(0, found.start() - 30):found.end() + 20]))
    return out


def tree(root):
    out = {}
    for top in FOLDERS:
        for folder, _, files in os.walk(os.path.join(root, top)):
            for name in files:
                path = os.path.join(folder, name)
                if name.endswith(SLASHES + (".cmake", ".txt", ".sh", ".py")) or "." not in name:
                    if name.endswith(".py") and "check_" in name:
                        continue
                    try:
                        with open(path, encoding="utf-8") as file:
                            out[os.path.relpath(path, root)] = file.read()
                    except UnicodeDecodeError:
                        pass
    return out


PLANTED = {
    "a noun or a verb first": "/// What a rank sends.\nint sent;\n",
    "a noun phrase or a sentence": "int sent;  ///< of a rank\n",
    "repeat the noun": "/// Returns the sum, and that of the squares.\nint sum();\n",
    "after, next to, except": "// A rank waits behind the others.\n",
    "the usual verb": "// Each number lies in the room.\n",
    "is not a": "// A rank that is no root returns.\n",
    "name the actor": "/// Throws an error to whoever calls it.\nvoid call();\n",
    "with respect to": "/// Adds the gradient by x.\nvoid add();\n",
    "two sentences": "/// A rank that has a block that holds a value that a layer that runs needs waits.\nint wait();\n",
}


def planted():
    """The rules that do not find their fault, in a comment and, for phrases, in a message."""
    missed = []
    for rule, text in PLANTED.items():
        if rule not in [found for _, found, _ in faults_of("include/plait/planted.hpp", text)]:
            missed.append("not found in a comment: %s" % rule)
        words = text.split("/")[-1].lstrip("< ").split("\n")[0]
        message = 'throw error({"%s"});\n' % words
        if rule in PHRASES and rule not in [found for _, found, _ in faults_of("include/plait/planted.hpp", message)]:
            missed.append("not found in a message: %s" % rule)
    if faults_of("include/plait/planted.hpp", "/// Returns the sum of all ranks.\nint sum();  ///< a number\n"):
        missed.append("a comment without a fault is one")
    return missed


def main():
    if "--planted" in sys.argv:
        missed = planted()
        for line in missed:
            print(line)
        return 1 if missed else 0
    files = tree(sys.argv[1])
    counts, folders, found = {}, {}, []
    for path, text in sorted(files.items()):
        for line, rule, words in faults_of(path, text):
            counts[rule] = counts.get(rule, 0) + 1
            folder = "/".join(path.split("/")[:3])
            folders[folder] = folders.get(folder, 0) + 1
            if (path, words[:60]) not in EXCEPTIONS:
                found.append("%s:%d: %s: '%s'" % (path, line, rule, words[:90]))
    if "--count" in sys.argv:
        for name, number in sorted(counts.items()):
            print("%5d %s" % (number, name))
        for name, number in sorted(folders.items(), key=lambda each: -each[1])[:60]:
            print("%5d %s" % (number, name))
        return 0
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
