"""Fail as a library does where there is no GPU."""

raise ImportError("libcuda.so.1: cannot open shared object file: No such file or directory")
