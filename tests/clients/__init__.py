"""The suite in front of clients: right ones, faulty ones, and drivers that break their protocol."""
