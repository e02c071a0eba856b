"""Sentences around the facts: small talk that answers no question, greetings, closings, subjects."""

from tests.nano import names
from tests.nano.grammar import chosen, filled, slots
from tests.nano.kind import lines
from tests.nano.pool import Pool

TALK = lines("""
    [I hope|We hope|Hope] you are [well|fine|all right|feeling better|not too busy].
    [Thank you|Thanks|Many thanks] for your [mail|message|note|help|patience|kind words|quick answer].
    [It was|It is] [so |very |really |]good to [see you|hear from you|talk to you] [again|last week|yesterday|\
        on the phone].
    The weather was [awful|lovely|mixed|far too hot] [all week|yesterday|on the way home], [but nobody minded|\
        as usual|so we stayed inside].
    It [rained|snowed|was windy] [the whole day|again|all night].
    [We were|I was] [quite |a little |]tired [afterwards|after that], but it was worth it.
    [Let me know|Tell me|Write to me|Please say] [what you think|if that suits you|if you cannot come|\
        if anything is unclear|how it goes].
    [I am sorry|Sorry] [for the late answer|that I could not come|about the noise|for writing so late|\
        that this took so long].
    [More soon|More about that later|The rest can wait|That is all for today|No more news for now].
    [Some of you|Two of us|Most people|A few people] [were not there|had to leave early|came late|forgot about it].
    [You will|You'll] [remember|have heard] that we [talked|argued|laughed] about [this|that] [last year|\
        for an hour|in the break].
    [It does not have to be|It need not be] perfect, [it has to be done|it only has to work].
    [I have|We have] [no idea|not decided] [yet |]what to do about the {g}.
    [My|Our] [neighbour|sister|cousin|aunt|colleague] [says hello|sends her love|is still in bed with a cold|\
        asked after you].
    [The children|The cats|My knees|The neighbours] are [fine|a bit loud|not amused|asleep at last].
    [If it rains|If nobody minds|If there is time|If all goes well], we [stay inside|stay longer|\
        do the rest too|go for a walk].
    [Nobody|No one] [knows|could say|remembers] who [started|ordered|wanted] it.
    [That|This] was [more fun|more work|less work|harder] than [I thought|last time|we expected].
    [Please|Do] [bring a friend|be on time|read this to the end|tell the others|keep this mail|print this].
    Last [year|time|month] [we had|there was] [too much|not enough] [soup|coffee|noise|rain|paper], [remember|\
        if you remember][?|.]
    [Has anyone|Have you] seen [my glasses|the other one|the sun lately][?|?]
    [Any questions|Questions|Ideas|Complaints]? [Ring me|Write to me|Ask me|Come and see me].
    [To be honest|Between us|As I said|As you know|Of course], it [could be worse|was not easy|is a long story|\
        went well].
    The {g} [is happy|was not pleased|has to save money|is growing|met yesterday|sends its thanks].
    [Somebody|Someone] [left|forgot] [an umbrella|a scarf|one glove|a hat] [on the chair|in the hall|again].
    I [walked|cycled|ran] home [in the rain|in the dark|very slowly|with a smile].
    [We laughed|We talked|They sang|They danced] until [late|the lights went out|the neighbours knocked].
    There [was|will be] [tea|coffee|soup|cake] for [everyone|all of us|those who stay].
    [The last one|The first one|The other one] was [better|too small|a little too loud|quite good].
    [I will|I'll] [write again|tell you more|call you back|send a list|ask around] [soon|later|when I know more|\
        tomorrow].
    [It is|It's] [a pity|a shame|good news|a relief] that [it is over|nobody wrote it down|it worked at last|\
        we have to wait].
    [Do not|Please don't] [worry|wait for me|tell anyone yet|use the lift|feed the ducks].
    [Everything else|The rest|All the rest] [stays|remains] as [it was|it is|we said].
    [We are|I am] [still |]looking for [help|volunteers|someone who can sing|good ideas|a dry place].
    [What a|Such a] [day|week|mess|surprise][!|, really.]
    [The summer|The winter|The spring|Christmas|The new year] [is coming|came early|will be busy].
    [Your|The] [old|last|first] [idea|plan|letter] was [good|better|too long|not bad at all].
    [I would|I'd] [rather|like to] [wait|sleep on it|ask the others first|do it myself].
    [This mailbox|This address|This number] is [not read|new|only for today].
    [Parking|Smoking|Singing] is [allowed|not allowed|no problem] [there|in front of the house|inside].
    [With a bit of luck|Hopefully|Perhaps|Maybe] [we finish early|the sun comes out|nobody notices].
    [I saw|We met|I ran into] {w} [in town|on the bus|at the dentist|by chance], [looking well|in a hurry|\
        as cheerful as ever].
    {w} [says hello|was ill|could not come|laughed a lot|sends regards|was there too|asked about you].
    [Ask|Tell] {w} [about it|if you like|, not me].
    [The|That|Our old] {x} [broke|was lovely|was too heavy|is a mystery|made us laugh|\
        has seen better days] [again|in the end|, they say|].
    [I dreamt of|We talked about|Nobody mentioned|Forget about] the {x}.
    [In|At] {p} [it was|it is] [cold|crowded|quiet|noisy|dark] [as always|in the morning|this week].
    The {x} and the {y} [can wait|are another story|do not matter now].
""")
TURNS = lines("""
    [Right|Good|OK|So][,|.] [shall we start|let us begin|next point|what else|where were we][?|.]
    [First|Second|Third|Last|Next] point[.|, please.|, quickly.|: the {x}.]
    [I agree|Agreed|Fine by me|Me too|Same here|Exactly|Yes|No objections|Lovely].
    [Thank you|Thanks] [all |everyone |]for [coming|being on time|your time|the biscuits].
    [Who|Can someone|Could someone] [writes|write] [this|that] down?
    [Is it|Are we] [recording|all here|complete]?
    [I am not sure|I doubt it|Let me think|Let me check|We will see|Hm].
    [Any other|Is there any other] business?
    [That|It] [sounds good|is too much|worries me|was my idea|can wait].
    [Can you|Could you] [say that again|speak up|hear me][?|?]
    [Good, that is all of us|All in favour? Good|Noted|Done|Moving on].
    [And|But] what about {w}?
    [What about|And] the {x}?
""")
GREETINGS = lines("""
    [Dear|Hi|Hello|Dear|Hey|Good morning|Good evening] {u},
    [Dear|Hello|Hi] {u} [and {w}|and all],
    [Dear all|Hello everybody|Hi all|Hi everyone|Dear friends|Dear members|Dear parents|Dear colleagues|\
        Good morning|Hello],
    {u},
    {u} -
""")
CLOSINGS = lines("""
    [Best wishes|Best|Kind regards|Regards|Yours|Love|Cheers|Thanks|Many thanks|See you|Take care|All the best|\
        Warm regards|Yours sincerely|Greetings|Bye for now|So long|Until then],
""")
SUBJECTS = lines("""
    {x}
    {e}
    {x} and {y}
    [the|our|your|about the|news of the|a question about the|some notes on the|thoughts about the] {x}
    [our|your|last|next|the] {e}
    [hello again|a quick question|thank you|odds and ends|news|plans|an update|a reminder|this week|last night|sorry]
    {g} news
    {e}: [dates|plans|details|an update|reminder]
""")


def sentence(pool: Pool, templates: tuple[str, ...], people: dict[str, str]) -> str:
    """Return something that answers nothing; `people` has the names for {u} and {w}."""
    text = chosen(pool.rng, pool.rng.choice(templates))
    values = dict(people)
    for slot in sorted(slots(text) - people.keys()):
        values[slot] = _value(pool, slot)
    return filled(text, values).replace(" ,", ",")


def _value(pool: Pool, slot: str) -> str:
    lists = {"g": names.GROUPS, "x": names.THINGS, "y": names.THINGS, "e": names.EVENTS, "p": names.PLACES}
    drawn = pool.fresh(lists[slot])
    return f"the {drawn}" if slot == "p" else drawn
