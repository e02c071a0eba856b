"""The sentences of the synthetic corpus: kinds of things that mail and meetings tell, and what is asked about them.

In each, {it} is what the sentence is about and {answer} what it tells of it. Knows nothing of documents and streams.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fact: where it belongs, how it is told, three ways to ask, whose it may be and what may be told."""

    circle: str
    topic: str
    told: str
    asked: tuple[str, ...]
    things: tuple[str, ...]
    answers: tuple[str, ...]


def kind(circle: str, topic: str, told: str, asked: str, things: str, answers: str) -> Kind:
    """Make a kind of texts in which "; " parts what there is several of."""
    return Kind(circle, topic, told, tuple(asked.split("; ")), tuple(things.split("; ")), tuple(answers.split("; ")))


HOME = (
    kind(
        *("home", "Dentist", "{it} has to be at the dentist on {answer}."),
        "When does {it} have to be at the dentist?; What is the date of {it}'s dentist appointment?; "
        "On which day does the dentist expect {it}?",
        "Nora; Emil; Grandma; Jonas; Aunt Lotte",
        "Monday 3 June at 9.15; Thursday 23 May at 14.40; Tuesday 11 June at 8.00; Friday 7 June at 16.20",
    ),
    kind(
        *("home", "Keys", "The spare key of the {it} hangs {answer}."),
        "Where is the spare key of the {it}?; Where does the extra key for the {it} hang?; "
        "In what place do we keep the second key of the {it}?",
        "cellar; bicycle shed; caravan; garage; attic",
        "behind the blue curtain; inside the old clock; on the nail under the stairs; next to the fuse box",
    ),
    kind(
        *("home", "Repairs", "Mending the {it} will come to {answer}."),
        "How much will mending the {it} cost?; What does the repair of the {it} come to?; "
        "What is the price for getting the {it} mended?",
        "dishwasher; skylight; piano stool; oven door; gutter",
        "86 euros; 240 euros; 55 euros; 132 euros",
    ),
    kind(
        *("home", "Recipes", "The secret of the {it} is {answer}."),
        "What is the secret of the {it}?; Which ingredient makes the {it} special?; "
        "What goes into the {it} that nobody expects?",
        "plum cake; pea soup; apple pie; nut bread; fish stew",
        "a spoon of mustard; grated orange peel; a cup of cold coffee; two crushed juniper berries",
    ),
    kind(
        *("home", "Numbers", "The {it} can be reached at {answer}."),
        "What is the telephone number of the {it}?; Which number do I dial for the {it}?; "
        "How do I reach the {it} by telephone?",
        "chimney sweep; vet; locksmith; plumber; piano tuner",
        "0471 22 61 90; 0471 80 13 45; 0472 51 07 33; 0473 94 28 16",
    ),
)
CHOIR = (
    kind(
        *("choir", "Rehearsals", "The {it} rehearse {answer}."),
        "When do the {it} rehearse?; At what time is the rehearsal of the {it}?; "
        "When does practice take place for the {it}?",
        "altos; tenors; basses; sopranos; young singers",
        "on Tuesdays at 19.30; on Wednesdays at 18.15; on Mondays at 20.00; on Saturdays at 10.30",
    ),
    kind(
        *("choir", "Concerts", "We sing the {it} in {answer}."),
        "Where do we sing the {it}?; In which place is the {it} performed?; What is the venue of the {it}?",
        "Easter programme; summer serenade; autumn mass; Advent concert; jubilee concert",
        "the old riding hall; the chapel by the mill; the town library; the courtyard of the brewery",
    ),
    kind(
        *("choir", "Soloists", "{answer} takes the solo in the {it}."),
        "Who sings the solo in the {it}?; Who has been chosen as soloist for the {it}?; "
        "Whose voice will we hear alone in the {it}?",
        "evening hymn; shepherd's song; harvest song; ballad; lullaby",
        "Miriam Kolb; Theo Wirth; Selma Aune; Bruno Petz",
    ),
    kind(
        *("choir", "Scores", "We have ordered {answer} of the {it}."),
        "How many copies of the {it} did we order?; How many scores of the {it} were ordered?; "
        "What number of copies have we ordered of the {it}?",
        "motet; madrigal; requiem; psalm; cantata",
        "38 copies; 52 copies; 24 copies; 61 copies",
    ),
    kind(
        *("choir", "What to wear", "For the {it} everybody wears {answer}."),
        "What do we wear for the {it}?; Which clothes are asked for at the {it}?; How should I dress for the {it}?",
        "matinee; church visit; town festival; radio recording; garden concert",
        "dark blue with a red scarf; black without jewellery; white shirts and grey trousers; something green",
    ),
)
BOATS = (
    kind(
        *("boats", "Berths", "The {it} lies at {answer}."),
        "Where does the {it} lie?; At which berth do I find the {it}?; Where is the {it} moored?",
        "Petrel; Merganser; Kittiwake; Old Gull; Sandpiper",
        "berth 14 of the east pier; berth 3 by the crane; berth 27 near the fuel barge; berth 9 of the long jetty",
    ),
    kind(
        *("boats", "Skippers", "{answer} is skipper of the {it} this season."),
        "Who is skipper of the {it} this season?; Who steers the {it} this year?; "
        "Who has charge of the {it} for the season?",
        "Curlew; Dunlin; Tern; Teal; Heron",
        "Hedda Moss; Anton Lerch; Greta Vint; Klaus Orsted",
    ),
    kind(
        *("boats", "Fees", "The fee for a {it} is {answer} a year."),
        "How much is the fee for a {it}?; What does a {it} cost each year?; What do we pay yearly for a {it}?",
        "winter place; locker; mast rack; trailer space; dinghy stand",
        "140 euros; 35 euros; 62 euros; 210 euros",
    ),
    kind(
        *("boats", "Regattas", "The {it} starts {answer}."),
        "When does the {it} start?; What is the starting time of the {it}?; When must we be on the line for the {it}?",
        "Whitsun race; night race; island race; children's regatta; veterans' cup",
        "on 8 June at 10.00; on 22 June at 21.30; on 6 July at 9.15; on 13 July at 13.45",
    ),
    kind(
        *("boats", "Paint", "The {it} is to be painted {answer}."),
        "What colour is the {it} to be painted?; Which colour did we choose for the {it}?; "
        "In what paint will the {it} be done?",
        "jetty rail; club door; slipway hut; tender; flagpole",
        "moss green; signal red; pale grey; cornflower blue",
    ),
)
