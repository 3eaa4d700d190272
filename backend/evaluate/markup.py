"""Building HTML in which every text is escaped."""

import base64
import html
import io
from collections.abc import Iterable, Sequence
from pathlib import Path


class Markup(str):
    """A piece of finished HTML; every other string is escaped before it gets in."""

    __slots__ = ()


Child = str | Markup | float | int | None


def text(value: Child) -> Markup:
    """A value as HTML: markup as it is, anything else escaped."""
    if isinstance(value, Markup):
        return value
    return Markup("" if value is None else html.escape(str(value), quote=True))


def element(tag: str, *children: Child, **attributes: str) -> Markup:
    """One element; an attribute's trailing underscore is dropped (`class_`)."""
    written = "".join(f' {name.rstrip("_")}="{html.escape(value, quote=True)}"' for name, value in attributes.items())
    return Markup(f"<{tag}{written}>{''.join(text(child) for child in children)}</{tag}>")


def join(children: Iterable[Child]) -> Markup:
    """Children one after the other."""
    return Markup("".join(text(child) for child in children))


def table(head: Sequence[str], rows: Iterable[Sequence[Child]], caption: Child = None) -> Markup:
    """A table that scrolls sideways on a narrow screen."""
    top = element("thead", element("tr", *(element("th", name, scope="col") for name in head)))
    body = element("tbody", *(element("tr", *(element("td", cell) for cell in row)) for row in rows))
    label = [] if caption is None else [element("caption", caption)]
    return element("div", element("table", *label, top, body), class_="scroll")


def figure(picture: Markup, caption: Child) -> Markup:
    """A picture with its caption."""
    return element("figure", picture, element("figcaption", caption))


def image(data: bytes, kind: str, description: str) -> Markup:
    """A picture inside the page; `kind` is its MIME type, `description` what it shows."""
    encoded = base64.b64encode(data).decode()
    return Markup(f'<img src="data:{kind};base64,{encoded}" alt="{html.escape(description, quote=True)}">')


def photograph(path: Path, description: str) -> Markup:
    """A picture file inside the page, as JPEG to keep the page small."""
    from PIL import Image

    stream = io.BytesIO()
    with Image.open(path) as opened:
        opened.convert("RGB").save(stream, "JPEG", quality=88, subsampling=0, optimize=True)
    return image(stream.getvalue(), "image/jpeg", description)


def film(path: Path) -> Markup:
    """An MP4 inside the page."""
    encoded = base64.b64encode(path.read_bytes()).decode()
    return Markup(f'<video controls muted loop src="data:video/mp4;base64,{encoded}"></video>')


def status(value: str) -> Markup:
    """A check's status: a word and a sign, so that it is readable without colour."""
    signs = {"pass": "✓", "fail": "✗", "not evaluated": "–", "done": "✓", "failed": "✗"}
    return element("span", f"{signs.get(value, '·')} {value}", class_=f"status {value.replace(' ', '-')}")


def number(value: float | None, unit: str = "") -> str:
    """A measured value with its unit, short lengths in millimetres; a dash when there is none."""
    if value is None:
        return "–"
    if unit == "m" and abs(value) < 0.1:
        value, unit = value * 1e3, "mm"
    shown = "<0.0001" if 0 < abs(value) < 1e-4 else f"{value:.4g}"
    return f"{shown} {unit}".strip()
