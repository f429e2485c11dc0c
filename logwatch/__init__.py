"""logwatch: knows that a speculative-decoding server has stopped being worth it, and why."""

__version__ = "0.1.0"
