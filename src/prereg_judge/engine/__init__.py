"""The engine: rendered prompts in, replies out. Knows neither registrations nor statistics.

`protocol` has the value types, `llama` wraps llama.cpp's low-level interface, `worker` is the
process that holds the model, `client` talks to it, and `supervisor` sets deadlines, kills what
hangs and tries again as it was told.
"""
