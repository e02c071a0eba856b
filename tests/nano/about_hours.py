"""Templates about the days and hours on which someone works or a place is open."""

from tests.nano.kind import Kind, lines

SHIFTS = Kind(
    "shifts",
    "hours",
    lines("""
    [From {day} on|From {day}|From now on|From next month|After the holidays] you [work|are] on {days}[, {hours}|].
    [Your|Your new|The new] [shifts|hours|working days] are {days}[, {hours}|].
    [I put you down|We have you down|You are down] for {days}[, {hours}|].
    I [swapped|changed] the shifts: you [work|come in|are on] on {days}[, {hours}|].
    """),
    {
        "days": lines("""
    [On which|On what|Which|What] days [do I|am I supposed to|do I have to|will I] work?
    When do I work?
    [On which|On what] days [am I on|are my shifts|do I come in]?
    [On which|On what] days do I work [at the {g}|from {day}|from next month|now]?
    """),
        "hours": lines("""
    [What|Which] hours do I work?
    From when to when do I work?
    """),
    },
    {"days": "when", "hours": "when"},
    share=0.35,
)
OPEN = Kind(
    "open",
    "hours",
    lines("""
    {open} is [open|now open|only open] on {days}[, {hours}|].
    {open} opens on {days}[, {hours}|].
    You can [come to|go to|visit|use] {open} on {days}[, {hours}|].
    {open} is [open|there for us] {hours}.
    {open} stays [closed|shut] on {days0}, but it is open on {days}.
    """),
    {
        "days": lines("""
    On [which|what] days can I [use|visit|go to] {open}?
    [When|On which days|On what days] is {open} open?
    When does {open} open?
    """),
        "hours": lines("""
    What are the opening hours of {open}?
    What hours is {open} open?
    From when to when is {open} open?
    """),
    },
    {"days": "when", "hours": "when"},
    share=0.35,
)
