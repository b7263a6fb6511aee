"""Reference implementation of the proposals that this project specifies: wire format, rules, and the machines built on them."""
