"""Templates about what has changed since it was said, and about groups that meet regularly."""

from tests.nano.about_money import COST
from tests.nano.about_times import READY
from tests.nano.kind import Kind, lines

DEARER = Kind(
    "dearer",
    "price",
    lines("""
    {x} now [costs|cost] {m}[, not {m0}|, no longer {m0}| instead of {m0}|].
    [The new price|The price] of {x} is {m}[ from today|; it was {m0}|, not {m0} any more].
    [We said|I wrote|You were told] that {x} would cost {m0}. [It is|It costs|The price is] now {m}.
    {x} [went up|came down|was changed] from {m0} to {m}.
    {c} | {m} {m0}
    {c} | {m}
    """),
    COST.asks,
    COST.word,
)
TICKET = Kind(
    "ticket",
    "price",
    lines("""
    [A ticket|A place|Entry] for the {e} now costs {m}[, not {m0}| instead of {m0}|].
    [We said|I wrote|They announced] that a ticket for the {e} would cost {m0}. [We changed our minds|\
        That was too much|That was wrong|We talked again]: [the price|a ticket|the ticket] is now {m}.
    The [ticket price|entry fee] for the {e} [has changed|changes] from {m0} to {m}.
    [Cheaper|Dearer|New price]: tickets for the {e} [are|cost] {m}[, children pay less|].
    """),
    COST.asks,
    COST.word,
)
LATE = Kind(
    "late",
    "coming",
    lines("""
    {x} [will be|is] ready on {t}, not on {t0}[ as I wrote|].
    [Sorry|Bad news|Good news]: {x} [will only be|will be|is] [ready|here|finished] on {t}.
    {x} [takes|needs] [longer|less time] than we thought. [It is|It will be|You can have it] ready on {t}.
    Not on {t0} but on {t} {x} will be [ready|back|finished].
    """),
    READY.asks,
    READY.word,
)
MEETS = Kind(
    "meets",
    "meets",
    lines("""
    The {g} [now |]{vs} {in_p}[| on {t}|, {t}].
    [From {since}|From {since} on|After the holidays|For the time being|Until further notice] we {v} {in_p}[| on {t}].
    [From {since}|From {since} on|After the holidays|From now on] we {v} on {t}[| {in_p}].
    We [have to leave|can no longer use] {p0}. [From now on|From {since}|So now] we {v} {in_p}[| on {t}].
    [It stands|It is settled|To sum up]: the {g} {vs} on {t}, {in_p}.
    """),
    {
        "p": lines("""
    [Where|where] does the {g} {v}[| now| these days]?
    Where [do|will|should] we {v}[| now| from {since}]?
    In which [place|building|room] does the {g} {v}?
    """),
        "t": lines("""
    [When|when] does the {g} {v}[| now]?
    [When|On which days|On what day] do we {v}[| now]?
    On [what|which] [day|days] does the {g} {v}?
    """),
    },
    {"p": "where", "t": "when"},
    share=0.6,
)
