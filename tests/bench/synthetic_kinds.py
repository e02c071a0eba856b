"""The sentences of the synthetic corpus: its kinds of facts, and the questions about them.

{it} stands for the subject of a sentence and {answer} for the fact. Knows nothing of documents and streams.
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


SCHOOL = (
    kind(
        *("school", "Class trips", "{it} is going to {answer} on the class trip."),
        "Where is {it} going on the class trip?; What is the destination of {it}'s class trip?; "
        "Which place does {it} visit on its trip?",
        "Class 3a; Class 4b; Class 5c; Class 6a; Class 2b",
        "the salt mine; the dairy farm; the observatory; the glass works",
    ),
    kind(
        *("school", "Teachers", "{answer} teaches {it} from the autumn."),
        "Who teaches {it} from the autumn?; Who is the new teacher for {it}?; Whose lessons in {it} begin in autumn?",
        "chemistry; handicraft; Latin; geography; swimming",
        "Mrs Ahrend; Mr Sollis; Mrs Quint; Mr Dorn",
    ),
    kind(
        *("school", "Tests", "The {it} test is written {answer}."),
        "When is the {it} test written?; What is the day of the test in {it}?; When do they sit the {it} test?",
        "fractions; grammar; vocabulary; history; biology",
        "on 27 May in the third lesson; on 4 June in the first lesson; on 12 June after the break; on 31 May at noon",
    ),
    kind(
        *("school", "What to bring", "For the {it} every child brings {answer}."),
        "What does every child bring for the {it}?; What must be packed for the {it}?; "
        "Which things are the children asked to bring to the {it}?",
        "forest day; museum visit; sports day; puppet play; cooking lesson",
        "rubber boots and a whistle; a pencil and a folding chair; two towels; an old sock with buttons",
    ),
    kind(
        *("school", "Rooms", "The {it} meets in {answer}."),
        "Where does the {it} meet?; In which room is the {it}?; What is the meeting place of the {it}?",
        "chess group; parents' council; school paper; robot club; reading circle",
        "room 12; the music room; the annexe by the gym; room 207",
    ),
)
OFFICE = (
    kind(
        *("office", "Deadlines", "The {it} is due {answer}."),
        "When is the {it} due?; What is the deadline of the {it}?; By when must the {it} be finished?",
        "annual report; tax folder; heating survey; tender document; trade fair leaflet",
        "on 24 May; on the last Friday of June; on 17 June before noon; on 3 July",
    ),
    kind(
        *("office", "Budgets", "The budget for the {it} is {answer}."),
        "What is the budget for the {it}?; How much money is set aside for the {it}?; "
        "How much may we spend on the {it}?",
        "new website; canteen kitchen; company outing; archive move; photo series",
        "4800 euros; 12500 euros; 950 euros; 3100 euros",
    ),
    kind(
        *("office", "Accounts", "{answer} looks after the {it} account."),
        "Who looks after the {it} account?; Who is in charge of the account of {it}?; "
        "Whom do I ask about the {it} account?",
        "Brandt; Oster; Kilian; Marbach; Velde",
        "Ruth Jansen; Oskar Prem; Lidia Sorg; Peer Halvers",
    ),
    kind(
        *("office", "Moving", "The {it} is moving to {answer}."),
        "Where is the {it} moving to?; What will be the new place of the {it}?; To which part does the {it} move?",
        "drawing office; accounts team; reception; print room; library",
        "the fourth floor; the former canteen; the wing above the gate; the ground floor of house B",
    ),
    kind(
        *("office", "Codes", "The code for the {it} is {answer}."),
        "What is the code for the {it}?; Which code do I type at the {it}?; What must I enter for the {it}?",
        "copier; side entrance; coffee machine; bicycle cage; projector",
        "4417; 9052; 2683; 7730",
    ),
)
STREET = (
    kind(
        *("street", "Street party", "At the street party {answer} takes care of the {it}."),
        "Who takes care of the {it} at the street party?; Who sees to the {it} for the party in our street?; "
        "Who has promised to look after the {it} at the party?",
        "benches; lanterns; lemonade; music; barbecue",
        "Mrs Tamm; the Novak brothers; old Mr Lind; the family from number 9",
    ),
    kind(
        *("street", "Holidays", "We know that {it} are away {answer}."),
        "When are {it} away?; During which days is the house of {it} empty?; How long are {it} on holiday?",
        "the Hansens; the Brooks; the Okoros; the Feldmans; the Rossis",
        "from 12 to 26 July; from 1 to 9 June; from 20 July to 3 August; from 5 to 18 August",
    ),
    kind(
        *("street", "Pets", "The {it} is called {answer}."),
        "What is the {it} called?; What name does the {it} have?; To which name does the {it} listen?",
        "tortoise of number 7; parrot of number 12; spaniel of number 3; cat of number 21; pony of number 30",
        "Tiberius; Madame Plum; Bosun; Pepperpot",
    ),
    kind(
        *("street", "Collections", "The {it} is collected {answer}."),
        "When is the {it} collected?; On which day do they fetch the {it}?; What is the collection day for the {it}?",
        "waste paper; garden waste; old glass; scrap metal; bulky waste",
        "every second Friday; on the first Monday of the month; on Wednesdays before seven; on 29 May",
    ),
    kind(
        *("street", "Tools", "We hear that {answer} has borrowed the {it} from the shed."),
        "Who has borrowed the {it} from the shed?; Who took the {it} out of the shed?; "
        "With whom is the {it} from the shed now?",
        "ladder; wheelbarrow; drill; tent; hedge trimmer",
        "Ida from the corner house; the new tenant; Mr Pavlov; the kindergarten",
    ),
)
KINDS = (*HOME, *CHOIR, *BOATS, *SCHOOL, *OFFICE, *STREET)
ABSENT = (
    "How old is the bell in the chapel tower?",
    "Which train goes to the coast on Sundays?",
    "What did the optician say about my glasses?",
    "How many eggs do the hens lay in winter?",
    "Who won the prize for the crossword?",
    "When does the swimming pool close for repairs?",
    "What is the title of the film about the lighthouse?",
    "Which bank holds the savings of the children?",
)
