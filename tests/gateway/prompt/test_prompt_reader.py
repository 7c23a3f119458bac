from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from gateway.prompt.incremental import TooMuch
from gateway.prompt.model_files import NotReproducible
from gateway.prompt.reader import PromptReader, load
from gateway.prompt.result import EncodedPrompts, Reason, Unscored
from gateway.prompt.settings import PromptSettings
from gateway.prompt.tokenizer import Tokenizer, TokenizerError
from routing.fleet import Task

CHAT = "/v1/chat/completions"
HELLO = {"role": "user", "content": "Hello"}
TOKENIZER = Path(__file__).parent / "vectors" / "tokenizer"


def encoded(reader: PromptReader, endpoint: str, body: Mapping[str, Any]) -> EncodedPrompts:
    result = reader.read(endpoint, body)
    assert isinstance(result, EncodedPrompts), result
    return result


@pytest.fixture(scope="module")
def reader(recorded_readers: Mapping[str, PromptReader]) -> PromptReader:
    return recorded_readers["text"]


@pytest.mark.parametrize(
    ("task", "endpoint", "body", "reason"),
    [
        (None, "/score", {"text_1": "a", "text_2": "b"}, Reason.PAIRS),
        (Task.CLASSIFY, "/v1/rerank", {"query": "a", "documents": ["b"]}, Reason.PAIRS),
        (Task.TOKENS, "/v1/score", {"text_1": "a", "text_2": "b"}, Reason.PER_TOKEN),
        (Task.TOKENS, "/pooling", {"input": "a"}, Reason.PER_TOKEN),
        (Task.EMBED, "/pooling", {"input": "a", "task": "token_embed"}, Reason.PER_TOKEN),
        (Task.EMBED, "/score", {"text_1": {"content": []}, "text_2": "b"}, Reason.CONVERSION),
        (Task.EMBED, "/score", {"text_1": "a", "text_2": "b", "max_tokens_per_doc": 7}, Reason.TRUNCATION),
        (Task.EMBED, "/v1/embeddings", {"input": [1] * 101}, Reason.TRUNCATION),
    ],
)
def test_what_cannot_be_scored_of_a_pooling_model_says_why(
    task: Task | None, endpoint: str, body: Mapping[str, Any], reason: Reason, small_tokenizer: Tokenizer
) -> None:
    """The classifier puts pairs together by code of its own."""
    reader = PromptReader(small_tokenizer, PromptSettings(task=task, use_sep_token=None, max_model_len=100))
    assert reader.read(endpoint, body) == Unscored(reason)


@pytest.mark.parametrize(
    ("endpoint", "body", "reason"),
    [
        ("/v1/audio/transcriptions", {}, Reason.ENDPOINT),
        (CHAT, {}, Reason.MALFORMED),
        (CHAT, {"prompt": "a completion's body"}, Reason.MALFORMED),
        (CHAT, {"messages": [HELLO], "add_generation_prompt": "yes"}, Reason.MALFORMED),
        (CHAT, {"messages": [HELLO], "chat_template": "{{ x }}"}, Reason.REFUSED),
        (CHAT, {"messages": [HELLO], "tools": []}, Reason.REFUSED),
        (CHAT, {"messages": [{"role": "user", "content": "half a \ud83d pair"}]}, Reason.UNENCODABLE),
        (CHAT, {"messages": [HELLO], "cache_salt": "half a \ud83d pair"}, Reason.UNENCODABLE),
        (CHAT, {"messages": [HELLO], "chat_template_kwargs": {"tokenize": True}}, Reason.TEMPLATE_ARGUMENTS),
        (CHAT, {"messages": [HELLO], "kv_transfer_params": {"prompt_token_ids": [1]}}, Reason.FORWARDED_IDS),
        (CHAT, {"messages": [HELLO], "prompt_logprobs": 0}, Reason.PROMPT_LOGPROBS),
        (CHAT, {"messages": [HELLO], "echo": True}, Reason.PROMPT_LOGPROBS),
        ("/v1/completions", {"prompt": []}, Reason.EMPTY),
        ("/v1/completions", {"prompt": [2**40]}, Reason.MALFORMED),
        ("/v1/completions", {"prompt": "a", "prompt_embeds": "AAAA"}, Reason.PROMPT_EMBEDS),
        ("/v1/completions", {"prompt": "a", "echo": True, "logprobs": 1}, Reason.PROMPT_LOGPROBS),
        ("/v1/responses", {"input": "a", "previous_response_id": "resp_1"}, Reason.STORED),
        ("/v1/responses", {"input": "a", "previous_input_messages": []}, Reason.CONVERSION),
        ("/v1/messages", {"messages": "a"}, Reason.MALFORMED),
        ("/v1/embeddings", {"input": "a", "padding": "max_length"}, Reason.TRUNCATION),
        ("/tokenize", {}, Reason.MALFORMED),
    ],
)
def test_what_cannot_be_scored_says_why(
    endpoint: str, body: Mapping[str, Any], reason: Reason, reader: PromptReader
) -> None:
    assert reader.read(endpoint, body) == Unscored(reason)


def test_a_cut_to_an_unknown_length_cannot_be_scored(small_tokenizer: Tokenizer) -> None:
    reader = PromptReader(small_tokenizer, PromptSettings())
    body = {"prompt": "Hello", "truncate_prompt_tokens": -1}
    assert reader.read("/v1/completions", body) == Unscored(Reason.TRUNCATION)


def test_a_chat_without_a_template_cannot_be_scored(small_tokenizer: Tokenizer) -> None:
    reader = PromptReader(small_tokenizer, PromptSettings())
    assert reader.read(CHAT, {"messages": [HELLO]}) == Unscored(Reason.NO_TEMPLATE)
    assert isinstance(reader.read("/v1/completions", {"prompt": "Hello"}), EncodedPrompts)


@pytest.mark.parametrize("endpoint", [CHAT, "/v1/messages", "/v1/responses"])
def test_the_salt_is_told(endpoint: str, reader: PromptReader) -> None:
    body = {"messages": [HELLO], "input": "Hello", "cache_salt": "tenant-a"}
    assert encoded(reader, endpoint, body).salt == "tenant-a"


def test_a_completion_of_the_rendered_text_is_the_chats_prompt(reader: PromptReader) -> None:
    text = "<|bos|><|im_start|>userHello<|im_end|>\n<|im_start|>assistant\n"
    chat = encoded(reader, CHAT, {"messages": [HELLO]})
    completion = encoded(reader, "/v1/completions", {"prompt": text, "add_special_tokens": False})
    assert list(chat.prompts[0]) == list(completion.prompts[0])


def test_a_known_prompt_is_read_at_once_and_a_new_one_is_not() -> None:
    template = "{% for message in messages %}<|im_start|>{{ message.content }}{% endfor %}"
    reader, fresh = (load(TOKENIZER, PromptSettings(chat_template=template)) for _ in range(2))
    said = [{"role": "user", "content": f"{number} words of a long talk. " * 20} for number in range(200)]
    turn = {"messages": [*said, HELLO]}
    with pytest.raises(TooMuch):
        reader.read_at_once(CHAT, turn)
    encoded(reader, CHAT, {"messages": said})
    assert reader.read_at_once(CHAT, turn) == encoded(fresh, CHAT, turn)


def test_readers_are_shared_by_threads(reader: PromptReader) -> None:
    bodies = [{"messages": [{"role": "user", "content": f"{number} and so on " * number}]} for number in range(1, 200)]
    alone = [encoded(reader, CHAT, body) for body in bodies]
    fresh = load(TOKENIZER, PromptSettings(chat_template="{{ messages[0].content }}"))
    expected = [encoded(fresh, CHAT, body) for body in bodies]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda body: encoded(reader, CHAT, body), bodies * 2)) == alone * 2
        assert list(threads.map(lambda body: encoded(fresh, CHAT, body), bodies * 2)) == expected * 2


class TestImages:
    IMAGE: Mapping[str, Any] = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}

    @pytest.mark.parametrize("server", ["text", "parts"])
    def test_tokens_end_before_the_first(self, server: str, recorded_readers: Mapping[str, PromptReader]) -> None:
        reader = recorded_readers[server]
        parts = [{"type": "text", "text": "What is this?"}, self.IMAGE, self.IMAGE]
        turns = [HELLO, {"role": "assistant", "content": "Hi"}, {"role": "user", "content": parts}, HELLO]
        with_image = encoded(reader, CHAT, {"messages": turns})
        before = encoded(reader, CHAT, {"messages": turns[:2], "add_generation_prompt": False})
        tokens = list(with_image.prompts[0])
        assert with_image.images_from == len(tokens)
        assert len(tokens) >= len(before.prompts[0])
        assert tokens[: len(before.prompts[0])] == list(before.prompts[0])

    def test_two_images_in_the_same_place_give_the_same_tokens_before_them(self, reader: PromptReader) -> None:
        one, other = (
            encoded(
                reader, CHAT, {"messages": [{"role": "user", "content": [{**self.IMAGE, "image_url": {"url": url}}]}]}
            )
            for url in ("http://a/1.png", "http://a/2.png")
        )
        assert one == other

    def test_a_mark_in_the_text_only_shortens_the_match(self, reader: PromptReader) -> None:
        body = {"messages": [{"role": "user", "content": "a \U000ffffd b"}]}
        assert encoded(reader, CHAT, body).images_from is not None

    def test_anthropic_images_end_the_tokens_too(self, reader: PromptReader) -> None:
        image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
        body = {"max_tokens": 5, "messages": [HELLO, {"role": "user", "content": [image]}]}
        assert encoded(reader, "/v1/messages", body).images_from is not None


class TestThinkingSwitchedOff:
    """An Anthropic client that wants no thinking gets the effort `none`, or `low` where the template can't tell it."""

    BODY: Mapping[str, Any] = {"max_tokens": 5, "messages": [HELLO], "thinking": {"type": "disabled"}}

    @pytest.mark.parametrize(
        ("template", "effort"),
        [
            ("{{ reasoning_effort }}", "none"),
            ("{{ 'max' if reasoning_effort not in ('low', 'high') else reasoning_effort }}", "low"),
            ("{{ raise_exception('no') if reasoning_effort == 'none' else reasoning_effort }}", "low"),
        ],
    )
    def test_effort_follows_the_template(self, template: str, effort: str, small_tokenizer: Tokenizer) -> None:
        reader = PromptReader(small_tokenizer, PromptSettings(chat_template=template))
        chat = encoded(reader, CHAT, {"messages": [HELLO], "reasoning_effort": effort})
        assert encoded(reader, "/v1/messages", self.BODY) == chat

    def test_effort_may_be_set(self, small_tokenizer: Tokenizer) -> None:
        settings = PromptSettings(chat_template="{{ reasoning_effort }}", disabled_thinking_effort="medium")
        reader = PromptReader(small_tokenizer, settings)
        chat = encoded(reader, CHAT, {"messages": [HELLO], "reasoning_effort": "medium"})
        assert encoded(reader, "/v1/messages", self.BODY) == chat


class TestEmbeddings:
    def test_inputs_are_encoded_like_completions(self, reader: PromptReader) -> None:
        inputs = ["Hello", "What is it?"]
        asked = encoded(reader, "/v1/embeddings", {"input": inputs})
        assert asked == encoded(reader, "/v1/completions", {"prompt": inputs})

    def test_they_are_cut_on_the_right_and_keep_the_special_tokens(self, reader: PromptReader) -> None:
        whole = encoded(reader, "/v1/embeddings", {"input": "What is the weather?"}).prompts[0]
        cut = encoded(reader, "/v1/embeddings", {"input": "What is the weather?", "truncate_prompt_tokens": 3}).prompts[
            0
        ]
        assert list(cut) == list(whole[:3])

    def test_chats_get_no_generation_prompt(self, reader: PromptReader) -> None:
        embedded = encoded(reader, "/v1/embeddings", {"messages": [HELLO]})
        assert embedded == encoded(reader, CHAT, {"messages": [HELLO], "add_generation_prompt": False})


class TestLoading:
    @pytest.mark.parametrize("source", ["no-such/model", "/models/on/another/machine"])
    def test_a_missing_model_is_named(self, source: str) -> None:
        with pytest.raises(TokenizerError, match=source):
            load(source)

    def test_a_tokenizer_of_a_kind_that_is_not_known_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
        (tmp_path / "tokenizer.json").write_text('{"version": "1.0", "added_tokens": [], "model": {"type": "New"}}')
        with pytest.raises(TokenizerError, match="no tokenizer can be loaded"):
            load(tmp_path)

    def test_a_broken_template_is_refused(self) -> None:
        with pytest.raises(TokenizerError, match="template"):
            load(TOKENIZER, PromptSettings(chat_template="{% if %}"))

    def test_a_model_that_vllm_renders_by_its_own_code_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text('{"architectures": ["GptOssForCausalLM"]}')
        with pytest.raises(NotReproducible, match="Harmony"):
            load(tmp_path)

    def test_a_processors_template_is_used_where_there_are_no_tools(self, tmp_path: Path) -> None:
        for file in TOKENIZER.iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes())
        (tmp_path / "preprocessor_config.json").write_text("{}")
        (tmp_path / "chat_template.json").write_text('{"chat_template": "{{ messages[0].content }}"}')
        reader = load(tmp_path)
        assert encoded(reader, CHAT, {"messages": [HELLO]}) == encoded(
            reader, "/v1/completions", {"prompt": "Hello", "add_special_tokens": False}
        )
        tools = [{"type": "function", "function": {"name": "f"}}]
        assert reader.read(CHAT, {"messages": [HELLO], "tools": tools}) == Unscored(Reason.NO_TEMPLATE)
