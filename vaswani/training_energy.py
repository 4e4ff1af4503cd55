"""Where a run was trained, how long it took, and an estimate of the energy that it used.

    compute_facts      rows for the model card

Nothing is measured: energy is nominal power times time. What the estimate assumes stands beside it
in the card, and a device whose power is not known gets none.
"""

import os
import platform
import re

import torch

from vaswani.training_arguments import VaswaniTrainingArguments
from vaswani.wording import counted

# Watts of the board, as the makers' data sheets give them. The first name that fits counts.
_BOARD_WATTS = {
    "B200": 1000,
    "H200 NVL": 600,
    "H200": 700,
    "H100 PCIe": 350,
    "H100 NVL": 400,
    "H100": 700,
    "A100-PCIE": 250,
    "A100 80GB PCIe": 300,
    "A100": 400,
    "L40S": 350,
    "L4": 72,
    "A10G": 300,
    "A10": 150,
    "T4": 70,
    "V100-PCIE": 250,
    "V100": 300,
    "P100-PCIE": 250,
    "P100": 300,
    "RTX 4090": 450,
    "RTX 3090": 350,
}
# Of these a name gives the chip, not the power.
_OTHER_POWER = ("Laptop", "MIG")
# What codecarbon assumes of a processor that it does not know: half of 85 W.
_PROCESSOR_WATTS = 42.5


def compute_facts(args: VaswaniTrainingArguments, minutes: float) -> dict[str, str]:
    """The device, the processes, the time and the energy of a run.

    Args:
        args: settings of the run, after it.
        minutes: how long it took, reading of the data included.
    """
    processes = max(args.world_size, 1)
    machines = max(processes // int(os.environ.get("LOCAL_WORLD_SIZE", processes)), 1)
    on_gpu = args.device.type == "cuda"
    name = torch.cuda.get_device_name(args.device) if on_gpu else processor_name()
    threads = "" if on_gpu else f", {counted(torch.get_num_threads(), 'thread')} a process"
    facts = {
        "device": f"{processes} x {name}" if on_gpu else name,
        "processes": f"{counted(processes, 'process', 'processes')}{threads}",
        "wall time": f"{minutes:.1f} minutes",
    }
    if on_gpu or args.device.type == "cpu":
        boards = (name, processes) if on_gpu else None
        return facts | energy_estimate(minutes, machines, boards)
    return facts | _no_estimate(name)


def _no_estimate(name: str) -> dict[str, str]:
    return {"energy (estimate)": f"none: the power of {name} is not known"}


def energy_estimate(
    minutes: float, machines: int, boards: tuple[str, int] | None
) -> dict[str, str]:
    """An estimate in kWh with its formula and all that it assumes, or why there is none.

    Args:
        minutes: wall time.
        machines: how many took part.
        boards: name and number of the GPUs, if any.
    """
    watts = machines * _PROCESSOR_WATTS
    terms = f"{counted(machines, 'processor')} x {_PROCESSOR_WATTS} W"
    if boards is not None:
        name, count = boards
        board = board_watts(name)
        if board is None:
            return _no_estimate(name)
        watts += count * board
        terms = f"{counted(count, 'GPU')} x {board} W + {terms}"
    energy = watts * minutes / 60 / 1000
    data_sheet = "" if boards is None else "GPUs at the full power of their data sheet, "
    return {
        "energy (estimate)": f"{energy:.3g} kWh = ({terms}) x {minutes / 60:.3g} h",
        "what the estimate assumes": f"nominal power times time, not measured: {data_sheet}a "
        "processor at half of 85 W, whatever it is; memory, cooling and runs before this one left "
        "out",
    }


def board_watts(name: str) -> int | None:
    """The power of a GPU by its name, in watts; `None` where it is not known."""
    if any(word in name for word in _OTHER_POWER):
        return None
    for part, watts in _BOARD_WATTS.items():
        if re.search(rf"(?<![A-Za-z0-9]){re.escape(part)}(?![A-Za-z0-9])", name):
            return watts
    return None


def processor_name() -> str:
    """The processor as the system names it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return " ".join(line.partition(":")[2].split())
    except OSError:
        pass
    return platform.processor() or platform.machine() or "a processor"
