import pytest

from gateway.api.multipart import multipart_model
from gateway.errors import BadRequest

TYPE = b"multipart/form-data; boundary=xyz"


def form(*parts: bytes) -> bytes:
    return b"".join(b"--xyz\r\n" + part + b"\r\n" for part in parts) + b"--xyz--\r\n"


FILE = (
    b'Content-Disposition: form-data; name="file"; filename="model"\r\nContent-Type: audio/wav\r\n\r\n\0\1name="model"'
)
MODEL = b'Content-Disposition: form-data; name="model"\r\n\r\nwhisper'


def test_the_model_is_found_wherever_it_stands() -> None:
    assert multipart_model(TYPE, form(FILE, MODEL)) == "whisper"
    assert multipart_model(b'multipart/form-data; boundary="xyz"', form(MODEL, FILE)) == "whisper"
    assert multipart_model(TYPE, form(FILE)) is None


def test_two_models_are_one_too_many() -> None:
    with pytest.raises(BadRequest):
        multipart_model(TYPE, form(MODEL, FILE, MODEL.replace(b"whisper", b"other")))


def test_a_form_without_a_boundary_is_none() -> None:
    with pytest.raises(BadRequest):
        multipart_model(b"multipart/form-data", form(MODEL))
