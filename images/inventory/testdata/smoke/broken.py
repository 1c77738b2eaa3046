"""Fail."""

raise ValueError("on purpose")
