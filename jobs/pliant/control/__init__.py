"""The driver's side of a run: checks before, hosts the workers, watches, and ends it in order."""
