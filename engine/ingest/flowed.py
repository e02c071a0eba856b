"""Undo format=flowed (RFC 3676): soft line ends join, stuffed spaces go, quote depth stays."""


def unflow(text: str, delete_space: bool) -> str:
    """Join the lines that a trailing space marks as one; `delete_space` drops that space (DelSp=yes)."""
    out: list[str] = []
    pieces: list[str] = []
    depth = 0
    for line in text.split("\n"):
        content = line.lstrip(">")
        level = len(line) - len(content)
        content = content.removeprefix(" ")
        if pieces and (level != depth or content == "-- "):
            out.append(_paragraph(pieces, depth))
            pieces = []
        depth = level
        soft = content.endswith(" ") and content != "-- "
        pieces.append(content[:-1] if soft and delete_space else content)
        if not soft:
            out.append(_paragraph(pieces, depth))
            pieces = []
    if pieces:
        out.append(_paragraph(pieces, depth))
    return "\n".join(out)


def _paragraph(pieces: list[str], depth: int) -> str:
    text = "".join(pieces)
    return f"{'>' * depth} {text}".rstrip() if depth else text
