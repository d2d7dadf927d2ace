"""Parametrized maps as small programs, and their interpreters."""
