"""The servers that can be measured: ours, peers and toys."""
