"""The one error type for input that a user can put right.

Everything that reads what a person typed or wrote (files, flags, settings) raises `InputError`
with a message of one line. The command line prints that line and exits with code 2; any other
exception is a defect of ours and keeps its traceback.
"""


class InputError(ValueError):
    """Says in one line which input broke which rule, with which value, and the remedy."""
