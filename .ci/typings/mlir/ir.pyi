# The stubs that ship with the bindings do not match them: names are untyped.
from typing import Any

def __getattr__(name: str) -> Any: ...
