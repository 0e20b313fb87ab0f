"""What everything in Pliant stands on: core, checkpoints, metrics and the planner."""
