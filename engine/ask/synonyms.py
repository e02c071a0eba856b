"""Everyday synonyms: words that a question may use for one another.

General English, made by hand; knows no question and no corpus. Two words that it does not bring together are two.
"""

from engine.ask.inflection import base, one_root

# A word may be in several groups, and what two groups share does not join them. Left out is what tells the things of
# a life apart: meals, relatives, vehicles, rooms, kinds of mail.
_GROUPS = """
ability capacity, ability faculty, ability skill, able allow, able capable, about approximately around roughly, about
concerning regarding, abroad overseas, abrupt sudden, abuse misuse, academic scholar, accept acknowledge, accept
agree, accept embrace, accept receive, accident crash, accomplish achieve attain, accomplishment achievement success,
account report, account story, accountable responsible, accurate correct exact precise, accuse blame, ache pain,
achieve reach, achieve realize, acknowledge recognize, acquire gain get obtain, act behave, act perform, act serve,
action activity, action deed, active energetic, activity operation, actual real true, adapt adjust, additional extra
further, address discuss, address speech talk, administration government, admire respect, admit confess, advance
improve, advance progress, advance promote, advantage benefit, adversary opponent rival, advice counsel, advise
recommend suggest, affect impact influence, afraid frightened scared, age century, age era period time, agenda
program, aggressive violent, agree consent, agreement contract, agreement deal, agreement pact treaty, ahead forward,
aid assist help support, aid relief, aim goal intent purpose, aim goal intention objective purpose target, alert warn,
alien foreign, alike similar, allow enable let permit, allow grant, alter change modify, alternative option, amend
change revise, amount number quantity, amount sum, amount volume, amusing funny, analyze study, anger fury rage,
announce declare proclaim, announcement statement, annoyed irritated, annual yearly, annul cancel, answer reaction
response, answer reply respond, answer solution, anticipate expect, anxious nervous, apart separate, apartment flat,
appear emerge, appear look seem, apply employ use utilize, apply implement, appoint name nominate, appreciate value,
approach method way, approve endorse, approximate estimate, area district, area domain, area field, area place, area
region zone, area space, area territory, argue assert claim contend maintain, argue debate, argue quarrel, argument
dispute, arise emerge, arm weapon, armed military, arms weapons, army military troops, arrange organize, arrive attain
reach, arrive come reach, arrive settle, article piece, article report, ask enquire inquire request, ask invite,
assemble collect gather, assess estimate guess, assess evaluate, assess judge, assignment task, assistance support,
associate attach connect join link, associate partner, associated connected linked related, association connection
link, association institution organization, association society, association union, assume suppose, astonish surprise,
attack invade, attempt effort, attempt try, attend visit, attitude opinion thought view, attorney lawyer solicitor,
attract draw, attribute characteristic feature property trait, author writer, authority jurisdiction, authority
official, authority power, automobile car, autonomous independent, autumn fall, average mean, avoid prevent stop,
award prize, aware conscious, awful terrible, back rear, back support, background history, backing support, bag
baggage luggage, ban forbid prohibit, band group, base bottom, base station, based founded, basic fundamental, basic
simple, basically essentially, battle combat fight, be exist live, be lie, be stand, beautiful lovely pretty, become
turn, begin come originate start, begin commence initiate launch start, begin launch release start, beginning onset
outset start, belief faith, believe consider think, believe trust, bicycle bike, big great huge large, big major, bill
invoice, birthplace home, blend mix, block prevent, board council, boat ship vessel, bodily physical, body
organization, bond link, book volume, boost increase raise rise, border boundary, border limit, boss manager
supervisor, brand make, brave courageous, break crack, break divide, break pause, break smash, break split, breath
respiration, breathe respire, brief short, bring deliver, broad general, broad wide, buddy friend pal, budget funds,
build construct erect, build make, build manufacture, building construction, building structure, bunch group, bureau
office, burn fire, business company corporation enterprise firm, buy purchase, calculate compute, call name term
title, call phone ring telephone, called dubbed named titled, calm quiet, camp side, campaign drive, capital money,
capture catch, capture seize take, career occupation profession, careful cautious, carry conduct perform, carry convey
transport, case instance, cash money, catch trap, category class kind sort type variety, category group, cause create
produce, cause make, cause reason, cause source, cease end quit stop, celebrated famous renowned, cemetery graveyard,
center heart, center middle, central main, central middle, certain definite, certain particular specific, certain
sure, chair chairman chairperson chairwoman president, challenge difficulty, challenge problem, chamber room, chance
opportunity, chance possibility, change convert transform, change replace, change shift, change transition, channel
network, channel station, character nature, characterize describe, charge cost, charge fee, chat talk, cheap
inexpensive, check control, chief leader, chief main principal, child kid, choice decision, choice option, choice
preference, choice selection, choose elect vote, choose pick select, circumstance condition situation, cite mention
refer, citizen national, citizen resident, citizen subject, city town, claim demand, claim statement, clarify explain,
clash conflict, class course, class group, clean pure, clean wash, clear obvious, clear transparent, clever
intelligent smart, client customer, close end, close near, close shut, closing ending, clothe dress, clothe wear,
clothes clothing garments, clue hint, coach trainer, collapse fail, collection set, college university, combine
incorporate, combine integrate, combine join, combine merge unite, command control, command order, command rule,
commend praise, comment remark, commerce trade, commission order, commit perform, common frequent usual, common
general typical usual, common shared, common widespread, commonly usually, communal social, community society, compare
contrast, compassion sympathy, compel force, compensate pay, compensation payment, competition contest, competitor
rival, complete entire full whole, complete entire total whole, complete finish, complex complicated, comply obey,
component element part, compose write, composed comprised consisting made, comprehend grasp understand, comprise
contain include incorporate, computer machine, conceal hide, concept idea notion thought, concern involve, concern
worry, concert gig, conclude end finish, conclusion ending, condemn denounce, condition requirement, condition state,
conference convention, confidence trust, confine limit restrict, confirm verify, conflict dispute, conflict war,
connect relate, connection relation relationship, conquer defeat, consequence effect outcome result, conserve preserve
protect, consider judge, consider regard see view, constant continuous, constraint restriction, consume eat, consumer
customer, consumer user, contact reach, contact touch, contain hold, contained included, contemporary current modern,
content pleased satisfied, contest race, continue proceed, continue remain, contribute help, contribution input,
control dominate, control govern, control manage, convention meeting, cop officer policeman, copy duplicate, correct
proper, correct right, correct true, cost expense price, costly expensive, count number, count rely, country land,
country nation state, country rural, couple pair, course path, cover include, crazy mad, create develop, create devise
invent, create establish form found make, create establish found set start, create generate make produce, creation
formation making, crime offense, crisis emergency, critical crucial essential vital, criticism critique, crop harvest,
crude rough, current present, custom practice, custom tradition, cut reduce, cut reduction, damage harm, danger hazard
peril risk, danger threat, dangerous hazardous, data information, data statistics, date day, dead deceased, deadly
fatal lethal, deal handle manage, deal trade, debate discuss, debate discussion, decease die pass perish, decide
determine, decline decrease drop fall, decline refuse reject, decrease lessen reduce, dedicate devote, defeat
overcome, defect fault flaw, defend protect safeguard, define describe, degree extent, degree level, delete eliminate
remove, deliver distribute, deliver provide, deliver supply, demand insist, demand need require, demand request,
demolish destroy, demonstrate protest, demonstrate prove show, denote mark, depart leave quit, department division,
depend rely, depict portray represent, design plan, desire need, desire want wish, detect discover find notice,
determine establish, determine find, determine identify, develop devise, develop evolve, develop expand, develop form,
develop grow, develop industrialize, development growth, development progress, device gadget, device machine, device
tool, differ disagree, differ vary, difference distinction, different distinct separate, different various, difficult
hard tough, difficulty issue problem trouble, diminish reduce, direct lead, direct manage, direction leadership,
direction way, disappear vanish, discipline field subject, disclose reveal show, discover learn, discuss talk,
discussion talk, disease illness sickness, dislike hate, dismiss fire sack, display exhibit show, display screen,
distance range, distant far, distant remote, distribute share spread, distribute supply, diversity variety, divide
separate split, divide share, division section, do execute perform, do perform take, doctor physician, document file,
document paper, document record, domain field, donate give, doubt suspect, draw sketch, dress wear, drive motivate,
drop release, drug medication medicine, during throughout, duty liability responsibility, duty obligation
responsibility, duty role, duty task, dwell inhabit live reside, earlier prior, earn make receive, earnings income,
earth world, easy simple, educate teach, education schooling, education training, effect impact influence, effective
efficient, effort struggle, elapse pass, elder senior, elect select, element factor, email mail, emotion feeling,
emphasize stress, employ hire recruit, employee worker, employment job work, empty vacant, encircle surround,
encounter face meet, encourage inspire, encourage promote, encourage urge, end finish stop terminate, endure survive,
enemy foe, energy force, energy power, engage involve, engage participate, enhance improve increase, enjoy like love,
enlarge expand, enormous huge, enough sufficient, enroll register, ensure guarantee, enter join, enumerate list,
environment setting, environment surroundings, equal equivalent, equip furnish, error mistake, escape flee, essential
fundamental, essential important necessary vital, estate property, evaluate judge, even smooth, evening night, event
happening, event incident occurrence, evidence proof, exact specific, exam examination test, exam test trial, examine
inspect study, examine research study, example instance, example model, exceed surpass, excellent great outstanding,
exchange swap trade, exclude omit, exercise practice, exhausted tired, exhibition show, expand extend grow increase,
expand grow increase rise, expand spread, expansion growth increase, experience undergo, experienced skilled,
experienced veteran, experiment test, expert professional, expert specialist, explore investigate, express state,
express voice, expression phrase, expression term, extend spread, extend stretch, extent scope, exterior surface,
extract remove, extremely highly very, face front, facility plant, fact truth, factory plant, fail flunk, fair just,
fair reasonable, famous notable prominent, famous notable renowned, famous popular, fan supporter, fashion style, fast
quick rapid swift, favor prefer, favorable positive, favorite preferred, feature quality, fee payment, feeble weak,
feel sense, few little, fight struggle, fight war, figure number, figure person, figure shape, figure statistic, fill
occupy, film movie, film picture, finance fund money, find identify, find locate, fine penalty, firearm gun, fired
shot, fit healthy, fit match, fit suit, fix mend repair, fix solve, flow stream, folk people, follow pursue, follow
succeed, food meal, force power, force pressure, force strength, force violence, forecast foresee predict, form kind
type, form shape, form version, formal official, fortune riches wealth, free liberate release, freedom liberty,
frequency rate, frequent regular, frequently often, fresh novel recent, friendly kind, frighten scare, fruitful
productive, fuel power, function operate, function operation, function purpose role, function work, fund sponsor,
funds money, gain obtain win, gain profit, gain receive, game match, gather meet, gauge measure, general universal,
get obtain receive, gift present, give grant offer provide supply, give present, glad happy pleased, global
international worldwide, globe world, go leave, go move, go travel, good well, goods merchandise, goods product,
govern rule, government state, grab seize, grab take, grade level, grade mark, gradual slow, grant subsidy, grave
serious, great wonderful, ground land, ground reason, group organization, group set, group team, group type, guess
suppose, guide lead, gun weapon, halt stop, handle manage run, handle treat, happen occur, happen take, hard solid,
harm hurt injure, harmony peace, have hold possess, have include, have own possess, head lead, head leader, head
president, helpful useful, hidden secret, high tall, highlight stress, hill mount, hit strike, hold host organize,
hold keep retain, hold maintain, hold occupy, holiday vacation, home house residence, honest truthful, hope wish, huge
vast, human individual people person, hypothesis theory, idea plan, idea suggestion, idea theory, ideal perfect,
identify name, identify recognize, ill sick, illegal unlawful, illustrate show, image photo photograph picture,
immediate instant, implement tool, importance value, important key major significant, impoverished poor, improve
reform, improvement progress, inability incapacity, incline tend, include involve, income revenue, incorporate
integrate, incorrect wrong, indicate show suggest, indication sign, indigenous local, indigenous native, individual
single, industry sector, influence power, inform tell, inhabitant resident, initiative plan, inspire motivate,
instruct teach, instruction order, instruction teaching, instructor teacher, instrument tool, insult offend, intend
plan, interpret understand, introduce launch, introduce present, investigate research study, investigation study,
isolated separated, issue matter, issue publish release, issue topic, item object thing, item product, jail prison,
job occupation work, job profession, job task, journalist reporter, journey travel, journey trip voyage, keep maintain
retain, keep save, keep store, kill murder slay, king monarch, know recognize, know understand, knowledge
understanding, known noted, known recognized, label name, lack need, land property, land region territory, landlord
owner, laptop notebook, large major, large significant, largely mainly, late tardy, launch open, launch opening, law
legislation statute, law principle, law rule, lawful legal, layer level, lead result, leader monarch ruler, leading
main, learn study, lease rent, leave quit resign, left remaining, leisure recreation, liberal progressive, license
permit, lift raise, liked popular, limit restriction, link relation, link relationship, link tie, list name, little
small tiny, located placed, located situated, location place position site, look search, look seek, lose misplace,
lost missing, lot many, loud noisy, love passion, magnitude size, mail send, main major primary principal, main prime,
make manufacture produce, making production, manage operate run, manner way, manufacturer producer, many much, many
multiple several, many numerous, march walk, mark sign, market sell, marriage wedding, marry wed, mass weight,
material matter, material stuff, material substance, matter subject, matter topic, mean signify, meaning sense, means
medium, means method, means way, measure size, measure step, mechanism process, media press, meeting session, member
participant, mention note, mention reference, mention say state, message note, method procedure technique way, method
process, method system, mirror resemble, mission task, model pattern, model type, modern recent, monitor watch, motto
slogan, mountain peak, move relocate shift, move transfer, move transport, narrow thin, nation people, nearly roughly,
necessary needed required, necessity need requirement, need want, network system, news report, nice pleasant, noise
sound, normal ordinary usual, normal regular, normal standard, normal typical usual, notice observe, notice see,
notice spot, object oppose, object purpose, observe see watch, odd strange weird, odor scent smell, offer propose,
offer volunteer, officer official, open start, operate run work, operation surgery, opportunity possibility, oppose
resist, opposite reverse, order sequence, organize structure, origin source, output production, overall sum total
whole, pace speed, package parcel, painting picture, part piece portion section, part region, part role, part segment,
part share, part side, part unit, partially partly, particular special specific, passenger traveler, path route way,
pauper poverty, pay salary wage, pay spend, peak top, pen write, penalize punish, people population, people society,
perceive see view, percent percentage proportion, perform play, performance show, period term, person somebody,
personnel staff, pertinent relevant, phase stage, piece work, place put, place region, place seat, place spot, plain
simple, plan policy, plan prepare, plan program, plan project scheme, plan proposal, plan schedule timetable, plan
strategy, pledge promise vow, plot scheme, point spot, policy rule, portion share, position post, position rank,
position stand, position status, position view, possible potential, power strength, powerful strong, precise specific,
preference priority, prepared ready, prepared willing, present show, press push, pressure stress, prevent prohibit,
price rate, price value, principle rule, principle theory, print publish, prize reward, procedure process, produce
yield, professor teacher, program show, promote support, proper right, property quality, proposal suggestion, propose
put, propose recommend suggest, prosperous successful, provide serve, pupil student, purpose reason, pursue seek, put
set, quality standard, query question, quiet silent, quit retire, range scope, range variety, rare uncommon, rate
speed, react respond, read study, realize understand, rebel revolt, rebellion revolt uprising, recall remember,
recover regain, recur repeat, refer relate, reflect show, regard respect, regular usual, regulation rule, relate tell,
related relevant, relax rest, rely trust, remain stay, remain wait, remainder rest, remove take, render translate,
renew restore, replace substitute, report say, report state, repress suppress, require want, rescue save, researcher
scientist, resolve settle solve, resource supply, responsibility task, restart resume, rich wealthy, river stream,
road street, rob steal, room space, sad unhappy, sad upset, safe secure, safety security, say tell, scale size, scene
setting, scheme system, school university, search seek, section segment, see view watch, see visit, seek want, sell
vend, send transmit, sequence series, serious severe, shake tremble, shock surprise, shop store, short small, sign
signal, sign symbol, site spot, slight small, slim thin, smart wise, soldier troop, sound tone, sound voice, speak
talk, specify state, spend use, squad team, staff team, stage step, stay wait, still yet, storm tempest, story tale,
stroll walk, stuff things, style type, subject theme topic, sum summarize, suppose think, task work, teach train,
technique technology, term word, test try, text writing, throw toss, tour trip, trace track, transfer transport,
triumph victory win, unclear vague, uncommon unusual, usage use, value worth, vocabulary words, young youth, young
youthful
"""


def _memberships() -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for number, group in enumerate(" ".join(_GROUPS.split()).split(", ")):
        for word in group.split():
            found.setdefault(base(word), set()).add(number)
    return {word: frozenset(groups) for word, groups in found.items()}


_MEMBERSHIPS = _memberships()
_NONE = frozenset[int]()


def akin(one: str, other: str) -> bool:
    """Tell whether two base forms ask for the same: equal, of one root, or synonyms."""
    return one == other or bool(_shared(one, other)) or one_root(one, other)


def _shared(one: str, other: str) -> frozenset[int]:
    return _MEMBERSHIPS.get(one, _NONE) & _MEMBERSHIPS.get(other, _NONE)
