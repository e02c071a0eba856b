"""Templates about people: what they keep, what they are, where they live, what they talk about."""

from tests.nano.kind import Kind, lines

KEEPS = Kind(
    "keeps",
    "owner",
    lines("""
    {w} [has|has got|keeps|holds|looks after|still has|owns|now has|takes] {x}[| at home| for now| from today].
    {x} [is|are] with {w}[| now| for the moment].
    {x} [belongs|belong] to {w}.
    [Ask|Just ask|Please ask] {w} for {x}.
    [I gave|I have given|I handed|We gave|They gave] {x} to {w}.
    {w} is [responsible for|in charge of|the one with] {x}.
    You [can get|get] {x} from {w}.
    {w} [took|got|was given|borrowed] {x}[| yesterday| last week].
    [What about|You asked about|Where is] {x}? {w} [has|keeps|took] it.
    {x} is {w}'s.
    """),
    {
        "w": lines("""
    [Who|who] [has|has got|keeps|holds|looks after|owns|got|took|borrowed] the {c}[?|?|]
    Which person [has|keeps|owns|looks after] the {c}?
    Who is [responsible for|in charge of] the {c}?
    Whose is the {c}?
    [Who|Whom] [can|should|do] I ask for the {c}?
    With whom is the {c}?
    [To whom|Who] does the {c} belong to?
    From whom [can|do] I get the {c}?
    Who [was given|is keeping|is holding|still has] the {c}?
    [who's|Who's] got the {c}[?|]
    """),
        "x": lines("""
    What does {w} [have|keep|own|look after]?
    What is {w} [responsible for|in charge of|keeping]?
    What belongs to {w}?
    """),
    },
    {"w": "who", "x": "what"},
    lines("""
    I [have|have got|keep|still have|am keeping|am looking after|own] {x}[| at home| for now| from today].
    {x} [is|are] with me[| now|, by the way].
    You can get {x} from me.
    [Fine|Good|All right]. From [today|now on] I [keep|have|hold] {x}.
    I [took|borrowed|got] {x}[| yesterday].
    """),
    share=1.6,
)
ROLE = Kind(
    "role",
    "role",
    lines("""
    {w} is [the|our|our new|the new] {r}[| of the {g}| now].
    [The|Our|Our new] {r} is [called |]{w}.
    {w} [has become|became|was elected|will be|works as] [the|our] {r}[| of the {g}].
    [The|Our] {r}, {w}, [says hello|was there too|sent a note|will explain it].
    [Welcome|Please welcome] {w}, our new {r}.
    [Ask|Talk to|Write to|Ring] {w}, [the|our] {r}.
    [We chose|They chose|The {g} chose] {w} as {r}.
    """),
    {
        "w": lines("""
    [Who|who] is [the|our|the new|] {r}[?|?|]
    What is the name of [the|our] {r}?
    Who [works as|was elected|became] [the|our|] {r}?
    Which person is [the|our] {r}?
    What is the {r} called?
    [who's|Who's] the {r}?
    """),
        "r": lines("""
    What is {w}'s [job|role|position]?
    What does {w} [do|work as]?
    """),
    },
    {"w": "who", "r": "what"},
    lines("""
    I am [the|your|your new] {r}[| of the {g}].
    As [the|your] {r} I have to say it.
    I [became|was elected|have become] {r}[| of the {g}].
    """),
    share=1.0,
)
LIVES = Kind(
    "lives",
    "home",
    lines("""
    {w} [lives|works|is staying|will stay|stays|is living|grew up|has moved to a flat] in {p}.
    {w} [moved|is moving|went|has gone|will move] to {p}.
    {w} is in {p} [this week|at the moment|now|for a year].
    {w} [writes|called|sent a card] from {p}.
    {w} [comes|is] from {p}.
    """),
    {
        "p": lines("""
    [Where|where] [does|did] {w} [live|work|stay|grow up|move to|come from|go][?|?|]
    Where is {w} [from|now|living|staying|at the moment|]?
    In which [town|city|place] [does|is] {w} [live|work|staying|now]?
    Where has {w} [gone|moved|moved to]?
    """),
        "w": lines("""
    Who [lives|works|stays] in {p}?
    Who [moved|has gone|is moving] to {p}?
    Who [comes|is] from {p}?
    """),
    },
    {"p": "where", "w": "who"},
    lines("""
    I [live|work|am staying|stay|am] in {p}[| now| at the moment].
    I [moved|am moving] to {p}[| last year| soon].
    """),
    share=0.8,
)
TOPIC = Kind(
    "topic",
    "talk",
    lines("""
    {w} [will {v}|{ved}|{vs}|is {ving}|is going to {v}] about {x}[| today| at the end].
    [Then|After that|First] {w} [will {v}|{ved}|{vs}] about {x}.
    {w}, [would|could|can] you {v} about {x}?
    """),
    {
        "x": lines("""
    What [will|does|did] {w} {v} about?
    What is {w} {ving} about?
    About what [did|does|will] {w} {v}?
    """),
        "w": lines("""
    Who [{ved}|will {v}|{vs}|is {ving}] about the {c}?
    Which person [{ved}|will {v}|{vs}] about the {c}?
    """),
    },
    {"x": "what", "w": "who"},
    lines("""
    I [will|would like to|want to|am going to] {v} about {x}[| today| next time].
    I {ved} about {x}[| last time].
    """),
    share=0.6,
)
