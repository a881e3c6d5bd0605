"""Hooks of mkdocs for the book: pages of the root join it, names of pages become links, and what is wide fits a telephone.

The search reads a page before it is laid out (`on_page_context`): marks for the layout come into no word of its index.
"""

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

# What joins the parts of a word of code: a path, an option, a key. A long word may break behind it, but not behind the hyphens of an option.
JOINT = re.compile(r"[/_.,:=-]")
BREAKS = re.compile(r"(?<=\w)([/_.,:=-]+)(?=\w{3})")
# A line of a listing: what it has, and a comment behind it or alone.
REMARK = re.compile(r"(.*?\S {2,}| *)((?:# |// |/\*).*)")
# Spaces before a comment that continues the one of the line above.
INDENT = 16
# Columns of a listing: they would be lost in lines that break. A value's column is none.
ALIGNED = re.compile(r"\S {2,}(?!=)\S")
# Before an argument in a docstring's paragraph of arguments, and before what the function does with errors and results.
ARGUMENT = re.compile(r"(?:^|(?<=[.;)] )|\n)(?=[a-z_]+(?:, [a-z_]+)*: )|(?<=[.)] )(?=(?:Returns|Raises) )")
# An option as the search reads it.
OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]*")

# The theme's script for light and dark switches two style sheets of code, which this book has none of; it stops without them.
HEAD = '<style id="hljs-light"></style><style id="hljs-dark"></style>'


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
        lines.append(line if fenced else linked(line, {file.src_uri: file.page.title for file in files.documentation_pages() if file.page}))
    return "\n".join(lines)


def linked(line, titles):
    """One line outside of code. A link whose text is the name of a page, or a cell that has only a link, says the page's title."""
    line = NAMED.sub(lambda m: m[0] if m[1] not in titles else f"[{m[1]}]({m[1]})", line)
    line = re.sub(r"\[(?:docs/)?([\w-]+\.md)\](?=\()", lambda m: f"[{titles.get(m[1], m[1])}]", line)
    line = re.sub(r"(?<=\| )\[([\w-]+)\](?=\(\1\.md\) \|)", lambda m: f"[{titles.get(f'{m[1]}.md', m[1])}]", line)
    # From docs/ one level up, or from the root into docs/.
    line = re.sub(r"\]\((?:\.\./|docs/)((?:%s)|[\w-]+\.md)(#[\w-]+)?\)" % "|".join(map(re.escape, AT_ROOT)),
                  lambda m: f"]({m[1]}{m[2] or ''})", line)
    # What else lies in the repository is no page: its name stays.
    return re.sub(r"\[([^\]]+)\]\((?!https?://|#)(?![\w-]+\.(?:md|png|svg)|img/)[^)]*\)", r"`\1`", line)


def on_page_context(context, page, config, nav):
    """Lays a page out: tables and listings for every width, words of code that break where they have joints, pictures for the dark."""
    pages = {other.file.name: other for other in nav.pages}
    parts = re.split(r"(<pre>.*?</pre>)", page.content, flags=re.S)
    parts[::2] = [re.sub(r"([(\[]?)<code>([^<]*)</code>([,.;:)\]]*)", code, part) for part in parts[::2]]
    parts[1::2] = [listing(part, page, pages) for part in parts[1::2]]
    content = re.sub(r"<table>(.*?)</table>", table, "".join(parts), flags=re.S)
    if 'class="doc doc-contents' in content:
        content = re.sub(r"<p>([a-z_]+(?:, [a-z_]+)*: .*?)</p>", arguments, content, flags=re.S)
    page.content = re.sub(r'<img alt="[^"]*" src="([^"]*)\.png"\s*/?>', pictures, content)
    return context


def code(match):
    """Code in a text. The brackets and signs around a word stay with it."""
    before, text, after = match.groups()
    if " " in text or not JOINT.search(text):
        return f"{before}<code>{words(text)}</code>{after}"
    return f'<span class="held">{before}<code class="word">{joined(text)}</code>{after}</span>'


def words(text):
    """Code whose words with joints stay on one line, or break at a joint where a word is longer than a line."""
    return re.sub(r"\S+", lambda word: f'<span class="word">{joined(word[0])}</span>' if JOINT.search(word[0]) else word[0], text)


def joined(word):
    return BREAKS.sub(r"\1<wbr>", word)


def listing(pre, page, pages):
    """A listing. Its lines break, and comments have a column of their own, or a line where there is no room.

    One with columns of its own scrolls, also by keyboard. Comments that name pages lead there.
    """
    plain_text = re.fullmatch(r"<pre>(<code[^>]*>)([^<]*)</code></pre>", pre)
    lines = plain_text[2].splitlines() if plain_text else []
    lines = [(m[1], m[2]) if (m := REMARK.fullmatch(line)) else (line, "") for line in lines]
    if not lines or any(ALIGNED.search(text.rstrip()) for text, _ in lines):
        return pre.replace("<pre>", '<pre tabindex="0">', 1)
    return f'<pre class="lines">{plain_text[1]}{"".join(row(*line, page, pages) for line in lines)}</code></pre>'


def row(text, remark, page, pages):
    """A line of a listing."""
    remark = NAMED.sub(lambda name: named_page(name, page, pages), remark)
    begin = text.rstrip()
    if not remark or not begin and len(text) < INDENT:
        return f'<span class="line">{words(text)}{remark}\n</span>'
    return f'<span>{words(begin)}</span>{text[len(begin):]}<span class="remark">{remark}\n</span>'


def named_page(name, page, pages):
    other = pages.get((name[1] or "").removesuffix(".md"))
    return f'<a href="{other.file.url_relative_to(page.file)}">{other.title}</a>' if other else name[0]


def arguments(paragraph):
    """A list of a function's arguments, from a paragraph of its docstring."""
    given = [re.sub(r"^([a-z_]+(?:, [a-z_]+)*): ", r"<code>\1</code>: ", text) for text in ARGUMENT.split(paragraph[1]) if text]
    items, rest = [text for text in given if text.startswith("<code>")], [text for text in given if not text.startswith("<code>")]
    return "<ul>" + "".join(f"<li>{text.strip()}</li>" for text in items) + "</ul>" + (f"<p>{''.join(rest)}</p>" if rest else "")


def pictures(image):
    """A picture, and the one for a dark page beside it where there is one."""
    if not (ROOT / "docs" / f"{image[1]}-dark.png").is_file():
        return image[0]
    light, dark = (image[0].replace("<img", f'<img class="{scheme}"').replace(".png", f"{end}.png")
                   for scheme, end in (("light", ""), ("dark", "-dark")))
    return light + dark


def on_post_build(config):
    """The search's index: an option is one word, by hyphens that part nothing. Once more as a script, which also a page from a disk may read."""
    index = Path(config.site_dir, "search/search_index.json")
    text = OPTION.sub(lambda option: option[0].replace("-", "\u2011"), index.read_text())
    index.write_text(text)
    index.with_suffix(".js").write_text(f"const searchIndex = {text};\n")


def table(match):
    """A table in a part that scrolls. A name of a column may break behind an underscore.

    With more than two columns, each cell has its column's name: on a telephone, a row is a card.
    """
    head, end, rows = match[1].partition("</tr>")
    names = [plain(name) for name in re.findall(r"<th\b[^>]*>(.*?)</th>", head, re.S)]
    head = re.sub(r">[^<]+<", lambda text: text[0].replace("_", "_<wbr>"), head)
    kinds = [kind for kind, least in (("cards", 3), ("many", MANY + 1)) if len(names) >= least]
    if kinds:
        groups = {}
        rows = re.sub(r"<tr>.*?</tr>", lambda row: named(row[0], names, groups), rows, flags=re.S)
    return f'<div class="scrolls" tabindex="0"><table class="{" ".join(kinds)}">{head}{end}{rows}</table></div>'


def plain(cell):
    """The text of a cell, for an attribute."""
    return html.escape(html.unescape(re.sub(r"<[^>]+>", "", cell)))


def named(row, names, groups):
    """A row whose cells have the names of their columns. Cells left empty at its start have the group, which a row above it names."""
    cells, leading = [], True
    for at, (opening, text) in enumerate(re.findall(r"<td([^>]*)>(.*?)</td>", row, re.S)):
        leading = leading and not text
        if not leading:
            groups[at] = plain(text)
        group = f' data-group="{groups.get(at, "")}"' if leading else ""
        cells.append(f'<td data-column="{names[at] if at < len(names) else ""}"{group}{opening}>{text}</td>')
    return "<tr>" + "".join(cells) + "</tr>"
