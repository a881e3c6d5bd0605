"""Labels of charts that lie over each other."""


def overlaps(page):
    """Pairs of texts of one chart whose boxes meet by more than a hair; what is not shown has no box."""
    return page.evaluate(
        """() => [...document.querySelectorAll('figure svg[role=img]')].flatMap(svg => {
            const texts = [...svg.querySelectorAll('text')].map(t => [t.textContent, t.getBoundingClientRect()]);
            return texts.flatMap(([a, p], i) => texts.slice(i + 1).filter(([, q]) => p.x < q.right - 1 && q.x < p.right - 1
                && p.y < q.bottom - 4 && q.y < p.bottom - 4).map(([b]) => [a, b]));
        })"""
    )
