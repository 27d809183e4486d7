"""``heedmap similar``: the heads of a run by how alike they attend, as a map and in groups."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from heedmap.cli import lesson
from heedmap.cli.findings import command_line, out_folder, page
from heedmap.cli.picture import DARK, picture_path

if TYPE_CHECKING:
    from heedmap.heads.findings import Findings
    from heedmap.heads.similar import Distances
    from heedmap.runs.reader import Run

_LISTED = 8


@click.command(short_help="Map the heads of a run by how alike they attend, and group them.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--groups", "count", type=click.IntRange(1), metavar="N", help="How many groups; without it as many, up "
              "to 12, as are told apart best.")  # fmt: skip
@click.option("--rows", type=click.IntRange(1), metavar="N", help="Compare N rows, evenly spaced over the text, in "
              "place of all: for long texts.")  # fmt: skip
@click.option("--part", metavar="P", help="Which stack of layers, where the model has several: encoder, decoder …")
@click.option("--png", metavar="F", help="Draw the map as F.png or F.svg.")
@click.option("--dark", is_flag=True, help="Draw for a dark page.")
@click.option("--out", metavar="D", help="Write the tables to this folder: Parquet, CSV, LaTeX.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, with every head and distance.")
def command(
    run: Path,
    count: int | None,
    rows: int | None,
    part: str | None,
    png: str | None,
    dark: bool,
    out: str | None,
    as_json: bool,
) -> None:
    """Say which heads of RUN attend alike: the Jensen–Shannon distance between every two (Clark et al. 2019), a map of
    them in the plane, and groups.

    \b
    heedmap similar runs/cat --png similar.png
    heedmap similar runs/book --rows 256 --groups 8 --out tables
    """
    picture, folder = picture_path(png), out_folder(out)
    if dark and picture is None:
        raise click.UsageError("--dark is about the picture: say where it goes with --png F")

    from heedmap.heads.similar import distances, embed, group
    from heedmap.runs.reader import open_run

    opened = open_run(run)
    with lesson.working("comparing heads", quiet=as_json) as say:
        found = distances(opened, part=part, rows=rows,
                          progress=lambda done, total: say(f"comparing heads: {done:,} of {total:,} rows"))  # fmt: skip
    places, share = embed(found.matrix)
    of, silhouette = group(found.matrix, count)
    groups, heads, pairs = _tables(opened, found, places, share, of, silhouette, command_line())
    if folder is not None:
        from heedmap.heads.findings_files import write_findings

        for table in (groups, heads, pairs):
            write_findings(table, folder)
    if picture is not None:
        from heedmap.cli.summary import printable
        from heedmap.figures.save import save
        from heedmap.figures.similar import similar_figure

        subtitle = (
            f"{opened.meta['model'].get('name')}   ·   {len(found.heads)} heads   ·   {found.rows:,} of "
            f"{found.of_rows:,} rows   ·   the plane holds {share:.0%} of the spread"
        )
        legend = [
            f"group {row['group']}: {row['heads']} heads" + (f", {row['type']}" if row["type"] else "")
            for row in groups
        ]
        figure = similar_figure(
            [f"{layer}.{head}" for _, layer, head in found.heads], places, of, legend,
            f"Heads that attend alike in “{printable(opened.text[:100])}”", subtitle,
            facecolor=DARK if dark else "white",
        )  # fmt: skip
        save(figure, picture)
    if as_json:
        lesson.write_json(
            heads.document()
            | {"groups": groups.document()["rows"], "distances": found.matrix.tolist(), "plane_share": share,
               "silhouette": silhouette, "picture": None if picture is None else str(picture)}
        )  # fmt: skip
    else:
        lesson.console().print(page(groups))


def _tables(
    run: Run,
    found: Distances,
    places: np.ndarray,
    share: float,
    of: np.ndarray,
    silhouette: float,
    line: str,
) -> tuple[Findings, Findings, Findings]:
    """Groups, heads, and every two heads."""
    from heedmap.heads.about import about_run
    from heedmap.heads.findings import Column, Findings

    layer = np.array([number for _, number, _ in found.heads])
    upper = np.triu_indices(len(found.heads), 1)
    near = found.matrix[upper]
    same = layer[upper[0]] == layer[upper[1]]
    about = about_run(
        run, line, items=found.rows, item=f"rows of {found.of_rows:,}",
        more={"heads": len(found.heads), "part": found.part, "plane": f"{share:.1%} of the spread"},
    )  # fmt: skip
    notes = ["Distance: mean over rows of the Jensen–Shannon divergence, nats; 0 is the same, ln 2 = 0.693 nothing in "
             f"common. Groups: Ward's linkage, silhouette {silhouette:.2f}."]  # fmt: skip
    if same.any() and not same.all():
        notes.append(
            f"Two heads of one layer are {near[same].mean():.3f} apart on average, of different layers "
            f"{near[~same].mean():.3f}."
        )
    names = [f"{number}.{head}" for _, number, head in found.heads]
    kinds = _kinds(run, found)
    nats: dict[str, Any] = {"spec": ".3f", "unit": "nats"}
    rows = []
    for number in range(int(of.max()) + 1):
        members = np.flatnonzero(of == number)
        within = found.matrix[np.ix_(members, members)]
        pairs = len(members) * (len(members) - 1)
        central = members[np.argsort(within.sum(1), kind="stable")]
        listed = " ".join(names[index] for index in central[:_LISTED])
        rows.append(
            {"group": number + 1, "heads": len(members), "layers": _span(layer[members]),
             "within": float(within.sum() / pairs) if pairs else None, "type": _shared([kinds[m] for m in members]),
             "members": listed + (" …" if len(members) > _LISTED else "")}
        )  # fmt: skip
    groups = Findings(
        "similar_groups", "Heads that attend alike",
        (Column("group", "int64"), Column("heads", "int64"), Column("layers", "string"),
         Column("within", label="apart", **nats), Column("type", "string", label="mostly"),
         Column("members", "string", label="most central first")),
        rows, about, tuple(notes),
    )  # fmt: skip
    apart = found.matrix + np.diag(np.full(len(names), np.inf))
    closest = apart.argmin(1)
    heads = Findings(
        "similar_heads", "Each head's group, place and nearest head",
        (Column("part", "string"), Column("layer", "int64"), Column("head", "int64"), Column("group", "int64"),
         Column("x", **nats), Column("y", **nats), Column("nearest", "string"), Column("distance", **nats),
         Column("types", "string")),
        [{"part": part, "layer": at, "head": head, "group": int(of[index]) + 1, "x": float(places[index, 0]),
          "y": float(places[index, 1]), "nearest": names[closest[index]],
          "distance": float(apart[index, closest[index]]), "types": " ".join(kinds[index])}
         for index, (part, at, head) in enumerate(found.heads)],
        about, tuple(notes),
    )  # fmt: skip
    pairs = Findings(
        "similar_pairs", "The distance between every two heads",
        (Column("head_a", "string"), Column("head_b", "string"), Column("distance", **nats)),
        [{"head_a": names[a], "head_b": names[b], "distance": float(found.matrix[a, b])}
         for a, b in zip(*upper, strict=True)],
        about, tuple(notes),
    )  # fmt: skip
    return groups, heads, pairs


def _kinds(run: Run, found: Distances) -> list[tuple[str, ...]]:
    """The types of each head, as `heedmap heads` gives them."""
    from heedmap.heads.evidence import type_heads

    types = {(head.part, head.layer, head.head): head.types for head in type_heads(run).heads}
    return [types[key] for key in found.heads]


def _shared(kinds: list[tuple[str, ...]]) -> str:
    """The types that most heads of a group have, with how many."""
    counts: dict[str, int] = {}
    for own in kinds:
        for name in own:
            counts[name] = counts.get(name, 0) + 1
    most = [name for name, count in counts.items() if 2 * count > len(kinds)]
    return ", ".join(f"{name} {counts[name]}" for name in sorted(most, key=lambda name: -counts[name])[:2])


def _span(layers: np.ndarray) -> str:
    low, high = int(layers.min()), int(layers.max())
    return str(low) if low == high else f"{low}–{high}"
