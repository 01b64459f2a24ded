#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_words.py ROOT [--planted]

The words of the project: rows of docs/glossary.md name what their headers have, the concepts of docs/policies.md
are in it, each type and function that users may name has its sentence, docs/reference has each call of ops and
each member of bodies, check_device runs each row of operations, and comments and pages name who acts. Prints a line for each fault; exit code 1 if there is
one. With --planted it plants faults into copies of what it reads, and fails unless each is found."""
import os
import re
import sys

import check_names

# Words that hide the actor, in comments and pages.
VAGUE = re.compile(r"\b(what of|whatever|whoever|one's own|other ones)\b", re.IGNORECASE)
# A first sentence says what a thing is or what a function does: it is not the answer to a question.
QUESTION = ("What", "Whether", "Who", "Whoever", "Which", "Where", "When", "How", "Why", "As", "For", "From", "Of", "To")
HEADED_WORDS = "Shapes|Moves|Cost|Errors|Threads|Source|Units|Syntax|Meaning|Memory|Safety"
HEADED = re.compile(r"(%s): " % HEADED_WORDS)
# Such a word in the middle of a line.
MERGED = re.compile(r"\s*///.*[^/\s].* (%s): " % HEADED_WORDS)
PUBLIC = re.compile(r"(inline )?namespace (%s) \{" % "|".join(
    "%s|%s" % (space, space.split("::")[-1]) for space in check_names.PUBLIC))


def blocks_of(text):
    """Each block of /// lines at the left margin, as (line, its text, its namespace)."""
    lines, spaces, out, i = text.split("\n"), [], [], 0
    while i < len(lines):
        if re.match(r"(inline )?namespace [\w:]+ \{$", lines[i]):
            spaces.append(lines[i])
        elif lines[i].startswith("}  // namespace") and spaces:
            spaces.pop()
        if lines[i].startswith("///"):
            begin = i
            while i + 1 < len(lines) and lines[i + 1].startswith("///"):
                i += 1
            words = " ".join(line[3:].strip() for line in lines[begin:i + 1])
            out.append((begin + 1, words, spaces[-1] if spaces else ""))
        i += 1
    return out


def faults_of_header(path, text):
    out = []
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        is_alone = not any("///" in other[:8] for other in lines[max(number - 2, 0):number - 1] + lines[number:number + 1])
        if not is_alone and (found := MERGED.match(line)):
            out.append("%s:%d: '%s:' of a longer comment begins no line: clang-format has joined them; put it behind an empty "
                       "line or another such word" % (path, number, found.group(1)))
        if "///" in line and (found := VAGUE.search(line[line.index("///"):])):
            out.append("%s:%d: '%s' in a doc comment: name who acts" % (path, number, found.group(0)))
    for number, words, space in blocks_of(text):
        if PUBLIC.match(space) and words.split() and words.split()[0] in QUESTION:
            out.append("%s:%d: '%s ...': begin with what it is, or with what it does" % (path, number, words[:40]))
        if PUBLIC.match(space) and HEADED.match(words):
            out.append("%s:%d: '%s ...': begin with a sentence" % (path, number, words[:40]))
    return out


def faults_of_names(headers):
    """Types and functions that no comment says anything of, where they are first declared or where they are defined."""
    said, silent = set(), {}
    for header, space, (kind, name), text in check_names.public_declarations(
            {path.removeprefix("include/plait/"): text for path, text in headers.items()}):
        if re.search(r"^[ \t]*///", text[:text.index(name)], re.MULTILINE):
            said.add((space, name))
        elif kind not in ("constant", "operator"):
            silent.setdefault((space, name), (header, kind))
    return ["include/plait/%s: no sentence says what the %s %s::%s is or does" % (*silent[key], *key)
            for key in silent if key not in said]


def operations_of(headers):
    """The public member functions of `ops`, except those that only the library calls."""
    out = set()
    for name in ("operations", "attention_operations", "image_operations", "element_operations", "listed_operations", "term_operations"):
        is_public = False
        for line in headers["include/plait/run/%s.hpp" % name].split("\n"):
            if (label := re.match(r" (public|protected|private):|(};)", line)):
                is_public = label.group(1) == "public"
            elif is_public and (found := re.match(r"  (?:\[\[nodiscard\]\] )?(?!explicit)[a-z][\w:<>, ]* (\w+)\(", line)):
                out.add(found.group(1))
    return {name for name in out if name not in ("begin_by_product", "require_begun", "require_all_moves")}


def lines_of_rows(header):
    """The line of docs/reference/ops.md for each row: its name, and its indices in backquotes."""
    out = {}
    for row in re.findall(r"static constexpr row is\{(.*?)\};", header, re.DOTALL):
        parts = [[]]
        for text, comma, number in re.findall(r'"([^"]*)"|(,)|([^\s",]+)', row):
            if comma:
                parts.append([])
            else:
                parts[-1].append(text or number)
        name, indices, *more = ["".join(part) for part in parts]
        if indices == "->":  # of any operands
            continue
        out[name] = "- Indices: `%s`" % indices + (", or `%s`" % more[1] if len(more) > 1 else "") + "."
    return out


def faults_of_indices(header, page):
    """Operations of a row whose line in the page is missing, or differs from the row."""
    rows = lines_of_rows(header)
    sections = re.split(r"^### ops\.(\w+)$", page, flags=re.MULTILINE)
    return ["docs/reference/ops.md, ops.%s: a line must be %s" % (name, rows[name])
            for name, section in zip(sections[1::2], sections[2::2])
            if name in rows and rows[name] not in section.split("\n")]


def faults_of_operations(headers, page):
    there, said = operations_of(headers), set(re.findall(r"^### ops\.(\w+)$", page, re.MULTILINE))
    return ["docs/reference/ops.md says nothing of ops.%s" % name for name in sorted(there - said)] + [
        "docs/reference/ops.md: there is no ops.%s" % name for name in sorted(said - there)]


def members_of(text, name):
    """The members of a struct, each with its type."""
    body = re.search(r"^struct %s {\n(.*?)^};" % name, text, re.DOTALL | re.MULTILINE).group(1)
    return {member: kind for kind, member in
            re.findall(r"^  ([A-Za-z][\w:<>&* ]*) (\w+)(?: = [^;]*|\{\})?;", body, re.MULTILINE)}


def faults_of_bodies(headers, page):
    """docs/reference/body.md has a heading for each member of `l`, and a row for each of its context, with the type."""
    members = {name for body in ("forward_body", "backward_input_body", "backward_parameters_body",
                                          "backward_body")
               for name in members_of(headers["include/plait/run/body.hpp"], body)}
    said = set(re.findall(r"l\.(\w+)", " ".join(re.findall(r"^## (.*)$", page, re.MULTILINE))))
    rows = {}
    for names, kinds in re.findall(r"^\|([^|]*)\|([^|]*)\|[^|]*\|$", page, re.MULTILINE):
        names, kinds = re.findall(r"`(\w+)`", names), re.findall(r"`([^`]*)`", kinds)
        rows.update(zip(names, kinds * len(names) if len(kinds) == 1 else kinds))
    context = members_of(headers["include/plait/run/context.hpp"], "layer_context")
    return ["docs/reference/body.md says nothing of l.%s" % name for name in sorted(members - said)] + [
        "docs/reference/body.md: l has no %s" % name for name in sorted(said - members)] + [
        "docs/reference/body.md says nothing of l.context.%s" % name for name in context if name not in rows] + [
        "docs/reference/body.md: l.context.%s is %s" % (name, kind) for name, kind in context.items()
        if not re.sub("^plait::(ext::)?", "", rows.get(name, kind)) == kind]


# Rows that take lists of ranges, and rows that no queue has: layers make them of others.
NOT_RUN = {"adamw", "sgd", "sums_of_squares", "convolve", "convolve_backward_input", "convolve_backward_weight"}


def faults_of_rows(headers):
    """check_device runs each row of operations on a device."""
    rows = re.findall(r"^struct (\w+) {\n  static constexpr row is", headers["include/plait/operation/rows.hpp"], re.MULTILINE)
    ran = set(re.findall(r"operation::(\w+)", headers["include/plait/testing/device_rows.hpp"]))
    return ["include/plait/testing/device_rows.hpp does not run the row %s" % name for name in rows if name not in ran | NOT_RUN]


def faults_of_page(path, text):
    out, in_fence = [], False
    for number, line in enumerate(text.split("\n"), 1):
        in_fence ^= line.startswith("```")
        if not in_fence and (found := VAGUE.search(line)):
            out.append("%s:%d: '%s': name who acts" % (path, number, found.group(0)))
    return out


def rows_of(glossary):
    """(word, headers) of each row."""
    for line in glossary.split("\n"):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and cells[0] != "word" and not cells[0].startswith("--"):
            yield cells[0], re.findall(r"\]\(\.\./(include/[^)]+)\)", cells[3])


def faults_of_glossary(glossary, policies, header):
    """`header`: its text by its path, None if there is none."""
    out, words = [], set()
    for word, links in rows_of(glossary):
        name = word.strip("`")
        words.add(name)
        if not links:
            out.append("glossary: '%s' links no header" % name)
        for link in links:
            text = header(link)
            if text is None:
                out.append("glossary: '%s': there is no %s" % (name, link))
            elif word.startswith("`"):
                if not re.search(r"(struct|class|concept|enum class|using|constexpr [\w:<>, ]+|inline [\w:<>, ]+|auto) "
                                 r"%s\b|^\s+%s[,;{ ]" % (name, name), text, re.MULTILINE):
                    out.append("glossary: %s declares no %s" % (link, name))
            elif not re.search(r"\b%s" % name.replace(" ", r"[\s_/]+"), text, re.IGNORECASE):
                out.append("glossary: %s says nothing of a %s" % (link, name))
    tables = re.findall(r"^\| `(?:plait::)?(\w+)", policies[:policies.find("## Reading explain")], re.MULTILINE)
    for name in sorted(set(tables) - {"static", "using", "any"}):
        if name not in words and name != "serial" and name != "partial_max":
            out.append("glossary: '%s' of docs/policies.md is missing" % name)
    return out


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def tree(root):
    headers = {}
    for folder, _, files in os.walk(os.path.join(root, "include")):
        for name in files:
            if name.endswith(".hpp"):
                path = os.path.relpath(os.path.join(folder, name), root)
                headers[path] = read(os.path.join(root, path))
    pages = {"README.md": read(os.path.join(root, "README.md"))}
    for folder, _, files in os.walk(os.path.join(root, "docs")):
        for path in (os.path.relpath(os.path.join(folder, name), root) for name in files if name.endswith(".md")):
            pages[path] = read(os.path.join(root, path))
    return headers, pages


def faults(headers, pages):
    out = []
    for path, text in sorted(headers.items()):
        out += faults_of_header(path, text)
    for path, text in sorted(pages.items()):
        out += faults_of_page(path, text)
    out += faults_of_names(headers) + faults_of_operations(headers, pages["docs/reference/ops.md"])
    out += faults_of_bodies(headers, pages["docs/reference/body.md"]) + faults_of_rows(headers)
    out += faults_of_indices(headers["include/plait/operation/rows.hpp"], pages["docs/reference/ops.md"])
    return out + faults_of_glossary(pages["docs/glossary.md"], pages["docs/policies.md"], headers.get)


def planted(headers, pages):
    """Each fault is found, by its words."""
    missed = []

    def plant(where, old, new, words):
        changed_headers, changed_pages = dict(headers), dict(pages)
        texts = changed_headers if where in headers else changed_pages
        if old not in texts[where]:
            missed.append("%s has no '%s' to plant a fault into" % (where, old))
            return
        texts[where] = texts[where].replace(old, new, 1)
        if not any(words in fault for fault in faults(changed_headers, changed_pages)):
            missed.append("not found: %s" % words)
    mesh = "include/plait/mesh/mesh.hpp"
    plant(mesh, "/// The coordinates of a rank", "/// Where a rank stands, the coordinates", "'Where a rank")
    plant(mesh, "/// The coordinates of a rank", "/// The coordinates of whoever asks", "'whoever' in a doc comment")
    for header, comment, name in [
            ("placement/placement.hpp", "/// True if each rank holds a block.\n", "function plait::ext::is_shard"),
            ("plan/explain.hpp", "/// Options of `explain` for additional text.\n", "type plait::ext::explain_options"),
            ("nn/linear.hpp", "/// Options of a linear layer.\n", "type plait::nn::linear_options"),
            ("train/options/rates.hpp", "/// A factor of 1 at every step.\n", "type plait::rates::constant"),
            ("train/measures/measures.hpp", "/// The mean loss of the data set. For a data set of a single batch, it equals the result of\n/// trainer.evaluate(batch).\n", "type plait::measures::mean_loss"),
            ("testing/layer_options.hpp", "/// The settings with which `check_layer` runs; the defaults suit most layers.\n",
             "type plait::testing::layer_options")]:
        plant("include/plait/" + header, comment, "", "no sentence says what the " + name)
    plant("docs/policies.md", "## Your own policy", "## A policy of one's own", "docs/policies.md")
    plant("docs/glossary.md", "| `mesh` |", "| `meshes` |", "declares no meshes")
    plant("docs/glossary.md", "| rendezvous |", "| appointment |", "says nothing of a appointment")
    plant("docs/glossary.md", "| `zero` |", "| `none` |", "declares no none")
    plant("docs/glossary.md", "| `only` |", "| `root` |", "'only' of docs/policies.md is missing")
    plant("docs/glossary.md", "[mesh/axis.hpp](../include/plait/mesh/axis.hpp)", "", "'axis' links no header")
    plant("docs/glossary.md", "../include/plait/mesh/axis.hpp", "../include/plait/mesh/axes.hpp", "there is no include")
    plant("include/plait/placement/placement.hpp", "/// True if each rank holds a block.", "/// Cost: none.", "begin with a sentence")
    plant("include/plait/data/loader.hpp", "nothing.\n/// Threads: one", "nothing. Threads: one", "'Threads:' of a longer comment")
    plant("include/plait/run/context.hpp", "int copy = 0;", "int duplicate = 0;", "says nothing of l.context.duplicate")
    plant("docs/reference/body.md", "## l.dp", "## l.dq", "says nothing of l.dp")
    plant("docs/reference/body.md", "| `copy` | `int` |", "| `copy` | `bool` |", "l.context.copy is int")
    plant("include/plait/run/operations.hpp", "  void dropout(", "  void drop_out(", "says nothing of ops.drop_out")
    plant("docs/reference/ops.md", "### ops.map_at", "### ops.map_place", "says nothing of ops.map_at")
    plant("include/plait/testing/device_rows.hpp", "operation::add_row,", "operation::add,", "does not run the row add_row")
    plant("docs/reference/ops.md", "### ops.map_at", "### ops.map_place", "there is no ops.map_place")
    plant("docs/reference/ops.md", "gamma(1 c)", "gamma(r c)", "a line must be - Indices: `x(r c), gamma(1 c)")
    return missed


def main():
    headers, pages = tree(sys.argv[1])
    found = planted(headers, pages) if "--planted" in sys.argv[2:] else faults(headers, pages)
    for line in found:
        print(line)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
