# SPDX-License-Identifier: Apache-2.0
"""The pages of the site by Sphinx; tree.py makes what it reads. Code spans with a name of plait become links into the
reference."""
import functools
import os
import re
import sys

from docutils import nodes
from sphinx.search.en import SearchEnglish
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tree  # noqa: E402

project = "plait"
html_title = "plait"
html_theme = "furo"
root_doc = "index"
extensions = ["myst_parser"]
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_inline"]
suppress_warnings = ["misc.highlighting_failure"]
nitpicky = True
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": False}
pygments_style = "a11y-light"
pygments_dark_style = "a11y-dark"

# The index of the search needs the stem of each word many times.
SearchEnglish.stem = functools.cache(SearchEnglish.stem)

names = tree.names_of(os.environ["PLAIT_TAGS"])
targets = set(os.environ["PLAIT_TARGETS"].split())  # of CMake


class Names(SphinxPostTransform):
    default_priority = 5

    def run(self):
        up = "../" * self.env.docname.count("/")
        for span in list(self.document.findall(nodes.literal)):
            found = re.match(r"plait(::\w+)+|plait$", span.astext())
            if not found or isinstance(span.parent, nodes.reference):
                continue
            name = found.group(0)
            if name in names:
                link = nodes.reference("", "", internal=False, refuri=up + "api/" + names[name])
                span.replace_self(link)
                link += span
            elif name.split("::")[-1] not in targets and not tree.is_own(name):
                logging.getLogger(__name__).warning("the reference has no %s", name, location=span)


def setup(app):
    app.add_post_transform(Names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
