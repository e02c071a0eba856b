"""Templates about what people bring, make, did, or want of someone."""

from tests.nano.kind import Kind, lines

DOING = Kind(
    "doing",
    "deed",
    lines("""
    {w} [will|can|is going to|has offered to|wants to|has agreed to|promised to|should] {v} {x}.
    {w} is {ving} {x}[| for the {g}| again| this time| tomorrow].
    {w} {vs} {x}[| every year| for us| as always].
    {w}, [can|could|would|will] you [please |]{v} {x}?
    {x} will be {ved} by {w}.
    [I asked|I have asked|We asked] {w} to {v} {x}[.|, and it is fine.]
    [Let|We let|Then let] {w} {v} {x}.
    {w} [said yes to|takes care of] {ving} {x}.
    [Agreed|Good|Fine|Right|All right][.|:|,] {w} {vs} {x}.
    [Thanks to|Thank you,] {w}[,| for] {ving} {x}[!|.]
    It is {w} who {vs} {x}.
    We need {x}. {w} [will|can|is going to] {v} it.
    [What about|About|And] {x}? {w} [will|can] {v} it.
    [Somebody has to|Someone must] {v} {x}, and {w} said yes.
    """),
    {
        "w": lines("""
    [Who|who] [will|is going to|can|should|is supposed to|wants to] {v} the {c}[?|?|]
    Who is {ving} the {c}?
    Who {vs} the {c}?
    Which person [will|is going to] {v} the {c}?
    By whom [will|is] the {c} [be |]{ved}?
    Whose [job|task] is it to {v} the {c}?
    [who's|Who's] {ving} the {c}?
    Who [offered|promised|agreed|was asked] to {v} the {c}?
    Who takes care of the {c}?
    """),
        "x": lines("""
    [What|what] [will|is|should] {w} [going to|] {v}[?|?|]
    What is {w} {ving}?
    What does {w} {v}?
    What [has|did] {w} [agreed|promised|offered|want] to {v}?
    What is {w} supposed to {v}?
    [What thing|Which thing] does {w} {v}?
    """),
    },
    {"w": "who", "x": "what"},
    lines("""
    [I will|I'll|I can|I am going to|I could|Let me] {v} {x}[| if you like| as always| for you].
    [I am|I'm] {ving} {x}[| this time| again|, of course].
    [Don't worry|Yes|Fine|Good]: I {v} {x}.
    I [promised|agreed|offered|want] to {v} {x}.
    """),
    share=2.2,
)
DONE = Kind(
    "done",
    "deed",
    lines("""
    {w} {ved} {x}[| yesterday| last week| on Friday| already| for us].
    {w} has [already |just |]{ved} {x}.
    {x} was {ved} by {w}.
    It was {w} who {ved} {x}.
    [Thank you,|Many thanks to|Thanks to] {w}, who {ved} {x}.
    [You know that|I heard that|I see that|They say that] {w} {ved} {x}.
    {w} and nobody else {ved} {x}.
    """),
    {
        "w": lines("""
    [Who|who] {ved} the {c}[?|?|]
    Who has {ved} the {c}?
    By whom was the {c} {ved}?
    Which person {ved} the {c}?
    Who was it that {ved} the {c}?
    Do you know who {ved} the {c}?
    """),
        "x": lines("""
    [What|what] did {w} {v}[?|?|]
    What has {w} {ved}?
    What was {ved} by {w}?
    Which thing did {w} {v}?
    What was it that {w} {ved}?
    """),
    },
    {"w": "who", "x": "what"},
    lines("""
    I {ved} {x}[| yesterday| last week| this morning| for you].
    I have [already |just |]{ved} {x}.
    [Good news|By the way|Done]: I {ved} {x}.
    """),
    share=1.2,
)
REQUEST = Kind(
    "request",
    "deed",
    (),
    {
        "x": lines("""
    [What|what] [does|did] {w} want me to {v}[?|?|]
    What should I {v} for {w}?
    What [does|did] {w} ask me to {v}?
    What am I supposed to {v} for {w}?
    What [does|did] {w} need me to {v}?
    What [did|does] {w} [ask for|want]?
    [What thing|What things] should I {v} for {w}?
    What would {w} like me to {v}?
    """),
        "w": lines("""
    Who [wants|asked|needs|would like] me to {v} the {c}?
    Who asked [for|about] the {c}?
    For whom should I {v} the {c}?
    """),
    },
    {"x": "what", "w": "who"},
    lines("""
    [Please|Could you please|Can you|Could you|Would you|Will you please|Do please] {v} {x}[| on the day|\
         when you come| for me][.|?]
    [Could|Can|Would] you [please |]{v} {x} [from the {g}|to the {g}|from {city}][?|, if you can?]
    [Two requests|A small request|Something for you]. [Could|Would] you [please |]{v} {x}[, with all its parts|]?
    I [need|want|would like|would love|am asking] you to {v} {x}[.|, please.]
    [It would be great|It would help a lot|It would be kind] if you could {v} {x}.
    [One request|One more thing|A favour|Just one thing]: please {v} {x}.
    [Would you mind|How about you] {ving} {x}?
    You could {v} {x}[.|, if you don't mind.]
    If you can, {v} {x}.
    From you I [need|would like] {x}; please {v} it soon.
    {u}, [can|could|would] you [please |]{v} {x}?
    Don't forget to {v} {x}[!|.|, please.]
    """),
    share=1.3,
)
