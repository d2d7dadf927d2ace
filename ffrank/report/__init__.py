"""Reports of batches, drawn from their results alone: a page for a browser, tables for papers."""
