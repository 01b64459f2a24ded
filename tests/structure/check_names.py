#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_names.py ROOT [--write|--planted]

The names of plait:: and plait::ext are those that docs/reference/names.md lists, by folder: types, functions, constants,
concepts and aliases that headers declare in these namespaces or bring into them, each once. A name that is not listed,
or no longer declared, is a fault, and so are more than MOST names of plait::. --write writes the page anew; --planted
checks this checker."""
import collections
import functools
import os
import re
import sys

MOST = 200  # of plait::, which a program's reader has to know
SPACES = ("plait", "plait::ext")
# The namespaces for users: the reference has these, and each type and function in them has its sentence.
PUBLIC = SPACES + ("plait::nn", "plait::nn::losses", "plait::rates", "plait::measures", "plait::testing", "plait::literals",
                   "plait::number_ranges", "plait::functions", "plait::dim", "plait::units")
PAGE = "docs/reference/names.md"
HEAD = """# Names, by folder

This page lists the names that plait's headers declare. `plait::` has the names for programs: layers, policies, trainers, data,
launch. `plait::ext::` has the additional names for writers of backends, policies, schedules and tools. The namespaces `plait::nn`,
`plait::nn::losses`, `plait::measures`, `plait::rates`, `plait::testing` and `plait::literals` are small: read their headers.
`plait::planning`, `plait::execution` and `plait::detail` are the library's own and change without notice.
`#include "plait/plait.hpp"` does not include the headers with a +; include those by their own names.
"""


def masked(text):
    """The text with comments, literals and directives blanked; each character keeps its place."""
    def blank(match):
        return re.sub(r"[^\n]", " ", match.group(0))
    pattern = (r'//[^\n]*|/\*.*?\*/|R"(?P<mark>\w*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"'
               r"|(?<!\w)'(?:\\.|[^'\\\n])+'|^[ \t]*#(?:\\\n|[^\n])*")
    return re.sub(pattern, blank, text, flags=re.DOTALL | re.MULTILINE)


@functools.lru_cache(maxsize=None)
def declarations(text):
    """Each declaration in a namespace, as (namespace, its text without bodies, places of its begin and end)."""
    text = masked(text)
    spaces, begin, depth, head, out = [], 0, 0, "", []
    for place, letter in enumerate(text):
        if depth == 0 and letter == "{":
            space = re.search(r"(?:^|\s)(?:inline\s+)?namespace\s*([\w:]*)\s*$", head)
            if space:
                spaces.append(space.group(1))
                head, begin = "", place + 1
                continue
        if letter in "{([":
            depth += 1
        if depth == 0 and letter == "}":
            spaces.pop()
            head, begin = "", place + 1
            continue
        head += letter if depth == 0 or (letter in "([" and depth == 1) else ""
        if letter in "})]":
            depth -= 1
            if depth == 0:
                head += letter
        ends = depth == 0 and (letter == ";" or (letter == "}" and ends_at_brace(head, text[place + 1:place + 80])))
        if ends:
            out.append(("::".join(spaces), head.strip(" \n;"), begin, place + 1))
            head, begin = "", place + 1
    return out


def ends_at_brace(head, rest):
    """True if the brace closes the body of a function, which no semicolon follows."""
    if re.match(r"\s*[;(,<>.&|=)?:+\-*/%{]", rest):
        return False
    return not re.search(r"\brequires\s*(\(\))?\s*}$", head)


def without_template(head):
    """The declaration without its template parameters, requires clauses and attributes."""
    head = re.sub(r"\[\]", " ", head)
    while (begin := re.match(r"\s*template\s*<", head)):
        place, depth = begin.end(), 1
        while depth and place < len(head):
            depth += {"<": 1, ">": -1}.get(head[place], 0)
            place += 1
        head = head[place:]
        if re.match(r"\s*requires\b", head):
            word = re.search(r"\b(struct|class|constexpr|consteval|inline|using|auto|void|concept)\b", head)
            head = head[word.start():] if word else head
    return head.strip()


def end_of_name(text):
    """The place of the parenthesis, or of the sign =, after the declared name."""
    depth = 0
    for place, letter in enumerate(text):
        if letter in "(=" and depth == 0:
            return place
        depth += {"<": 1, ">": -1}.get(letter, 0)
    return len(text)


def name_of(head):
    """(kind, name) of a declaration; None for what declares no name of its own."""
    text = without_template(head)
    if not text or re.match(r"(static_assert|extern|using\s+namespace|namespace)\b", text) or "operator" in text:
        return None
    if (found := re.match(r"using\s+([\w:]+)$", text)):
        return "alias", found.group(1).split("::")[-1]
    if (found := re.match(r"(using|concept)\s+(\w+)\s*=", text)):
        return {"using": "alias", "concept": "concept"}[found.group(1)], found.group(2)
    if (found := re.match(r"(?:struct|class|union|enum(?:\s+class)?)\s+(?:\w+\s*\(\)\s*)?([\w:]+)\s*(<?)", text)):
        return None if found.group(2) or "::" in found.group(1) else ("type", found.group(1))
    before = text[:end_of_name(text)]
    if (found := re.search(r"([\w:]+)\s*(?:<.*>)?\s*}?\s*$", before)):
        special = re.search(r">\s*}?\s*$", before) or "::" in found.group(1)
        function = text[len(before):].startswith("(")
        return None if special else ("function" if function else "constant", found.group(1))
    return None


def names_of(headers):
    """{namespace: {name: (kind, header)}} of {header: text}."""
    out = collections.defaultdict(dict)
    for header, text in sorted(headers.items()):
        for space, head, *_ in declarations(text):
            found = name_of(head)
            if found and space in SPACES:
                out[space].setdefault(found[1], (found[0], header))
    return out


def public_declarations(headers):
    """(header, namespace, (kind, name), text with its comment) of each declaration that users may name, also where
    `using planning::draw;` brings it into their namespaces: without assertions, specialisations, guides and declarations
    ahead. Operators have no name."""
    parts = {header: declarations(text) for header, text in sorted(headers.items())}
    taken = {}
    for space, head, *_ in (part for of in parts.values() for part in of):
        found = re.match(r"using (?:plait::)?([\w:]+)::(\w+)$", head)
        if found and space in PUBLIC:
            taken["plait::" + found.group(1), found.group(2)] = space
    for header, of in parts.items():
        for space, head, begin, end in of:
            found, bare = name_of(head), without_template(head)
            is_operator = re.match(r"[\w\s:<>&*]*\boperator", bare) and space in PUBLIC
            is_guide = re.search(r"\)\s*(requires\b.*)?->", head) and not re.search(r"\bauto\b", bare)
            to = space if space in PUBLIC else taken.get((space, found[1])) if found else None
            if to and (found or is_operator) and not is_guide and not re.match(r"(using [\w:]+|(struct|class) \w+)$", bare):
                yield header, to, found or ("operator", ""), headers[header][begin:end]


def outside_of_plait_hpp(headers):
    """The headers that `plait.hpp` includes neither directly nor indirectly."""
    found, ahead = set(), ["plait.hpp"]
    while ahead:
        header = ahead.pop()
        if header not in found and header in headers:
            found.add(header)
            ahead += re.findall(r'^#include "plait/([^"]+)"', headers[header], re.MULTILINE)
    return set(headers) - found


def page_of(headers):
    names, outside = names_of(headers), outside_of_plait_hpp(headers)
    folders = collections.defaultdict(lambda: collections.defaultdict(list))
    for space in SPACES:
        for name, (kind, header) in names[space].items():
            folder = header.split("/")[0] if "/" in header else "."
            folders[folder][space, header].append("`%s%s`" % (name, "()" if kind == "function" else ""))
    lines = [HEAD]
    for space in SPACES:
        lines.append("In all %d names in `%s::`." % (len(names[space]), space))
    for folder in sorted(folders):
        lines += ["", "## %s" % folder, "", "| header | names | namespace |", "|---|---|---|"]
        for (space, header), row in sorted(folders[folder].items(), key=lambda item: (SPACES.index(item[0][0]), item[0][1])):
            link = "[%s](../../include/plait/%s)" % (header.split("/", 1)[-1], header)
            lines.append("| %s%s | %s | `%s` |" % (link, " +" if header in outside else "", ", ".join(sorted(row)), space))
    return "\n".join(lines) + "\n"


def faults(headers, page):
    names, out = names_of(headers), []
    if len(names["plait"]) > MOST:
        out.append("%d names in plait::, more than %d: move what programs do not write to plait::ext" % (len(names["plait"]), MOST))
    for space in SPACES:
        listed = set()
        for line in page.split("\n"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if len(cells) == 3 and cells[2] == "`%s`" % space:
                listed |= {word.strip("` ").removesuffix("()") for word in cells[1].split(",")}
        for name in sorted(set(names[space]) - listed):
            out.append("%s: %s::%s is not in %s" % (names[space][name][1], space, name, PAGE))
        out += ["%s lists %s::%s, which no header declares" % (PAGE, space, name) for name in sorted(listed - set(names[space]))]
    if not out and page != page_of(headers):
        out.append("%s is not what check_names.py --write writes" % PAGE)
    return out


def headers_of(root):
    out = {}
    base = os.path.join(root, "include/plait")
    for folder, _, files in os.walk(base):
        for file in files:
            if file.endswith(".hpp"):
                path = os.path.join(folder, file)
                out[os.path.relpath(path, base)] = open(path, encoding="utf-8").read()
    return out


def planted():
    """Faults are found and nothing else is."""
    text = """namespace plait {
template <class T>
  requires requires { typename T::x; }
struct first {
  int member = 1;
  void call() {}
};
template <> struct first<int> {};
struct second : first<second> {};
inline constexpr int third[] = {1, 2};
constexpr array<int, int(3)> fourth(int a = (1 + 2)) { return a; }
template <class T> concept fifth = requires(T t) { t.x(); };
using sixth = int;
namespace detail { struct hidden {}; }
template <class T> inline constexpr bool seventh = [] { return true; }();
inline constexpr first<int> fourteenth{3};
enum class eighth : int { one, two };
[[nodiscard]] inline auto ninth() -> first<long>* { return nullptr; }
void fifteenth(int*);
first(int) -> first<int>;
static_assert(fifth<second>);
}  // namespace plait
namespace plait::ext { struct tenth; using plait::second; }
"""
    wanted = {"plait": {"first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "fourteenth", "fifteenth"},
              "plait::ext": {"tenth", "second"}}
    headers = {"core/a.hpp": text}
    names = names_of(headers)
    out = []
    for space in SPACES:
        if set(names[space]) != wanted[space]:
            out.append("%s: found %s, wanted %s" % (space, sorted(names[space]), sorted(wanted[space])))
    page = page_of(headers)
    if faults(headers, page):
        out.append("a page without faults: %s" % faults(headers, page))
    more = "".join("struct more_%d {};\n" % number for number in range(MOST))
    for what, changed, changed_page in [
            ("a new name", text.replace("using sixth", "using eleventh = int; using sixth"), page),
            ("a name that went", text.replace("using sixth = int;", ""), page),
            ("a name of another namespace", text.replace("struct tenth", "struct eleventh"), page),
            ("a page that was edited", text, page.replace("## core", "## cores")),
            ("too many", "namespace plait {\n%s}\n" % more + text, page)]:
        if not faults({"core/a.hpp": changed}, changed_page):
            out.append("%s is not found" % what)
    return out


def main():
    root, option = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    path = os.path.join(root, PAGE)
    if option == "--write":
        os.makedirs(os.path.dirname(path), exist_ok=True)
        open(path, "w", encoding="utf-8").write(page_of(headers_of(root)))
        return 0
    found = planted() if option == "--planted" else faults(headers_of(root), open(path, encoding="utf-8").read())
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
