"""The backend over OpenAI-compatible servers."""

from prereg_judge.engine.openai.backend import OpenAIBackend
from prereg_judge.engine.openai.spec import ServerSpec

__all__ = ["OpenAIBackend", "ServerSpec"]
