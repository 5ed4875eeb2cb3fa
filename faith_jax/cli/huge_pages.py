"""Memory in huge pages for training on CPUs.

A training step on a CPU allocates gigabytes anew. The kernel takes a tenth of the step to give them
in pages of 4 KiB, and little in pages of 2 MiB. Most kernels give these on request, and glibc
requests them if a variable says so when the process starts.
"""

import os
import pathlib
import sys

_PAGES = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
_VARIABLE, _SETTING = "GLIBC_TUNABLES", "glibc.malloc.hugetlb"


def restart_with_huge_pages() -> None:
    """Starts this process anew, with the same arguments, so that glibc requests huge pages.

    Returns where the kernel has none on request, and where the environment says whether to request
    them: after the restart, or by the user (`GLIBC_TUNABLES=glibc.malloc.hugetlb=0` for none).
    """
    told = os.environ.get(_VARIABLE, "")
    if _SETTING in told or not _PAGES.is_file() or "[madvise]" not in _PAGES.read_text():
        return
    os.environ[_VARIABLE] = ":".join(filter(None, (told, f"{_SETTING}=1")))
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
