"""Lists that people, events, things and places are drawn from; every sixth entry is kept for evaluation only."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


def _phrases(text: str) -> tuple[str, ...]:
    return tuple(entry.strip() for entry in text.split("|"))


FIRST = _words("""
    Alma Bela Carmen Dario Edith Farid Greta Hamza Ines Jonas Keiko Leon Marta Nadia Omar Petra Quentin Rosa
    Stefan Tessa Umar Vera Walter Xenia Yusuf Zora Adam Bruno Clara David Emil Fiona Gavin Helen Ivan Julia
    Karim Laura Mark Nora Oliver Paula Rachel Simon Tom Ursula Victor Wendy Yara Zack Beth Colin Doris Eric
    Frank Gloria Hugo Irene Jack Kate Liam Molly Neil Olga Paul Ruth Sarah Tim Uta Viola Will Ada Ben Chloe
    Dan Elsa Finn Grace Harry Isla Jim Kim Luke Maya Nina Owen Pia Rita Sam Tara Zoe Amir Boris Celia Dora
    Enzo Flora Gina Hans Ida Jean Klara Lars Mona Nils Otto Peggy Ralph Sven Thea Vito Wanda Anton Bianca
    Cyril Diego Esther Fergus Hilda Igor Jasper Kofi Lena Malik Noor Pablo Quinn Rafael Selma Theo Valerie
    Yvonne
""")
LAST = _words("""
    Abbott Baker Castillo Dietrich Ekström Fischer Garner Hoffmann Ibarra Jensen Kowalski Lambert Mbeki Novak
    Olsen Petrov Quigley Rossi Schmidt Tanaka Ueda Varga Walsh Young Zimmer Adler Brooks Carter Duval Evans
    Foster Gomez Hughes Ito Jacobs Keller Lopez Morris Nash Oakley Parker Reyes Sato Turner Underwood Vance
    Weber Yates Zhou Akers Bishop Cole Drake Ellis Frost Grant Hayes Irwin Jones King Lowe Mason Neal Orr Pike
    Rhodes Shaw Todd Vogel Wood Archer Bell Chan Doyle Engel Fry Gray Holt Ivers Joyce Kaya Lund Moss Nagy
    Osei Price Rowe Stone Thorn Upton Vidal Wells York Zeller Amari Bruun Conti Dubois Eze Farkas Gupta Haas
    Idris Jovanov Khan Larsen Mendes Nyberg
""")
EVENTS = _phrases("""
    concert|meeting|rehearsal|party|workshop|lunch|dinner|picnic|fair|market|lesson|training|course|exam|
    interview|excursion|hike|barbecue|wedding|funeral|reading|lecture|tour|match|race|tournament|film night|
    book club|quiz|auction|bake sale|open day|inspection|appointment|check-up|call|review|planning session|
    board meeting|committee meeting|parents' evening|school play|carnival|parade|clean-up|plant swap|
    flea market|yoga class|swimming lesson|dance class|language course|first aid course|choir practice|
    band practice|team meeting|staff meeting|birthday party|farewell party|house-warming|coffee morning|
    street party|bike tour|boat trip|day trip|field trip|museum visit|demo|launch|release|presentation|
    photo shoot|rally|vote|election|assembly|ceremony|service|retreat|conference|seminar|exhibition|opening|
    show|performance|festival|bonfire|treasure hunt|sports day|relay|sleepover|craft evening|game night|
    tasting|handover|viewing|delivery|repair session|blood drive|fire drill|general meeting
""")
KINDS = _words("""
    autumn winter harvest midsummer Easter annual monthly weekly next big first second final extra new school
    village family garden jazz charity office neighbours' youth senior morning evening Sunday Saturday Friday
    public private joint regional international local green open-air old mini special festive weekend
    half-term club science history chess football tennis poetry guitar pottery cooking running rowing cycling
    sailing photo garden model railway church hospital library museum project budget sales customer
    summerhouse lantern apple lavender pumpkin tulip lakeside riverside rooftop harbour castle forest mountain
    street market
""")
ADJECTIVES = _words("""
    red blue green yellow white black silver wooden old new large small long short heavy light spare folding
    broken second last good best electric portable round square paper plastic metal glass leather cotton
    woollen striped painted rusty clean empty full cheap signed printed framed lemon apple cherry walnut
    cheese potato rhubarb ginger rented borrowed missing lost blank laminated inflatable grey brown purple
    orange tall wide thin thick
""")
THINGS = _phrases("""
    cake|tent|ladder|drill|kettle|projector|keyboard|guitar|drum kit|microphone|speaker|cable|extension lead|
    lamp|lantern|table|bench|chair|sofa|carpet|curtain|key|lock|toolbox|hammer|saw|paint|brush|bucket|hose|
    wheelbarrow|lawn mower|bike|trailer|van|car seat|pram|helmet|raincoat|jacket|costume|hat|boots|folder|
    report|contract|invoice|budget|slides|handout|poster|flyer|banner|leaflet|newsletter|map|ticket|voucher|
    receipt|form|list|notes|minutes|camera|laptop|printer|charger|battery|torch|whistle|first aid kit|
    cash box|tablecloth|teapot|mugs|plates|cutlery|napkins|salad|soup|bread|pie|sandwiches|biscuits|jam|juice|
    lemonade|fruit|flowers|seedlings|compost|pot|vase|mirror|clock|radio|piano|violin|score|music stand|stage|
    backdrop|puppet|kite|ball|net|scoreboard|trophy|medal|certificate|photo album|quilt|pillow|blanket|
    sleeping bag|cool box|gas stove|firewood|rope|tarpaulin|gazebo frame|sign|noticeboard|freezer|fridge|oven|
    dishwasher|boiler|heater|pump|filter|tyre|chain|saddle|pedal|bell|lights|archive|password list|logbook|
    guest book|calendar|rota|schedule|survey|questionnaire|presentation|manuscript|translation|draft|letter|
    parcel|package|gift|present|card|bouquet
""")
PLACES = _phrases("""
    library|town hall|school hall|gym|canteen|church hall|community centre|sports centre|swimming pool|park|
    playground|car park|bus station|train station|harbour|boathouse|museum|theatre|cinema|café|bakery|pub|
    restaurant|hotel|kitchen|cellar|attic|garage|shed|garden|greenhouse|yard|workshop|office|meeting room|
    reception|staff room|classroom|music room|art room|laboratory|lobby|lounge|courtyard|roof terrace|
    market square|village green|barn|farm|mill|castle|chapel|clinic|pharmacy|post office|bank|bookshop|
    corner shop|depot|warehouse|club house|pavilion|stadium|campsite|beach|pier|bandstand|fire station|
    old brewery|youth club|day centre|registry office|observatory|botanical garden|ice rink|tennis court|
    cloakroom|top drawer|store room|filing cabinet|glove box|cupboard|pantry|letter box|hallway|basement|
    conservatory|vestry|bike shed
""")
CITIES = _words("""
    Lisbon Oslo Prague Dublin Turin Lyon Ghent Bergen Riga Porto Leeds York Bristol Cardiff Exeter Hull Dundee
    Derby Cologne Leipzig Basel Graz Malmö Turku Tampere Gdansk Brno Zagreb Split Athens Seville Bilbao Boston
    Denver Austin Kyoto Osaka Hanoi Lagos Nairobi Accra Cairo Lima Quito Bogotá Sydney Perth Auckland Toronto
    Montreal
""")
STREETS = ("Street", "Road", "Lane", "Avenue", "Square", "Hill", "Close", "Row", "Gardens", "Way", "Court", "Yard")
HALLS = ("Hall", "Centre", "House", "Rooms", "Theatre", "Chapel", "School", "Inn", "Barn", "Library", "Club", "Gallery")
COUNTED = _phrases("""
    chairs|tables|tickets|copies|people|guests|children|adults|members|volunteers|helpers|teams|players|
    runners|singers|pupils|visitors|families|cars|bikes|buses|boxes|bags|bottles|crates|books|posters|flyers|
    letters|replies|orders|complaints|votes|names|places|seats|rooms|beds|tents|sandwiches|cakes|pizzas|eggs|
    apples|trees|plants|bulbs|lamps|candles|plates|mugs|keys|pages|photos|songs|stalls|prizes|badges|T-shirts|
    lanterns|kilometres|lengths|signatures on the card|applications|bookings|cancellations|donations|parcels|
    laptops|computers|licences|tickets left|tiles|planks|panels|windows|doors|benches|bins|balloons|bicycles|
    bugs|tests|questions|mistakes|goals|points|laps|hens|sheep|dogs|cats|tadpoles|jars|loaves|litres of soup|
    metres of rope|rolls of tape|bags of sand
""")
ROLES = _phrases("""
    treasurer|chair|secretary|conductor|caretaker|coach|captain|head teacher|manager|director|editor|
    accountant|lawyer|plumber|electrician|gardener|cook|driver|translator|photographer|librarian|nurse|doctor|
    dentist|landlord|architect|new tenant|team leader|project lead|contact person|minute taker|deputy|
    webmaster|trainer|referee|cleaner|goalkeeper|soloist|drummer|pianist|guide|lifeguard|substitute|
    first aider|key holder|press officer|tutor|cashier|auditor|vice chair|stage manager|youth leader|
    ticket seller|building manager|recruiter|designer
""")
ATTRIBUTES = _phrases("""
    password|code|door code|phone number|order number|booking number|reference|account number|room number|
    theme|title|motto|colour|name|address|size|model|topic|nickname|slogan|email address|postcode|
    serial number|PIN|link|invoice number|flight number|bus number|table number|stall number|ticket number|
    gate code|team name|brand|type|subject|dress code|menu|main course|dessert|flavour|prize|first prize|
    reason for the delay|weather forecast|version|recipe|result|score|licence number|case number|platform|
    locker number|parking space|file name
""")
GROUPS = _phrases("""
    choir|club|team|committee|council|board|society|band|orchestra|school|class|co-operative|allotment group|
    union|parish|department|association|playgroup|book group|walking group|tenants' group|company|charity|
    rowing club|tennis club|chess club|youth orchestra|nursery|museum|food bank|repair group|drama group
""")
