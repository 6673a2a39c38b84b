"""Workers: the envs of a vector env, in this process (local), in others (process) or on a cluster (ray)."""
