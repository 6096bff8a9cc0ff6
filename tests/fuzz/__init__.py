"""Inputs that are damaged with knowledge of their structure, fed to whole commands: see ``make fuzz``.

An input is a short text of bytes that says what to do: which command, and which edits of a healthy file. So every input
is small, a fuzzer that changes bytes changes edits, and leaving edits out makes an input smaller.
"""
