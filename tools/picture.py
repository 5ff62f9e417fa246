"""Draw the package from its layers contract: ``docs/architecture.svg``.

One band per layer of the contract in ``pyproject.toml``, from top to bottom; one box per module
or package in it; one arrow per import between two boxes. The contract that is linted is the
contract that is drawn, so the two cannot disagree.

    dark arrow    an import
    light arrow   an import that a chain of dark arrows already implies
    red arrow     an import that climbs, or goes to a sibling in the same layer: a broken contract

Graphviz finds the places (through pygraphviz, whose wheel contains it); this file does the drawing.
"""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from pathlib import Path
from typing import Final

import grimp
import pygraphviz

ROOT: Final = Path(__file__).resolve().parent.parent

# Sizes are points, which are also the units of the SVG.
POINTS_PER_INCH: Final = 72
MARGIN: Final = 24
BAND_PADDING: Final = 13
BOX_PADDING: Final = 12
TITLE_HEIGHT: Final = 18
LINE_HEIGHT: Final = 14
LEGEND_HEIGHT: Final = 26
# Measured by eye, on the generous side: the reader's fonts are not known here.
TITLE_CHARACTER_WIDTH: Final = 8.6
PART_CHARACTER_WIDTH: Final = 5.8
PART_CHARACTERS_PER_LINE: Final = 34
SEPARATOR: Final = " · "

STYLE: Final = """
text { font-family: system-ui, "Segoe UI", Helvetica, Arial, sans-serif; text-anchor: middle }
.page { fill: #ffffff }
.band { fill: #f1f5f9 }
.box { fill: #ffffff; stroke: #64809c; stroke-width: 1.2 }
.name { font-size: 14px; font-weight: 600; fill: #14283c }
.part { font-size: 10.5px; fill: #5a6b7c }
.arrow { fill: none; stroke: #47617b; stroke-width: 1.3 }
.head { fill: #47617b }
.arrow.implied { stroke: #bccad8; stroke-width: 1 }
.head.implied { fill: #bccad8 }
.arrow.climbs { stroke: #d1242f; stroke-width: 2.2 }
.head.climbs { fill: #d1242f }
.legend { font-size: 10.5px; fill: #5a6b7c; text-anchor: start }
"""

Point = tuple[float, float]
Import = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Box:
    """A module or package of one layer; ``lines`` name the modules inside it."""

    name: str
    layer: int
    lines: tuple[str, ...]

    @property
    def width(self) -> float:
        parts = max((len(line) for line in self.lines), default=0) * PART_CHARACTER_WIDTH
        return max(len(self.name) * TITLE_CHARACTER_WIDTH, parts) + 2 * BOX_PADDING

    @property
    def height(self) -> float:
        return TITLE_HEIGHT + LINE_HEIGHT * len(self.lines) + BOX_PADDING


@dataclass(frozen=True)
class Package:
    """What is drawn: the boxes by name, top layer first, and the imports between them."""

    boxes: dict[str, Box]
    imports: frozenset[Import]

    @cached_property
    def layers(self) -> list[list[Box]]:
        return [list(boxes) for _, boxes in groupby(self.boxes.values(), key=lambda box: box.layer)]

    @cached_property
    def climbing(self) -> frozenset[Import]:
        return frozenset(
            (importer, imported)
            for importer, imported in self.imports
            if self.boxes[imported].layer <= self.boxes[importer].layer
        )

    @cached_property
    def implied(self) -> frozenset[Import]:
        """The downward imports that a longer chain of downward imports leads to as well."""
        direct = {name: self._imported_below(name) for name in self.boxes}
        reached: dict[str, set[str]] = {}
        # From the bottom up, so that whatever a box imports is known before the box is.
        for name in reversed(self.boxes):
            reached[name] = direct[name].union(*(reached[imported] for imported in direct[name]))
        return frozenset(
            (importer, imported)
            for importer in self.boxes
            for imported in direct[importer]
            if any(imported in reached[other] for other in direct[importer])
        )

    def _imported_below(self, name: str) -> set[str]:
        return {imported for importer, imported in self.imports - self.climbing if importer == name}


def main() -> None:
    """Write the picture, and say where."""
    parser = argparse.ArgumentParser(description="Draw the package from its layers contract.")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "architecture.svg")
    output: Path = parser.parse_args().output

    name, layers = read_layers(ROOT / "pyproject.toml")
    package = survey(name, layers)
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(draw(package), encoding="utf-8")

    print(f"Wrote {output}: {len(package.boxes)} boxes, {len(package.imports)} arrows")
    for importer, imported in sorted(package.climbing):
        print(f"  climbs: {importer} imports {imported}")


# Reading


def read_layers(pyproject: Path) -> tuple[str, list[list[str]]]:
    """Return the package and its layers, top first, as the layers contract names them."""
    contracts = tomllib.loads(pyproject.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    [contract] = [contract for contract in contracts if contract["type"] == "layers"]
    [package] = contract["containers"]
    return package, [[name.strip(" ()") for name in layer.split("|")] for layer in contract["layers"]]


def survey(package: str, layers: list[list[str]]) -> Package:
    """Read the imports of ``package``. What does not exist (yet) is left out."""
    graph = grimp.build_graph(package, cache_dir=None)
    boxes = {
        name: Box(name, layer, tuple(_wrapped(_parts(graph, f"{package}.{name}"))))
        for layer, names in enumerate(layers)
        for name in names
        if f"{package}.{name}" in graph.modules
    }
    for name in boxes:
        graph.squash_module(f"{package}.{name}")
    return Package(boxes, frozenset(_imports(graph, package, boxes)))


def _parts(graph: grimp.ImportGraph, module: str) -> list[str]:
    names = (child.rpartition(".")[2] for child in graph.find_children(module))
    return sorted(name for name in names if not name.startswith("_"))


def _wrapped(parts: Iterable[str]) -> Iterator[str]:
    line = ""
    for part in parts:
        if line and len(line) + len(SEPARATOR) + len(part) > PART_CHARACTERS_PER_LINE:
            yield line
            line = part
        else:
            line = line + SEPARATOR + part if line else part
    if line:
        yield line


def _imports(graph: grimp.ImportGraph, package: str, boxes: Iterable[str]) -> Iterator[Import]:
    # Whoever imports from the package itself imports what the package imports: that is how
    # the linter sees it too.
    through_package = graph.find_modules_directly_imported_by(package)
    for importer in boxes:
        modules = graph.find_modules_directly_imported_by(f"{package}.{importer}")
        if package in modules:
            modules = modules | through_package
        names = {module.removeprefix(f"{package}.") for module in modules}
        yield from ((importer, name) for name in names.intersection(boxes) - {importer})


# Placing


def lay_out(package: Package) -> pygraphviz.AGraph:
    """Let Graphviz place boxes and arrows, each layer on a rank of its own."""
    graph = pygraphviz.AGraph(directed=True, rankdir="TB", nodesep="0.2", ranksep="0.6")
    graph.node_attr.update(shape="box", fixedsize="true", label="")
    rails = [f"rail {number}" for number in range(len(package.layers))]
    for rail, boxes in zip(rails, package.layers, strict=True):
        graph.add_node(rail, style="invis", width="0.01", height="0.01")
        for box in boxes:
            width, height = box.width / POINTS_PER_INCH, box.height / POINTS_PER_INCH
            graph.add_node(box.name, width=f"{width:.3f}", height=f"{height:.3f}")
        graph.add_subgraph([rail, *(box.name for box in boxes)], rank="same")
    # The rails keep the layers in their order even where nothing imports the next one.
    graph.add_edges_from(pairwise(rails), style="invis", weight="0")
    for importer, imported in sorted(package.imports):
        weight = 0 if (importer, imported) in package.implied else 5
        graph.add_edge(importer, imported, weight=str(weight), arrowsize="0.7")
    graph.layout(prog="dot")
    return graph


# Drawing


def draw(package: Package) -> str:
    """Return the picture as SVG."""
    graph = lay_out(package)
    _, _, right, top = map(float, graph.graph_attr["bb"].split(","))
    width, height = right + 2 * MARGIN, top + 2 * MARGIN + LEGEND_HEIGHT

    def place(text: str) -> Point:
        # Graphviz counts from the bottom, SVG from the top.
        x, y = map(float, text.split(","))
        return x + MARGIN, top - y + MARGIN

    view = f"0 0 {width:.0f} {height:.0f}"
    size = f'width="{width:.0f}" height="{height:.0f}"'
    places = {name: place(graph.get_node(name).attr["pos"]) for name in package.boxes}
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view}" {size} role="img">',
            "<title>The layers of the package, and the imports between them</title>",
            f"<style>{STYLE}</style>",
            f'<rect class="page" {size} rx="10"/>',
            *(_band(boxes, places, width) for boxes in package.layers),
            *_arrows(package, graph, place),
            *(_box(box, places[box.name]) for box in package.boxes.values()),
            _legend(package, height - LEGEND_HEIGHT / 2),
            "</svg>",
            "",
        ]
    )


def _band(boxes: list[Box], places: dict[str, Point], width: float) -> str:
    height = max(box.height for box in boxes) + 2 * BAND_PADDING
    _, middle = places[boxes[0].name]
    left, top = MARGIN / 2, middle - height / 2
    return _rect("band", (left, top), (width - MARGIN, height))


def _box(box: Box, place: Point) -> str:
    x, y = place
    left, top = x - box.width / 2, y - box.height / 2
    baseline = top + BOX_PADDING / 2 + TITLE_HEIGHT - 5
    rect = _rect("box", (left, top), (box.width, box.height))
    name = f'<text class="name" x="{x:.1f}" y="{baseline:.1f}">{box.name}</text>'
    parts = (
        f'<text class="part" x="{x:.1f}" y="{baseline + LINE_HEIGHT * number:.1f}">{line}</text>'
        for number, line in enumerate(box.lines, start=1)
    )
    return "\n".join([rect, name, *parts])


def _arrows(package: Package, graph: pygraphviz.AGraph, place: Callable[[str], Point]) -> Iterator[str]:
    """The light arrows first, so that nothing lies above a dark one, and no dark one above a red one."""
    plain = package.imports - package.implied - package.climbing
    for kind, imports in (("implied", package.implied), ("plain", plain), ("climbs", package.climbing)):
        for importer, imported in sorted(imports):
            yield _arrow(graph.get_edge(importer, imported).attr["pos"], place, kind)


def _arrow(spline: str, place: Callable[[str], Point], kind: str) -> str:
    """Draw "e,TIP POINT POINT …", Graphviz's form of a Bézier curve and the tip of its arrow."""
    tip_text, *point_texts = spline.replace("\\\n", "").split()
    tip = place(tip_text.removeprefix("e,"))
    start, *points = (place(text) for text in point_texts)
    end = points[-1]
    curve = f"M{_xy(start)} C" + " ".join(map(_xy, points))
    # The head is a triangle as wide as two thirds of its length, from the curve's end to the tip.
    along = (tip[0] - end[0], tip[1] - end[1])
    across = (-along[1] / 3, along[0] / 3)
    corners = (tip, (end[0] + across[0], end[1] + across[1]), (end[0] - across[0], end[1] - across[1]))
    return (
        f'<path class="arrow {kind}" d="{curve}"/>'
        f'<polygon class="head {kind}" points="{" ".join(map(_xy, corners))}"/>'
    )


def _legend(package: Package, y: float) -> str:
    entries = [("plain", "imports"), ("implied", "imports, as other arrows already imply")]
    if package.climbing:
        entries.append(("climbs", "climbs: breaks the contract"))
    drawn, x = [], float(MARGIN)
    for kind, text in entries:
        drawn.append(f'<path class="arrow {kind}" d="M{x:.0f},{y:.1f} h22"/>')
        drawn.append(f'<text class="legend" x="{x + 28:.0f}" y="{y + 3.5:.1f}">{text}</text>')
        x += 28 + len(text) * PART_CHARACTER_WIDTH + 20
    return "\n".join(drawn)


def _rect(kind: str, corner: Point, size: Point) -> str:
    (x, y), (width, height) = corner, size
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="7"/>'


def _xy(point: Point) -> str:
    return f"{point[0]:.1f},{point[1]:.1f}"


if __name__ == "__main__":
    main()
