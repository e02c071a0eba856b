"""From the past tense of an English verb to the form that stands behind "did". Knows commonly used verbs."""

import re

_IRREGULAR_TEXT = (
    "ate=eat beat=beat became=become began=begin bent=bend bet=bet bit=bite blew=blow bought=buy broke=break "
    "brought=bring built=build came=come caught=catch chose=choose cut=cut did=do drank=drink drew=draw drove=drive "
    "fed=feed fell=fall felt=feel fought=fight found=find flew=fly forgot=forget froze=freeze gave=give got=get "
    "grew=grow had=have heard=hear held=hold hid=hide hit=hit hurt=hurt kept=keep knew=know laid=lay led=lead "
    "left=leave lent=lend let=let lost=lose made=make meant=mean met=meet paid=pay put=put ran=run read=read rode=ride "
    "rose=rise said=say sang=sing sat=sit saw=see sent=send set=set shot=shoot showed=show shut=shut slept=sleep "
    "sold=sell spent=spend spoke=speak stole=steal stood=stand swam=swim taught=teach thought=think threw=throw "
    "told=tell took=take understood=understand went=go woke=wake won=win wore=wear wrote=write"
)
_IRREGULAR = dict(pair.split("=") for pair in _IRREGULAR_TEXT.split())
_NO_VERBS_TEXT = (
    "bed red need indeed seed speed feed breed exceed proceed succeed hundred sacred excited interested tired worried "
    "supposed used bored thrilled stoked involved concerned pleased amazed"
)
_NO_VERBS = frozenset(_NO_VERBS_TEXT.split())
_E_LOST = re.compile(  # what stands before an -ed that took the place of a silent e
    r"(?:[vcuz]|[^aeiou]l|(?:[aeiou]|[rln])s|dg|[^aeioun]g|ang|rg|(?:cre|[bcdfgmnprstv])at|[^aeo]ir|[^e]ar|ur"
    r"|(?:pl|st|sc|gn|ad)or|[^aeo]in|[^o]id|ud|[^o]un|[rf]ad|od|[^a]ik|[^o]ok|[^eo]ak|ap|[^l]op|yp|[nflgt]am|um|[^a]im|com"
    r"|let|[vnc]it|[^o]ot|[bct]ut)$"
)


def base(past: str) -> str:
    """Give the base form; empty for what is no past tense of a verb."""
    if past in _IRREGULAR:
        return _IRREGULAR[past]
    if not past.endswith("ed") or len(past) < 5 or past in _NO_VERBS:
        return ""
    stem = past[:-2]
    if stem.endswith("i"):
        return stem[:-1] + "y"
    if stem[-1] == stem[-2] and stem[-1] not in "lszeo":
        return stem[:-1]
    return stem + "e" if stem.endswith("e") or _E_LOST.search(stem) else stem
