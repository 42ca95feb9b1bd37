"""The one exception for input that a person can mend.

Everything that reads what somebody wrote (files, configs, arguments) raises
`InputError` with one sentence that says what is wrong, where (file, line or key)
and how to mend it. The command line prints it as one line and exits with 2.
"""


class InputError(ValueError):
    """Bad input: the message says what, where and how to mend it."""
