"""Certified dimensions of neural function spaces, by exact linear algebra over finite fields."""
