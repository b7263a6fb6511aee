"""The reference client with one fault each: what cases for clients have to find. `model` explains; the other modules hold the faults."""
