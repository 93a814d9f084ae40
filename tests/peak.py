"""The peak memory of a process that a test starts, as source to put in front of its own."""

PEAK_KB = r"""
import re, resource
def peak_kb():
    try:  # not ru_maxrss, which a process has from the one that started it, however large
        return int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
"""
