"""One self-contained HTML page of sections, each with words, plots and tables."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jinja2 import Environment

_PAGE = """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{ title }}</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 1200px; margin: 2rem auto; padding: 0 1rem; }
section { margin: 2.5rem 0; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { padding: .25rem .75rem; border-bottom: 1px solid #8884; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 460px), 1fr)); gap: 1rem; }
figure { margin: 0; max-width: 720px; }
svg { width: 100%; height: auto; font-size: 13px; }
svg text { fill: currentColor; }
svg .title { font-weight: 600; font-size: 14px; }
svg .grid { stroke: #8883; }
</style>
<h1>{{ title }}</h1>
<p>{{ lead }}</p>
{% for section in sections %}
<section>
<h2>{{ section.title }}</h2>
{% for sentence in section.words %}<p>{{ sentence }}</p>
{% endfor %}
<div class="plots">{% for plot in section.plots %}<figure>{{ plot | safe }}</figure>{% endfor %}</div>
{% for table in section.tables %}
<table>
<tr>{% for cell in table[0] %}<th>{{ cell }}</th>{% endfor %}</tr>
{% for row in table[1:] %}<tr>{% for cell in row %}<td>{{ cell }}</td>{% endfor %}</tr>
{% endfor %}
</table>
{% endfor %}
</section>
{% endfor %}
</html>
"""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page."""

    title: str
    words: Sequence[str] = ()
    plots: Sequence[str] = ()
    """SVG"""
    tables: Sequence[Sequence[Sequence[str]]] = field(default_factory=tuple)
    """rows of cells; the first row is the head"""


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """HTML. What is not SVG is escaped."""
    template = Environment(autoescape=True, trim_blocks=True).from_string(_PAGE)
    return template.render(title=title, lead=lead, sections=sections)
