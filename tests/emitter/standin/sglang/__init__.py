"""A stand-in for SGLang: the hook registry's interface, a scheduler, workers, and no GPU."""

__version__ = "0.5.17"
