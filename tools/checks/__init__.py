"""The parts of tools/check, each a check(tree) that says what it checked and what is wrong."""
