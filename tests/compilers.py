"""Whether this machine can compile what torch generates; nothing here is a test."""

import pytest
from torch._inductor.cpp_builder import get_cpp_compiler
from torch._inductor.exc import InvalidCxxCompiler


def _compiler_is_missing() -> bool:
    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        return True
    return False


needs_compiler = pytest.mark.skipif(
    _compiler_is_missing(), reason="torch.compile needs a C++ compiler (g++), and there is none"
)
