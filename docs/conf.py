"""Sphinx's settings for the site, which `nox -s docs` builds; tools/docs_site writes what is generated before."""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT / "tools"))

from docs_site.copies import PAGES  # noqa: E402
from docs_site.inventories import inventories  # noqa: E402
from docs_site.markup import inline, summary  # noqa: E402
from docs_site.names import entries  # noqa: E402
from monorepo import load_packages  # noqa: E402

project = "netcl"
author = "the authors of netcl"
copyright = "the authors of netcl, MIT licence"
release = next(iter(load_packages().values())).version
version = release

extensions = ["myst_parser", "sphinx.ext.autosummary", "sphinx.ext.intersphinx", "sphinx_copybutton"]
exclude_patterns = ["samples", "generated/outputs"]
root_doc = "index"
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
nitpicky = False
autosummary_generate = False
add_module_names = True
toc_object_entries = False
maximum_signature_line_length = 90
python_display_short_literal_types = True
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 4
highlight_language = "text"
pygments_style = "tango"
pygments_dark_style = "monokai"
intersphinx_mapping = inventories(DOCS / "_inventories", DOCS / "generated")
intersphinx_timeout = 1
copybutton_exclude = ".linenos, .gp, .go"
copybutton_selector = "div:not(.output):not(.highlight-text) > div.highlight > pre"

html_theme = "furo"
html_title = f"netcl {release}"
html_static_path = ["_static"]
html_css_files = ["netcl.css"]
html_search_scorer = str(DOCS / "_static" / "scorer.js")  # the class before functions of its name
html_copy_source = False
html_show_sourcelink = False
html_show_search_summary = False  # needs a server
html_theme_options = {"navigation_with_keys": True}

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")
_LITERAL = re.compile(r"``.+?``")
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Code that names a public object: nn.Conv2d, ag.Tape, netcl.io.save_model.
_NAMED = re.compile(r"(netcl|nc|ag|nn|ops|optim|F)((?:\.[A-Za-z_]\w*)+)(\(\))?")
# Classes by the name that signatures use; of two with one name, that of the lower distribution.
CLASSES = {one.name.split(".")[-1]: one.name for one in reversed(entries()) if one.kind == "class"}
for _builtin in ("bool", "float", "int", "object", "str", "type"):  # dtypes have some of these names
    CLASSES.pop(_builtin, None)
_MODULES = {
    "nc": "netcl",
    "ag": "netcl.autograd",
    "nn": "netcl.nn",
    "ops": "netcl.ops",
    "optim": "netcl.optim",
    "F": "netcl.nn.functional",
}


# Files elsewhere in the repository that are pages, see tools/docs_site/copies.py.
COPIED = {ROOT / source: DOCS / "generated" / f"{name}.md" for name, source in PAGES.items()}


def _shown(text: str) -> str:
    """Returns the text of a link that leads to a folder, which is no page: its name as code."""
    return text if text.startswith("`") else f"`{text}`"


def _links(docname: str, text: str) -> str:
    """Leads links to files that have a page of their own to it, and writes links to folders as text."""
    page = DOCS / f"{docname}.md"

    def lead(found: re.Match[str]) -> str:
        label, target, anchor = found[1], found[2], found[3] or ""
        if "://" in target or target.startswith(("mailto:", "#")):
            return found[0]
        path = (page.parent / target).resolve()
        if path in COPIED:
            return f"[{label}]({Path(os.path.relpath(COPIED[path], page.parent)).as_posix()}{anchor})"
        outside = path.suffix == ".md" and not path.is_relative_to(DOCS)
        return _shown(label) if outside or path.is_dir() else f"[{label}]({target}{anchor})"

    return _LINK.sub(lead, text)


def _outputs(app: Sphinx, docname: str, text: str) -> str:
    """Shows after each sample that prints something what it printed, from the file of tools/docs_site/run_pages.py."""
    file = DOCS / "generated" / "outputs" / f"{docname.replace('/', '.')}.json"
    if _BLOCK.search(text):
        app.env.note_dependency(str(file))
    if not file.is_file():
        return text
    printed = iter(json.loads(file.read_text(encoding="utf-8"))["outputs"])

    def add(found: re.Match[str]) -> str:
        output = next(printed, "")
        return found[0] + (f"\n\n```{{code-block}} text\n:class: output\n\n{output.rstrip()}\n```\n" if output else "")

    return _BLOCK.sub(add, text)


def read_source(app: Sphinx, docname: str, content: list[str]) -> None:
    """Changes the source of a Markdown page as it is read."""
    if (DOCS / f"{docname}.md").is_file():
        content[0] = _outputs(app, docname, _links(docname, content[0]))
        notebook = DOCS / "generated" / "notebooks" / f"{Path(docname).name}.ipynb"
        if docname.startswith("tutorials/") and notebook.is_file():
            content[0] += f"\nThis tutorial is {{download}}`a notebook <../generated/notebooks/{notebook.name}>` too.\n"


def shorten(app: Sphinx, kind: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Gives autosummary the first sentence of a docstring, with its marks escaped; ``a .. b`` would end one."""
    text = inline(summary("\n".join(lines)))
    lines[:] = [_LITERAL.sub(lambda found: found[0].replace(". ", ".\u2060 "), text), ""]


def lead_types(app: Sphinx, doctree: nodes.document) -> None:
    """Leads types in signatures to the class of netcl with that name, else to Python's or NumPy's."""
    for node in doctree.findall(addnodes.pending_xref):
        signature = (addnodes.desc_sig_name, addnodes.desc_returns, nodes.inline)
        signature = isinstance(node.parent, (addnodes.desc_sig_name, addnodes.desc_returns, nodes.inline))
        if node.get("refdomain") == "py" and signature:
            name = node["reftarget"]
            node["reftarget"] = CLASSES.get(name, name)
            for context in ("refspecific", "py:module", "py:class"):
                node.attributes.pop(context, None)


def link_names(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Makes code that names a public object a link to its entry in the reference."""
    env: BuildEnvironment = app.env
    objects = env.domains.python_domain.objects
    for node in list(doctree.findall(nodes.literal)):
        found = _NAMED.fullmatch(node.astext())
        if found is None or isinstance(node.parent, nodes.reference):
            continue
        name = _MODULES.get(found[1], found[1]) + found[2]
        entry = objects.get(name)
        if entry is None or (entry.objtype == "module" and entry.docname == docname):
            continue
        address = app.builder.get_relative_uri(docname, entry.docname) + "#" + entry.node_id
        reference = nodes.reference("", "", internal=True, refuri=address, reftitle=name)
        node.parent.replace(node, reference)
        reference += node


def setup(app: Sphinx) -> dict[str, bool]:
    """Connects the functions above with Sphinx."""
    app.connect("source-read", read_source)
    app.connect("autodoc-process-docstring", shorten)
    app.connect("doctree-read", lead_types)
    app.connect("doctree-resolved", link_names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
