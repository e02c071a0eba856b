"""Templates about things: how many there are, how long they last, where they lie, what their names and numbers are."""

from tests.nano.kind import Kind, lines

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
    Here are {n} {k}[ from all of us| for you|].
    It was a long day, and we {ved} {n} {k} in [an afternoon|two hours|one go].
    """),
    {
        "n": lines("""
    How many {k} [can I have|fit in|do I need|did you get|did they send]?
    How many {k} were [handed over|given|collected|brought]?
    How many {k} were {ved} [at|on] the {e}?
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
    {x} [lasts|takes|will take|took|keeps|has a guarantee of|comes with a warranty of] {l}.
    It [takes|took|will take] {l} to {v} {x}.
    [Allow|Reckon with|Plan] {l} for {x}.
    """),
    {
        "l": lines("""
    How long [is|was] the {s}?
    How long [does|will|did] the {s} [last|take|keep]?
    How many [hours|minutes|days|weeks|years] [does|will|did] the {s} [last|take]?
    What is the [length|duration] of the {s}?
    How many [hours|minutes|days|weeks|years] of [guarantee|warranty|work] does the {s} have?
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
