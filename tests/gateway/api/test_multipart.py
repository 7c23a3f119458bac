import pytest

from gateway.api.multipart import FormModel
from gateway.errors import BadRequest

TYPE = b"multipart/form-data; boundary=xyz"


def form(*parts: bytes) -> bytes:
    return b"".join(b"--xyz\r\n" + part + b"\r\n" for part in parts) + b"--xyz--\r\n"


FILE = (
    b'Content-Disposition: form-data; name="file"; filename="model"\r\nContent-Type: audio/wav\r\n\r\n\0\1name="model"'
)
MODEL = b'Content-Disposition: form-data; name="model"\r\n\r\nwhisper'


def read(content_type: bytes, raw: bytes, step: int = 1000) -> FormModel:
    form = FormModel(content_type)
    for at in range(0, len(raw), step):
        form.feed(raw[at : at + step])
    return form


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_the_model_is_found_wherever_it_stands(step: int) -> None:
    assert read(TYPE, form(FILE, MODEL), step).name == "whisper"
    assert read(b'multipart/form-data; boundary="xyz"', form(MODEL, FILE), step).name == "whisper"
    assert read(TYPE, form(FILE), step).name is None


def test_the_model_is_what_the_engine_reads_however_it_is_spelt() -> None:
    spellings = [
        b'content-disposition: form-data; x="; name=y"; name=model\r\n\r\nwhisper',
        b'X: y\r\nCONTENT-DISPOSITION: form-data; NAME="model"\r\n\r\nwhisper',
    ]
    for spelling in spellings:
        assert read(TYPE, form(spelling)).name == "whisper"
    assert read(TYPE + b"; charset=utf-7", form(MODEL.replace(b'"model"', b'"+AG0-odel"'))).name == "whisper"
    assert read(TYPE + b"; charset=none-such", form(MODEL)).name == "whisper"


def test_two_models_are_one_too_many() -> None:
    with pytest.raises(BadRequest):
        read(TYPE, form(MODEL, FILE, MODEL.replace(b"whisper", b"other")))


@pytest.mark.parametrize(
    ("content_type", "raw"),
    [
        (b"multipart/form-data", form(MODEL)),
        (b"multipart/form-data; boundary=" + b"x" * 300, b""),
        (TYPE, b"--abc\r\n"),
        (TYPE, form(MODEL.replace(b"whisper", b"w" * 2000))),
    ],
)
def test_what_is_no_form_is_refused(content_type: bytes, raw: bytes) -> None:
    with pytest.raises(BadRequest):
        read(content_type, raw)


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_another_name_takes_the_place_of_the_models(step: int) -> None:
    raw = form(FILE, MODEL)
    assert read(TYPE, raw, step).renamed(raw, "other") == form(FILE, MODEL.replace(b"whisper", b"other"))


def test_a_model_that_is_given_twice_is_not_renamed() -> None:
    raw = form(MODEL, FILE, MODEL)
    with pytest.raises(BadRequest):
        read(TYPE, raw).renamed(raw, "other")
