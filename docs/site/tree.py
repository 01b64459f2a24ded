#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tree.py ROOT OUT TAGS

What Sphinx reads: README.md, CHANGELOG.md and docs/ without its folder, so that docs/design/plan.md is
design/plan.html. Links to headers become links into the reference, those to other files of the project lead to pages
with their text. The lists of docs/index.md are the contents."""
import os
import re
import shutil
import sys
import xml.etree.ElementTree

OWN = ("plait::detail", "plait::planning", "plait::execution", "plait::host_maths", "plait::cuda_kernels",
       "plait::cuda_requirements", "plait::operation", "plait::formula", "plait::typing")
LANGUAGES = {".hpp": "cpp", ".cpp": "cpp", ".cu": "cpp", ".py": "python", ".cmake": "cmake", ".json": "json", ".yml": "yaml"}


def is_own(name):
    """True for names of the library's own namespaces, which pages about its design mention."""
    return any(name == space or name.startswith(space + "::") for space in OWN)


def names_of(tags):
    """{plait::name: its place in the reference} and {plait/header.hpp: its page} of Doxygen's tag file."""
    out = {}
    for compound in xml.etree.ElementTree.parse(tags).getroot().iter("compound"):
        name, file = compound.findtext("name"), compound.findtext("filename")
        if compound.get("kind") == "file":
            folder = compound.findtext("path") or ""
            out[folder[folder.rfind("plait/"):] + name] = file
            continue
        out.setdefault(name, file if file.endswith(".html") else file + ".html")
        for member in compound.findall("member"):
            place = member.findtext("anchorfile") + "#" + member.findtext("anchor")
            out.setdefault(name + "::" + member.findtext("name"), place)
            for value in member.findall("enumvalue"):
                out.setdefault("::".join((name, member.findtext("name"), value.text)), place)
    return out


class Tree:
    def __init__(self, root, out, tags):
        self.root, self.out, self.tags = root, out, tags
        self.files, self.faults = {}, []

    def place_of(self, path):
        """The page of a file of the project, from the top of the site."""
        if path in ("README.md", "CHANGELOG.md"):
            return path
        if path.startswith("docs/") and (path.endswith(".md") or path.endswith(".svg")):
            return path[len("docs/"):]
        if os.path.isdir(os.path.join(self.root, path)) and os.path.exists(os.path.join(self.root, path, "README.md")):
            return self.place_of(path.rstrip("/") + "/README.md")
        if path.startswith("include/plait/"):
            page = self.tags.get(path[len("include/"):])
            if page:
                return "api/" + page
        if os.path.isfile(os.path.join(self.root, path)):
            page = "files/" + path.replace("/", "_").replace(".", "_") + ".md"
            self.files[page] = path
            return page
        return None

    def link(self, page, target):
        """The target of a link of a page, on the site."""
        if "://" in target or target.startswith("#"):
            return target
        path, _, anchor = target.partition("#")
        place = self.place_of(os.path.normpath(os.path.join(os.path.dirname(page), path)))
        if place is None:
            self.faults.append("%s: the link %s leads nowhere" % (page, target))
            return target
        out = os.path.relpath(place, os.path.dirname(self.place_of(page)) or ".")
        return out + ("#" + anchor if anchor else "")

    def text_of(self, page):
        out, fenced = [], False
        for line in open(os.path.join(self.root, page), encoding="utf-8").read().split("\n"):
            fenced ^= bool(re.match(r" *```", line))
            if not fenced and not re.match(r"<!-- .* -->$", line):
                line = re.sub(r"\]\(([^) ]+)\)", lambda found: "](%s)" % self.link(page, found.group(1)), line)
                line = re.sub(r"\[[\w/]+\.md\]\(", "[](", line)  # titles instead of the names of files
                # Links to the reference keep their names, because Sphinx has no such page.
                line = re.sub(r"\[([^\]]*)\]\(((?:\.\./)*api/[^)]+)\)", r'<a href="\2">\1</a>', line)
                line = self.in_both_themes(page, line)
            out.append(line)
        return "\n".join(out)

    def in_both_themes(self, page, line):
        found = re.fullmatch(r"!\[([^\]]*)\]\(([^)]+)[.]svg\)", line)
        if not found:
            return line
        words, path = found.groups()
        dark = os.path.join(self.out, os.path.dirname(self.place_of(page)), path + "_dark.svg")
        if not os.path.exists(dark):
            return line
        return "![%s](%s.svg){.only-light} ![%s](%s_dark.svg){.only-dark}" % (words, path, words, path)

    def write(self, place, text):
        path = os.path.join(self.out, place)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def contents(self, text):
        """Lists of pages by the headings of docs/index.md."""
        out, caption, pages, fenced = [], None, [], False
        for line in (text + "\n## end").split("\n"):
            fenced ^= line.startswith("```")
            if line.startswith("## ") and not fenced:
                if pages:
                    out.append("```{toctree}\n:hidden:\n:caption: %s\n\n%s\n```\n" % (caption, "\n".join(pages)))
                caption, pages = line[3:], []
            elif caption and not fenced:
                pages += [name for name in re.findall(r"\]\((?:\.\./)?([\w/]+)\.md\)", line) if name not in pages]
        return "\n" + "\n".join(out)

    def make(self):
        shutil.rmtree(self.out, ignore_errors=True)
        pages = ["README.md", "CHANGELOG.md"]
        for folder, _, names in os.walk(os.path.join(self.root, "docs")):
            for name in sorted(names):
                path = os.path.relpath(os.path.join(folder, name), self.root)
                if name.endswith(".svg"):
                    os.makedirs(os.path.dirname(os.path.join(self.out, self.place_of(path))), exist_ok=True)
                    shutil.copyfile(os.path.join(self.root, path), os.path.join(self.out, self.place_of(path)))
                elif name.endswith(".md"):
                    pages.append(path)
        for page in sorted(pages):
            text = self.text_of(page)
            if page == "docs/index.md":
                text += self.contents(text)
            elif page == "docs/design/README.md":
                others = [os.path.basename(other)[:-3] for other in sorted(pages)
                          if other.startswith("docs/design/") and other != page]
                text += "\n```{toctree}\n:hidden:\n\n%s\n```\n" % "\n".join(others)
            self.write(self.place_of(page), text)
        for page, path in sorted(self.files.items()):
            text = open(os.path.join(self.root, path), encoding="utf-8").read()
            language = LANGUAGES.get(os.path.splitext(path)[1], "sh" if text.startswith("#!") else "text")
            self.write(page, "---\norphan: true\n---\n# %s\n\n`````%s\n%s\n`````\n" % (path, language, text.rstrip("\n")))
        return self.faults


def main():
    root, out, tags = sys.argv[1:4]
    faults = Tree(root, out, names_of(tags)).make()
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
