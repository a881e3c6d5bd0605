// The search of the book, before the theme's. Problem: lunr reads signs such as an option's hyphens as its own syntax, and a page from a
// disk may start no worker. Rule: a query is words; an option is one of them, as scripts/book.py has written it into the index. From a disk
// the page loads the index as a script when it is first asked, and answers by itself.

// A word with hyphens: as one word of the index, as its beginning, and as its parts.
function plainQuery(query) {
  return query.replace(/[+~^:*\\]/g, " ").split(/\s+/).map((word) => word.replace(/^-+|-+$/g, "") && wordsOf(word)).filter(Boolean).join(" ");
}

function wordsOf(word) {
  const name = word.replace(/^-+|-+$/g, "");
  const glued = name.replaceAll("-", "\u2011");
  return word.includes("-") ? `${glued}^10 ${glued}*^5 ${name.replaceAll("-", " ")}` : name;
}

class FromServer extends Worker {
  constructor(script) {
    super(script);
    // Answers what was typed before the index was there.
    this.addEventListener("message", ({ data }) => data.allowSearch && document.getElementById("mkdocs-search-query").value && setTimeout(doSearch));
  }

  postMessage(message) {
    super.postMessage("query" in message ? { query: plainQuery(message.query) || "\u2011" } : message);
  }
}

class FromDisk {
  constructor(script) {
    this.place = script.replace("worker.js", "");
  }

  postMessage({ init, query }) {
    const answer = (data) => this.onmessage({ data });
    if (init) {
      setTimeout(() => [{ config: { min_search_length: 3 } }, { allowSearch: true }].forEach(answer));
    } else {
      this.loaded ??= this.load();
      this.loaded.then((find) => answer({ results: find(plainQuery(query) || "\u2011") }));
    }
  }

  async load() {
    for (const name of ["lunr.js", "search_index.js"]) {
      await new Promise((done) => document.head.append(Object.assign(document.createElement("script"), { src: this.place + name, onload: done })));
    }
    const documents = new Map(searchIndex.docs.map((page) => [page.location, { ...page, summary: page.text.substring(0, 200) }]));
    lunr.tokenizer.separator = new RegExp(searchIndex.config.separator);
    const index = lunr(function () {
      this.ref("location");
      this.field("title");
      this.field("text");
      searchIndex.docs.forEach((page) => this.add(page));
    });
    return (query) => index.search(query).map((found) => documents.get(found.ref));
  }
}

window.Worker = location.protocol === "file:" ? FromDisk : FromServer;
