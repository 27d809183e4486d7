"""The command line: one file per command, each with a click command named ``command``."""
