#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_in_browser.py ROOT BUILD SCRATCH [SITE]

Asks headless Chromium for the boxes of all texts of pictures, on light and dark pages, 1280 and 390 pixels wide: no text
lies on another and none is cut; and of all texts of some pages of the site whether they stand out from what is behind
them by at least 4.5, and whether the page fits. Faults that are planted are found. Exit code 77 without Chromium."""
import html
import json
import os
import re
import shutil
import subprocess
import sys

PAGES = ["index.html", "prediction_in_parallel.html", "coming_from/pytorch_ddp.html", "reference/ops.html", "design/plan.html",
         "api/index.html", "api/namespaceplait.html", "api/classplait_1_1ext_1_1trainer__on.html",
         "api/structplait_1_1nn_1_1linear.html", "api/structplait_1_1nn_1_1mse.html", "api/namespaces.html",
         "api/classplait_1_1safetensors__writer-members.html"]
PLANS = ["serial", "dp2", "tp2", "pp2", "dp2.tp2.pp2", "dp4.zero3"]
WIDTHS = (1280, 390)

PICTURES = """
function faults() {
  const out = [];
  for (const svg of document.querySelectorAll("svg")) {
    const name = svg.parentElement.id, frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map(text => [text.textContent, text.getBoundingClientRect()]);
    if (texts.length === 0) out.push(name + ": no text");
    const slack = 0.5;
    for (const [words, box] of texts)
      if (box.left < frame.left - slack || box.right > frame.right + slack || box.top < frame.top - slack ||
          box.bottom > frame.bottom + slack) out.push(`${name}: '${words}' is cut`);
    for (let i = 0; i < texts.length; ++i)
      for (let j = 0; j < i; ++j) {
        const [a, b] = [texts[i][1], texts[j][1]];
        if (Math.min(a.right, b.right) - Math.max(a.left, b.left) > slack &&
            Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2 * slack)
          out.push(`${name}: '${texts[i][0]}' lies on '${texts[j][0]}'`);
      }
  }
  return out;
}
"""

# The faults of pages, in frames of the wanted width.
SITE = """
function numbers(colour) {
  const found = colour.match(/[\\d.]+/g).map(Number);
  return found.length < 4 ? [...found, 1] : found;
}
function light(colour) {
  const [r, g, b] = colour.map(c => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function over(top, below) { return below.map((c, i) => top[3] * top[i] + (1 - top[3]) * c); }
function behind(element, view) {
  const layers = [];
  for (let at = element; at; at = at.parentElement) layers.push(numbers(view.getComputedStyle(at).backgroundColor));
  return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
}
function faultsOf(frame) {
  const view = frame.contentWindow, page = view.document, out = [], seen = new Set();
  const name = frame.dataset.name;
  const wide = page.documentElement.scrollWidth;
  if (wide > frame.clientWidth + 1) out.push(`${name}: ${wide} pixels wide, of ${frame.clientWidth}`);
  const walk = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
  let texts = 0;
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement, style = view.getComputedStyle(element);
    if (!walk.currentNode.textContent.trim() || ["SCRIPT", "STYLE", "NOSCRIPT"].includes(element.tagName)) continue;
    if (!element.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    ++texts;
    const ground = behind(element, view), ink = over(numbers(style.color), ground);
    const [a, b] = [light(ink), light(ground)].sort((x, y) => y - x), contrast = (a + 0.05) / (b + 0.05);
    const key = style.color + ground;
    if (contrast < 4.5 && !seen.has(key)) {
      seen.add(key);
      out.push(`${name}: '${walk.currentNode.textContent.trim().slice(0, 30)}' (${element.tagName}.${element.className}) ` +
               `${style.color} on ${ground.map(Math.round)}: contrast ${contrast.toFixed(2)}`);
    }
  }
  if (texts < 10) out.push(`${name}: ${texts} texts`);
  return out;
}
function faults() { return [...document.querySelectorAll("iframe")].flatMap(faultsOf); }
"""


class Browser:
    def __init__(self, scratch):
        self.program = next((found for name in ("chromium", "chromium-browser", "google-chrome")
                             if (found := shutil.which(name))), None)
        self.scratch = scratch

    def ask(self, name, script, body, dark, width):
        """The result of faults() for a page with this body."""
        path = os.path.join(self.scratch, name + ".html")
        with open(path, "w", encoding="utf-8") as file:
            file.write('<!DOCTYPE html><meta charset="utf-8"><style>body { margin: 0 }</style>%s<pre id="answer"></pre><script>%s'
                       'window.addEventListener("load", () => setTimeout(() => { document.getElementById("answer").textContent ='
                       ' "[[" + JSON.stringify(faults()) + "]]"; }, 100));</script>' % (body, script))
        said = subprocess.run(
            [self.program, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
             "--user-data-dir=" + os.path.join(self.scratch, "profile"), "--window-size=%d,1000" % max(width, 500),
             "--blink-settings=preferredColorScheme=%d" % (0 if dark else 1), "--virtual-time-budget=20000", "--dump-dom",
             "file://" + path], capture_output=True, text=True, timeout=120, check=False).stdout
        found = re.search(r'<pre id="answer">\[(\[.*\])\]</pre>', said, re.DOTALL)
        if not found:
            return ["%s: Chromium has no answer" % name]
        return json.loads(html.unescape(found.group(1)))[0]


def pictures_of(root, build, scratch):
    """{name: svg}: the pictures of pages, and of train_gpt and of the test of pictures if these were built."""
    out, folder = {}, os.path.join(root, "docs/pictures")
    for name in sorted(os.listdir(folder)):
        out[name] = open(os.path.join(folder, name), encoding="utf-8").read()
    train_gpt, file = os.path.join(build, "examples/train_gpt"), os.path.join(scratch, "plan.svg")
    if os.path.exists(train_gpt):
        for plan in PLANS:
            for what in ("mesh", "plan", "memory", "timetable"):
                if subprocess.run([train_gpt, "--plan", plan, "--draw", file, "--draw-what", what], capture_output=True,
                                  check=False).returncode == 0:
                    out["%s %s" % (plan, what)] = open(file, encoding="utf-8").read()
    tested, folder = os.path.join(build, "tests/plan_draw_test"), os.path.join(scratch, "tested")
    if os.path.exists(tested):
        os.makedirs(folder)
        subprocess.run([tested, "--gtest_filter=Draw.PicturesAreWrittenForWhoAsks"], capture_output=True, check=True,
                       env=os.environ | {"PLAIT_PICTURES": folder})
        for name in sorted(os.listdir(folder)):
            out["test " + name] = open(os.path.join(folder, name), encoding="utf-8").read()
    return out


def ask_of_pictures(browser, name, pictures, dark, width):
    def shown(svg):  # a page as wide as many screens is scrolled, not made small
        wide = int(re.search(r'<svg[^>]* width="(\d+)"', svg).group(1))
        return wide if wide > 6 * width else width
    divisions = "".join('<div id="%s" style="width: %dpx">%s</div>' % (html.escape(key), shown(svg), svg)
                        for key, svg in pictures.items())
    style = "<style>svg { max-width: 100%%; height: auto } body { background: %s }</style>" % ("#131416" if dark else "#ffffff")
    return browser.ask(name, PICTURES, style + divisions, dark, width)


def ask_of_pages(browser, name, site, pages, dark, width):
    frames = "".join('<iframe data-name="%s, %s, %d wide" src="file://%s" style="width: %dpx; height: 900px; border: 0"></iframe>'
                     % (page, "dark" if dark else "light", width, os.path.join(site, page), width) for page in pages)
    return browser.ask(name, SITE, frames, dark, width)


def main():
    root, build, scratch = map(os.path.abspath, sys.argv[1:4])
    site = os.path.abspath(sys.argv[4]) if len(sys.argv) > 4 and os.path.isdir(sys.argv[4]) else ""
    shutil.rmtree(scratch, ignore_errors=True)
    os.makedirs(scratch)
    browser = Browser(scratch)
    if browser.program is None:
        print("skipped: chromium is not there")
        return 77
    pictures, out = pictures_of(root, build, scratch), []
    pages = [page for page in PAGES if os.path.exists(os.path.join(site, page))]
    for dark in (False, True):
        for width in WIDTHS:
            name = "%s_%d" % ("dark" if dark else "light", width)
            out += ask_of_pictures(browser, "pictures_" + name, pictures, dark, width)
            if site:
                out += ask_of_pages(browser, "pages_" + name, site, pages, dark, width)
    if site and pages != PAGES:
        out.append("the site has no %s" % sorted(set(PAGES) - set(pages)))

    svg = '<svg width="100" height="40" viewBox="0 0 100 40"><text x="5" y="20">one</text>%s</svg>'
    for what, text in [("lies on", '<text x="10" y="22">two</text>'), ("is cut", '<text x="80" y="20">three</text>')]:
        found = ask_of_pictures(browser, "planted", {"planted": svg % text}, False, 390)
        if not any(what in fault for fault in found):
            out.append("planted, but not found: a text that %s" % what)
    planted = os.path.join(scratch, "grey.html")
    with open(planted, "w", encoding="utf-8") as file:
        file.write('<p style="color: #999; width: 500px">grey</p>' + "<p>black</p>" * 10)
    found = ask_of_pages(browser, "planted_pages", scratch, ["grey.html"], False, 390)
    for what in ("contrast 2.85", "pixels wide"):
        if not any(what in fault for fault in found):
            out.append("planted, but not found: %s" % what)
    print("\n".join(out) if out else "%d pictures and %d pages, light and dark, %s pixels wide" % (
        len(pictures), len(pages), " and ".join(map(str, WIDTHS))))
    return 1 if out else 0


if __name__ == "__main__":
    sys.exit(main())
