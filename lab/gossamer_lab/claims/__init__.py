"""Claims of a document: the quantities that they are about, and their verdicts."""
