"""Errors, clock, settings, storage and the ledger."""
