"""Hooks of mkdocs for the book: pages of the root join it, names of pages in the text become links, wide parts scroll."""

import html
import re
from pathlib import Path

from markdown.extensions.toc import slugify
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[1]
# Pages that lie at the root of the repository.
AT_ROOT = ("ARCHITECTURE.md", "CAVEATS.md", "CHANGES.md", "CONTRIBUTING.md")
# Columns beyond which a table gets small type on paper.
MANY = 7
# A page's name as plain text: docs/linux.md, or [docs/linux.md](linux.md), which is a link already.
NAMED = re.compile(r"\[[^\]]*\]\([^)]*\)|`[^`]*`|(?<![\w/.])docs/([\w-]+\.md)")

# The theme's script for light and dark switches two style sheets of code, which this book has none of; it stops without them.
# A browser lets no page from a disk read the search's index: the field then says how to get one that it may read.
HEAD = """<style id="hljs-light"></style><style id="hljs-dark"></style><script>
if (location.protocol === "file:") {
  window.Worker = class { postMessage() {} };
  addEventListener("DOMContentLoaded", () => {
    const query = document.getElementById("mkdocs-search-query");
    query.disabled = true;
    query.placeholder = "Search needs a server, like python3 -m http.server";
  });
}
</script>"""


def on_config(config):
    """Names of headings begin with a letter: the theme's script looks them up as selectors."""
    config.mdx_configs.setdefault("toc", {})["slugify"] = name_of
    return config


def name_of(heading, separator):
    name = slugify(heading, separator)
    return name if name[:1].isalpha() else f"at-{name}"


def on_post_page(output, page, config):
    return output.replace("<head>", f"<head>{HEAD}", 1)


def on_files(files, config):
    """Adds the root's pages."""
    for name in AT_ROOT:
        files.append(File.generated(config, name, content=(ROOT / name).read_text()))
    return files


def on_page_markdown(markdown, page, config, files):
    """Makes links: names of pages outside of code; links to the root's pages and to files of the repository."""
    lines, fenced = [], False
    for line in markdown.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        lines.append(line if fenced else linked(line, files))
    return "\n".join(lines)


def linked(line, files):
    """One line outside of code."""
    def link(match):
        name = match[1]
        return match[0] if name is None or files.get_file_from_path(name) is None else f"[{name}]({name})"

    line = NAMED.sub(link, line)
    # From docs/ one level up, or from the root into docs/.
    line = re.sub(r"\]\((?:\.\./|docs/)((?:%s)|[\w-]+\.md)(#[\w-]+)?\)" % "|".join(map(re.escape, AT_ROOT)),
                  lambda m: f"]({m[1]}{m[2] or ''})", line)
    # What else lies in the repository is no page: its name stays.
    return re.sub(r"\[([^\]]+)\]\((?!https?://|#)(?![\w-]+\.(?:md|png|svg)|img/)[^)]*\)", r"`\1`", line)


def on_page_content(content, page, config, files):
    """Tables and listings scroll by themselves where they are too wide, also by keyboard; those with many columns are small on paper."""
    content = content.replace("<pre>", '<pre tabindex="0">')
    return re.sub(r"<table>(.*?)</table>", table, content, flags=re.S)


def table(match):
    """A table in a part that scrolls. A name of a column may break behind an underscore.

    With more than two columns, each cell has its column's name: on a telephone, a row is a card.
    """
    head, end, rows = match[1].partition("</tr>")
    names = [html.escape(html.unescape(re.sub(r"<[^>]+>", "", name))) for name in re.findall(r"<th\b[^>]*>(.*?)</th>", head, re.S)]
    head = re.sub(r">[^<]+<", lambda text: text[0].replace("_", "_<wbr>"), head)
    kinds = [kind for kind, least in (("cards", 3), ("many", MANY + 1)) if len(names) >= least]
    if kinds:
        rows = re.sub(r"<tr>.*?</tr>", lambda row: named(row[0], names), rows, flags=re.S)
    return f'<div class="scrolls" tabindex="0"><table class="{" ".join(kinds)}">{head}{end}{rows}</table></div>'


def named(row, names):
    """A row whose cells have the names of their columns."""
    at = iter(names)
    return re.sub(r"<td\b", lambda _: f'<td data-column="{next(at, "")}"', row)
