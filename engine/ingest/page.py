"""A page of text being written: lines, paragraphs, quotes, table cells; knows nothing of what it is made from."""

DEEPEST_QUOTE = 8


class Page:
    """The text written so far (mutable); breaks are kept pending, so that none pile up or end the text."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.current: list[str] = []
        self.breaks, self.quotes, self.preformatted, self.written = 0, 0, 0, 0
        self.gap, self.space = "", False
        self.cells: list[tuple[int, int]] = []  # texts written and lines finished before each open cell
        self.items: list[int] = []  # the number of the last item of each open list, -1 in a bulleted one

    def text(self, text: str) -> None:
        """Write the characters of a text node."""
        if self.preformatted:
            first, *others = text.split("\n")
            self.put(first)
            for other in others:
                self.finish()
                self.put(other)
            return
        words = " ".join(text.split())
        self.space |= text[:1].isspace()
        if words:
            self.put(words)
            self.space = text[-1:].isspace()

    def want(self, breaks: int) -> None:
        """Ask for a line end (1) or an empty line (2) before the next text, unless a table cell has just begun."""
        if not self.gap and not (self.cells and self.cells[-1][0] == self.written):
            self.breaks = max(self.breaks, breaks)

    def finish(self) -> None:
        """End the current line."""
        line = "".join(self.current).rstrip()
        mark = "> " * min(self.quotes, DEEPEST_QUOTE)
        self.lines.append((mark + line).rstrip() if line else "")
        self.current, self.space = [], False

    def settle(self) -> None:
        """Make the breaks that were asked for."""
        if self.breaks and self.current:
            self.finish()
        if self.breaks > 1 and self.lines and self.lines[-1]:
            self.lines.append("")
        self.breaks = 0

    def put(self, text: str) -> None:
        """Write text as it is behind the breaks, the bar or the space that was asked for."""
        if self.breaks:
            self.settle()
        elif self.gap and self.current:
            self.current.append(self.gap)
        elif self.space and self.current:
            self.current.append(" ")
        self.gap, self.space = "", False
        self.current.append(text)
        self.written += bool(text)
