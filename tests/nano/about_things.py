"""Templates about things: what they cost, how many there are, where they lie, what their names and numbers are."""

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
    share=0.7,
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
COUNT = Kind(
    "count",
    "number",
    lines("""
    [There are|We have|We have got|We need|We still need|We ordered|I ordered|We sold|I counted|They sent|\
        We got] {n} {k}[| for the {e}| in {p}| so far| now].
    {n} {k} [were|have been|are|will be] {ved}[| so far| in {p}| today].
    [We|They] {ved} {n} {k}[| yesterday| in two days| altogether].
    {w} {ved} {n} {k}.
    {w} [has|needs|wants|counted|ordered|brought|saw] {n} {k}.
    The {g} [has|needs|ordered|got|bought] {n} {k}.
    [In total|Altogether|In the end] [it was|there were|we had] {n} {k}.
    [The {e} had|At the {e} there were|For the {e} we have] {n} {k}.
    [Only|Almost|About|Exactly] {n} {k} [came|are left|were there|fit in].
    {k}: {n}.
    The number of {k} is {n}.
    {n} {k} [came|are coming|have signed up|will be there].
    """),
    {
        "n": lines("""
    How many {k} [can I have|fit in|do I need|did you get|did they send]?
    [How many|how many] {k} [are there|do we have|do we need|were there|did we sell|did we order|are left|came][?|?|]
    How many {k} [were|have been|are|will be] {ved}?
    How many {k} did [we|they|you] {v}?
    What is the number of {k}?
    How many {k} [have we got|will there be|are coming|in all|altogether]?
    [What number|How large a number] of {k} [was|were|are] there?
    How many {k}?
    """)
    },
    {"n": "how many"},
    share=1.6,
)
LASTS = Kind(
    "lasts",
    "span",
    lines("""
    The {e} [lasts|takes|will last|is|goes on for|will take] {l}[| this time| long].
    {x} [lasts|takes|will take|took|keeps|has a guarantee of] {l}.
    It [takes|took|will take] {l} to {v} {x}.
    [Allow|Reckon with|Plan] {l} for {x}.
    """),
    {
        "l": lines("""
    How long [is|was] the {s}?
    How long [does|will|did] the {s} [last|take|keep]?
    How many [hours|minutes|days|weeks|years] [does|will|did] the {s} [last|take]?
    What is the [length|duration] of the {s}?
    How long does it take to {v} the {s}?
    """)
    },
    {"l": "how many"},
    share=0.5,
)
ATTRIBUTE = Kind(
    "attribute",
    "attribute",
    lines("""
    The {a} [of|for] {x} [is|will be|is now|has changed to] {q}.
    The {a} [of|for] the {e} [is|will be] {q}.
    [The|Our|Your] new {a} [of|for] {x} is {q}.
    {x} has the {a} {q}.
    {a} [of|for] {x}: {q}.
    For {x} the {a} is {q}.
    [Please note|Write down|Remember|Please use] the {a} [of|for] {x}: {q}.
    {q} is the {a} [of|for] {x}.
    [We chose|They chose|We settled on|I took] {q} as the {a} [of|for] {x}.
    [We chose|They chose|We settled on] {q} as the {a} for the {e}.
    """),
    {
        "q": lines("""
    [What|what] is the {a} [of|for] the {s}[?|?|]
    Which {a} does the {s} have?
    Which {a} has the {s} [got|]?
    What {a} does the {s} have?
    [what's|What's] the {a} [of|for] the {s}?
    What is the {s}'s {a}?
    [Tell me|Give me|I need] the {a} [of|for] the {s}.
    Which is the {a} [of|for] the {s}?
    """)
    },
    {"q": "what"},
    share=1.4,
)
LIES = Kind(
    "lies",
    "lying",
    lines("""
    {x} [is|is still|lies|stands|hangs|should be|must be] {loc}.
    [You will find|You'll find|You can find|We found|Someone left|I saw] {x} {loc}.
    {w} [left|put|keeps|found|stores|hid|saw] {x} {loc}.
    [Look|Please look] for {x} {loc}.
    [You asked about|I looked for|Nobody could find] {x}. [It is|We found it|It lies|It hangs|It stands] {loc}.
    {x} [was|were] [left|put|found|stored] {loc}.
    [I think|I believe|I am sure|They say] {x} [is|are] {loc}.
    {x}: {loc}.
    [Put|Leave|Bring|Take] {x} {loc}, please.
    """),
    {
        "p": lines("""
    [Where|where] [is|are|was] the {c}[?|?|]
    Where can [I|we] find the {c}?
    Where [did|does] [you|we|they] [leave|put|keep|find|store] the {c}?
    Where is the {c} [kept|stored|now|hidden|lying]?
    Where should I [look for|put|leave] the {c}?
    In [which|what] place is the {c}?
    [Do you know|Any idea] where the {c} is?
    """),
        "w": lines("""
    Who [left|put|keeps|found|stores|hid|saw] the {c} {loc}?
    """),
    },
    {"p": "where", "w": "who"},
    lines("""
    I [left|put|keep|found|store|saw] {x} {loc}.
    [I have|I've] [left|put] {x} {loc}[| for you].
    """),
    share=1.4,
)
ENTER = Kind(
    "enter",
    "lying",
    lines("""
    For {x} [please |]use the [entrance|door|gate|way in|stairs] {loc}.
    [The entrance|The way in|The door] to {x} is {loc}.
    [You get|We get|You come] to {x} by the [door|gate|entrance] {loc}.
    """),
    {
        "p": lines("""
    Where [do we|do I|can we|should I] [go in|get in|enter] for the {c}?
    Where is the [entrance|way in|door] to the {c}?
    """)
    },
    {"p": "where"},
    share=0.2,
)
DECIDED = Kind(
    "decided",
    "plan",
    lines("""
    We [decided|agreed|voted|have decided|plan|want] to {v} {x}.
    [It was|It is] [decided|agreed] to {v} {x}.
    The {g} [decided|agreed|voted|plans|wants] to {v} {x}.
    [All in favour|Decision|Agreed|Result]: we {v} {x}.
    So we [will |]{v} {x}[.|, agreed?|. Good.]
    """),
    {
        "x": lines("""
    What [did|do] we [decide|agree|plan|want|vote] to {v}?
    What [did|does] the {g} [decide|agree|plan|want|vote] to {v}?
    What [will|do|should] we {v}?
    What are we going to {v}?
    What was it [decided|agreed] to {v}?
    """)
    },
    {"x": "what"},
    share=0.5,
)
