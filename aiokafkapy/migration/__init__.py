"""Moving over from other clients: the changes to a program, line by line.

Paths of Python files come in; the lines to change, with the reasons, go out.

``libraries`` has each client's calls and their counterparts here; ``programs`` finds them in source code, which it
reads and never runs. The names of options are not here: they are ``client.options.foreign_options``'s and Spark's.
"""

from __future__ import annotations

from .libraries import LIBRARIES, Library
from .programs import Change, changes_by_file, changes_in

__all__ = ["LIBRARIES", "Change", "Library", "changes_by_file", "changes_in"]
