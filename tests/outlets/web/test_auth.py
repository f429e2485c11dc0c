"""TLS, users, headers and rate of the exporter toolkit's web configuration file, over real sockets."""

import base64
import contextlib
import http.client
import socket
import ssl
import subprocess
import threading
import time
from pathlib import Path

import bcrypt
import pytest

from logwatch.errors import ConfigError
from logwatch.outlets.web import auth, door, webfile
from logwatch.outlets.web.auth import Bucket, credentials
from logwatch.outlets.web.webfile import RateConfig, WebFile, load_web_config

ALICE = bcrypt.hashpw(b"wonderland", bcrypt.gensalt(4)).decode()
BOB = bcrypt.hashpw(b"builder", bcrypt.gensalt(4)).decode()


def basic(name, password):
    return {"authorization": "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()}


@pytest.fixture(scope="session")
def certificates(tmp_path_factory):
    """A certificate authority, two servers' and one client's certificate, made by openssl."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *curve, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=ca", "-days", "2")
    for name, san in (
        ("one", "DNS:localhost,IP:127.0.0.1"),
        ("two", "DNS:localhost,IP:127.0.0.1"),
        ("scraper", "DNS:scraper.example"),
    ):
        openssl("req", *curve, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (folder / f"{name}.ext").write_text(f"subjectAltName={san}\n")
        signed = (
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-extfile",
            f"{name}.ext",
            "-days",
            "2",
        )
        openssl("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *signed)
    return folder


@pytest.fixture
def web_file(tmp_path):
    """Writes the file and gives it as it is in force; what is told lies in `told`."""

    def write(text):
        path = tmp_path / "web.yml"
        path.write_text(text)
        told = []
        web = WebFile(path, told.append)
        web.told = told
        return web

    return write


def rewrite(web, text):
    """A new version of the file, as an editor writes it."""
    fresh = web.path.with_suffix(".new")
    fresh.write_text(text)
    fresh.replace(web.path)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param(basic("alice", "wonderland"), 200, id="right"),
        pytest.param(basic("alice", "builder"), 401, id="another's password"),
        pytest.param(basic("carol", "wonderland"), 401, id="unknown name"),
        pytest.param(basic("alice", ""), 401, id="no password"),
        pytest.param(basic("alice", "a\0b"), 401, id="NUL in the password"),
        pytest.param(basic("alice", "x" * 500), 401, id="a password longer than bcrypt reads"),
        pytest.param({}, 401, id="no header"),
        pytest.param({"authorization": "Bearer x"}, 401, id="another scheme"),
        pytest.param({"authorization": "Basic ###"}, 401, id="no base64"),
        pytest.param({"authorization": "Basic YWxpY2U="}, 401, id="no colon"),
    ],
)
def test_only_users_are_let_in(serve, site, web_file, headers, status):
    """Every path is behind the gate; whoever is not let in learns nothing but that."""
    client = serve(site, web_file(f"basic_auth_users:\n  alice: {ALICE}\n  bob: {BOB}\n"))
    for path in ("/metrics", "/-/healthy", "/", "/nowhere", "/static/page.css"):
        answer = client.get(path, **headers)
        assert answer.status == (404 if path == "/nowhere" and status == 200 else status)
        if status == 401:
            assert answer.headers["www-authenticate"] == 'Basic realm="logwatch"'
            assert answer.text == "Unauthorized.\n"


def test_a_right_password_is_checked_once(serve, site, web_file, monkeypatch):
    """Bcrypt runs for the first scrape only; wrong and unknown ones run it each time, at the same cost."""
    checked = []

    def check(password, expected):
        checked.append(expected[:7])
        return bcrypt.checkpw(password, expected)

    monkeypatch.setattr(auth, "_check", lambda password, expected: check(password, expected.encode()))
    client = serve(site, web_file(f"basic_auth_users:\n  alice: {ALICE}\n"))
    for _ in range(3):
        assert client.get("/-/healthy", **basic("alice", "wonderland")).status == 200
    assert len(checked) == 1
    for name in ("alice", "carol"):
        assert client.get("/-/healthy", **basic(name, "wrong")).status == 401
    assert checked == [ALICE[:7].encode()] * 3


def test_those_who_guess_do_not_hold_up_those_who_know(serve, site, web_file, monkeypatch):
    """With a crowd of guesses under way, more are turned away, and a known user is answered at once."""
    monkeypatch.setattr(auth, "MAX_WAITING", 2)
    gate, entered = threading.Event(), threading.Semaphore(0)

    def check(password, expected):
        if password == b"wonderland":
            return True
        entered.release()
        return gate.wait(10) and False

    monkeypatch.setattr(auth, "_check", check)
    client = serve(site, web_file(f"basic_auth_users:\n  alice: {ALICE}\n"))
    assert client.get("/-/healthy", **basic("alice", "wonderland")).status == 200
    answers = []
    guesses = [
        threading.Thread(
            target=lambda n=n: answers.append(client.get("/", **basic("alice", f"guess{n}")).status)
        )
        for n in range(6)
    ]
    for guess in guesses:
        guess.start()
    assert entered.acquire(timeout=10)
    assert client.get("/-/healthy", **basic("alice", "wonderland")).status == 200
    gate.set()
    for guess in guesses:
        guess.join()
    assert set(answers) <= {401, 429}
    assert 429 in answers


def test_users_change_without_restart(serve, site, web_file):
    """A user taken out of the file is out with the next request, though his password was remembered."""
    web = web_file(f"basic_auth_users:\n  alice: {ALICE}\n")
    client = serve(site, web)
    assert client.get("/-/healthy", **basic("alice", "wonderland")).status == 200
    rewrite(web, f"basic_auth_users:\n  bob: {BOB}\n")
    assert client.get("/-/healthy", **basic("alice", "wonderland")).status == 401
    assert client.get("/-/healthy", **basic("bob", "builder")).status == 200


def test_a_bad_new_version_leaves_the_old_one_in_force(serve, site, web_file):
    """A mistake in the file locks nobody out and lets nobody in; it is told once."""
    web = web_file(f"basic_auth_users:\n  alice: {ALICE}\n")
    client = serve(site, web)
    rewrite(web, "basic_auth_users: [\n")
    assert client.get("/-/healthy", **basic("alice", "wonderland")).status == 200
    assert client.get("/-/healthy").status == 401
    (notice,) = web.told
    assert notice.kind == "web_config_failed"
    assert "stays in force" in notice.message
    rewrite(web, f"basic_auth_users:\n  bob: {BOB}\n")
    assert client.get("/-/healthy", **basic("bob", "builder")).status == 200


def test_headers_of_the_file_are_on_every_answer(serve, site, web_file):
    """The file's headers replace ours; blank ones change nothing."""
    client = serve(
        site,
        web_file(
            "http_server_config:\n  http2: false\n  headers:\n    X-Frame-Options: sameorigin\n"
            "    Strict-Transport-Security: max-age=60\n    X-XSS-Protection: ''\n"
        ),
    )
    for path in ("/metrics", "/nowhere"):
        headers = client.get(path).headers
        assert headers["x-frame-options"] == "sameorigin"
        assert headers["strict-transport-security"] == "max-age=60"
        assert "x-xss-protection" not in headers
        assert headers["content-security-policy"].startswith("default-src 'none'")


def test_requests_beyond_the_rate_are_refused(serve, site, web_file):
    """`rate_limit`: a burst is let through, the next request is told to come later."""
    client = serve(site, web_file("rate_limit:\n  interval: 1h\n  burst: 3\n"))
    assert [client.get("/-/healthy").status for _ in range(4)] == [200, 200, 200, 429]


def test_the_bucket_fills_with_time():
    """One token an interval, never more than the burst."""
    now = [0.0]
    bucket, rate = Bucket(lambda: now[0]), RateConfig(interval=2.0, burst=2)
    assert [bucket.take(rate) for _ in range(3)] == [True, True, False]
    now[0] += 2.0
    assert [bucket.take(rate) for _ in range(2)] == [True, False]
    now[0] += 1000.0
    assert [bucket.take(rate) for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("Basic YTpi", ("a", b"b")),
        ("basic YTpiOmM=", ("a", b"b:c")),
        ("Basic /////w==", None),
        ("Basic", None),
        ("", None),
    ],
)
def test_credentials(header, expected):
    """Name and password of a `Basic` header; the scheme's case does not matter, a colon may be in the password."""
    assert credentials(header) == expected


@contextlib.contextmanager
def asking(port, certificates, **changed):
    context = ssl.create_default_context(cafile=certificates / "ca.pem")
    for name, value in changed.items():
        if name == "client":
            context.load_cert_chain(certificates / f"{value}.pem", certificates / f"{value}.key")
        else:
            setattr(context, name, value)
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=10, context=context)
    with contextlib.closing(connection):
        connection.request("GET", "/-/healthy")
        yield connection, connection.getresponse()


def tls(certificates, name="one", more=""):
    return f"tls_server_config:\n  cert_file: {certificates}/{name}.pem\n  key_file: {certificates}/{name}.key\n{more}"


def common_name(connection):
    return dict(each[0] for each in connection.getpeercert()["subject"])["commonName"]


@pytest.mark.needs("openssl")
def test_tls_serves_the_files_certificate_and_a_new_one_without_restart(serve, site, web_file, certificates):
    """HTTPS with the certificate named; after the file names another, new connections see that one."""
    web = web_file(tls(certificates))
    client = serve(site, web)
    with asking(client.port, certificates) as (connection, answer):
        assert answer.status == 200
        assert common_name(connection.sock) == "one"
        assert connection.sock.version() in {"TLSv1.2", "TLSv1.3"}
        answer.read()
    early = socket.create_connection(("127.0.0.1", client.port), timeout=10)
    with asking(client.port, certificates) as (_, answer):
        answer.read()  # it came later, so that the other one is in
    rewrite(web, tls(certificates, "two"))
    name, deadline = "one", time.monotonic() + 10
    while name == "one" and time.monotonic() < deadline:
        with asking(client.port, certificates) as (connection, answer):
            name = common_name(connection.sock)
            answer.read()
    assert name == "two"
    # Who had connected before, but not shaken hands yet, is served as it was then.
    context = ssl.create_default_context(cafile=certificates / "ca.pem")
    with early, context.wrap_socket(early, server_hostname="127.0.0.1") as late:
        assert common_name(late) == "one"


def open_descriptors():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.needs("openssl")
def test_handshakes_that_never_end_are_bounded(serve, site, web_file, certificates, monkeypatch):
    """Clients that connect and say nothing hold as many places as others do, and make room after a moment."""
    monkeypatch.setattr(door, "MAX_CONNECTIONS", 4)
    monkeypatch.setattr(door, "GRACE_S", 0.1)
    client = serve(site, web_file(tls(certificates)))
    with contextlib.ExitStack() as stack:
        before = open_descriptors()
        for _ in range(20):
            stack.enter_context(socket.create_connection(("127.0.0.1", client.port)))
        with asking(client.port, certificates) as (_, answer):
            assert answer.status == 200
            assert open_descriptors() <= before + 20 + 4 + 2


@pytest.mark.needs("openssl")
def test_old_tls_is_refused(serve, site, web_file, certificates):
    """`min_version: TLS13` turns TLS 1.2 away."""
    client = serve(site, web_file(tls(certificates, more="  min_version: TLS13\n")))
    with (
        pytest.raises(ssl.SSLError),
        asking(client.port, certificates, maximum_version=ssl.TLSVersion.TLSv1_2),
    ):
        pass
    with asking(client.port, certificates) as (_, answer):
        assert answer.status == 200


@pytest.mark.needs("openssl")
@pytest.mark.parametrize(
    ("sans", "client", "let_in"),
    [
        pytest.param("", "scraper", True, id="a client of our authority"),
        pytest.param("", None, False, id="a client without certificate"),
        pytest.param(
            "  client_allowed_sans: [scraper.example]\n", "scraper", True, id="a name that is allowed"
        ),
        pytest.param("  client_allowed_sans: [other.example]\n", "scraper", False, id="a name that is not"),
    ],
)
def test_clients_show_certificates(serve, site, web_file, certificates, sans, client, let_in):
    """`RequireAndVerifyClientCert`, and the names that a certificate must have."""
    more = f"  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: {certificates}/ca.pem\n{sans}"
    server = serve(site, web_file(tls(certificates, more=more)))
    given = {"client": client} if client else {}
    if let_in:
        with asking(server.port, certificates, **given) as (_, answer):
            assert answer.status == 200
    else:
        refused = pytest.raises((ssl.SSLError, ConnectionError, http.client.HTTPException))
        with refused, asking(server.port, certificates, **given):
            pass


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("basic_auth_users: [", "web.yml:1:20: not valid YAML", id="no YAML"),
        pytest.param("basic_auth_user: {}", "did you mean `basic_auth_users`?", id="an unknown option"),
        pytest.param("basic_auth_users: {alice: secret}", "not a bcrypt hash", id="a plain password"),
        pytest.param("tls_server_config: {cert_file: a}", "key_file`: field required", id="no key"),
        pytest.param(
            "tls_server_config: {cert_file: a, key_file: b}", "not a certificate and its key", id="no files"
        ),
        pytest.param(
            "tls_server_config: {cert_file: a, key_file: b, min_version: TLS10}",
            "min_version",
            id="an old version",
        ),
        pytest.param(
            "tls_server_config: {cert_file: a, key_file: b, cipher_suites: [TLS_NO]}",
            "not known here",
            id="a cipher",
        ),
        pytest.param(
            "tls_server_config: {cert_file: a, key_file: b, client_auth_type: RequireAndVerifyClientCert}",
            "need each other",
            id="client certificates without authority",
        ),
        pytest.param(
            "tls_server_config: {curve_preferences: [X]}", "not supported here", id="a choice of curves"
        ),
        pytest.param("- 1", "valid dictionary", id="a list"),
    ],
)
def test_a_bad_file_is_told_with_its_problem(web_file, text, says):
    """Before running, every problem is one line that names the file; no secret is repeated in it."""
    with pytest.raises(ConfigError) as caught:
        web_file(text)
    assert says in str(caught.value)
    assert "web.yml" in str(caught.value) or "certificate" in says
    assert "secret" not in str(caught.value)


def test_a_missing_file_is_a_config_error(tmp_path):
    """A file that is not there is told as any other problem."""
    with pytest.raises(ConfigError, match="cannot be read"):
        load_web_config(tmp_path / "nowhere.yml")


@pytest.mark.parametrize(
    ("go", "openssl"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA", "ECDHE-RSA-AES256-SHA"),
    ],
)
def test_cipher_suites_are_named_as_go_names_them(go, openssl):
    """The file is the toolkit's: its names are Go's."""
    assert webfile._cipher(go) == openssl
