"""Numbers in sentences.

counted    1 -> `1 pair`, 2000 -> `2,000 pairs`
lasting    seconds -> `12 seconds`, `1.5 minutes`
"""


def counted(number: float, one: str, many: str | None = None) -> str:
    """The number and its noun, in the plural unless the number is 1.

    Args:
        number: how many; of a number that is not whole, six digits are shown.
        one: the noun for 1.
        many: its plural; `None` puts an s at the end.
    """
    noun = one if number == 1 else many or f"{one}s"
    return f"{number:,} {noun}" if isinstance(number, int) else f"{number:,g} {noun}"


def lasting(seconds: float) -> str:
    """A duration in minutes to a tenth, or in whole seconds below one minute."""
    if seconds < 0.5:
        return "less than a second"
    if round(seconds) < 60:
        return counted(round(seconds), "second")
    return counted(round(seconds / 60, 1), "minute")
