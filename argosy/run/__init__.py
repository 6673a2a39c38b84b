"""Around the loop: train, resume, play and evaluate an experiment; the run's folder and its result."""
