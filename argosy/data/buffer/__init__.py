"""Buffers: transitions in rings of slots (`Storage`), and complete samples of them (`ReplayBuffer`)."""
