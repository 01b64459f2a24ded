#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check.py SITE [MOST_MEGABYTES]

Each link of the site leads to a file of the site and to an anchor that it has; what a page loads is of the site; each
page is reached from index.html. Prints a line for each fault; exit code 1 if there is one."""
import html.parser
import os
import re
import sys
import urllib.parse

# Pages for scripts that search.
UNREACHED = re.compile(r"(genindex|search)\.html$|api/search/")


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.loads = set(), [], []
        self.feed(open(path, encoding="utf-8").read())

    def handle_starttag(self, tag, attrs):
        of = dict(attrs)
        self.anchors |= {of[key] for key in ("id", "name") if of.get(key)}
        if tag in ("a", "area") and of.get("href") is not None:
            self.links.append(of["href"])
        elif tag == "link" and of.get("rel") not in ("index", "search", "next", "prev", "canonical"):
            self.loads.append(of.get("href") or "")
        elif of.get("src"):
            self.loads.append(of["src"])

    handle_startendtag = handle_starttag


def faults_of(site, most):
    pages, size = {}, 0
    for folder, _, names in os.walk(site):
        for name in names:
            path = os.path.join(folder, name)
            size += os.path.getsize(path)
            if name.endswith(".html"):
                pages[os.path.relpath(path, site)] = Page(path)
    out, linked = [], {}
    for at, page in sorted(pages.items()):
        linked[at] = set()
        for link, loads in [(link, False) for link in page.links] + [(link, True) for link in page.loads]:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme in ("javascript", "data"):
                continue
            if parts.scheme or parts.netloc:
                if loads:
                    out.append("%s loads %s, which is not of the site" % (at, link))
                continue
            if link.startswith("/"):
                out.append("%s: %s is no relative link" % (at, link))
                continue
            path = urllib.parse.unquote(parts.path)
            to = os.path.normpath(os.path.join(os.path.dirname(at), path)) if path else at
            if not os.path.isfile(os.path.join(site, to)):
                out.append("%s: the link %s leads nowhere" % (at, link))
            elif to in pages:
                linked[at].add(to)
                anchor = urllib.parse.unquote(parts.fragment)
                if anchor and anchor not in pages[to].anchors:
                    out.append("%s: %s has no anchor %s" % (at, to, anchor))
    reached, ahead = set(), ["index.html"]
    while ahead:
        at = ahead.pop()
        if at in linked and at not in reached:
            reached.add(at)
            ahead += linked[at]
    out += ["%s is reached from no page" % at for at in sorted(set(pages) - reached) if not UNREACHED.match(at)]
    if size > most << 20:
        out.append("the site has %d MB, more than %d" % (size >> 20, most))
    return out, len(pages), size


def main():
    out, pages, size = faults_of(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 40)
    print("\n".join(out) if out else "%d pages, %.1f MB: all links lead somewhere" % (pages, size / 2**20))
    return 1 if out else 0


if __name__ == "__main__":
    sys.exit(main())
