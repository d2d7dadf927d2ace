"""Batches: many certificates, resumable, on one machine or a cluster. The module itself can be called, see `batch`."""
