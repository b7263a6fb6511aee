"""Right clients that differ from the reference in what the texts leave free: they show that no case for clients demands too much."""
