"""Whether what a question means moves with the calendar: "today" and "next week" are other days tomorrow.

One pattern and nothing else, for an exact hit asks this too and must not wait for more.
"""

import re

_UNIT = (
    r"(?:second|minute|hour|day|night|morning|afternoon|evening|week|weekend|fortnight|month|quarter|term|semester|year"
    r"|spring|summer|autumn|fall|winter|time|(?:mon|tues|wednes|thurs|fri|satur|sun)day)s?"
)
_CALENDAR = re.compile(
    r"\b(?:today|tonight|tomorrow|yesterday|now|nowadays|currently|current|latest|newest|recent|recently|lately|upcoming"
    r"|ago|yet|still|overdue|soon|so far|these days|at the moment|right away|anymore|any more|at present|to date"
    r"|on (?:mon|tues|wednes|thurs|fri|satur|sun)day"
    rf"|this (?:coming |past )?{_UNIT}|(?:last|past|next|coming|previous) (?:few |couple of |\w+ )?{_UNIT}"
    r"|(?:my|our|the|your|his|her|their) (?:next|last|coming)|what(?:'s| is) next|next (?:meeting|call|appointment)"
    rf"|(?:how (?:long|many {_UNIT})|time) (?:\w+ )?(?:until|till|left|since|remain\w*)"
    r"|(?:am|are|is) (?:i|we|it|he|she|they|my \w+|the \w+) (?:\w+ )?(?:late|due|early|behind|on time))\b",
    re.IGNORECASE,
)


def moves(question: str) -> bool:
    """Tell whether the answer to a question expires with the day it is given on."""
    return _CALENDAR.search(" ".join(question.split())) is not None
