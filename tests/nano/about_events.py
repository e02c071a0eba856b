"""Templates about events: when and where they are, who leads them, and when they have moved."""

from tests.nano.kind import Kind, lines

_WHEN = lines("""
    [When|when] is [the|the|our|the next|] {e}[?|?|?|]
    [When|when] [will|does|is] [the|the|our] {e} [take place|start|begin|happen|planned|going to be]?
    When [do we have|are we having|is it time for] [the|our|] {e}?
    When was [the|the|our|my] {e}?
    What is the date [of|for] the {e}?
    When exactly is [the|the|our|my] {e}?
    When [do we meet|should I come|do I have to be there|do we come together] for [the|] {e}?
    [Do you know|Can you tell me|Remind me] when [the|the|our|my] {e} is[?|.]
    For when is [the|the|our|my] {e} [planned|scheduled|set|fixed]?
    [what's|What's] the [date|time] of the {e}?
    When [are|were] [the|our|] {e} now?
    To when [was|has] the {e} [been |]moved?
    What is the new [date|time] [of|for] the {e}?
""")
_DAY = lines("""
    On [what|which] [date|day] [is|does] [the|the|our|my] {e}[| take place| start]?
    [What|Which] [day|date] is [the|the|our|my] {e} [|on]?
    On which days [is|are] [the|our|] {e}?
    [what|which] day is the {e}?
""")
_CLOCK = lines("""
    [At what|What] time [is|does] [the|the|our|my] {e}[| start| begin]?
    At what time do we [meet|start|begin] for [the|] {e}?
    How late is the {e}?
""")
_WHERE = lines("""
    [Where|where] is [the|the|our|my|] {e}[?|?|?|]
    Where [will|does|is] [the|the|our|my] {e} [take place|happen|be|going to be|held|now]?
    Where do we [meet|go|come together|gather] for [the|] {e}?
    [What|Which] place is [the|the|our|my] {e} in?
    Where [is|was] the {e} [held|this time|moved to]?
    At [what|which] [place|address|venue] is [the|the|our|my] {e}?
    Where are we [having|holding] [the|the|our|my] {e}?
    In which [building|room|place] is the {e}?
    Where should I [go|come|be] for [the|] {e}?
    What is the [venue|location|place] [of|for] the {e}?
    Where [does|do] [the|our|] {e} meet [now|]?
""")
_WHO = lines("""
    Who [is leading|leads|runs|organises|is in charge of|hosts|is hosting|will lead|is responsible for] [the|\
        the|our|my] {e}?
    Who is [the|the|our|my] {e} [led|run|organised|hosted] by?
    Which person [leads|runs|organises|hosts] the {e}?
    Who will [run|lead|organise|host] [the|the|our|my] {e}?
    [who's|Who is] doing the {e}?
""")
_SAYS = lines("""
    [The|Our|The next|The|Your] {e} [is|will be|takes place|is going to be|starts|begins|is held] on {t}.
    [The|Our|The next] {e} [is|will be|takes place|is going to be|is held] on {t} [{in_p}|, {in_p}|, {in_p}].
    [The|The|Our|Your] {e} [is|will be|takes place|is held] {in_p} on {t}.
    [The|The|Our|Your] {e} [is|will be|takes place|is held|happens|meets] {in_p}[, by the way|, as always|\
         this time| this year|].
    [On {t} we have|On {t} there is|On {t} it is time for] the {e}[| {in_p}].
    We [are having|have|will hold|hold|planned] [the|the|our|my] {e} on {t}[| {in_p}].
    [Please|Do] [come|all come] to [the|the|our|my] {e} on {t}[| {in_p}].
    We [meet|will meet|are meeting] for [the|the|our|my] {e} on {t} [|{in_p}].
    We [meet|will meet|gather] {in_p} for the {e}.
    {e}: {t}[, {p}|; {p}|].
    {e} on {t}[| {in_p}]!
    [Just a reminder|Reminder|Don't forget|Remember]: [the|the|our|my] {e} [is|starts] on {t}[| {in_p}].
    [You are|Everyone is|We are all] [invited|welcome] to [the|the|our|my] {e} [on {t}|{in_p} on {t}|on {t}, {in_p}].
    [Save the date|For your diaries|Please note]: [the|the|our|my] {e} [is|will be] on {t}.
    [I have|I've|We have|We've] [booked|reserved|got] {p} for [the|the|our|my] {e}[| on {t}].
    [The|The|Our|Your] {e} on {t} is {in_p}.
    [Are you|Will you be|Is anyone] coming to the {e} on {t}?
    [See you|I will see you|Looking forward to seeing you] at the {e} on {t}[| {in_p}].
    [The|The|Our|Your] {e} will be [led|run|organised|hosted] by {w}[| on {t}].
    {w} [leads|runs|will lead|is leading|organises|is organising|hosts|is hosting|is in charge of] [the|the|our|\
        my] {e}[| on {t}| {in_p}| this year].
    {w} [leads|runs|will run|hosts] the {e} on {t} {in_p}.
    [We agreed|It was agreed|So it is agreed|We said|The committee decided] that the {e} [is|will be|\
        takes place] on {t}[| {in_p}].
    [I propose|Let us have|Let's have|I suggest] the {e} on {t}[| {in_p}].
    I [asked|spoke to|rang] {w}, who will [run|lead|host|organise] the {e}[| on {t}].
    [Then|And then|Next] there is the {e}[:|, that is|, which is] on {t}[| {in_p}].
    [The|The|Our|Your] {e} [has been|is] [set|fixed|scheduled|planned|confirmed] for {t}[| {in_p}].
    It is official: the {e} is on {t}.
    For the {e} we [use|will use|can have|go to|meet at] {p}[| on {t}].
    [The|Our] {e} is [coming up|near|almost here][:|.] It [is|starts|takes place|will be] on {t}[| {in_p}].
    [About|Concerning|As to] the {e}: it [is|starts|will be] [on {t}|{in_p}|on {t} {in_p}].
    [Tickets for|Invitations to|The posters for|The programme of] the {e} are [printed|here|\
        ready]. It is on {t}[| {in_p}].
    [I am looking forward|We look forward|Everyone looks forward] to the {e}. [We meet|It is|We start] on {t}[| {in_p}].
    [You asked about|Now to|And now] the {e}. [It is|It will be|We meet] [on {t}|{in_p}|on {t} {in_p}].
    [The {g} has|We have|They have] a {e} on {t}[| {in_p}].
    [The date|The day] for the {e} is {t}[, the place is {p}|].
    [The place|The venue|The address] for the {e} is {p}.
    The {e} starts on {t}, so please be early.
    [They|The {g}] [let us have|offered us|lent us] {p} for the {e}.
    [The {g}|The {g}] [invites|is inviting] [you|us|everybody] to the {e} [on {t}|{in_p}|on {t} {in_p}].
    If you [want|like] to [come|help] , the {e} is on {t}[| {in_p}].
    [Can|Could] you make it to the {e} on {t}[| {in_p}]?
""")
_OWN = lines("""
    [I am|I'm] [leading|running|hosting|organising|in charge of] the {e}[| on {t}| this time].
    I [will|would like to|can] [lead|run|host|organise] the {e}[| on {t}].
    [This time|This year] I [run|host|organise] the {e}.
""")
_MOVED = lines("""
    [The|The|Our|Your] {e} [has been|is|was|had to be] [moved|postponed|rescheduled|put off|brought forward|\
        shifted] to {t}[| {in_p}].
    [The|The|Our|Your] {e} [has been|is|was] [moved|postponed|rescheduled|changed] from {t0} to {t}.
    [The|The|Our|Your] {e} is now on {t}[| {in_p}][, not on {t0}|, instead of {t0}|].
    [We|They] [have |]moved the {e} to {t}[ because of the {g}|, sorry|].
    [Change of plan|New date|News|Update|Correction]: the {e} [is|is now|will be|takes place] on {t}[| {in_p}].
    Instead of {t0}, the {e} [is|will be|takes place] on {t}.
    [Not {t0} but {t}|{t}, not {t0}]: that is the [new |]date of the {e}.
    The {e} [cannot be on|can't be on|will not be on|is not on] {t0}; [it is|the new date is|we meet on] {t}.
    [So|Then] we move the {e} to {t}[. All in favour?|, agreed?|.]
    [I moved|I have moved|I had to move] the {e} to {t}.
    New [date|time] for the {e}: {t}.
    [So|Therefore|That is why] we move the {e} by [a week|two days|an hour], to {t}[|. The place stays the same].
    [You will remember|You know|I wrote] that the {e} was set for {t0}. [Now it is on|We moved it to|It goes to] {t}.
    [As|Because|Since] the {g} needs the place, the {e} [moves|goes] to {t}[| {in_p}].
    The {e} goes back to {t}[| {in_p}].
""")
_ELSEWHERE = lines("""
    [The|The|Our|Your] {e} [has been|is|was] [moved|relocated] to {p}.
    [The|The|Our|Your] {e} is now {in_p}[, not {in_p0}|, no longer {in_p0}| instead of {p0}|].
    [Change of plan|New place|New venue|Update]: the {e} [is|will be|takes place] {in_p}.
    From now on the {e} [meets|is|takes place] {in_p}.
    We [meet|will meet] {in_p} for the {e}, not {in_p0}.
    We can't have {p0} for the {e}, so we [go to|take|use] {p}.
    [We|They] [have |]moved the {e} from {p0} to {p}.
""")
_WORD = {"t": "when", "day": "when", "clock": "when", "p": "where", "w": "who"}
_ASKS = {"t": _WHEN, "day": _DAY, "clock": _CLOCK, "p": _WHERE, "w": _WHO}

EVENT = Kind("event", "event", _SAYS, _ASKS, _WORD, _OWN, share=4.0)
MOVED = Kind("moved", "event", _MOVED, _ASKS, _WORD, share=0.0)
ELSEWHERE = Kind("elsewhere", "event", _ELSEWHERE, _ASKS, _WORD, share=0.0)
