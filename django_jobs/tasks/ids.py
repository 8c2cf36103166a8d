"""What can be the id of a job."""

from __future__ import annotations

import re
from typing import TypeGuard

ID = re.compile(r"[1-9][0-9]{0,18}")
LARGEST_ID = 2**63 - 1


def is_id(text: object) -> TypeGuard[str]:
    """Tell whether ``text`` can be the id of a job; much that int() takes is none."""
    return isinstance(text, str) and bool(ID.fullmatch(text)) and int(text) <= LARGEST_ID
