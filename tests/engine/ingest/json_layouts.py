"""Writers of the JSON that recorders, services and messengers keep a conversation in."""

# ruff: noqa: E501 - a layout a line

import json
from collections.abc import Callable, Iterator
from datetime import timedelta

from tests.engine.ingest.layouts import DAY, Turn, Turns, Writer, long, short, spread


def listed(one: Callable[[Turn, int], object], wrap: Callable[[list[object]], object] = list) -> Writer:
    """Return a writer of JSON: one object a turn, in what `wrap` puts around them."""
    return lambda turns: json.dumps(wrap([one(turn, place) for place, turn in enumerate(turns)]))


def number_of(turns: Turns, name: str) -> int:
    """Return the number of a speaker, in order of first turns."""
    return list(dict.fromkeys(turn.name for turn in turns)).index(name)


def iso(at: float) -> str:
    """Return a moment of the meeting in UTC."""
    return (DAY + timedelta(seconds=at)).isoformat(timespec="milliseconds") + "Z"


def deepgram_words(turns: Turns) -> str:
    """Return Deepgram's JSON with words only."""
    found = [
        {"word": word.strip(".,?").lower(), "punctuated_word": word, "start": at, "end": end, "confidence": 0.98,
         "speaker": number_of(turns, turn.name), "speaker_confidence": 0.8}
        for turn in turns for word, at, end in spread(turn)
    ]  # fmt: skip
    spoken = " ".join(turn.text for turn in turns)
    channel = {"alternatives": [{"transcript": spoken, "confidence": 0.99, "words": found}]}
    about = {"request_id": "a1", "created": "2026-03-04T10:00:00.000Z", "duration": 300.5, "channels": 1}
    return json.dumps({"metadata": about, "results": {"channels": [channel]}})


def deepgram(turns: Turns) -> str:
    """Return Deepgram's JSON with utterances."""
    data = json.loads(deepgram_words(turns))
    data["results"]["utterances"] = [
        {"start": turn.at + 0.08, "end": turn.end + 0.01, "confidence": 0.97, "channel": 0, "transcript": turn.text,
         "words": [{"word": word, "start": at, "end": end, "confidence": 0.9, "speaker": number_of(turns, turn.name)}
                   for word, at, end in spread(turn)],
         "speaker": number_of(turns, turn.name), "id": f"{place}-f0"}
        for place, turn in enumerate(turns)
    ]  # fmt: skip
    return json.dumps(data)


def amazon(turns: Turns, segments: bool = True) -> str:
    """Return Amazon Transcribe's JSON, with segments of audio or items only."""
    labels, items, audio = [], list[dict[str, object]](), []
    for place, turn in enumerate(turns):
        label, own = f"spk_{number_of(turns, turn.name)}", []
        for word, at, end in spread(turn):
            bare = word.rstrip(".,?")
            own.append({"start_time": f"{at:.2f}", "speaker_label": label, "end_time": f"{end:.2f}"})
            said: list[dict[str, object]] = [{"confidence": "0.99", "content": bare}]
            items.append({**own[-1], "id": len(items), "alternatives": said, "type": "pronunciation"})
            if bare != word:
                sign = [{"confidence": "0.0", "content": word[len(bare) :]}]
                items.append({"id": len(items), "speaker_label": label, "alternatives": sign, "type": "punctuation"})
        times = {"start_time": f"{turn.at:.2f}", "end_time": f"{turn.end:.2f}"}
        labels.append({**times, "speaker_label": label, "items": own})
        audio.append({"id": place, "transcript": turn.text, **times, "speaker_label": label, "items": [place]})
    spoken = " ".join(turn.text for turn in turns)
    results: dict[str, object] = {
        "transcripts": [{"transcript": spoken}],
        "speaker_labels": {"channel_label": "ch_0", "speakers": 3, "segments": labels},
        "items": items,
    }
    results |= {"audio_segments": audio} if segments else {}
    return json.dumps({"jobName": "a", "accountId": "1", "status": "COMPLETED", "results": results})


def rev(turns: Turns) -> str:
    """Return Rev's JSON: monologues of elements."""

    def elements(turn: Turn) -> Iterator[dict[str, object]]:
        for place, (word, at, end) in enumerate(spread(turn)):
            if place:
                yield {"type": "punct", "value": " "}
            bare = word.rstrip(".,?")
            yield {"type": "text", "value": bare, "ts": at, "end_ts": end, "confidence": 0.9}
            if bare != word:
                yield {"type": "punct", "value": word[len(bare) :]}

    return json.dumps(
        {"monologues": [{"speaker": number_of(turns, t.name), "elements": [*elements(t)]} for t in turns]}
    )


def whisperx(turns: Turns) -> str:
    """Return WhisperX's JSON."""
    words = [
        [{"word": word, "start": at, "end": end, "score": 0.8, "speaker": turn.name} for word, at, end in spread(turn)]
        for turn in turns
    ]
    segments = [
        {"start": float(turn.at), "end": float(turn.end), "text": f" {turn.text}", "words": own, "speaker": turn.name}
        for turn, own in zip(turns, words, strict=True)
    ]
    every = [word for own in words for word in own]
    return json.dumps({"segments": segments, "word_segments": every, "language": "en"})


def insanely_fast_whisper(turns: Turns) -> str:
    """Return the JSON of insanely-fast-whisper: who spoke, and the same again in chunks."""
    chunks = [{"timestamp": [float(turn.at), float(turn.end)], "text": f" {turn.text}"} for turn in turns]
    spoken = [
        {"speaker": f"SPEAKER_{number_of(turns, t.name):02}", **one} for t, one in zip(turns, chunks, strict=True)
    ]
    return json.dumps({"speakers": spoken, "chunks": chunks, "text": " ".join(turn.text for turn in turns)})


def azure(turns: Turns) -> str:
    """Return Azure's batch transcription: ticks of 100 nanoseconds."""
    phrases = [
        {"recognitionStatus": "Success", "channel": 0, "speaker": number_of(turns, turn.name) + 1,
         "offset": f"PT{turn.at // 60}M{turn.at % 60}S", "duration": f"PT{turn.end - turn.at}S",
         "offsetInTicks": turn.at * 10_000_000, "durationInTicks": (turn.end - turn.at) * 10_000_000,
         "nBest": [{"confidence": 0.9, "lexical": turn.text.lower(), "display": turn.text}]}
        for turn in turns
    ]  # fmt: skip
    whole = [{"channel": 0, "display": " ".join(turn.text for turn in turns)}]
    about = {"source": "x.wav", "timestamp": "2026-03-04T10:00:00Z", "durationInTicks": 3_000_000_000}
    return json.dumps({**about, "combinedRecognizedPhrases": whole, "recognizedPhrases": phrases})


def recall(turns: Turns) -> str:
    """Return Recall's JSON: participants with words, whose times are relative and absolute."""

    def stamp(at: float) -> dict[str, object]:
        return {"relative": at, "absolute": iso(at)}

    return json.dumps(
        [
            {"participant": {"id": 100 + number_of(turns, turn.name), "name": turn.name, "is_host": False},
             "words": [{"text": word, "start_timestamp": stamp(at), "end_timestamp": stamp(end)}
                       for word, at, end in spread(turn)]}
            for turn in turns
        ]
    )  # fmt: skip


def openai_verbose(turns: Turns) -> str:
    """Return OpenAI's verbose JSON, which knows no speakers."""
    spoken = " ".join(turn.text for turn in turns)
    segments = [
        {"id": place, "seek": 0, "start": float(turn.at), "end": float(turn.end), "text": f" {turn.text}",
         "tokens": [50364, 383, 264], "temperature": 0.0, "avg_logprob": -0.3, "compression_ratio": 1.4,
         "no_speech_prob": 0.01}
        for place, turn in enumerate(turns)
    ]  # fmt: skip
    about = {"task": "transcribe", "language": "english", "duration": 300.0, "text": f"{spoken} " * 60}
    return json.dumps({**about, "segments": segments})


def telegram(turns: Turns) -> str:
    """Return Telegram's export of one chat."""
    messages: list[dict[str, object]] = [
        {"id": 1, "type": "service", "date": f"{DAY:%Y-%m-%dT%H:%M:%S}", "actor": "Zoe", "action": "create_group"}
    ]
    for place, turn in enumerate(turns, 2):
        moment = DAY + timedelta(seconds=turn.at)
        messages.append(
            {"id": place, "type": "message", "date": f"{moment:%Y-%m-%dT%H:%M:%S}", "from": turn.name,
             "date_unixtime": str(int(moment.timestamp())), "from_id": f"user{number_of(turns, turn.name)}",
             "text": turn.text if place % 2 else [turn.text[:4], {"type": "bold", "text": turn.text[4:]}],
             "text_entities": [{"type": "plain", "text": turn.text}]}
        )  # fmt: skip
    return json.dumps({"name": "Shed", "type": "private_group", "id": 7, "messages": messages}, ensure_ascii=False)


SPEAKERS: dict[str, tuple[str, Writer]] = {
    "AssemblyAI": ("json", listed(
        lambda t, n: {"confidence": 0.9, "end": t.end * 1000, "speaker": t.name[0], "start": t.at * 1000, "text": t.text},
        lambda u: {"id": "x", "status": "completed", "text": "All.", "utterances": u})),
    "Deepgram": ("json", deepgram),
    "Deepgram, words": ("json", deepgram_words),
    "Amazon Transcribe": ("json", amazon),
    "Amazon Transcribe, items": ("json", lambda turns: amazon(turns, segments=False)),
    "Rev": ("json", rev),
    "WhisperX": ("json", whisperx),
    "insanely-fast-whisper": ("json", insanely_fast_whisper),
    "Azure": ("json", azure),
    "Recall": ("json", recall),
    "Granola": ("json", listed(
        lambda t, n: {"id": f"{n}-a", "document_id": "d", "start_timestamp": iso(t.at), "end_timestamp": iso(t.end), "text": t.text,
                      "source": "system", "is_final": True, "detected_speaker_name": t.name})),
    "Fireflies, JSON": ("json", listed(
        lambda t, n: {"index": n, "sentence": t.text, "speaker_name": t.name, "speaker_id": 7, "startTime": short(t.at), "endTime": short(t.end)})),
    "Google Meet, entries": ("json", listed(
        lambda t, n: {"name": f"conferenceRecords/a/transcripts/b/entries/{n}", "participant": t.name, "text": t.text, "languageCode": "en-US",
                      "startTime": iso(t.at), "endTime": iso(t.end)}, lambda u: {"transcriptEntries": u})),
    "other names of fields": ("json", listed(
        lambda t, n: {"wer": t.name, "wann": long(t.at), "was": t.text}, lambda u: {"titel": "Schuppen", "protokoll": {"beiträge": u}})),
    "microseconds": ("json", listed(
        lambda t, n: {"who": {"id": n, "label": t.name}, "from_us": t.at * 1_000_000, "to_us": t.end * 1_000_000, "content": t.text})),
}  # fmt: skip
CHATS: dict[str, tuple[str, Writer]] = {
    "Slack, JSON": ("json", listed(
        lambda t, n: {"user": f"U0{len(t.name)}", "type": "message", "ts": f"{(DAY + timedelta(seconds=t.at)).timestamp():.6f}", "client_msg_id": f"{n}-c",
                      "text": t.text, "team": "T1", "user_profile": {"first_name": t.name.split()[0], "real_name": t.name, "is_restricted": False}})),
    "Discord, JSON": ("json", listed(
        lambda t, n: {"id": str(1000 + n), "type": "Default", "timestamp": iso(t.at)[:-1] + "+00:00", "timestampEdited": None, "isPinned": False,
                      "content": t.text, "author": {"id": f"90{len(t.name)}", "name": t.name.split()[0].lower(), "discriminator": "0000", "nickname": t.name, "isBot": False},
                      "attachments": [], "reactions": []},
        lambda u: {"guild": {"id": "1", "name": "Club"}, "channel": {"id": "2", "name": "shed"}, "exportedAt": "2026-05-01T00:00:00+00:00", "messages": u})),
    "Telegram": ("json", telegram),
}  # fmt: skip
SILENT: dict[str, tuple[str, Writer]] = {
    "milliseconds, tabs": ("tsv", lambda turns: "start\tend\ttext\n" + "".join(f"{t.at * 1000}\t{t.end * 1000}\t{t.text}\n" for t in turns)),
    "OpenAI, verbose": ("json", openai_verbose),
}  # fmt: skip
