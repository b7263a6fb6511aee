"""What the commands do. What they are called and take is in `conformance.cli`, which imports these modules when a command is given."""
