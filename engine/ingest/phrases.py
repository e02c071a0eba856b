"""What mail programs write around quotes, forwards and signatures, in their users' languages; patterns only.

Each pattern takes linear time: repeats are bounded, possessive, or of characters that cannot start what follows them.
"""

import re

_RULE = r"[\s=*]*+[-_]{2,}+[-_=*\s]*+"

ORIGINAL = re.compile(
    _RULE + r"(?:Original (?:Message|Appointment|Mail)|Reply (?:Separator|Message)"
    r"|Ursprüngliche (?:Nachricht|E-Mail)|Original-Nachricht|Message d['’]origine|Message original"
    r"|Mensaje original|Messaggio originale|Mensagem original|Oorspronkelijk bericht"
    r"|Oprindelig meddelelse|Ursprungligt meddelande|Opprinnelig melding|Alkuperäinen viesti"
    r"|Исходное сообщение|Wiadomość oryginalna|原始邮件|原始郵件|元のメッセージ)\b.{0,60}$",
    re.IGNORECASE,
)
FORWARDED = re.compile(
    _RULE + r"(?:Forwarded (?:by|message|mail)|Forward Header|Weitergeleitete Nachricht|Message transféré"
    r"|Mensaje reenviado|Messaggio inoltrato|Mensagem encaminhada|Doorgestuurd bericht|Videresendt|Vidarebefordrat"
    r"|Пересылаемое сообщение|转发邮件|転送メッセージ)\b"
    r"|(?:Begin forwarded message|Anfang der weitergeleiteten (?:Nachricht|E-Mail)"
    r"|Début du (?:message )?(?:transféré|réexpédié)|Inicio del mensaje reenviado|Inizio messaggio inoltrato"
    r"|Begin doorgestuurd bericht|Início da mensagem reencaminhada)\b.{0,20}$",
    re.IGNORECASE,
)
FIELD = re.compile(  # groups: 1 writer, 2 reader, 3 copy, 4 moment, 5 subject
    r"[*\s]{0,12}(?:(from|von|de|da|van|från|fra|od|от|发件人|寄件者|差出人)"
    r"|(to|an|à|para|aan|till|til|a|do|кому|收件人|宛先)"
    r"|(cc|kopie|копия|抄送)"
    r"|(sent|date|gesendet|datum|envoyé|enviado(?: el)?|fecha|data|inviato|verzonden|skickat|sendt|dato|wysłano"
    r"|дата|отправлено|发送时间|日期|送信日時|日時)"
    r"|(subject|re|betreff|objet|asunto|oggetto|assunto|onderwerp|ämne|emne|temat|тема|主题|主旨|件名)"
    r")[*\s]{0,4}[:：]",
    re.IGNORECASE,
)
STARTS = re.compile(
    r"(?:On|Am|Le|El|Il|Op|Em|Den|W dniu|Dnia|Dne|På|Pe|In|At|Quoting|Citat|В|Пн|Вт|Ср|Чт|Пт|Сб|Вс|在|于|\d{4})\b",
    re.IGNORECASE,
)
WROTE_END = re.compile(
    r"(?:wrote|writes|said|schrieb|a écrit|escribió|ha scritto|schreef|escreveu|skrev|napisała?|пишет|написала?"
    r"|kirjoitti|yazdı|写道|寫道|のメール)(?:\s.{0,80})?\s{0,5}[:：]$",
    re.IGNORECASE,
)
ADDRESS_END = re.compile(r"[^\s<>@]{1,80}@[^\s<>@]{1,120}>?\s{0,5}[:：]$")
DATED = re.compile(r"\d{1,4}[./:年-]\s?\d{1,2}|@|\b(?:19|20)\d\d\b")

_WHEN = r"\d{1,2}/\d{1,2}/(?:19|20)?\d\d\s{1,3}\d{1,2}:\d\d(?::\d\d)?\s?(?:[AP]M)?"
NOTES_DATE = re.compile(rf"(?:{_WHEN}|\d{{1,2}}:\d\d(?::\d\d)? [AP]M)$", re.IGNORECASE)
NOTES_ON = re.compile(rf".{{2,120}} on (?:{_WHEN}|\d{{1,2}}/\d{{1,2}}/(?:19|20)?\d\d)$", re.IGNORECASE)

SENT_FROM = re.compile(
    r"(?:Sent|Send) (?:from|via|with|using|wirelessly)(?: (?:my|the|a|via|Yahoo|Outlook|Mail|Gmail))?\b"
    r"[\w .+&®™'-]{0,60}$"
    r"|(?:Von meine[mr]|Gesendet (?:von|mit)|Envoyé (?:de|depuis|à partir)|Enviado (?:desde|do|de|a partir)"
    r"|Inviato da(?:l mio)?|Verzonden (?:vanaf|met|van)|Skickat från|Sendt fra|Wysłane z|Отправлено (?:с|из)"
    r"|Get Outlook for)\b[^.?!]{1,60}\.?$"
    r"|(?:發自|发自)我的.{1,30}$",
    re.IGNORECASE,
)
SIGNED_STARTS = frozenset(  # the first four letters of all that SENT_FROM takes
    (
        *("sent", "send", "von ", "gese", "envo", "envi", "invi"),
        *("verz", "skic", "wysł", "отпр", "get ", "發自我的", "发自我的"),
    )
)
MOBILE = re.compile(r"desk|office|home|car\b|bed\b|account", re.IGNORECASE)
LIST_FOOTER = re.compile(
    r"mailing list|mailingliste|unsubscribe|liste de diffusion|listinfo|yahoogroups|groups\.google", re.IGNORECASE
)
LEGAL = re.compile(
    r"confidential|privileged|intended (?:only |solely |exclusively )?(?:for|recipient)|notify the sender"
    r"|unauthori[sz]ed|disclaim|received this .{0,40}in error|vertraulich|destinataire|confidencial",
    re.IGNORECASE,
)
LEGAL_HINTS = ("onfiden", "ntended", "ertraulich", "isclaim", "ONFIDENTIAL", "estinataire", "rivileged")
PHONE = re.compile(r"(?:\+|\(|\b)\d[\d ()./-]{6,20}\d\b")
CONTACT = re.compile(r"(?:https?://|www\.)\S{3}|\S@\S{3}")
