"""Templates about when something is due or ready, and when someone comes or goes."""

from tests.nano.kind import Kind, lines

DEADLINE = Kind(
    "deadline",
    "task",
    lines("""
    [Please|Could you|Do] {v} {x} by {t}[.|, please.|, if you can.]
    {x} must be {ved} by {t}.
    {x} [has|have|needs|need] to be {ved} by {t}[| at the latest].
    The deadline for {x} is {t}.
    The last day [for|to {v}] {x} is {t}.
    [We need|I need|They need|The {g} needs] {x} by {t}.
    [You have|We have|There is time] until {t} to {v} {x}.
    {w} [needs|wants|must have|is waiting for] {x} by {t}.
    {x} is due on {t}.
    [Send|Give|Hand] {x} [in|to me|to {w}] by {t}[.|, please.]
    {x} [closes|ends|runs out] on {t}.
    [Sign up|Register|Apply] for {x} by {t}.
    """),
    {
        "t": lines("""
    [When|when] is the deadline for the {c}[?|?|]
    [By when|Until when] [do I have to|must I|should I|do we have to|can I] {v} the {c}?
    [By when|Until when|When] [must|should|does] the {c} [be|have to be] {ved}?
    When is the {c} due?
    [By when|When] [is|are] the {c} needed?
    What is the [deadline|closing date|due date|last day] for the {c}?
    When does the {c} [close|end|run out]?
    How long [do I have|do we have|is there time] to {v} the {c}?
    By [what|which] date [should|must] I {v} the {c}?
    """)
    },
    {"t": "when"},
    share=1.0,
)
READY = Kind(
    "ready",
    "coming",
    lines("""
    {x} [will be|is|should be|are going to be] [ready|finished|back|repaired|there|available|done] on {t}.
    {x} [arrives|arrive|is coming|will come|gets here|will be delivered|comes back] on {t}.
    [They|The {g}] will [deliver|send|bring|finish|repair] {x} on {t}.
    [You can|We can|I can] [pick up|collect|fetch|have] {x} on {t}.
    [Expect|We expect|You can expect] {x} on {t}.
    {x} [should reach us|lands here] on {t}.
    """),
    {
        "t": lines("""
    When [will|is] the {c} [be |]ready?
    When [will|does] the {c} [be delivered|arrive|come|be there|be finished|come back]?
    When can [I|we] [pick up|collect|fetch|have] the {c}?
    When is the {c} [coming|ready|expected|delivered|due back]?
    [when|When] do [we|I] get the {c}[?|]
    """)
    },
    {"t": "when"},
)
TRAVEL = Kind(
    "travel",
    "trip",
    lines("""
    {w} {vs} [in {city} |]on {t}.
    {w} [will {v}|is {ving}|is going to {v}|wants to {v}|can {v}] [in {city} |]on {t}.
    [Our|The] {r}, {w}, [will {v}|{vs}] [in {city} |]on {t}[| between nine and eleven].
    [Our|The] {r}, {w}, [will {v}|{vs}] on {t}, so please be [there|in].
    On {t} {w} [{vs}|will {v}][| for good|, at last].
    [I hear|They say|It seems] that {w} {vs} on {t}.
    [Did you know that|Is it true that] {w} {vs} on {t}?
    """),
    {
        "t": lines("""
    [When|when] [does|will|did] {w} {v}[?|?|]
    When is {w} {ving}?
    When [does|will] {w} [|actually ]{v}?
    When [does|will] the {r} {v}?
    """),
        "day": lines("""
    [On which day|On what day|What day|On what date] [does|will] {w} {v}?
    On [which|what] day is {w} {ving}?
    """),
        "clock": lines("""
    [At what time|What time] [does|will] {w} {v}?
    """),
        "w": lines("""
    Who {vs} on {t}?
    Who is the {r}?
    """),
    },
    {"t": "when", "day": "when", "clock": "when", "w": "who"},
    lines("""
    I {v} [in {city} |]on {t}.
    [I'll|I will|I want to|I'm going to] {v} [in {city} |]on {t}.
    On {t} I {v}[| for good|, at last].
    [I have booked|It is booked|I changed it|All right]: I [now |]{v} on {t}[| and stay for a week].
    """),
    share=0.8,
)
ARRIVAL = Kind(
    "arrival",
    "trip",
    lines("""
    {w} [gets here|will be here|is coming|comes|will be with us|reaches us|gets in] on {t}.
    {w}'s [train|flight|bus|plane|boat] [arrives|comes in|lands|gets in] on {t}.
    [Somebody should|I will|We] [meet|fetch|pick up] {w} [at the station |at the airport |]on {t}.
    [We expect|Expect] {w} on {t}.
    """),
    {
        "t": lines("""
    When [does|will] {w} [arrive|come|get here|get in|be here]?
    When is {w} [coming|arriving|expected|due|here]?
    When [do we expect|should we fetch|should I meet|do we pick up] {w}?
    When does {w}'s [train|flight|bus|plane] [arrive|land|get in]?
    When does {w} [arrive|come] for the {g}?
    """)
    },
    {"t": "when"},
    lines("""
    [I'm coming|I will be there|I'll be with you|I get in] on {t}.
    [My train|My flight|My bus|My plane] [arrives|comes in|lands|gets in] on {t}.
    [Can|Could] you [fetch me|meet me|pick me up] at the [station|airport|bus stop] on {t}?
    """),
    share=0.6,
)
