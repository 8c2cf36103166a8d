"""The verbs of ``manage.py jobs``: one module each, found by its name.

A verb is a module of this package (``purge.py`` is ``jobs purge``; a package does too, a
``_`` in the name is written ``-``) with three names::

    HELP = "Delete old finished jobs."  # one sentence, shown by ``jobs --help``


    def add_arguments(parser: ArgumentParser) -> None: ...  # its own flags


    def run(call: Call) -> Status: ...  # do it

``call`` (``management/frame.py``) holds what was said (``call.given``), where it acts
(``call.backend``, ``call.database``, ``call.options``) and how it answers (``call.out``);
``call.actor`` is who acts, and ``call.confirm()`` asks before anything is destroyed.
``--backend``, ``--database`` and ``--json`` are every verb's; ``add_act_flags()`` adds those
of an act: ``--reason``, ``--as`` and ``--yes``. A verb that fails raises ``Failed`` with one
sentence, which goes to standard error. An error of the database is said in one line for it.
A verb has no rules of its own: it calls one operation, as a page of the admin does.
"""

from __future__ import annotations
