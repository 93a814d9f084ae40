"""British spellings of English words → American ones, of common words only.

    colour, colours, coloured → color, colors, colored            by endings, of the stems listed here
    grey → gray                                                   by words

It is a list of our own and far from complete: words that are not in it stay as they are written.
"""

from __future__ import annotations

import re

OUR = """arb ard arm behavi cand clam col demean endeav enam fav ferv flav harb hon hum lab neighb od parl rig
rum savi sav splend succ tum val vap vig""".split()
"""colour → color."""
ISE = """agon analog antagon apolog author autom bapt brutal capital categor central character civil colon computer
critic crystall custom dramat econom emphas energ equal familiar fantas fertil final formal general global
harmon hospital ideal immun individual industrial initial internal itali jeopard legal local material maxim
memor minim mobil modern monopol national neutral normal optim organ patron penal personal polar popular priorit
privat public random rational real recogn revital revolution scrutin social special stabil standard steril
subsid summar symbol sympath synchron terror util vandal verbal visual""".split()
"""organise → organize, also reorganise."""
DOUBLED = """cancel channel counsel dial duel equal fuel grovel jewel label level marvel model panel pedal quarrel rival
shovel signal snivel spiral total towel travel tunnel""".split()
"""travelled → traveled."""
PLAIN = dict(
    pair.split(":")
    for pair in """
    acknowledgement:acknowledgment aeroplane:airplane aeroplanes:airplanes ageing:aging aluminium:aluminum
    anaemia:anemia anaesthetic:anesthetic analogue:analog analogues:analogs analyse:analyze analysed:analyzed
    analyses:analyzes analysing:analyzing archaeology:archeology armoury:armory axe:ax calibre:caliber
    catalogue:catalog catalogued:cataloged catalogues:catalogs cheque:check cheques:checks cosy:cozy
    counsellor:counselor counsellors:counselors defence:defense defences:defenses dialogue:dialog
    dialogues:dialogs doughnut:donut doughnuts:donuts draught:draft draughts:drafts encyclopaedia:encyclopedia
    enrol:enroll enrols:enrolls enrolment:enrollment fibre:fiber fibres:fibers foetus:fetus fulfil:fulfill
    fulfils:fulfills fulfilment:fulfillment grey:gray greys:grays greyer:grayer haemoglobin:hemoglobin
    instalment:installment instalments:installments jeweller:jeweler jewellery:jewelry judgement:judgment
    judgements:judgments kerb:curb licence:license licences:licenses litre:liter litres:liters
    manoeuvre:maneuver manoeuvres:maneuvers marvellous:marvelous meagre:meager mediaeval:medieval mould:mold
    moulds:molds mouldy:moldy moustache:mustache moustaches:mustaches oestrogen:estrogen offence:offense
    offences:offenses orthopaedic:orthopedic paediatric:pediatric paediatrician:pediatrician paralyse:paralyze
    paralysed:paralyzed plough:plow ploughs:plows ploughed:plowed ploughing:plowing practise:practice
    practised:practiced practising:practicing pretence:pretense programme:program programmes:programs
    pyjamas:pajamas sceptic:skeptic sceptical:skeptical sceptics:skeptics skilful:skillful smoulder:smolder
    sombre:somber storey:story storeys:stories sulphur:sulfur towards:toward traveller:traveler
    travellers:travelers tyre:tire tyres:tires wilful:willful woollen:woolen yoghurt:yogurt yoghurts:yogurts""".split()
)
"""Words as a whole."""

_OF_OUR = "s ed er ers ing able ably ful hood hoods ite ites less al ally ly y".split()
_OF_ISE = "e es ed er ers ing ation ations able".split()
_ENDINGS = [
    (re.compile(pattern), form)
    for pattern, form in (
        (rf"((?:dis|un|mis)?(?:{'|'.join(OUR)})o)u(r(?:{'|'.join(_OF_OUR)})?)", r"\1\2"),
        (rf"((?:re|de|dis|un)?(?:{'|'.join(ISE)})i)s((?:{'|'.join(_OF_ISE)}))", r"\1z\2"),
        (r"((?:centi|kilo|milli|micro|nano)?met|cent|spect|lust|theat|amphitheat)re(s?)", r"\1er\2"),
        (rf"({'|'.join(DOUBLED)})l((?:ed|ing|er|ers))", r"\1\2"),
    )
]


def american(word: str) -> str:
    """A lower-case word in American spelling, where the lists here know it."""
    if (known := PLAIN.get(word)) is not None:
        return known
    for pattern, form in _ENDINGS:
        if match := pattern.fullmatch(word):
            return match.expand(form)
    return word
