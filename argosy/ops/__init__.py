"""Pure functions on tensors: returns and advantages, distributions."""
