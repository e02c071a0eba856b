"""Writers of replies, each as its program announces and marks what it quotes; the words are the caller's.

The forms follow the programs' own translations and samples that were sent by them. {who} is a name and an address,
{name} the name alone; the day is 3 June 2025, ten minutes past ten in the evening on the clock of who replies.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from textwrap import wrap


@dataclass(frozen=True, slots=True)
class Reply:
    """The words of a reply, and those that it answers, by whom."""

    own: str
    quoted: str
    name: str
    address: str

    @property
    def who(self) -> str:
        """Return the name and the address of who is quoted."""
        return f"{self.name} <{self.address}>"


Bodies = dict[str, str]  # by how the reply is arranged: its text, or a page where it begins by a tag
Writer = Callable[[Reply, str], Bodies]

RULE = "_" * 32


def marked(text: str) -> str:
    """Return a text with a quote mark in front of each line."""
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def filled(line: str, width: int, link_breaks: bool = False) -> str:
    """Return a line as it is broken at `width`; Gmail may break in front of an address, too, which is a link there."""
    if link_breaks:
        line = re.sub(r"<(?=\S+@)", "< ", line)
    return re.sub(r"< (?=\S+@)", "<", "\n".join(wrap(line, width, break_long_words=False, break_on_hyphens=False)))


def page(own: str, behind: str, above: bool = False) -> str:
    """Return a page of one's own paragraphs and what stands below or above them."""
    paragraphs = "".join(f"<div>{escape(line) or '<br>'}</div>" for line in own.split("\n"))
    return f"<html><body>{behind}{paragraphs if above else ''}</body></html>" if above else (
        f"<html><body>{paragraphs}{behind}</body></html>"
    )  # fmt: skip


def lines_of(text: str) -> str:
    """Return the lines of a text as a page shows them."""
    return "<br>".join(map(escape, text.split("\n")))


def announced(reply: Reply, form: str) -> str:
    """Return the line that announces a quote."""
    return form.format(who=reply.who, name=reply.name, address=reply.address)


def author(reply: Reply, form: str) -> str:
    """Return who is quoted as a form names them: by name and address, or by one of both."""
    both = "|" in form or "{who}" in form or ("{name}" in form and "{address}" in form)
    return reply.who if both else reply.name if "{name}" in form else reply.address


def gmail(reply: Reply, form: str) -> Bodies:
    """Return Gmail's replies on the web and on a phone."""
    line = announced(reply, form)
    shown = escape(line).replace(reply.address, f'<a href="mailto:{reply.address}">{reply.address}</a>')
    attribution = f'<div dir="ltr" class="gmail_attr">{shown}<br></div>'
    quote = f'<blockquote class="gmail_quote" style="margin:0px 0px 0px 0.8ex">{lines_of(reply.quoted)}</blockquote>'
    return {
        "text": f"{reply.own}\n\n{filled(line, 76, link_breaks=True)}\n\n{marked(reply.quoted)}\n",
        "page": page(reply.own, f'<br><div class="gmail_quote">{attribution}{quote}</div>'),
    }


def apple(reply: Reply, form: str) -> Bodies:
    """Return Apple Mail's replies on a Mac, where the announcement is not quoted or is, and on a phone."""
    line = announced(reply, form)
    quote = f'<blockquote type="cite"><div>{escape(line)}</div><br class="Apple-interchange-newline">'
    return {
        "text, newer": f"{reply.own}\n\n{marked(f'{line}' + chr(10) * 2 + reply.quoted)}\n",
        "text, older": f"{reply.own}\n\n{line}\n\n{marked(reply.quoted)}\n",
        "page": page(reply.own, f"<div><br>{quote}<div>{lines_of(reply.quoted)}</div></blockquote></div>"),
    }


def unbroken(reply: Reply, form: str) -> Bodies:
    """Return replies of programs that leave the announcement on one line, as Roundcube and K-9."""
    return thunderbird(reply, form, width=400)


def thunderbird(reply: Reply, form: str, width: int = 72) -> Bodies:
    """Return Thunderbird's replies: below the quote, as it comes, or above."""
    line = announced(reply, form)
    cited = f'<div class="moz-cite-prefix">{escape(line)}<br></div><blockquote type="cite" cite="mid:a@b">'
    cited += f"<p>{lines_of(reply.quoted)}</p></blockquote>"
    quote = f"{filled(line, width)}\n{marked(reply.quoted)}"
    return {
        "text, below": f"{quote}\n\n{reply.own}\n",
        "text, above": f"{reply.own}\n\n{quote}\n",
        "page, below": page(reply.own, cited, above=True),
        "page, above": page(reply.own, f"<br>{cited}"),
    }


def indented(reply: Reply, form: str) -> Bodies:
    """Return Outlook's replies on a Mac, of 2016 and 2019: a quote is indented and has no marks."""
    text = "\n".join(f"    {line}".rstrip() for line in reply.quoted.split("\n"))
    return {"text": f"{reply.own}\n\n\ufeff{announced(reply, form)}\n\n{text}\n"}


def plain(reply: Reply, form: str) -> Bodies:
    """Return replies whose quote has neither marks nor an indent, as Yahoo and Zoho write them."""
    line = announced(reply, form)
    quote = f"<div>{escape(line)}<br></div><div><br></div><div>{lines_of(reply.quoted)}</div>"
    return {
        "text": f"{reply.own}\n\n{line}\n\n{reply.quoted}\n",
        "page": page(reply.own, f"<div><br></div>{quote}"),
    }


def header(reply: Reply, form: str, order: str = "from date to subject") -> str:
    """Return a header block in a language, whose labels and day stand in `form`."""
    *labels, day = form.split("|")
    values = {"from": reply.who, "date": day, "to": "Bob Ray <bob@example.org>", "subject": "Re: Shed"}
    named = dict(zip(("from", "date", "to", "subject"), labels, strict=True))
    return "\n".join(f"{named[field]}: {values[field]}" for field in order.split())


def bold(block: str) -> str:
    """Return a header as a page shows it."""
    return "<br>".join(f"<b>{escape(label)}:</b> {escape(value)}" for label, _, value in _fields(block))


def _fields(block: str) -> Iterator[tuple[str, str, str]]:
    return (line.partition(": ") for line in block.split("\n"))


def outlook(reply: Reply, form: str) -> Bodies:
    """Return Outlook's replies: on a desk (text, page), on the web, on a phone, and as text made from a page."""
    block = header(reply, form)
    starred = "\n".join(f"*{label}:* {value}" for label, _, value in _fields(block))
    border = '<div style="border:none;border-top:solid #E1E1E1 1.0pt;padding:3.0pt 0cm 0cm 0cm"><p class=MsoNormal>'
    rule = '<hr style="display:inline-block;width:98%" tabindex="-1"><div id="divRplyFwdMsg" dir="ltr">'
    quote = f"<p>{lines_of(reply.quoted)}</p>"
    return {
        "text": f"{reply.own}\n\n{block}\n\n{reply.quoted}\n",
        "text, no line between": f"{reply.own}\n\n{block}\n{reply.quoted}\n",
        "text, rule": f"{reply.own}\n\n{RULE}\n{block}\n\n{reply.quoted}\n",
        "text, stars": f"{reply.own}\n\n{starred}\n\n{reply.quoted}\n",
        "text, marked": f"{reply.own}\n\n{marked(f'{block}{chr(10)}{chr(10)}{reply.quoted}')}\n",
        "page": page(reply.own, f"<div>{border}{bold(block)}</p></div></div>{quote}"),
        "page, rule": page(reply.own, f"{rule}<font>{bold(block)}</font><div>&nbsp;</div></div>{quote}"),
    }


def below_words(reply: Reply, form: str) -> Bodies:
    """Return replies whose header is below a rule with words, as of Outlook, Samsung's and K-9."""
    words, _, fields = form.partition("|")
    block = header(reply, fields, "from date to subject" if "riginal message" in words else "subject from date to")
    quote = f"<p>{lines_of(reply.quoted)}</p>"
    return {
        "text": f"{reply.own}\n\n{words}\n{block}\n\n{reply.quoted}\n",
        "page": page(reply.own, f"<div>{escape(words)}</div><div>{bold(block)}</div>{quote}"),
    }


GMAIL = {
    "English": "On Tue, Jun 3, 2025 at 10:10\u202fPM {who} wrote:",
    "English, of Britain": "On Tue, 3 Jun 2025 at 22:10, {who} wrote:",
    "English, of 2014": "On Tue, Jun 3, 2025 at 10:10 PM, {who} wrote:",
    "of 2015, any language": "2025-06-03 22:10 GMT+02:00 {who}:",
    "of 2013, any language": "2025/6/3 {who}",
    "German": "Am Di., 3. Juni 2025 um 22:10 Uhr schrieb {who}:",
    "German, inbox": "{who} schrieb am Di., 3. Juni 2025 um 22:10 Uhr:",
    "French": "Le mar. 3 juin 2025 à 22:10, {who} a écrit :",
    "Spanish": "El mar, 3 jun 2025 a las 22:10, {name} (<{address}>) escribió:",
    "Italian": "Il giorno mar 3 giu 2025 alle ore 22:10 {who} ha scritto:",
    "Portuguese": "{who} escreveu (terça, 3/06/2025 à(s) 22:10):",
    "Portuguese, of Brazil": "Em ter., 3 de jun. de 2025 às 22:10, {who} escreveu:",
    "Dutch": "Op di 3 jun 2025 om 22:10 schreef {who}:",
    "Polish": "wt., 3 cze 2025 o 22:10 {who} napisał(a):",
    "Russian": "вт, 3 июн. 2025 г. в 22:10, {who}:",
    "Ukrainian": "вт, 3 черв. 2025 р. о 22:10 {who} пише:",
    "Swedish": "Den tis 3 juni 2025 kl 22:10 skrev {who}:",
    "Danish": "Den tirs. 3. jun. 2025 kl. 22.10 skrev {who}:",
    "Norwegian": "tir. 3. juni 2025 kl. 22:10 skrev {who}:",
    "Finnish": "ti 3. kesäk. 2025 klo 22.10 {name} ({address}) kirjoitti:",
    "Czech": "út 3. 6. 2025 v 22:10 odesílatel {who} napsal:",
    "Slovak": "ut 3. 6. 2025 o 22:10 {who} napísal(a):",
    "Hungarian": "{who} ezt írta (időpont: 2025. jún. 3., K, 22:10):",
    "Romanian": "În mar., 3 iun. 2025 la 22:10, {who} a scris:",
    "Turkish": "{who}, 3 Haz 2025 Sal, 22:10 tarihinde şunu yazdı:",
    "Japanese": "2025年6月3日(火) 22:10 {who}:",
    "Korean": "2025년 6월 3일 (화) 오후 10:10, {who}님이 작성:",
    "Chinese": "{who} 于2025年6月3日周二 22:10写道：",
    "Chinese, traditional": "{who} 於 2025年6月3日 週二 下午10:10寫道：",
    "Vietnamese": "Vào Th 3, 3 thg 6, 2025 vào lúc 22:10 {who} đã viết:",
    "Hebrew": "בתאריך יום ג׳, 3 ביוני 2025 ב-22:10 מאת \u202a{name}\u202c\u200f <\u202a{address}\u202c\u200f>:",
}
APPLE = {
    "English": "On Jun 3, 2025, at 10:10\u202fPM, {who} wrote:",
    "English, of Britain": "On 3 Jun 2025, at 22:10, {who} wrote:",
    "English, of 2012": "On Jun 3, 2025, at 10:10 PM, {name} wrote:",
    "German": "Am 03.06.2025 um 22:10 schrieb {who}:",
    "French": "Le 3 juin 2025 à 22:10, {who} a écrit :",
    "Spanish": "El 3 jun 2025, a las 22:10, {who} escribió:",
    "Italian": "Il giorno 3 giu 2025, alle ore 22:10, {who} ha scritto:",
    "Portuguese, of Brazil": "Em 3 de jun. de 2025, à(s) 22:10, {who} escreveu:",
    "Dutch": "Op 3 jun 2025, om 22:10 heeft {who} het volgende geschreven:",
    "Polish": "Wiadomość napisana przez {who} w dniu 3 cze 2025, o godz. 22:10:",
    "Russian": "3 июня 2025 г., в 22:10, {who} написал(а):",
    "Swedish": "3 juni 2025 kl. 22:10 skrev {who}:",
    "Danish": "Den 3. jun. 2025 kl. 22.10 skrev {who}:",
    "Finnish": "{who} kirjoitti 3.6.2025 kello 22.10:",
    "Turkish": "{who} şunları yazdı (3 Haz 2025 22:10):",
    "Japanese": "2025/06/03 22:10、{who}のメール:",
    "Chinese": "2025年6月3日 22:10，{who} 写道：",
    "Korean": "2025. 6. 3. 오후 10:10, {who} 작성:",
}
THUNDERBIRD = {
    "English": "On 6/3/2025 10:10 PM, {name} wrote:",
    "English, of Britain": "On 03/06/2025 22:10, {name} wrote:",
    "Afrikaans, not translated": "{name} wrote:",
    "Belarusian": "03.06.2025 у 22:10 {name} напісаў:",
    "Breton": "D'an/ar 03/06/2025 22:10 eo bet skrivet gant {name} :",
    "Bulgarian": "На 3.06.2025 г. в 22:10, {name} написа:",
    "Catalan": "El 3/6/25 a les 22:10, {name} ha escrit:",
    "Czech": "Dne 03. 06. 25 v 22:10 {name} napsal(a):",
    "Welsh": "Ar 03/06/2025 22:10, ysgrifennodd {name}:",
    "Danish": "Den 03.06.2025 kl. 22.10 skrev {name}:",
    "German": "Am 03.06.25 um 22:10 schrieb {name}:",
    "German, name first": "{name} schrieb am 03.06.25 um 22:10:",
    "Greek": "Στις 3/6/25 22:10, ο/η {name} έγραψε:",
    "Spanish": "El 3/6/25 a las 22:10, {name} escribió:",
    "Estonian": "03.06.25 22:10 {name} kirjutas:",
    "Finnish": "{name} kirjoitti 3.6.2025 klo 22.10:",
    "French": "Le 03/06/2025 à 22:10, {name} a écrit :",
    "Irish": "Ar 03/06/2025 22:10, scríobh {name}:",
    "Galician": "O 03/06/25 ás 22:10, {name} escribiu:",
    "Hebrew": "נכתב על ידי {name}, ב־3.6.2025 בשעה 22:10:",
    "Croatian": "03. 06. 2025. u 22:10, {name} piše:",
    "Hungarian": "2025. 06. 03. 22:10 keltezéssel, {name} írta:",
    "Indonesian": "Pada 03/06/25 22.10, {name} menulis:",
    "Icelandic": "Þann 3.6.2025 22:10, skrifaði {name}:",
    "Italian": "Il 03/06/25 22:10, {name} ha scritto:",
    "Georgian": "თარიღი 03.06.25 22:10, {name} წერს:",
    "Kazakh": "03.06.2025 22:10 уақытында, {name} жазған:",
    "Korean": "2025-06-03 22:10에 {name} 이(가) 쓴 글:",
    "Lithuanian": "2025-06-03 22:10, {name} rašė:",
    "Latvian": "03.06.25 22:10 {name} rakstīja:",
    "Malay": "Pada 03/06/2025 22:10, {name} membalas:",
    "Norwegian": "Den 03.06.2025 22:10, skrev {name}:",
    "Dutch": "Op 3-6-2025 om 22:10 schreef {name}:",
    "Polish": "W dniu 3.06.2025 o 22:10, {name} pisze:",
    "Portuguese, of Brazil": "Em 03/06/2025 22:10, {name} escreveu:",
    "Portuguese": "Às 22:10 de 03/06/2025, {name} escreveu:",
    "Romansh": "Ils 03-06-25 a las 22:10 ha {name} scrit:",
    "Romanian": "La 03.06.2025 22:10, {name} a scris:",
    "Russian": "03.06.2025 22:10, {name} пишет:",
    "Slovak": "Dňa 3. 6. 2025 o 22:10 {name} napísal(a):",
    "Slovene": "{name} je 3. 06. 25 ob 22:10 napisal:",
    "Albanian": "Më 3.6.25, 22:10, {name} shkroi:",
    "Serbian": "Дана 3.6.25. у 22:10, {name} пише:",
    "Swedish": "Den 2025-06-03 kl. 22:10, skrev {name}:",
    "Turkish": "3.06.2025 22:10 tarihinde {name} yazdı:",
    "Ukrainian": "03.06.25 22:10, {name}:",
    "Uzbek": "03/06/25 22:10, {name} da yozdi:",
    "Vietnamese": "Vào lúc 22:10 03/06/2025, {name} đã viết:",
    "Chinese": "在 2025/6/3 22:10, {name} 写道:",
    "Chinese, traditional": "{name} 於 2025/6/3 下午 10:10 寫道:",
}
K9 = {
    "English": "On June 3, 2025 10:10:00 PM GMT+02:00, {who} wrote:",
    "Bulgarian": "На 3 юни 2025 г. 22:10:00 GMT+02:00, {who} написа:",
    "Czech": "3. června 2025 22:10:00 SELČ, {who} napsal:",
    "German": "Am 3. Juni 2025 22:10:00 MESZ schrieb {who}:",
    "Greek": "Στις 3 Ιουνίου 2025 10:10:00 μ.μ., ο/η {who} έγραψε:",
    "Estonian": "3. juuni 2025 22:10:00 GMT+02:00, {who} kirjutas:",
    "Hungarian": "Ekkor: 2025. június 3. 22:10:00 GMT+02:00, {who} írta:",
    "Italian": "Il 3 giugno 2025 22:10:00 CEST, {who} ha scritto:",
    "Hebrew": "ב 3 ביוני 2025 22:10:00, {who} כתב:",
    "Japanese": "2025年6月3日 22:10:00 GMT+02:00、{who} より:",
    "Lithuanian": "2025 m. birželio 3 d. 22:10:00 GMT+02:00, {who} parašė:",
    "Dutch": "{who} schreef op 3 juni 2025 22:10:00 CEST:",
    "Polish": "Dnia 3 czerwca 2025 22:10:00 CEST, {who} napisał/a:",
    "Slovene": "Dne 3. junij 2025 22:10:00 CEST, {who} sporoča:",
    "Swedish": "Den 3 juni 2025 22:10:00 CEST, {who} skrev:",
    "Turkish": "3 Haziran 2025 22:10:00 GMT+02:00 tarihinde {who} yazdı:",
    "Ukrainian": "3 червня 2025 р. 22:10:00 GMT+02:00, {who} пише:",
    "Chinese, traditional": "於 2025年6月3日 GMT+02:00 下午10:10:00，{who} 寫到：",
}
ROUNDCUBE = {
    "Arabic": "كتب {name} في 2025-06-03 22:10:",
    "Azerbaijani": "2025-06-03 22:10 tarixdə, {name} yazıb:",
    "Basque": "2025-06-03 22:10 egunean, {name}-(e)k idatzi du:",
    "Catalan": "El 2025-06-03 22:10, {name} va escriure:",
    "Croatian": "Dana 2025-06-03 22:10, {name} je napisao(la):",
    "Esperanto": "Je 2025-06-03 22:10, {name} skribis:",
    "Faroese": "Tann 2025-06-03 22:10, skrivaði {name}:",
    "Frisian": "Op 2025-06-03 22:10, skreau {name}:",
    "Georgian": "2025-06-03 22:10-ში, {name} დაწერა:",
    "Japanese": "2025-06-03 22:10 に {name} さんは書きました:",
    "Korean": "2025-06-03 22:10에 {name}이(가) 쓴 내용:",
    "Latvian": "{name} @ 2025-06-03 22:10 rakstīja:",
    "Luxembourgish": "Den 2025-06-03 22:10, {name} schreift:",
    "Marathi": "2025-06-03 22:10 या दिवशी {name} ने लिहीले :",
    "Persian": "در 2025-06-03 22:10، {name} نوشته است:",
    "Slovene": "2025-06-03 22:10, je {name} napisal:",
    "Turkish": "2025-06-03 22:10, {name} yazmış:",
}
OUTLOOK_MAC = {
    "English": 'On 03/06/2025 22:10, "{name}" <{address}> wrote:',
    "Czech": "Dne 03/06/2025 22:10, {who} napsal(a):",
    "Danish": 'D. 03/06/2025 22.10 skrev "{name}" <{address}>:',
    "German": 'Am 03/06/2025, 22:10 schrieb "{name}" <{address}>:',
    "Spanish": 'El 03/06/2025 22:10, "{name}" <{address}> escribió:',
    "Finnish": "{who} kirjoitti 03/06/2025 22.10:",
    "French": "Le 03/06/2025 22:10, « {name} » <{address}> a écrit :",
    "Hungarian": "03/06/2025 22:10 időpontban {name} ({address}) ezt írta:",
    "Italian": 'Il giorno 03/06/2025, 22:10 "{name}" <{address}> ha scritto:',
    "Dutch": "Op 03/06/2025 22:10 heeft {who} geschreven:",
    "Norwegian": "{who} skrev følgende den 03/06/2025, 22:10:",
    "Polish": "Dnia 03/06/2025, 22:10 użytkownik „{name}” <{address}> napisał:",
    "Portuguese": 'Em 03/06/25, 22:10, "{name}" <{address}> escreveu:',
    "Russian": '03/06/2025, 22:10 пользователь "{name}" <{address}> написал:',
    "Slovak": "03/06/2025 22:10 používateľ {name} (<{address}>) napísal:",
    "Swedish": 'Den 03/06/2025 22:10 skrev "{name}" <{address}> följande:',
    "Turkish": '"{name}" <{address}>, 03/06/2025 22:10 tarihinde şunu yazdı:',
}
UNMARKED = {
    "Zoho": "---- On Tue, 03 Jun 2025 22:10:00 +0200 {who} wrote ----",
    "Zoho, address alone": "---- On Tue, 03 Jun 2025 22:10:00 +0200 {address} wrote ----",
    "Yahoo": "    On Tuesday, June 3, 2025, 10:10:00 PM GMT+2, {who} wrote:  ",
}
OUTLOOK = {  # labels of writer, day, reader and subject; the day
    "English": "From|Sent|To|Subject|Tuesday, June 3, 2025 10:10 PM",
    "English, on a phone": "From|Sent|To|Subject|Tuesday, June 3, 2025 10:10:00 PM",
    "English, on a Mac": "From|Date|To|Subject|Tuesday, 3 June 2025 at 22:10",
    "Chinese": "发件人|发送时间|收件人|主题|2025年6月3日 22:10",
    "Czech": "Od|Datum|Komu|Předmět|úterý, 3. června 2025 22:10",
    "Danish": "Fra|Dato|Til|Emne|tirsdag, 3. juni 2025 kl. 22.10",
    "German": "Von|Gesendet|An|Betreff|Dienstag, 3. Juni 2025 22:10",
    "German, on a Mac": "Von|Datum|An|Betreff|Dienstag, 3. Juni 2025 um 22:10",
    "Spanish": "De|Fecha|Para|Asunto|martes, 3 de junio de 2025, 22:10",
    "Finnish": "Lähettäjä|Päivämäärä|Vastaanottaja|Aihe|tiistaina, 3. kesäkuuta 2025 klo 22.10",
    "French": "De |Date |À |Objet |mardi, 3 juin 2025 à 22:10",
    "Hungarian": "Feladó|Dátum|Címzett|Tárgy|kedd, 2025. június 3. 22:10",
    "Italian": "Da|Data|A|Oggetto|martedì, 3 giugno 2025 22:10",
    "Dutch": "Van|Datum|Aan|Onderwerp|dinsdag, 3 juni 2025 om 22:10",
    "Norwegian": "Fra|Dato|Til|Emne|tirsdag, 3. juni 2025 kl. 22:10",
    "Polish": "Od|Data|Do|Temat|wtorek, 3 czerwca 2025 o 22:10",
    "Portuguese": "De|Data|Para|Assunto|terça-feira, 3 de junho de 2025, 22:10",
    "Russian": "От|Дата|Кому|Тема|вторник, 3 июня 2025 г. в 22:10",
    "Slovak": "Od|Dátum|Komu|Predmet|utorok, 3. júna 2025, 22:10",
    "Swedish": "Från|Datum|Till|Ämne|tisdag, 3 juni 2025 22:10",
    "Turkish": "Kimden|Tarih|Kime|Konu|Salı, 3 Haziran 2025 22:10",
}
BELOW_WORDS = {  # the words, then as above
    "Outlook, English": "-----Original Message-----|From|Sent|To|Subject|Tuesday, June 3, 2025 10:10 PM",
    "Outlook, German": "-----Ursprüngliche Nachricht-----|Von|Gesendet|An|Betreff|Dienstag, 3. Juni 2025 22:10",
    "Outlook, Danish": "-----Oprindelig meddelelse-----|Fra|Sendt|Til|Emne|3. juni 2025 22:10",
    "Samsung": "-------- Original message --------|From|Date|To|Subject|03/06/2025  22:10  (GMT+02:00)",
    "K-9, English": "-------- Original Message --------|From|Sent|To|Subject|June 3, 2025 10:10:00 PM GMT+02:00",
    "K-9, Arabic": "-------- الرسالة الأصلية --------|مِن |المُرسل|إلى |الموضوع |3 يونيو 2025 22:10:00 GMT+02:00",
    "K-9, Bulgarian": "-------- Оригинално Писмо --------|От|Изпрати до|До|Тема|3 юни 2025 г. 22:10:00",
    "K-9, Czech": "-------- Původní zpráva --------|Odesílatel|Odesláno|Komu|Předmět|3. června 2025 22:10:00 SELČ",
    "K-9, Estonian": "-------- Algne kiri --------|Kellelt|Saadetud|Kellele|Teema|3. juuni 2025 22:10:00",
    "K-9, Finnish": "-------- Alkuperäinen viesti --------|Lähettäjä|Lähetetty|Vastaanottaja|Aihe|3.6.2025 22.10",
    "K-9, Greek": "-------- Πρωτότυπο μήνυμα --------|Από|Αποστολή|Προς|Θέμα|3 Ιουνίου 2025 10:10:00 μ.μ.",
    "K-9, Hebrew": "-------- הודעה מקורית --------|מאת|נשלח|אל|נושא|3 ביוני 2025 22:10:00 GMT+02:00",
    "K-9, Hungarian": "-------- Eredeti üzenet --------|Feladó|Elküldve|Címzett|Tárgy|2025. június 3. 22:10:00",
    "K-9, Japanese": "-------- 元メール --------|差出人|送信日|宛先|件名|2025年6月3日 22:10:00 GMT+02:00",
    "K-9, Korean": "-------- 원본 메시지 --------|보낸 사람|보낸 날짜|받는 사람|제목|2025년 6월 3일 오후 10:10:00",
    "K-9, Latvian": "-------- Sākotnējā ziņa --------|Kas|Nosūtīts|Kam|Temats|2025. gada 3. jūnijs 22:10:00",
    "K-9, Lithuanian": "-------- Originalus tekstas --------|Nuo|Išsiųsta|Kam|Tema|2025 m. birželio 3 d. 22:10:00",
    "K-9, Romanian": "-------- Mesaj Original --------|De la|Trimis|La|Subiect|3 iunie 2025 23:10:00 EEST",
    "K-9, Slovene": "-------- Izvirno sporočilo --------|Od|Poslano|Za|Zadeva|3. junij 2025 22:10:00",
    "K-9, Ukrainian": "-------- Оригінальне Повідомлення --------|Від|Надіслано|Кому|Тема|3 червня 2025 р. 22:10:00",
    "K-9, Vietnamese": "-------- Thư gốc --------|Từ|Đã gửi|Tới|Chủ đề|22:10:00 3 tháng 6, 2025",
    "K-9, Chinese, traditional": "--------原始郵件--------|寄件者|寄送日期|收件者|主旨|2025年6月3日 下午10:10:00",
}
NOTES = {
    "of the desk": "{name}\n06/03/2025 10:10 PM\nTo: Bob Ray/Club@Club\ncc:\nSubject: Re: Shed",
    "of the desk, with tabs": "From:\t{who}\nTo:\tBob Ray/Club@Club\nDate:\t06/03/2025 10:10 PM\nSubject:\tRe: Shed",
    "on one line": "{who} on 06/03/2025 10:10:00 PM\nTo: Bob Ray/Club@Club\ncc:\nSubject: Re: Shed",
}


def notes(reply: Reply, form: str) -> Bodies:
    """Return replies of Lotus and HCL Notes."""
    return {"text": f"{reply.own}\n\n\n\n{announced(reply, form)}\n\n\n\n{reply.quoted}\n"}


PROGRAMS: dict[str, tuple[Writer, dict[str, str]]] = {
    "Gmail": (gmail, GMAIL),
    "Apple Mail": (apple, APPLE),
    "Thunderbird": (thunderbird, THUNDERBIRD),
    "K-9 Mail": (unbroken, K9),
    "Roundcube": (unbroken, ROUNDCUBE),
    "Outlook of 2019, Mac": (indented, OUTLOOK_MAC),
    "unmarked": (plain, UNMARKED),
    "Outlook": (outlook, OUTLOOK),
    "words above": (below_words, BELOW_WORDS),
    "Notes": (notes, NOTES),
}
