"""What flows between workers: segments of experience, and requests for actions with their answers."""
