"""Faults of other harnesses about networks that are not theirs: a company's certificates, and what is not there.

The row is that of ``bugs/bugs.md`` in the shared material; each test runs the whole command.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from dsh_chat.profiles import PROFILES

SHARED = Path(__file__).parents[1] / "../shared"
SERVER = SHARED / "tools/fakesrv.py"

pytestmark = pytest.mark.skipif(not SERVER.exists(), reason="the scripted server and the scripts are not here")

FRONT = """
import asyncio, ssl, sys
from urllib.parse import urlsplit

behind, certificate = urlsplit(sys.argv[1]), sys.argv[2]
context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
context.load_cert_chain(certificate)

async def pump(source, sink):
    while data := await source.read(65536):
        sink.write(data)
        await sink.drain()
    sink.close()

async def handle(reader, writer):
    print("connection", flush=True)
    inner_reader, inner_writer = await asyncio.open_connection(behind.hostname, behind.port)
    await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer), return_exceptions=True)

async def main():
    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""


@frozen
class Authority:
    """A CA that nobody knows.

    Attributes:
        file: its certificate.
        folder: the same, in a folder as OpenSSL wants one.
        server: a certificate that it issued for localhost, with the key.
    """

    file: Path
    folder: Path
    server: Path


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the openssl program to make certificates")

    def run(*arguments: str) -> str:
        done = subprocess.run([openssl, *arguments], check=True, capture_output=True, text=True, cwd=tmp_path)
        return done.stdout

    new = ["-newkey", "rsa:2048", "-nodes"]
    ca = [
        "-subj",
        "/CN=House CA",
        "-addext",
        "basicConstraints=critical,CA:TRUE",
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
    ]
    run("req", "-x509", *new, "-days", "2", *ca)
    run("req", *new, "-subj", "/CN=localhost", "-keyout", "server.key", "-out", "server.csr")
    (tmp_path / "names").write_text("subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
    issue = ["-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2"]
    run("x509", "-req", *issue, "-extfile", "names", "-out", "server.pem")
    served = tmp_path / "served.pem"
    served.write_text((tmp_path / "server.key").read_text() + (tmp_path / "server.pem").read_text())
    folder = tmp_path / "trusted"
    folder.mkdir()
    name = run("x509", "-hash", "-noout", "-in", "ca.pem").strip()
    shutil.copy(tmp_path / "ca.pem", folder / f"{name}.0")
    return Authority(tmp_path / "ca.pem", folder, served)


@pytest.fixture
def place(stage: Any, authority: Authority) -> Iterator[Any]:
    """A stage whose server is reached over TLS, under a certificate of `authority`."""
    proxies = ("http_proxy", "https_proxy", "all_proxy", "no_proxy")
    stage.env |= {name: "" for proxy in proxies for name in (proxy, proxy.upper())}
    stage.env |= {"SSL_CERT_FILE": "", "SSL_CERT_DIR": ""}
    with stage.serving("N06"):
        command = [sys.executable, "-c", FRONT, stage.url, str(authority.server)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as front:
            try:
                assert front.stdout is not None
                stage.url = f"https://localhost:{front.stdout.readline().strip()}"
                yield stage
            finally:
                front.kill()


def test_n06_an_unknown_issuer_is_said_once_with_the_way_out(place: Any) -> None:
    done = place.run("go")
    assert done.code == 75
    assert "failed the TLS handshake" in done.err
    assert "SSL_CERT_FILE" in done.err
    assert "ca_bundle" in done.err
    assert done.data("retry/wait") == []
    assert done.requests == []


def test_n06_a_file_of_certificates_is_trusted(place: Any, authority: Authority) -> None:
    place.env["SSL_CERT_FILE"] = str(authority.file)
    done = place.run("go")
    assert (done.code, done.out) == (0, "done\n")


def test_n06_a_folder_of_certificates_is_trusted(place: Any, authority: Authority) -> None:
    place.env["SSL_CERT_DIR"] = str(authority.folder)
    done = place.run("go")
    assert (done.code, done.out) == (0, "done\n")


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_n06_a_bundle_of_the_settings_is_trusted(place: Any, authority: Authority, kind: str) -> None:
    done = place.run("go", "--config", f"network.ca_bundle={getattr(authority, kind)}")
    assert (done.code, done.out) == (0, "done\n")


def test_n06_holds_for_every_protocol(place: Any, authority: Authority) -> None:
    place.env |= {"ANTHROPIC_BASE_URL": place.url, "ANTHROPIC_API_KEY": "sk-ant-0123456789"}
    refused, trusted = (
        place.end(place.start("-p", "go", "-m", "anthropic/m", "--no-session", *arguments))
        for arguments in ((), ("--config", f"network.ca_bundle={authority.file}"))
    )
    assert refused.code == 75
    assert "SSL_CERT_FILE" in refused.err
    assert (trusted.code, trusted.out) == (0, "done\n")


def test_n06_certificates_of_somebody_else_do_not_help(place: Any, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=Other", "-keyout", "o.key"]
    subprocess.run([*command, "-out", other], check=True, capture_output=True, cwd=tmp_path)
    place.env["SSL_CERT_FILE"] = str(other)
    done = place.run("go")
    assert done.code == 75
    assert "SSL_CERT_FILE" in done.err
    assert done.data("retry/wait") == []


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_n06_a_file_that_cannot_be_used_is_a_mistake_in_the_settings(
    place: Any, tmp_path: Path, content: str | None
) -> None:
    named = tmp_path / "named.pem"
    if content is not None:
        named.write_text(content)
    place.env["SSL_CERT_FILE"] = str(named)
    by_variable = place.run("go")
    place.env["SSL_CERT_FILE"] = ""
    by_setting = place.run("go", "--no-session", "--config", f"network.ca_bundle={named}")
    for done, name in ((by_variable, "SSL_CERT_FILE"), (by_setting, "ca_bundle")):
        assert done.code == 2
        assert name in done.err
        assert str(named) in done.err
        assert "retry" not in done.err


def test_n06_a_project_cannot_say_whom_to_trust(place: Any, authority: Authority) -> None:
    (place.work / ".dsh").mkdir(parents=True)
    (place.work / ".dsh/config.toml").write_text(f'[network]\nca_bundle = "{authority.file}"\n')
    done = place.run("go")
    assert done.code not in (0, None)
    assert "network" in done.err
    assert done.requests == []


def test_nothing_listens_on_this_machine(stage: Any) -> None:
    """A server that a person starts is not waited for."""
    stage.env["OLLAMA_BASE_URL"] = "http://127.0.0.1:9/v1"
    done = stage.end(stage.start("-p", "go", "-m", "ollama/llama3.2"))
    assert done.code == 75
    assert "nothing listens there" in done.err
    assert "ollama serve" in done.err
    assert done.data("retry/wait") == []


@pytest.mark.parametrize("name", [*PROFILES, "anthropic"])
def test_a_key_in_the_environment_is_all_that_a_service_needs(stage: Any, name: str) -> None:
    """One question with a tool call, in the service's own dialect; the server refuses what real ones do."""
    stage.freely = True
    script = stage.script({"calls": [["@shell", {"command": "echo hi"}]]}, {"text": "done"})
    variables = PROFILES[name].key_envs if name in PROFILES else ("ANTHROPIC_API_KEY",)
    with stage.serving(script):
        moved = stage.url if name == "anthropic" else f"{stage.url}/v1"
        stage.env |= {f"{name.upper()}_BASE_URL": moved, variables[0]: "key-0123456789"}
        done = stage.end(stage.start("-p", "go", "-m", f"{name}/some/model", "--permission-mode", "bypass"))
    assert (done.code, done.out) == (0, "done\n")
    assert [request["body"]["model"] for request in done.requests] == ["some/model"] * 2
    assert done.results == ["hi\n"]
