"""The lab: experiments that measure Gossamer's architectures and their peers on this machine."""
