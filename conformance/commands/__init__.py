"""The implementation of the commands. Their names and options are in `conformance.cli`, which imports these modules on demand."""
