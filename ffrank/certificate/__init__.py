"""Certificates: making them, and checking them with code that shares nothing with the making."""
