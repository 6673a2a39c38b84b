"""The workers: who acts, serves policies, prepares experience, learns and evaluates."""
