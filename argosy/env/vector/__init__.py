"""Vector envs: many envs behind one `reset` and one `step`, wherever they live."""
