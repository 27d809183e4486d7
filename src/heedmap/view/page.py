"""The page around the viewer: one HTML text, for the server and for the exported file alike."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from importlib.resources import files
from typing import Any

SCRIPT = "viewer.js"
SET_SCRIPT = "set.js"
ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' "
    "rx='3' fill='%23275e8e'/%3E%3Cpath d='M4 4h3v3H4zM8 8h4v4H8z' fill='%23fff'/%3E%3C/svg%3E"
)


def script() -> str:
    """The built viewer."""
    return files("heedmap.view").joinpath("static", SCRIPT).read_text("utf-8")


def set_script() -> str:
    """The built page of a set."""
    return files("heedmap.view").joinpath("static", SET_SCRIPT).read_text("utf-8")


def set_page(name: str) -> str:
    """The page that the local server gives for a set of texts."""
    return _page(f'<script type="module" src="{SET_SCRIPT}"></script>', {"seam": "set", "runs": [{"name": name}]})


def served_page(runs: list[dict[str, Any]]) -> str:
    """The page that the local server gives; its script and all data come from the same server."""
    return _page(f'<script type="module" src="{SCRIPT}"></script>', {"seam": "served", "runs": runs})


def exported_page(index: dict[str, Any], blocks: Iterable[tuple[str, str]]) -> str:
    """The page that needs nothing else: script and data inside, and a policy that lets nothing else in or out.

    Args:
        index: what the viewer must know about the data blocks.
        blocks: identifier and base64 text of each.
    """
    code = script().replace("</script", "<\\/script").replace("<!--", "<\\!--")
    digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; worker-src blob:; img-src blob: data:; connect-src blob:; "
        "base-uri 'none'; form-action 'none'"
    )
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    data = "".join(f'<script type="text/plain" id="{name}">{text}</script>\n' for name, text in blocks)
    return _page(f'{data}<script type="module">{code}</script>', {"seam": "inside", **index}, meta)


def _page(end: str, index: dict[str, Any], meta: str = "") -> str:
    title = ", ".join(run["name"] for run in index["runs"])
    text = json.dumps(index, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'{meta}<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<meta name="referrer" content="no-referrer">\n'
        f"<title>{_escaped(title)} – heedmap</title>\n"
        f'<link rel="icon" href="{ICON}">\n</head>\n<body>\n<div id="heedmap"></div>\n'
        "<noscript>heedmap draws this page with JavaScript, which is off.</noscript>\n"
        f'<script type="application/json" id="heedmap-index">{text}</script>\n{end}\n</body>\n</html>\n'
    )


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
