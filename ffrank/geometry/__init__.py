"""What is known of networks beyond their programs: symmetries with proofs, and closed formulas."""
