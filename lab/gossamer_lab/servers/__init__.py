"""The servers that are measured: our architectures and the peers."""
