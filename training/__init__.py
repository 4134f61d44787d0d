"""Joins data and modeling: device, optimizer, loop, checkpoints."""
