"""Clients under test: their drivers, the backdrop that answers them, and the runs that judge them."""
