"""Plain English words, and syllables to make up others from; the tokenizer learns its pieces from them too."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


WORDS = _words("""
    able about above accept account across action active actual add address advance advice afford after again
    against age agree ahead air almost alone along already also although always among amount angle animal
    another answer any apart appear area argue arm army around arrange arrive art article ask attack attempt
    attend author avoid award away baby back bad bag balance band bank bar base basic basket battle bear beat
    beautiful become before begin behind believe belong below beneath benefit between beyond bill bird birth
    bite block blood blow board body bone book border born both bottle bottom bowl box brain branch brave
    break breath brick bridge bright broad brother build burn business busy button buy calm camp cancel
    capital care carry case catch cause centre century certain chance change chapter charge chase check chest
    chief choice circle citizen claim class clear clever climb close cloth cloud coast coat coin collect
    college colour column comfort command common company compare complete concern condition connect consider
    contain content continue control cook copper copy corn corner correct cost cotton count country couple
    courage cousin cover crack craft create credit cross crowd crown cup current curve custom cycle damage
    dance danger dare dark daughter dear debate decide deep defence degree deliver demand depend depth desert
    design desire detail develop dinner direct discover discuss disease distance divide double doubt dozen
    dream dress drink drop dry during dust duty eager early earn earth ease east edge effect effort eight
    either elect else empire employ empty end enemy engine enjoy enough enter entire equal escape even event
    ever every exact example except exchange exercise exist expect expert explain express extra eye face fact
    fail faith fall false famous fashion fast fate fault favour fear feather feature feed feel fellow fence
    few field fight figure fill final find finger finish fire firm fish fit flag flame flat flight float flood
    floor flow fold follow food foot force foreign forest forget forgive form forward frame free freeze
    frequent fresh friend front fuel funny further future gain gap gas gate gather general gentle giant glad
    goal gold govern grain grand grass grave great ground group grow guard guess guide habit hair half hammer
    hang happen hard harm harvest haste hate heal health heap hear heart heat heaven height help hide hire
    hobby hold hole hollow holy honest hope horn horse host hot hour huge human humble hunger hunt hurry hurt
    ice idea ill image imagine improve inch include income increase indeed industry inform inside instead
    insure iron island issue jewel join joke journey joy judge jump just keen keep kick kind kiss kneel knife
    knock knot labour lack lake lamb land large late laugh law lay lazy lead leaf learn least leather leave
    left lend length less level liberty lie life lift limb limit line lip liquid listen little live load local
    log lonely loose lose loss loud love low loyal luck machine main make manage manner many march mark marry
    master match matter maybe meal mean measure meat medicine melt member memory mend mention merchant mercy
    merry message middle might mile milk mind mine mineral minister minute mistake mix modern moment month
    moon moral mother motion mouse mouth move much murder muscle must mystery narrow nation native nature near
    neat neck need neighbour neither nephew nerve nest never noble noise none noon nor north nose note nothing
    notice number nurse obey object ocean odd offer often oil once onion only operate opinion oppose orange
    order ordinary organ origin ought outside over owe own pack pain pair pale pardon parent part pass past
    path patient pattern pause pay peace pearl pen pencil pepper perfect perform perhaps permit person pick
    piece pigeon pile pin pinch pink pipe pity plain plan plank plaster play pleasant plenty plough pocket
    poem point poison polish polite pool poor popular possess possible pour powder power practice praise pray
    prefer prepare pretty prevent pride priest prince print prison probable problem produce profit promise
    proof proper protect proud prove provide pull pump punish pupil pure purpose push puzzle quality quantity
    quarrel quarter queen quick quiet quite race rail rain raise range rank rapid rare rate rather raw reach
    ready real reason receive recent recognise record reduce refer reflect refuse regard regret regular relate
    relative remain remedy remember remind remove rent repeat replace report request rescue respect rest
    result return reward rice rich ride right ring ripe rise risk rival river road roast rock roll roof room
    root rough round row royal rub rubber rude ruin rule run rush sacred sad saddle safe sail salt same sand
    satisfy sauce save scale scatter scene science scrape scratch screen screw sea search season second secret
    see seed seize seldom sell send sense sentence separate serious servant settle seven several severe shade
    shake shallow shame shape share sharp shave sheet shelf shell shelter shine ship shock shoot shore
    shoulder shout shower shut sick side sight signal silence silk silver similar simple since sing sink
    sister situation size skill skin skirt sky slave slide slight slip slope slow smell smile smoke smooth
    snake snow soap social society soft soil soldier solemn solid solve some soon sorrow sort soul sound sour
    south space spade spare speed spell spend spill spin spirit spite splendid split spoil spoon spot spread
    square staff stage stain stairs stamp standard staple star start state station stay steady steam steel
    steep stem step stick stiff still sting stir stock stomach stop storm story stove strange straw stream
    strength stretch strict strike string strip stroke strong struggle study stuff subject substance succeed
    such sudden suffer sugar suggest suit supper supply support suppose sure surface surprise surround suspect
    swallow swear sweat sweep sweet swell swim swing sword sympathy system tail talk tall tap taste tax tea
    teach tear tell temper temple tempt tend tender term test than thank theatre thick thief thin thing think
    thirst thorn thread threat throat through throw thumb thunder tide tie tight tin tip tire title tobacco
    together tomorrow tone tongue tonight tool tooth top total touch tough towards tower town track trade
    train translate trap travel treasure treat tree tremble tribe trick trip trouble true trunk trust truth
    try tube tune turn twist type ugly uncle under universe unless until upper upright upset urge use usual
    vain valley value variety various veil verse very vessel victory view village violent virtue visit voice
    vote voyage wage waist wait wake walk wall wander want war warm warn wash waste watch water wave wax way
    weak wealth weapon weather weave weed weigh welcome well west wet wheat wheel whether which while whip
    whisper whistle whole wicked wide widow wild win wind window wine wing wipe wire wisdom wise wish with
    within without witness woman wonder wood wool word work world worm worry worse worship worth wound wrap
    wreck wrist write wrong yard yellow yesterday yet yield youth zone
""")
ONSETS = _words("""
    b bl br c ch cl cr d dr f fl fr g gl gr h j k kl kn l m n p pl pr qu r s sc sh sk sl sm sn sp st str t th
    tr v w y z
""")
VOWELS = _words("a e i o u a e i o u ai ea ee ie oa oo ou y")
CODAS = ("", "", "", *_words("b ck d f g k l ll m n nd ng nt p r rd rk rn rt s sh ss st t th x z"))
