"""What a step cost and where the time went."""
