"""Writers of transcripts and chats, each as its program lays them out; the text and the names are the caller's."""

# ruff: noqa: E501 - a layout a line

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

DAY = datetime(2026, 3, 4, 9, 29, 5)


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn: who, the second it starts and ends in, and the words."""

    name: str
    at: int
    end: int
    text: str


Turns = list[Turn]
Writer = Callable[[Turns], str]


def short(at: float) -> str:
    """Return `m:ss`, as players show it."""
    return f"{int(at) // 60}:{int(at) % 60:02}"


def long(at: float, mark: str = "") -> str:
    """Return `hh:mm:ss`, with milliseconds behind `mark` if there is one."""
    return f"{int(at) // 3600:02}:{int(at) // 60 % 60:02}:{int(at) % 60:02}" + (f"{mark}000" if mark else "")


def loose(at: int) -> str:
    """Return `h:m:s.f` without zeros in front."""
    return f"{at // 3600}:{at // 60 % 60}:{at % 60}.0"


def lines(form: str, start: str = "", end: str = "\n") -> Writer:
    """Return a writer that writes one form a turn; {ms}, {moment} and the like are its times."""

    def write(turns: Turns) -> str:
        return start + end.join(form.format(**fields) for fields in _fields(turns)) + "\n"

    return write


def _fields(turns: Turns) -> Iterator[dict[str, object]]:
    for number, turn in enumerate(turns, 1):
        moment = DAY + timedelta(seconds=turn.at)
        yield {
            **{"name": turn.name, "text": turn.text, "number": number, "first": turn.name.split()[0].lower()},
            **{"short": short(turn.at), "long": long(turn.at), "until": long(turn.end), "loose": loose(turn.at)},
            **{"loosened": loose(turn.end), "comma": long(turn.at, ","), "dot": long(turn.at, ".")},
            **{"commas": long(turn.end, ","), "dots": long(turn.end, "."), "clock": f"{moment:%H:%M:%S}"},
            **{"half": f"{moment:%I:%M %p}".lstrip("0"), "moment": moment, "iso": moment.isoformat() + ".000Z"},
        }


def spread(turn: Turn) -> list[tuple[str, float, float]]:
    """Return each word of a turn with the seconds that it starts and ends at."""
    found = turn.text.split()
    step = (turn.end - turn.at) / len(found)
    return [(w, round(turn.at + n * step, 3), round(turn.at + (n + 0.9) * step, 3)) for n, w in enumerate(found)]


def meet(turns: Turns) -> str:
    """Return the text of Google Meet's document."""
    start = (
        f"Shed (2026-03-04 09:29 GMT) - Transcript\nAttendees\n{', '.join({t.name: 0 for t in turns})}\n\nTranscript\n"
    )
    blocks = [f"{long(turn.at)}\n\n{turn.name}: {turn.text}\n" for turn in turns]
    return f"{start}\n" + "\n".join(blocks) + f"\nMeeting ended after {long(turns[-1].end)}\n"


def rolling(turns: Turns) -> str:
    """Return automatic captions that show each line again, in the cue behind it and alone."""
    blocks, before = ["WEBVTT\nKind: captions\nLanguage: en\n"], " "
    for turn in turns:
        marked = "".join(f"<{long(at, '.')}><c> {word}</c>" for word, at, _ in spread(turn))
        blocks.append(f"{long(turn.at, '.')} --> {long(turn.end, '.')} align:start position:0%\n{before}\n{marked}\n")
        blocks.append(f"{long(turn.end, '.')} --> {long(turn.end, '.')} align:start position:0%\n{turn.text}\n \n")
        before = turn.text
    return "\n".join(blocks)


def rolling_plain(turns: Turns) -> str:
    """Return captions of two lines that roll up by one, without times inside."""
    shown = [turns[:1], *map(list, pairwise(turns)), turns[-1:]]
    cues = [
        f"{number}\n{long(lines[-1].at, ',')} --> {long(lines[-1].end, ',')}\n" + "\n".join(one.text for one in lines)
        for number, lines in enumerate(shown, 1)
    ]
    return "\n\n".join(cues) + "\n"


VTT = "WEBVTT\n\n"
SPEAKERS: dict[str, tuple[str, Writer]] = {  # layouts with speakers and seconds
    "Teams, WebVTT": ("vtt", lines("{dot} --> {dots}\n<v {name}>{text}</v>\n", VTT)),
    "Teams, text of the document": ("txt", lines("{loose} --> {loosened}\n{name}\n{text}\n")),
    "Teams, newer document": ("txt", lines("{name}   {short}\n{text}\n")),
    "Teams, one line": ("txt", lines("{name}   {short}   {text}")),
    "Zoom, WebVTT": ("vtt", lines("{number}\n{dot} --> {dots}\n{name}: {text}\n", VTT)),
    "Zoom, text": ("txt", lines("[{name}] {clock}\n{text}\n")),
    "Zoom, chat": ("txt", lines("{long}\t{name}:\t{text}")),
    "Zoom, older chat": ("txt", lines("{long}\t From {name} to Everyone:\n\t{text}")),
    "Meet": ("txt", meet),
    "cue identifiers": ("vtt", lines('{number} "{name}" (3984)\n{dot} --> {dots}\n{text}\n', VTT)),
    "Otter, text": ("txt", lines("{name}  {short} \n{text}\n")),
    "Otter, SubRip": ("srt", lines("{number}\n{comma} --> {commas}\n{name}: {text}\n")),
    "Fireflies, text": ("txt", lines("{name} - {short}\n{text}\n")),
    "Fathom": ("txt", lines("{short} - {name} (Shed Ltd)\n  {text}\n", "Shed - March 4\nVIEW RECORDING - 32 mins\n\n---\n\n")),
    "names in brackets, WebVTT": ("vtt", lines("{dot} --> {dots}\n[{name}] {text}\n", VTT)),
    "names above, SubRip": ("srt", lines("{number}\n{comma} --> {commas}\n{name}\n{text}\n")),
    "names in round brackets, SubRip": ("srt", lines("{number}\n{comma} --> {commas}\n({name}) {text}\n")),
    "time behind the name": ("txt", lines("{name} ({long})\n{text}\n")),
    "time behind a bar": ("txt", lines("{name} | {long}\n{text}\n")),
    "time behind an at": ("txt", lines("{name} @ {short}\n{text}\n")),
    "time in front of a colon": ("txt", lines("[{short}] {name}: {text}")),
    "range in front": ("txt", lines("[{long} - {until}] {name}: {text}")),
    "range, bold": ("md", lines("**[{dot} --> {dots}]** {name}\n{text}\n", "## Transcript\n\n")),
    "bold name and time": ("md", lines("**{name}** [{long}]: {text}\n", "# Shed\n\n")),
    "bold name, time in italics": ("md", lines("**{name}** *({short})*\n\n{text}\n", "# Shed\n\n")),
    "time as code": ("md", lines("**{name}** `{long}` {text}\n", "# Shed\n\n")),
    "time behind a comma": ("txt", lines("{name}, {long}: {text}")),
    "time at both ends of a name": ("txt", lines("{long} - {until}\n{name}\n{text}\n")),
    "names with a colon above, SubRip": ("srt", lines("{number}\n{comma} --> {commas}\n{name}:\n{text}\n")),
    "headings from the first line": ("md", lines("## {name} ({long})\n{text}\n")),
    "heading and time": ("md", lines("### {name} - {long}\n\n{text}\n", "# Shed\n\n")),
    "IRC": ("txt", lines("[{long}] <{name}> {text}")),
    "name above a time": ("txt", lines("{name}\n{short}\n{text}\n")),
    "time above a name": ("txt", lines("{long}\n{name}\n{text}\n")),
    "numbered blocks": ("txt", lines("{number}\n{long}\n{name}\n{text}\n")),
    "table": ("md", lines("| {long} | {name} | {text} |", "| Time | Speaker | Text |\n| --- | --- | --- |\n")),
    "table, name first": ("md", lines("| {name} | {long} | {text} |", "| Who | When | What |\n|---|---|---|\n")),
    "tabs": ("txt", lines("{long}\t{name}\t{text}")),
    "tabs, range": ("txt", lines("{long}\t{until}\t{name}\t{text}")),
    "dash": ("txt", lines("{long} {name} - {text}")),
    "semicolons": ("txt", lines("{long};{name};{text}")),
    "curly brackets": ("txt", lines("{{{long}}} {name} >> {text}")),
}  # fmt: skip
CHATS: dict[str, tuple[str, Writer]] = {  # layouts with speakers and days
    "WhatsApp, iOS, United States": ("txt", lines("[{moment:%-m/%-d/%y}, {moment:%-I:%M:%S}\u202f{moment:%p}] {name}: {text}")),
    "WhatsApp, Android, United Kingdom": ("txt", lines("{moment:%d/%m/%Y}, {moment:%H:%M} - {name}: {text}")),
    "WhatsApp, Germany": ("txt", lines("[{moment:%d.%m.%y}, {moment:%H:%M:%S}] {name}: {text}")),
    "WhatsApp, Portugal": ("txt", lines("{moment:%d/%m/%Y} às {moment:%H:%M} - {name}: {text}")),
    "WhatsApp, Finland": ("txt", lines("{moment:%-d.%-m.%Y} klo {moment:%-H.%M} - {name}: {text}")),
    "WhatsApp, Spain": ("txt", lines("{moment:%-d/%-m/%y}, {moment:%-I:%M} a.\u00a0m. - {name}: {text}")),
    "WhatsApp, Netherlands": ("txt", lines("{moment:%d-%m-%Y} {moment:%H:%M} - {name}: {text}")),
    "WhatsApp, Sweden": ("txt", lines("{moment:%Y-%m-%d} {moment:%H:%M} - {name}: {text}")),
    "WhatsApp, Hungary": ("txt", lines("{moment:%Y. %m. %d.} {moment:%-H:%M} - {name}: {text}")),
    "WhatsApp, Korea": ("txt", lines("{moment:%Y. %-m. %-d.} 오전 {moment:%-I:%M}, {name} : {text}")),
    "WhatsApp, Japan": ("txt", lines("{moment:%Y/%m/%d} {moment:%H:%M} - {name}: {text}")),
    "WhatsApp, China": ("txt", lines("[{moment:%Y/%-m/%-d} 上午{moment:%-I:%M:%S}] {name}: {text}")),
    "WhatsApp, Bulgaria": ("txt", lines("{moment:%-d.%m.%y} г., {moment:%-H:%M} ч. - {name}: {text}")),
    "WhatsApp, Arabic": ("txt", lambda turns: lines("{moment:%-d}\u200f/{moment:%-m}\u200f/{moment:%Y}, {moment:%-I:%M} ص - {name}: {text}")(turns)),
    "WhatsApp, of 2012": ("txt", lines("{moment:%d/%m/%Y} {moment:%H:%M:%S}: {name}: {text}")),
    "Signal, exported": ("md", lines("[{moment:%Y-%m-%d, %H:%M}] {name}: {text}")),
    "ISO day in brackets": ("md", lines("[{moment:%Y-%m-%d %H:%M}] {name}: {text}")),
    "Discord, text": ("txt", lines("[{moment:%-m/%-d/%Y %-I:%M %p}] {name}\n{text}\n")),
}  # fmt: skip
UNTIMED: dict[str, tuple[str, Writer]] = {  # layouts with speakers alone, or with the time of day
    "headings": ("md", lines("### {name}\n\n{text}\n", "# Shed\n\n")),
    "bold above": ("md", lines("**{name}**\n\n{text}\n", "# Shed\n\n")),
    "headings from the first line": ("md", lines("## {name}\n\n{text}\n")),
    "rules between": ("txt", lines("{name}\n{text}\n\n---\n")),
    "table without times": ("md", lines("| {name} | {text} |", "| Speaker | Text |\n| --- | --- |\n")),
    "handles": ("txt", lines("<{first}> {text}")),
    "quoted handles": ("txt", lines("{name}> {text}")),
    "tab": ("txt", lines("{name}\t{text}")),
    "numbered": ("txt", lines("{number}. {name}: {text}")),
    "hour of day": ("txt", lines("[{half}] {name}: {text}")),
    "hour of day, bare": ("txt", lines("{half} - {name}: {text}")),
    "Slack, copied": ("txt", lines("{name}  {half}\n{text}\n")),
}
SILENT: dict[str, tuple[str, Writer]] = {  # words and seconds, no speakers
    "rolling captions": ("vtt", rolling),
    "rolling captions, plain": ("srt", rolling_plain),
}  # fmt: skip
