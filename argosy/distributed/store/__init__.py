"""Versions of policy parameters, and the worker that keeps them."""
