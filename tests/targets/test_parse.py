"""What users write, and what they are told when it is wrong."""

import re
from pathlib import Path

import pytest

from conformance.targets import ApachePulsar, AttachedTarget, Endpoint, StartedTarget, TargetError, as_settings, parse_target, redacted
from conformance.targets.target_file import EXAMPLE, line_of

FORMS = (
    "a target is reference, in-process or apache-pulsar@VERSION, each with ?brokers=N if a cluster is meant, "
    "apache-pulsar@VERSION?proxy=true, "
    "pulsar://HOST:PORT, pulsar+ssl://HOST:PORT, a file FILE.toml, or client:NAME"
)
VERSIONS = "2.10.5, 2.11.0, 3.0.7, 4.0.0, 4.2.4, 5.0.0-M1"
SERVICE_FORM = "it has the form pulsar://HOST:PORT or pulsar+ssl://HOST:PORT"


def endpoint_of(target: object) -> Endpoint:
    assert isinstance(target, AttachedTarget | StartedTarget)
    return target.endpoint


@pytest.mark.parametrize(
    ("text", "host", "port", "tls"),
    [
        ("pulsar://127.0.0.1:6650", "127.0.0.1", 6650, False),
        ("pulsar://broker.example:1234", "broker.example", 1234, False),
        ("pulsar://broker.example", "broker.example", 6650, False),
        ("pulsar+ssl://broker.example", "broker.example", 6651, True),
        ("pulsar://[::1]:7000/", "::1", 7000, False),
    ],
)
def test_an_address_is_attached_to(text: str, host: str, port: int, tls: bool) -> None:
    target = parse_target(text)
    endpoint = endpoint_of(target)
    assert (endpoint.host, endpoint.port, endpoint.tls) == (host, port, tls)
    assert (target.name, target.release, target.startable) == (text.rstrip("/"), None, False)


def test_a_version_is_started() -> None:
    target = parse_target("apache-pulsar@4.2.4")
    assert isinstance(target, ApachePulsar)
    assert (target.name, target.release, target.startable) == ("apache-pulsar@4.2.4", "4.2.4", True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"'' is not a target ({FORMS})"),
        ("refrence", f"'refrence' is not a target; did you mean 'reference'? ({FORMS})"),
        ("reference@strict", "reference has no profile 'strict' (known: reference@default, reference@as-written)"),
        ("in-process@", "in-process has no profile '' (known: in-process@default, in-process@as-written)"),
        ("apache-pulsr@4.2.4", f"'apache-pulsr@4.2.4' is not a target; did you mean 'apache-pulsar@4.2.4'? ({FORMS})"),
        (
            "apache-pulsar@4.0.8",
            f"the suite does not start Apache Pulsar 4.0.8 (it starts {VERSIONS}; of another one start a broker yourself, and give its address: "
            "pulsar://HOST:PORT)",
        ),
        ("http://h:8080", "http://h:8080 is an admin URL, not a service URL (write pulsar://HOST:6650 --admin-url http://h:8080)"),
        ("kafka://h:1", f"the target 'kafka://h:1' is not a service URL ({SERVICE_FORM})"),
        ("pulsar://h:1/x", f"the target 'pulsar://h:1/x' is not a service URL ({SERVICE_FORM})"),
        ("pulsar://:6650", f"the target 'pulsar://:6650' is not the address of a host ({SERVICE_FORM})"),
        ("pulsar://h:0", f"the target 'pulsar://h:0' is not the address of a host ({SERVICE_FORM})"),
        ("pulsar://h:99999", f"the target 'pulsar://h:99999': Port out of range 0-65535 ({SERVICE_FORM})"),
        ("pulsar://a:1,b:2", "the target 'pulsar://a:1,b:2' names several hosts (one broker is tested at a time)"),
        ("pulsar://me:pass@h:1", "the target names a user or password (give a token with --token-file instead)"),
        ("h:6650", f"'h:6650' is not a target; did you mean 'pulsar://h:6650'? ({FORMS})"),
        ("client:./x", "client:./x is a client, and a broker is wanted here (`driver lint` checks the driver of a client)"),
        ("missing.toml", "missing.toml can't be read: No such file or directory"),
    ],
)
def test_what_is_no_target_is_named(text: str, message: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse_target(text)
    assert str(caught.value) == message


def test_a_missing_version_lists_the_known_ones() -> None:
    with pytest.raises(TargetError, match=r"apache-pulsar needs a version .*apache-pulsar@2.10.5, .*apache-pulsar@5.0.0-M1"):
        parse_target("apache-pulsar")


def test_a_version_takes_no_addresses() -> None:
    with pytest.raises(TargetError, match="takes no admin URL"):
        parse_target("apache-pulsar@4.2.4", admin_url="http://h:1")


def test_options_reach_the_endpoint(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("top-secret\n")
    (tmp_path / "ca.pem").write_text("")
    target = parse_target("pulsar+ssl://h", admin_url="https://h:8443", token_file=tmp_path / "token", tls_trust_certs=tmp_path / "ca.pem")
    endpoint = endpoint_of(target)
    assert endpoint.token is not None
    assert endpoint.token.get_secret_value() == "top-secret"
    assert (endpoint.admin_url, endpoint.tls_trust_certs) == ("https://h:8443", tmp_path / "ca.pem")
    assert "top-secret" not in f"{target!r} {target} {endpoint!r}"


@pytest.mark.parametrize("text", ["reference?brokers=2", "in-process@as-written?brokers=3"])
def test_a_cluster_of_the_reference(text: str) -> None:
    assert parse_target(text).name == text


def test_a_cluster_is_a_release_with_a_number_of_brokers() -> None:
    cluster = parse_target("apache-pulsar@4.2.4?brokers=3")
    assert (cluster.name, cluster.release, cluster.startable) == ("apache-pulsar@4.2.4?brokers=3", "4.2.4", False)
    for text in ("brokers=1", "brokers=9", "brokers=two", "broker=2", ""):
        with pytest.raises(TargetError, match=r"what follows \? is not understood"):
            parse_target(f"apache-pulsar@4.2.4?{text}")
        with pytest.raises(TargetError, match=r"what follows \? is not understood"):
            parse_target(f"reference?{text}")


def test_brokers_of_apache_pulsar_may_stand_behind_a_proxy() -> None:
    for text in ("apache-pulsar@2.11.0?proxy=true", "apache-pulsar@4.2.4?brokers=2&proxy=true"):
        proxied = parse_target(text)
        assert (proxied.name, proxied.release, proxied.startable) == (text, text[14:].partition("?")[0], False)
    for text in ("apache-pulsar@2.11.0?proxy=yes", "reference?proxy=true", "apache-pulsar@2.11.0?brokers=2&prox=true"):
        with pytest.raises(TargetError, match=r"what follows \? is not understood"):
            parse_target(text)


def test_tls_is_told_by_options_and_file(tmp_path: Path) -> None:
    for name in ("a.pem", "b.pem", "b.key"):
        (tmp_path / name).touch()
    path = tmp_path / "t.toml"
    path.write_text('name = "t"\nservice_url = "pulsar+ssl://a"\n[auth]\ntls_hostname = "h"\ntls_certificate = "a.pem"\n')
    told = endpoint_of(parse_target(str(path)))
    assert (told.tls_hostname, told.tls_certificate, told.tls_key) == ("h", tmp_path / "a.pem", None)
    certificate, key = tmp_path / "b.pem", tmp_path / "b.key"
    told = endpoint_of(parse_target(str(path), tls_hostname="other", tls_certificate=certificate, tls_key=key))
    assert (told.tls_hostname, told.tls_certificate, told.tls_key) == ("other", certificate, key)
    with pytest.raises(TargetError, match=r"TLS certificate .*b.pem and .*b.key: .*without a password"):
        told.ssl_context()
    with pytest.raises(TargetError, match="a TLS key has no certificate"):
        parse_target("pulsar+ssl://a", tls_key=key)
    with pytest.raises(TargetError, match="TLS certificate file nowhere does not exist"):
        parse_target("pulsar+ssl://a", tls_certificate=Path("nowhere"))
    with pytest.raises(TargetError, match="takes no allowed hosts, no listener, no TLS host name"):
        parse_target("reference", tls_hostname="h")


def test_hosts_of_a_cluster_are_allowed_by_options_and_file(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('name = "c"\nservice_url = "pulsar://a:1"\n[cluster]\nallow_hosts = ["b"]\nlistener = "inside"\n')
    endpoint = endpoint_of(parse_target(str(tmp_path / "c.toml"), allow_hosts=["c"], listener="outside"))
    assert (endpoint.allow_hosts, endpoint.listener) == (("b", "c"), "outside")
    assert endpoint_of(parse_target(str(tmp_path / "c.toml"))).listener == "inside"
    with pytest.raises(TargetError, match="takes no allowed hosts"):
        parse_target("apache-pulsar@4.2.4", allow_hosts=["b"])


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"token_file": Path("nowhere")}, "token file nowhere can't be read: No such file or directory"),
        ({"tls_trust_certs": Path("nowhere")}, "TLS trust file nowhere does not exist"),
        (
            {"admin_url": "h:8080"},
            "the admin URL 'h:8080' is not the address of a host (it has the form http://HOST:PORT or https://HOST:PORT)",
        ),
        (
            {"admin_url": "http://h:1/p/admin/v2/"},
            "the admin URL 'http://h:1/p/admin/v2/' ends with the path of the admin interface (leave out /admin and what follows it)",
        ),
        (
            {"admin_url": "pulsar://h:1"},
            "the admin URL 'pulsar://h:1' is not an HTTP URL (it has the form http://HOST:PORT or https://HOST:PORT)",
        ),
    ],
)
def test_wrong_options_are_named(option: dict[str, object], message: str) -> None:
    with pytest.raises(TargetError) as caught:
        parse_target("pulsar://h:1", **option)  # type: ignore[arg-type]
    assert str(caught.value) == message


def test_an_empty_token_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" \n")
    with pytest.raises(TargetError, match="is empty"):
        parse_target("pulsar://h", token_file=tmp_path / "token")


def test_secrets_never_show() -> None:
    config = {"tokenSecretKey": "data:xyz", "brokerClientAuthenticationParameters": "token:xyz", "clusterName": "c"}
    endpoint = Endpoint(name="n", service_url="pulsar://h", config=config)
    assert "xyz" not in repr(endpoint)
    assert redacted(config) == {"tokenSecretKey": "***", "brokerClientAuthenticationParameters": "***", "clusterName": "c"}


def test_settings_are_written_as_pulsar_does() -> None:
    assert as_settings({"a": True, "b": False, "c": 3, "d": "Text"}) == {"a": "true", "b": "false", "c": "3", "d": "Text"}


def written(folder: Path, text: str) -> str:
    path = folder / "t.toml"
    path.write_text(text)
    return str(path)


def test_the_example_file_is_whole_and_valid(tmp_path: Path) -> None:
    (tmp_path / "token.txt").write_text("top-secret")
    for name in ("ca.pem", "client.pem", "client.key"):
        (tmp_path / name).write_text("")
    text = EXAMPLE.replace('"pulsar://127.0.0.1:6650"', '"pulsar://127.0.0.1:{service_port}"')
    text = text.replace('"http://127.0.0.1:8080"', '"http://127.0.0.1:{admin_port}"')
    target = parse_target(written(tmp_path, text))
    assert isinstance(target, StartedTarget)
    assert (target.name, target.release, target.startable) == ("my-broker", "4.2.4", True)
    assert target.command[:3] == ("bin/broker", "--port", "{service_port}")
    assert target.folder == tmp_path
    endpoint = target.at_ports(1, 2)
    assert (endpoint.service_url, endpoint.admin_url) == ("pulsar://127.0.0.1:1", "http://127.0.0.1:2")
    assert endpoint.capabilities == {"topic-list-watch": True}
    assert endpoint.config == {"acknowledgmentAtBatchIndexLevelEnabled": "true"}
    assert endpoint.tls_hostname == "broker.example"
    assert "top-secret" not in repr(target)


def test_a_file_may_be_attached_to(tmp_path: Path) -> None:
    target = parse_target(written(tmp_path, 'name = "b"\nservice_url = "pulsar://h:1"\n'), admin_url="http://h:2")
    assert isinstance(target, AttachedTarget)
    assert (target.name, target.endpoint.admin_url) == ("b", "http://h:2")


@pytest.mark.parametrize(
    ("text", "setting", "message"),
    [
        ("pulsar://h:1", "a", "the setting 'a' has no value (write KEY=VALUE"),
        ("pulsar://h:1", "=a", "the setting '=a' has no value (write KEY=VALUE"),
        ("reference", "a=b", "reference is started for the run, with the settings that each case needs (leave out --setting)"),
    ],
)
def test_a_setting_that_can_not_be_meant_is_refused(text: str, setting: str, message: str) -> None:
    with pytest.raises(TargetError, match=re.escape(message)):
        parse_target(text, settings=[setting])


def test_addresses_of_a_started_target_default_to_the_free_ports(tmp_path: Path) -> None:
    target = parse_target(written(tmp_path, 'name = "b"\n[start]\ncommand = ["x", "{service_port}", "{admin_port}"]\n'))
    assert isinstance(target, StartedTarget)
    assert target.at_ports(5, 6).admin_url == "http://127.0.0.1:6"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            'name = "b"\n\nservice_ur = "x"\n',
            ":3: unknown key 'service_ur'; did you mean 'service_url'? "
            "(known here: name, service_url, admin_url, release, start, capabilities, settings, auth, cluster)",
        ),
        (
            'name = "b"\n[start]\ncomand = "x"\n',
            ":3: unknown key 'start.comand'; did you mean 'command'? (known here: command, ready_timeout_seconds)",
        ),
        (
            'name = "b"\n[start]\ncommand = "x"\nready = 3\n',
            ":4: unknown key 'start.ready' (known here: command, ready_timeout_seconds)",
        ),
        (
            'name = "b"\n[auth]\ntoken = "x"\n',
            ":3: unknown key 'auth.token'; did you mean 'token_file'? (known here: token_file, tls_trust_certs, tls_hostname, tls_certificate, tls_key)",
        ),
        ('name = "b"\n[start]\n', ":2: 'start.command' is missing"),
        ("name = 3\n", ":1: 'name' has to be a text"),
        ('service_url = "pulsar://h"\n', ": 'name' is missing"),
        ('name = "b"\n[start]\ncommand = 3\n', ":3: 'start.command' has to be a text or a list of texts, and not empty"),
        ('name = "b"\n[start]\ncommand = "x"\nready_timeout_seconds = "1"\n', ":4: 'start.ready_timeout_seconds' has to be a number"),
        ('name = "b"\n[start]\ncommand = "x"\nready_timeout_seconds = 0\n', ":4: 'start.ready_timeout_seconds' has to be more than 0"),
        ('name = "b"\n[capabilities]\nadmin = "yes"\n', ":3: 'capabilities.admin' has to be true or false"),
        ('name = "b"\nstart = "x"\n', ":2: 'start' has to be a table"),
        ('name = "b"\n', ": 'service_url' is missing (or a table [start] that says how to start it)"),
        ('name = "b"\nservice_url = "h:1"\n', f": 'service_url' 'h:1' is not the address of a host ({SERVICE_FORM})"),
        ('name = "b"\n[start]\ncommand = ""\n', ":3: 'start.command' has to be a text or a list of texts, and not empty"),
        ('name = "b"\n[start]\ncommand = "\'x"\n', ": the start command can't be split into words: No closing quotation"),
        (
            'name = "b"\n[start]\ncommand = "x {servce_port}"\n',
            ": the start command has {servce_port}, did you mean {service_port}? "
            "(there are: service_port, admin_port, config_file, work_dir)",
        ),
        (
            'name = "b"\nservice_url = "pulsar://h:1"\n[start]\ncommand = "x {service_port}"\n',
            ": the command and 'service_url' disagree about the port (write {service_port} in both or in neither of them)",
        ),
        ("name = \n", ": Invalid value (at line 1, column 8) (it has to be a TOML file)"),
    ],
)
def test_a_wrong_file_is_told_with_line_and_key(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(TargetError) as caught:
        parse_target(path)
    assert str(caught.value) == path + message


def test_lines_are_found_in_tables_and_dotted_keys() -> None:
    text = 'a = 1\nt.x = 2\n[t.u]\n"k" = 3\n[v]\n'
    assert [line_of(text, keys) for keys in (["a"], ["t", "x"], ["t", "u", "k"], ["v"], ["t", "u", "none"], ["none"])] == [
        1,
        2,
        4,
        5,
        3,
        None,
    ]


def test_an_unknown_capability_is_told_with_line_and_suggestion(tmp_path: Path) -> None:
    path = written(tmp_path, 'name = "x"\nservice_url = "pulsar://h:1"\n[capabilities]\nadmin = true\ntopic-list-wach = true\n')
    with pytest.raises(TargetError) as caught:
        parse_target(path)
    assert str(caught.value).startswith(f"{path}:5: unknown capability 'topic-list-wach'; did you mean 'topic-list-watch'? (known: admin, ")
