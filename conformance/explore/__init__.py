"""Scenarios that nobody wrote: what a target says, step by step, beside what the reference says.

world.py        the names of a scenario, and the actions that it may hold, as hypothesis strategies
actions.py      each kind of action: what is sent, in the language of the cases
player.py       plays a scenario on one broker and keeps what was said
said.py         what a broker said, without what it may choose freely
explorer.py     plays on both, compares, shrinks what differs, counts what was covered
concurrent.py   several actors without a pause between them, judged by what must hold afterwards
written.py      a scenario as a transcript that `run --case` takes

client_case.py       a scenario for a client as the steps of a case, and what must come of them
client_actions.py    what the user of a client does, and what the broker does to it
client_stories.py    more of it: topics that come, go and grow under a pattern, a second namespace, filters, refusals
client_explorer.py   draws such scenarios, runs them as cases, shrinks what fails
"""
