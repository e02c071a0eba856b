"""Whether the answer to a question expires with the day. Reads the wording alone; every exact hit imports it."""

import re

_LENGTH = r"(?:second|minute|hour|day|night|week|weekend|fortnight|month|quarter|year)s?"
_UNIT = rf"(?:{_LENGTH}|(?:morning|afternoon|evening|term|semester|spring|summer|autumn|fall|winter|time)s?)"
_COUNT = (
    r"(?:\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|twelve|(?:a )?few|(?:a )?couple(?: of)?|several|some)"
)
_ENGLISH = (
    r"today|tonight|tomorrow|yesterday|now|nowadays|currently|current|latest|newest|recent|recently|lately|upcoming"
    r"|ago|yet|still|overdue|soon|so far|these days|at the moment|right away|anymore|any more|at present|to date"
    r"|(?:mon|tues|wednes|thurs|fri|satur|sun)day|next(?! to )|coming up|the weekend|how old|when\b.*\bagain"
    rf"|this (?:coming |past )?{_UNIT}|(?:last|past|coming|previous) (?:few |couple of |\w+ )?{_UNIT}"
    rf"|(?:my|our|the|your|his|her|their) (?:last|coming)|(?:with)?in {_COUNT} (?:more )?{_LENGTH}"
    rf"|(?:how (?:long|many {_UNIT})|time) (?:\w+ )?(?:until|till|left|since|remain\w*)"
    r"|what(?:[’']s| is| are) (?:\w+ )?due|what(?:[’']s| is) (?:going )?on(?= ?\W*$)"
    r"|(?:am|are|is) (?:i|we|it|he|she|they|my \w+|the \w+) (?:\w+ )?(?:late|due|early|behind|on time)"
)
_OTHERS = (
    r"heute|morgen|übermorgen|gestern|vorgestern|nächste\w?|kommende\w?|letzte\w?|vorige\w?|jetzt|derzeit|aktuell\w*|bald"
    r"|diese\w? (?:woche|monat|jahr|wochenende)s?|(?:vor|in) \w+ (?:tag|woche|monat|jahr)e?n?|(?:mon|diens|donners|frei"
    r"|sams|sonn)tag|mittwoch|aujourd[’']hui|demain|hier|prochaine?s?|derni(?:er|ère)s?|maintenant|bientôt|actuel\w*"
    r"|ce(?:tte)? (?:soir|semaine|mois|année)|lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche"
    r"|hoy|mañana|ayer|próxim[oa]s?|ahora|oggi|domani|ieri|prossim[oaie]|adesso"
)
_CALENDAR = re.compile(
    rf"\b(?:{_ENGLISH}|{_OTHERS})\b|[今明昨后後前本去来來](?:[天日晚周週月年])|[上下这這]个?(?:[周週月次]|星期)|现在|現在|最近|次の",
    re.I,
)


def is_time_sensitive(question: str) -> bool:
    """Return whether the answer to a question expires with the day it is given on."""
    return _CALENDAR.search(" ".join(question.split())) is not None
