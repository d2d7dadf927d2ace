"""``python -m ffrank``."""

from ffrank.cli import main

main()
