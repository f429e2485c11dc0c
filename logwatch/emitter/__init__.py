"""The SGLang plugin: `EAGLE3_PROFILE=1` without patching SGLang. A stranger in the house.

It runs inside the server's processes, so it imports the standard library only (sglang and torch inside
functions), and nothing else of logwatch. What it writes is understood by `grammars/eagle3_profile.toml`.
"""
