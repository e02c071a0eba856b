"""What chat templates put around a prompt, whatever they are."""

from datetime import datetime
from pathlib import Path

import pytest
from jinja2.sandbox import ImmutableSandboxedEnvironment

from engine.models.load import TODAY, Framing, find_template, frame
from engine.models.types import Tokens, open_tokenizer
from store.errors import PkbError

NAMES = {"bos_token": "<s>", "eos_token": "</s>"}
CHATML = """\
{%- for message in messages %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
THINKING = """\
{%- for message in messages %}
    {%- if message.role == 'assistant' and '</think>' in message.content %}
        {{- '<|im_start|>assistant\\n' + message.content.split('</think>')[-1] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
"""
NO_SYSTEM = """\
{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('No system turn here') }}{% endif %}
{% for message in messages %}
{% if message['role'] == 'assistant' %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}
{{ '<start_of_turn>' + role + '\\n' + message['content'] | trim + '<end_of_turn>\\n' }}{% endfor %}
{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}
"""
INSTRUCTED = """\
{%- if messages[0].role == 'system' %}{% set first = messages[0].content %}{% set messages = messages[1:] %}{% endif %}
{{- bos_token }}
{%- for message in messages %}
    {%- if message.role == 'user' %}{{- '[INST] ' }}
        {%- if loop.last %}{{- first + '\\n\\n' }}{% endif %}
        {{- message.content + '[/INST]' }}
    {%- else %}{{- ' ' + message.content + eos_token }}{% endif %}
{%- endfor %}
"""


def test_a_plain_template_is_cut_into_its_three_parts() -> None:
    assert frame(CHATML, NAMES, "model") == Framing(
        opening="<|im_start|>system\n",
        turning="<|im_end|>\n<|im_start|>user\n",
        closing="<|im_end|>\n<|im_start|>assistant\n",
        ended="<|im_end|>\n",
    )


def test_a_template_that_can_think_is_told_not_to() -> None:
    assert frame(THINKING, NAMES, "model").closing == "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"


def test_without_a_system_turn_its_text_begins_the_users() -> None:
    assert frame(NO_SYSTEM, NAMES, "model") == Framing(
        opening="<s><start_of_turn>user\n",
        turning="",
        closing="<end_of_turn>\n<start_of_turn>model\n",
        ended="<end_of_turn>\n",
    )


def test_a_template_may_put_the_system_text_into_the_users_turn_itself() -> None:
    found = frame(INSTRUCTED, NAMES, "model")
    assert (found.opening, found.turning, found.closing) == ("<s>[INST] ", "\n\n", "[/INST]")


def test_a_template_that_drops_the_system_turn_gets_its_text_in_the_users() -> None:
    dropping = "{% for m in messages if m.role != 'system' %}<u>{{ m.content }}</u>{% endfor %}"
    assert frame(dropping, NAMES, "model") == Framing("<u>", "", "</u>", "</u>")


def test_blocks_for_training_and_loop_controls_are_known() -> None:
    source = (
        "{%- for m in messages %}{%- if loop.index > 2 %}{% generation %}{{ m.content }}</a>{%- endgeneration -%}"
        "{% break %}{% endif %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    )
    assert frame(source, NAMES, "model") == Framing("<system>", "<user>", "", "</a>")


def test_values_print_as_json_in_any_script() -> None:
    source = "{{ {'tools': ['répétition', tools]} | tojson }}{% for m in messages %}{{ m.content }}{% endfor %}"
    assert frame(source, NAMES, "model").opening == '{"tools": ["répétition", null]}'


def test_a_template_that_cannot_show_an_answer_still_frames_a_prompt() -> None:
    source = "{% for m in messages %}{{ raise_exception('no') if m.role == 'assistant' }}<{{ m.content }}>{% endfor %}"
    assert frame(source, NAMES, "model") == Framing("<", "><", ">", "")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{% for", "expected"),
        ("{{ raise_exception('never') }}", "never"),
        ("all the same", "in order"),
        ("{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}", "in order"),
        ("{{ messages[7].content.text }}", "no element 7"),
        ("{{ 1 / 0 }}", "zero"),
        ("{{ messages + 1 }}", "list"),
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{{ messages.clear() }}", "unsafe"),
        ("{% for a in range(10 ** 9) %}{% endfor %}", "Range"),
    ],
)
def test_a_template_that_cannot_hold_a_prompt_is_refused_in_one_line(source: str, said: str) -> None:
    with pytest.raises(PkbError, match=r"^the chat template of tiny cannot be used: ") as caught:
        frame(source, NAMES, "tiny")
    assert said in caught.value.message
    assert "\n" not in caught.value.message


def test_a_name_that_the_tokenizer_lacks_prints_as_nothing() -> None:
    source = "{{ bos_token }}{% for m in messages %}<{{ m.content }}>{% endfor %}"
    assert frame(source, {}, "model").opening == "<"


@pytest.mark.parametrize("asking", ["strftime_now('%d %b %Y')", "date_string"])
def test_a_template_that_prints_the_day_prints_the_same_one_every_day(asking: str) -> None:
    source = f"Today is {{{{ {asking} }}}}.{{% for m in messages %}}<{{{{ m.content }}}}>{{% endfor %}}"
    assert frame(source, NAMES, "model").opening == "Today is 26 Jul 2024.<"
    assert datetime.now() > TODAY


TEMPLATES = (
    "chat-templates/Qwen-Qwen2.5-7B-Instruct.jinja",
    "chat-templates/meta-llama-Llama-3.1-8B-Instruct.jinja",
    "chat-templates/meta-llama-Llama-3.2-3B-Instruct.jinja",
)


def rendered(source: str, system: str, user: str) -> str:
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
    return environment.from_string(source).render(
        NAMES, messages=messages, add_generation_prompt=True, date_string="26 Jul 2024"
    )


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_parts_around_real_messages_are_what_the_template_makes_of_them(shared: Path, name: str) -> None:
    source = (shared / "models" / name).read_text("utf-8")
    found = frame(source, NAMES, "model")
    system, user = "Answer in few words: {{ system }}", "When is it? <|im_end|>"
    assert found.opening + system + found.turning + user + found.closing == rendered(source, system, user)


def test_llama_3_has_no_day_of_its_own_in_its_frame(shared: Path) -> None:
    found = frame((shared / "models" / TEMPLATES[2]).read_text("utf-8"), NAMES, "model")
    assert found.opening == (
        "<s><|start_header_id|>system<|end_header_id|>\n\n"
        "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"
    )
    assert found.closing == "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    assert found.ended == "<|eot_id|>"


def test_the_template_of_a_real_tokenizer_ends_an_answer_with_its_own_token(shared: Path) -> None:
    folder = shared / "models" / "tokenizer-smollm2"
    tokens = Tokens(open_tokenizer(folder / "tokenizer.json"))
    found = frame(CHATML, NAMES, "model")
    assert tokens.first_control(found.ended) == 2
    assert tokens.control(found.closing) == (2, 198, 1, *tokens.text("assistant\n"))


def test_a_template_in_a_file_of_its_own_comes_first(tmp_path: Path) -> None:
    (tmp_path / "chat_template.jinja").write_text("from the file", "utf-8")
    assert find_template(tmp_path, {"chat_template": "from the config"}) == "from the file"


def test_of_several_templates_the_default_one_is_taken(tmp_path: Path) -> None:
    named = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}]
    assert find_template(tmp_path, {"chat_template": named}) == "plain"
    assert find_template(tmp_path, {"chat_template": named[:1]}) is None


def test_most_models_name_it_in_their_config_and_some_have_none(tmp_path: Path) -> None:
    assert find_template(tmp_path, {"chat_template": "plain"}) == "plain"
    assert find_template(tmp_path, {}) is None
