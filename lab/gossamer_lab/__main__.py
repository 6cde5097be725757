"""Entry for ``python -m gossamer_lab``."""

from gossamer_lab.cli import main

main()
