"""Lists the named model sizes with their settings and parameter counts."""

ARGUMENTS: tuple[type, ...] = ()
EXAMPLES = "vaswani presets"


def run() -> int:
    return 0
