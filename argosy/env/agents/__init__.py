"""Environments for several agents."""
