"""Draws the text of a terminal as SVG, with bold, faint and the eight colours.

The picture of `tidegate top` in docs/pictures is made so, with a gateway under load at $URL:

    tmux -L picture -f /dev/null new-session -d -x 118 -y 38 "tidegate top --url $URL"
    tmux -L picture capture-pane -e -p | python3 tools/terminal_svg.py > docs/pictures/top.svg
    tmux -L picture kill-server
"""

import re
import sys
from html import escape

CELL, LINE, PAD, SIZE = 8.4, 18, 14, 14
PAPER, INK, FAINT = "#10151a", "#e4eaf0", "#9aa8b5"
COLOURS = {30: "#5a6775", 31: "#f28b82", 32: "#6fcf97", 33: "#f0b45b",
           34: "#7db6f2", 35: "#d7a6e8", 36: "#7fd4d4", 37: INK}


def pieces(line, codes):
    """The texts of a line with the codes that hold for each; `codes` are kept for the next line."""
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if part.startswith("\x1b["):
            for code in (int(number or 0) for number in part[2:-1].split(";")):
                if code == 0:
                    codes.clear()
                elif code == 22:
                    codes -= {1, 2}
                elif code == 39:
                    codes -= set(COLOURS)
                else:
                    codes.add(code)
        elif part:
            yield part, frozenset(codes)


def words(part):
    """The texts between wide gaps, with their columns: SVG joins spaces."""
    return ((found.start(), found.group()) for found in re.finditer(r"\S+(?: \S+)*", part))


def draw(text):
    lines = text.rstrip("\n").split("\n")
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    width = round(max(map(len, plain)) * CELL + 2 * PAD)
    height = len(lines) * LINE + 2 * PAD
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
           f'viewBox="0 0 {width} {height}" role="img" aria-label="tidegate top in a terminal">')
    yield f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>'
    yield (f'<g font-family="DejaVu Sans Mono, Menlo, Consolas, monospace" font-size="{SIZE}" '
           f'fill="{INK}">')
    codes = set()
    for row, line in enumerate(lines):
        column, baseline = 0, PAD + (row + 1) * LINE - 5
        for part, held in pieces(line, codes):
            fill = next((COLOURS[code] for code in held if code in COLOURS), None)
            fill = fill or (FAINT if 2 in held else None)
            style = f' fill="{fill}"' if fill else ""
            style += ' font-weight="bold"' if 1 in held else ""
            for at, word in words(part):
                # The length keeps columns straight in any font.
                yield (f'<text x="{PAD + (column + at) * CELL:.1f}" y="{baseline}"{style} '
                       f'textLength="{len(word) * CELL:.1f}" lengthAdjust="spacingAndGlyphs">'
                       f'{escape(word)}</text>')
            column += len(part)
    yield "</g></svg>"


if __name__ == "__main__":
    print("\n".join(draw(sys.stdin.read())))
