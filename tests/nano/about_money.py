"""Templates about money: what things cost, what someone asks for them, what an event brought in."""

from tests.nano.kind import Kind, lines

COST = Kind(
    "cost",
    "price",
    lines("""
    {x} [costs|cost|is|are|will cost|comes to|come to] {m}[| each| a piece| altogether| plus postage].
    [A ticket|One ticket|Entry|A place|The entry fee] for [the {e}|the {e}] [costs|is|will be] {m}[| each|\
         at the door| this year].
    [The|Our] {e} is [soon|near|almost sold out]. A ticket [costs|is] {m}[| each].
    Tickets for the {e} are [printed|here|on sale]. [One|A ticket|Each] costs {m}.
    Tickets for the {e} [cost|are] {m}[| each| at the door].
    [We paid|I paid|They paid|We spent|It was] {m} for {x}.
    {w} [charges|wants|asks|paid|got|takes|offers] {m} for {x}.
    The price [of|for] {x} is {m}.
    {c}: {m}[| each].
    {c}, {m}.
    [You can have|We can get|I found|There is] {x} for {m}.
    {x} [went up|came down|has gone up] to {m}.
    {x} [will not cost|costs not] a penny more than {m}.
    [The bill|The invoice|The quote|The offer] for {x} is {m}.
    You asked about {x}. [It costs|The price is|That is|It is] {m}.
    {m} for {x}[.|, that is all.|, and not a penny more.]
    """),
    {
        "m": lines("""
    [How much|how much] is [the|a|one] {s}[?|?|]
    [How much|how much] does [the|a|one] {s} cost[?|?|]
    How much [did|do|will] [we|I|you] [pay|spend] for [the|a] {s}?
    What does [the|a] {s} cost?
    What is the price [of|for] [the|a] {s}?
    How much [do|did|will] the {s} cost?
    How much money is [the|a] {s}?
    What did the {s} cost?
    [how much|How much] for [the|a] {s}[?|]
    How expensive is [the|a] {s}?
    """)
    },
    {"m": "how much"},
    share=1.4,
)
CHARGE = Kind(
    "charge",
    "price",
    lines("""
    {w} [charges|wants|asks|takes] {m} for {x}.
    {w} [paid|got|spent|offered|owes us|collected|raised] {m} for {x}.
    For {x}, {w} [charges|wants|paid] {m}.
    {w} would [do|sell|make|give us] {x} for {m}.
    """),
    {
        "m": lines("""
    How much [does|did|will] {w} [charge|want|ask|pay|take|get|spend|offer] for [the|a] {c}?
    What [does|did] {w} [charge|ask|want|pay] for [the|a] {c}?
    How much money did {w} [pay|spend|get|raise|collect] for the {c}?
    """),
        "w": lines("""
    Who [charges|wants|asks|paid|got|takes] {m} for the {c}?
    Who [paid|charges|charged] for the {c}?
    """),
    },
    {"m": "how much", "w": "who"},
    lines("""
    {c} | {m}
    [I charge|I want|I ask|We charge|Our price is|We now charge] {m} for {x}.
    [My|Our] price for {x} is {m}.
    """),
    share=0.8,
)
MONEY = Kind(
    "money",
    "takings",
    lines("""
    The {e} [brought in|raised|made|earned|cost] {m}[| for the {g}| altogether].
    We [raised|made|collected|earned|took] {m} at the {e}.
    [The takings|The collection|The profit] from the {e} [was|were|came to] {m}.
    There [is|are] {m} in the [account|cash box|kitty] from the {e}.
    {m} came [in|together] at the {e}.
    """),
    {
        "m": lines("""
    How much [money |]did the {e} [bring in|raise|make|earn|cost]?
    How much [money |]did we [raise|make|collect|earn|take] at the {e}?
    What did the {e} [bring in|raise|make|cost]?
    How much came [in|together] at the {e}?
    What were the takings [of|from|at] the {e}?
    """)
    },
    {"m": "how much"},
    share=0.6,
)
