"""Checkpoints without a shape: fragments, manifests and the store that commits them."""
