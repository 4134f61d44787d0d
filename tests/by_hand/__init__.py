"""Checks against other libraries, in environments of their own.

A person starts them. They compare results and measure no speed.
"""
