"""The fleet: the same policies and algorithms on many processes and machines."""
