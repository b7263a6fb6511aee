"""The commands that show what the suite and its recordings have: list, show, explain."""

import json

from conformance import names
from conformance.judging.results import judge_trial
from conformance.running import recorder

CASE = "core/handshake/connected"


def test_list_and_show_and_explain(run, suite):
    assert CASE in run("list").output
    cases = json.loads(run("list", "--json").output)
    assert len(cases) == len(suite.select(()))
    clauses = json.loads(run("list", "--clauses", "--json").output)
    assert {one["clause"] for one in clauses} == set(suite.clauses)
    for form in ("line", "hex", "sequence"):
        assert "CONNECT" in run("show", CASE, "--as", form).output
    clause = suite.transcripts[CASE].clauses[0]
    assert suite.clauses[clause].text.split()[0] in run("explain", clause).output


def test_a_list_of_clauses_has_their_cases_or_the_reason_why_there_is_none(run, suite):
    lines = run("list", "--clauses").output.splitlines()
    said = {one.partition(" ")[0]: lines[place + 1].strip() for place, one in enumerate(lines[:-1]) if not one.startswith(" ")}
    assert said["core.deliver.chunks"] == "cases: core/deliver/chunks, transcribed/python-chunks"
    excluded = next(one for one in suite.clauses.values() if one.excluded)
    assert said[excluded.id].startswith(f"no case: {excluded.excluded[:40]}")
    observed = next(one for one in suite.clauses.values() if one.observed_by and not suite.cases_of[one.id])
    assert said[observed.id] == f"no case: the monitor {observed.observed_by} watches it in every conversation"
    assert set(said) == set(suite.clauses)


def test_a_list_of_cases_says_what_it_leaves_out(run, suite):
    others = len(suite.transcripts) - len(suite.select(()))
    assert run("list").output.splitlines()[-1].endswith(f"; {others} more of the profile as-written")
    assert "more of" not in run("list", "--select", CASE).output


def test_a_client_case_is_drawn_with_its_driver(run):
    shown = run("show", "pip145/client/polls").output
    assert "> driver   consumer{" in shown
    assert "admin  consumer" not in shown


def test_list_of_clauses_obeys_select(run, suite):
    def listed(*select):
        options = [one for pattern in select for one in ("--select", pattern)]
        return {one["clause"] for one in json.loads(run("list", "--clauses", "--json", *options).output)}

    of_list = {name for name in suite.clauses if name.startswith("pip247.")}
    assert of_list
    assert listed("pip247.*") == of_list
    assert listed("pip247.*", "!pip247.client.*") == {name for name in of_list if not name.startswith("pip247.client.")}
    assert listed(CASE) == set(suite.transcripts[CASE].clauses)


def test_show_tells_what_is_bound_later_as_far_as_it_is_known(run):
    shown = run("show", "pr25648/layout/recreated-segments").output
    assert 'topic: "segment://public/ns/t-1/0000-ffff-${number}"' in shown
    assert 'topic: {$segment_name: ["topic://public/ns/t-1", "$two", 0]}' in shown


def test_show_leads_from_a_clause_to_its_cases(run, suite):
    alone = next(clause for clause, cases in suite.cases_of.items() if len(cases) == 1)
    several = next(clause for clause, cases in suite.cases_of.items() if len(cases) > 1)
    untested = next(clause for clause, cases in suite.cases_of.items() if not cases)
    assert run("show", alone).output == run("show", suite.cases_of[alone][0]).output
    assert all(case in run("show", several).output for case in suite.cases_of[several])
    result = run("show", untested)
    assert (result.exit_code, f"`explain {untested}`" in result.output) == (2, True)


def test_explain_and_show_judge_only_what_they_show(run, suite, monkeypatch):
    judged = []

    def judge(suite, trial_log, header):
        judged.append(trial_log.begin.case)
        return judge_trial(suite, trial_log, header)

    monkeypatch.setattr("conformance.judging.results.judge_trial", judge)
    monkeypatch.setattr("conformance.report.show.judge_trial", judge)
    run("show", CASE)
    assert set(judged) == {CASE}
    judged.clear()
    clause = next(one for one, cases in suite.cases_of.items() if any(suite.transcripts[case].control for case in cases))
    cases = suite.cases_of[clause]
    assert "apache-pulsar@4.2.4: PASS" in run("explain", clause).output
    assert set(judged) <= {*cases, *(suite.transcripts[case].control for case in cases)}
    assert judged


def test_a_clause_of_clients_is_explained_by_what_clients_do(run):
    said = run("explain", "core.client.acks-in-batch").output
    assert "client:rust: XFAIL" in said
    assert "client:java: PASS" in said
    assert "apache-pulsar@" not in said
    assert "as it was on client:rust" in run("show", "core/client/acks-in-batch", "--target", "client:rust").output
    assert "did you mean 'client:rust'?" in run("show", "core/client/acks-in-batch", "--target", "client:ruby").output


def test_recording_of_some_cases_holds_all_of_them(suite):
    whole = recorder.load_target("apache-pulsar@4.2.4")
    with_cells = next(one.begin.case for one in whole.trial_logs.values() if one.begin.cell)
    only = {with_cells, CASE, whole.skipped[0].case}
    part = recorder.load_target("apache-pulsar@4.2.4", only=only)
    assert part.trial_logs == {key: one for key, one in whole.trial_logs.items() if one.begin.case in only}
    assert part.skipped == [one for one in whole.skipped if one.case in only]
    assert part.results == [one for one in whole.results if one.case in only]
    assert recorder.load_target("apache-pulsar@4.2.4", only=()).header.release == whole.header.release


def test_ids_by_the_names_of_files_are_those_of_the_suite(suite):
    assert names.case_ids() == list(suite.transcripts)
    assert names.clause_ids() == list(suite.clauses)
