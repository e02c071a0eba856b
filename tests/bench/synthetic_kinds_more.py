"""More sentences of the synthetic corpus: those of school, office and street, and questions that nothing answers."""

from tests.bench.synthetic_kinds import BOATS, CHOIR, HOME, kind

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
