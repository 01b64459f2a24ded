#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""headers.py ROOT OUT

Copies of the headers for Doxygen, with what users may name and nothing else. In their comments the headed lines
(Shapes:, Errors:, ...) are paragraphs, examples are code, and names of pages are links."""
import os
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/structure"))
import check_names  # noqa: E402

HEADED = r"Shapes|Moves|Cost|Errors|Threads|Source|Units|Memory|Syntax|Meaning|Safety|In a form|Parameter names"

# Declarations that Doxygen does not write, but links: friends, and classes in private sections.
FRIEND = re.compile(r"^(?: *///[^\n]*\n)*( *)friend [^;{]*(?:;|= default;|\{[^\n]*\}|\{\n.*?^\1\})\n", re.DOTALL | re.MULTILINE)
PRIVATE = re.compile(r"^( *) private:\n.*?(?=^\1 (?:public|protected):|^\1\};)", re.DOTALL | re.MULTILINE)


def comment(text):
    """A declaration with its headed lines as paragraphs and its examples as code."""
    out, code = [], False
    for line in text.split("\n"):
        slashes = re.match(r"(\s*///)(<?)(.*)", line)
        if code and not (slashes and slashes.group(3).startswith("     ")):
            out.append(out[-1][:out[-1].index("///") + 3] + " @endcode")
            code = False
        if slashes and not code:
            begin, behind, words = slashes.groups()
            if re.match(r" Example( \(.*\))?:\s*$", words):
                out += [begin + " @par Example", begin + " @code{.cpp}"]
                code = True
                continue
            if (headed := re.match(r" (%s): +(.*)" % HEADED, words)) and not behind:
                out += [begin + " @par " + headed.group(1), begin + " " + headed.group(2)]
                continue
            words = re.sub(r"\bdocs/([\w/]+)\.md\b", r'<a href="../\1.html">docs/\1.md</a>', words)
            line = begin + behind + ("" if behind else " ") + words.strip()
        out.append(line)
    return "\n".join(out)


def copies(headers):
    """{header: the copy that Doxygen reads}."""
    out = {}
    for header, space, _, text in check_names.public_declarations(headers):
        text = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*\n", "\n", text, flags=re.MULTILINE)
        text = re.sub(PRIVATE, "", re.sub(FRIEND, "", text))
        out[header] = out.get(header, "") + "namespace %s {\n%s\n}\n" % (space, comment(text.strip("\n")))
    return out


def main():
    root, to = sys.argv[1:3]
    for header, text in copies(check_names.headers_of(root)).items():
        path = os.path.join(to, "plait", header)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
