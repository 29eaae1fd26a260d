# ruff: noqa: ASYNC220 - the tests' own processes, which start at once
"""What a command tries, and does not get done, with each backend."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from dsh.testing import child_processes

PYTHON = sys.executable


async def test_the_workspace_and_the_temporary_directory_can_be_written(box: Any) -> None:
    ran = await box.run(
        'echo one > made && mkdir d && mv made d/ && cat d/made && echo two > "$TMPDIR/t" && cat "$TMPDIR/t"'
    )

    assert (ran.code, ran.out, ran.refused) == (0, "one\ntwo\n", None)
    assert (box.work / "d/made").read_text() == "one\n"


async def test_temporary_files_last_from_one_command_to_the_next(box: Any) -> None:
    await box.run('echo kept > "$TMPDIR/file"')

    assert (await box.run('cat "$TMPDIR/file"')).out == "kept\n"


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """What nobody may make: no file of the machine's temporary directory, which is out of sight, as a rule."""
    path = Path(__file__).resolve().with_name(f".made-{uuid.uuid4().hex}")
    yield path
    made = os.path.lexists(path)
    path.unlink(missing_ok=True)
    assert not made


@pytest.mark.parametrize(
    "attempt",
    [
        "echo x > {outside}/made",
        "echo x >> {outside}/there",
        ": > {outside}/there",
        "truncate -s 0 {outside}/there",
        "rm -f {outside}/there",
        "mv {outside}/there .",
        "ln {outside}/there linked && echo x > linked",
        "ln -s {outside}/there link && echo x > link",
        "ln -s {outside} folder && echo x > folder/made",
        "cp /bin/true {outside}/made",
        "mkdir {outside}/made",
        "ln -s / {outside}/made",
        "mkfifo {outside}/made",
        "cd {outside} && touch made",
        "cd / && echo x > {outside}/made",
        "touch {elsewhere} || ln -s / {elsewhere}",
        "echo x > /proc/self/cwd/../outside/made",
        "echo x > /proc/1/root{outside}/made",
        "echo x > /proc/1/cwd{outside}/made",
    ],
)
async def test_nothing_is_written_outside(box: Any, attempt: str, elsewhere: Path) -> None:
    (box.outside / "there").write_text("precious")
    await box.run(attempt.format(outside=box.outside, elsewhere=elsewhere))

    assert [path.name for path in box.outside.iterdir()] == ["there"]
    assert (box.outside / "there").read_text() == "precious"


async def test_with_read_only_the_workspace_is_not_written_either(open_box: Any) -> None:
    async with open_box(mode="read-only") as box:
        (box.work / "there").write_text("here")
        ran = await box.run('cat there; echo x > made; rm there; echo x > "$TMPDIR/t" && cat "$TMPDIR/t"')

        assert ran.out == "herex\n"
        assert [path.name for path in box.work.iterdir()] == ["there"]


async def test_writable_names_further_places(open_box: Any, tmp_path: Path) -> None:
    async with open_box(writable=[str(tmp_path / "outside")]) as box:
        ran = await box.run(f"echo x > {box.outside}/made")

        assert (ran.code, (box.outside / "made").read_text()) == (0, "x\n")


async def test_credentials_cannot_be_read(box: Any) -> None:
    person = Path(os.environ["HOME"])
    (person / ".ssh").mkdir()
    (person / ".ssh/id_ed25519").write_text("private")
    (person / ".netrc").write_text("private")
    (person / ".config/gh").mkdir(parents=True)
    (person / ".config/gh/hosts.yml").write_text("private")
    (person / ".config/other").write_text("public")
    (person / "notes").write_text("public")

    ran = await box.run("cd; cat .ssh/id_ed25519 .netrc .config/gh/hosts.yml; ls .ssh")
    assert "private" not in ran.text
    sees = await box.run("cat ~/notes ~/.config/other")
    assert sees.out == "publicpublic"


async def test_a_link_into_credentials_does_not_open_them(open_box: Any, tmp_path: Path) -> None:
    async with open_box() as box:
        secret = box.work / "secret"
        person = Path(os.environ["HOME"])
        secret.mkdir()
        (secret / "id").write_text("private")
        (person / ".ssh").symlink_to(secret)

        ran = await box.run("cat secret/id; cat secret/../secret/id; mv secret moved; cat moved/id")

        assert "private" not in ran.text


async def test_hide_names_further_secrets(open_box: Any, tmp_path: Path) -> None:
    async with open_box(hide=[".env", str(tmp_path / "outside")]) as box:
        (box.work / ".env").write_text("private")
        (box.work / "code").write_text("public")
        (box.outside / "file").write_text("private")

        ran = await box.run(f"cat code .env {box.outside}/file")

        assert ran.out == "public"


async def test_what_is_hidden_stays_so_when_what_it_is_in_is_moved(open_box: Any, covered: Any) -> None:
    covered("its rights over a directory are rights over all that is in it")
    async with open_box(hide=["conf/deep/.env"]) as box:
        (box.work / "conf/deep").mkdir(parents=True)
        (box.work / "conf/deep/.env").write_text("private")
        await box.run("mv conf away; mv conf/deep conf/other; mv conf/deep/.env x; rm -rf conf")

        assert "private" not in (await box.run("cat */.env */*/.env .env x */x; grep -r private .")).out
        assert (box.work / "conf/deep/.env").read_text() == "private"


async def test_scripts_of_skills_can_be_run(box: Any) -> None:
    script = box.harness.home / "skills/one/script.sh"
    script.parent.mkdir(parents=True)
    script.write_text("echo skilled")
    (box.harness.home / "secret").write_text("private")

    ran = await box.run(f"bash {script}; cat {box.harness.home}/secret; echo evil > {script}")
    assert ran.out == "skilled\n"
    assert script.read_text() == "echo skilled"


async def test_with_read_only_the_whole_workspace_is_seen(open_box: Any) -> None:
    async with open_box(mode="read-only") as box:
        (box.work / "sub").mkdir()
        (box.work / "file").write_text("seen")
        assert (await box.run("cat file")).out == "seen"


async def test_the_files_of_dsh_are_hidden(box: Any) -> None:
    (box.harness.home / "config.toml").write_text("private")

    assert "private" not in (await box.run(f"cat {box.harness.home}/config.toml")).text


async def test_the_password_file_is_not_read(box: Any) -> None:
    if not os.access("/etc/shadow", os.R_OK):
        pytest.skip("this user cannot read it anyway")
    assert (await box.run("cat /etc/shadow")).out == ""


@pytest.fixture
def listening() -> Any:
    """A server on this machine, and the connections that it got."""
    got: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.1)
        stop = threading.Event()

        def serve() -> None:
            while not stop.is_set():
                try:
                    connection, _ = server.accept()
                except TimeoutError:
                    continue
                connection.close()
                got.append("connected")

        thread = threading.Thread(target=serve)
        thread.start()
        yield server.getsockname()[1], got
        stop.set()
        thread.join()


async def test_no_host_is_reached(box: Any, listening: Any) -> None:
    port, got = listening
    ran = await box.run(f"echo x > /dev/tcp/127.0.0.1/{port}")

    assert (ran.code != 0, got) == (True, [])


async def test_nothing_leaves_by_udp(box: Any) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.setblocking(False)
        await box.run(f"echo secret > /dev/udp/127.0.0.1/{server.getsockname()[1]}")
        with pytest.raises(BlockingIOError):
            server.recv(100)


async def test_with_network_on_hosts_are_reached(open_box: Any, listening: Any) -> None:
    port, got = listening
    async with open_box(network="on") as box:
        ran = await box.run(f"echo x > /dev/tcp/127.0.0.1/{port}; getent hosts localhost")
        for _ in range(3000):
            if got:
                break
            await trio.sleep(0.01)  # the server's thread may be late

        assert (ran.code, got) == (0, ["connected"])


@pytest.mark.parametrize("kind", ["file", "abstract"])
async def test_services_are_not_reached_by_their_sockets(box: Any, kind: str) -> None:
    """As those of docker and of the desktop, which would do anything for whoever asks."""
    path = box.outside / "service"
    address = f"\0dsh-{os.getpid()}-{id(path)}" if kind == "abstract" else str(path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen()
        server.setblocking(False)
        ran = await box.run(
            f"{PYTHON} -c 'import socket; socket.socket(1).connect({address!r})'".replace("\\x00", "\\0")
        )

        assert ran.code != 0
        with pytest.raises(BlockingIOError):
            server.accept()


async def test_other_programs_cannot_be_killed(box: Any) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as other:
        ran = await box.run(
            f"kill -9 {other.pid}; kill -9 -- -{other.pid}; kill -0 {os.getpid()} && echo reached; echo here"
        )
        try:
            assert other.poll() is None
            assert ran.out == "here\n"
        finally:
            other.kill()


async def test_other_programs_cannot_be_looked_into(box: Any) -> None:
    with subprocess.Popen(["sleep", "600"], env={**os.environ, "OTHERS": "private-of-others"}) as other:
        try:
            ran = await box.run(
                f"cat /proc/{other.pid}/environ /proc/{os.getppid()}/environ /proc/{os.getpid()}/environ; "
                f"ls /proc/{os.getpid()}/root/ /proc/{os.getpid()}/cwd/; cat /proc/{os.getpid()}/mem | head -c 1"
            )
            assert "private-of-others" not in ran.text.replace("\0", " ")
            assert ran.out == ""
        finally:
            other.kill()


async def test_a_magic_link_does_not_lead_out(box: Any) -> None:
    ran = await box.run(
        f"for p in /proc/[0-9]*; do echo x > $p/root{box.outside}/made; echo x > $p/cwd/../outside/made; done"
    )

    assert (ran.code != 0, list(box.outside.iterdir())) == (True, [])


async def test_no_other_program_is_traced(box: Any) -> None:
    attach = "import ctypes,sys; sys.exit(ctypes.CDLL(None).ptrace(16, int(sys.argv[1]), 0, 0) == 0)"
    with subprocess.Popen(["sleep", "600"]) as other:
        try:
            assert (await box.run(f"{PYTHON} -c '{attach}' {other.pid}")).code == 0
        finally:
            other.kill()


@pytest.mark.parametrize(
    "attempt",
    [
        "mount -o remount,rw /",
        "mount --bind {work} {outside}",
        "umount -l /proc; umount -l {work}; false",
        "unshare -m mount -o remount,rw /",
        "unshare -Urm sh -c 'mount -o remount,rw,bind / && echo x > {outside}/made'",
        "unshare -Urmp --fork --mount-proc sh -c 'echo x > {outside}/made'",
        "nsenter -t 1 -m -- touch {outside}/made",
        "chroot / touch {outside}/made",
        "bwrap --bind / / -- touch {outside}/made",
        "bwrap --unshare-user --bind / / --proc /proc -- touch {outside}/made",
        "mknod disk b 8 0",
        "dd if=/dev/vda of=block bs=1 count=1 || dd if=/dev/sda of=block bs=1 count=1",
        "cp /proc/sys/kernel/core_pattern before; cat before > /proc/sys/kernel/core_pattern",
        "cp /proc/sys/vm/swappiness before; cat before > /proc/sys/vm/swappiness",
        "cp /sys/kernel/mm/ksm/run before; cat before > /sys/kernel/mm/ksm/run",
    ],
)
async def test_rights_over_the_machine_are_gone(box: Any, attempt: str) -> None:
    ran = await box.run(attempt.format(outside=box.outside, work=box.work))

    assert ran.code != 0
    assert list(box.outside.iterdir()) == []


async def test_programs_give_no_further_rights(box: Any) -> None:
    status = (await box.run("cat /proc/self/status")).out

    assert "NoNewPrivs:\t1" in status
    bits = int(next(line for line in status.splitlines() if line.startswith("CapEff")).split()[1], 16)
    assert bits & ~0b1011 == 0, "no right but to work on other users' files"


async def test_with_landlock_no_program_becomes_set_user_id(box: Any) -> None:
    if box.backend != "landlock":
        pytest.skip("with bubblewrap nothing outside of the workspace can be changed at all")
    tool = shutil.copy("/bin/true", box.outside / "tool")

    for attempt in (
        f"chmod u+s {tool}",
        f"chmod 4755 {tool}",
        f"{PYTHON} -c 'import os; os.chmod(\"{tool}\", 0o2755)'",
    ):
        assert (await box.run(attempt)).code != 0
    assert os.stat(tool).st_mode & 0o6000 == 0
    assert (await box.run("touch own && chmod 755 own && ./own")).code == 0


async def test_nothing_is_typed_into_a_terminal(box: Any) -> None:
    """TIOCSTI puts signs into a terminal's input, as if the person had typed them."""
    leader, follower = os.openpty()
    try:
        push = (
            "import fcntl,os,sys,termios\n"
            "f = os.open(sys.argv[1], os.O_RDWR)\n"
            "fcntl.ioctl(f, termios.TIOCSCTTY, 1)\n"
            "fcntl.ioctl(f, termios.TIOCSTI, b'x')\n"
        )
        ran = await box.run(f'{PYTHON} -c "{push}" {os.ttyname(follower)}; tty; echo x > /dev/tty')

        assert ran.code != 0
        os.set_blocking(follower, False)
        with pytest.raises(BlockingIOError):
            os.read(follower, 10)
    finally:
        os.close(leader)
        os.close(follower)


async def test_a_process_that_is_not_managed_loses_the_terminal(box: Any) -> None:
    process = await box.prepared("ps -o sid= -p $$; echo $$", managed=False)
    assert process.confinement is None

    done = await trio.run_process(list(process.argv), env=process.env, cwd=process.cwd, capture_stdout=True)
    session, pid = done.stdout.split()

    assert session in (pid, b"1")  # the command's own, or that of what is first in there


@pytest.mark.parametrize("whole", [True, False], ids=["group", "process"])
@pytest.mark.parametrize("leads", [True, False], ids=["session", "no-session"])
async def test_what_is_not_managed_ends_with_what_was_started(box: Any, covered: Any, whole: bool, leads: bool) -> None:
    if not (whole and leads):
        covered("there is nothing between who starts it and the command")
    number = f"4{os.getpid()}"
    process = await box.prepared(f"echo ready; cat; sleep {number} & sleep {number}", managed=False)
    child = await trio.lowlevel.open_process(
        list(process.argv),
        env=process.env,
        cwd=process.cwd,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=leads,
    )
    assert child.stdin is not None
    assert child.stdout is not None
    await child.stdin.send_all(b"words\n")
    await child.stdin.aclose()
    said = b""
    while said != b"ready\nwords\n":
        said += await child.stdout.receive_some()
    if whole and leads:
        os.killpg(child.pid, signal.SIGKILL)
    else:
        child.kill()
    await child.wait()
    await child.stdout.aclose()

    def left() -> list[int]:
        found = subprocess.run(["pgrep", "-f", f"sleep {number}"], capture_output=True, text=True, check=False).stdout
        return [int(pid) for pid in found.split()]

    await _gone(left)


async def _gone(pids: Callable[[], list[int]]) -> None:
    with trio.fail_after(20):
        while pids():  # noqa: ASYNC110  # what happens in other processes sets no event
            await trio.sleep(0.01)


@pytest.mark.parametrize(
    "hide",
    [
        "sleep {n} &",
        "nohup sleep {n} & disown",
        "setsid sleep {n} &",
        "(setsid env -i /bin/sleep {n} &) &",
        "( ( env -i setsid nohup sleep {n} & ) & )",
    ],
)
async def test_nothing_outlives_a_group_that_is_killed(box: Any, covered: Any, hide: str) -> None:
    if "setsid" in hide:
        covered("whoever leaves the group is found by the mark of its environment alone, see the shell")
    number = f"6{os.getpid()}"

    await box.run(f"{{ {hide.format(n=number)}\n}} >/dev/null 2>&1; sleep 0.2")

    def left() -> list[int]:
        found = subprocess.run(["pgrep", "-f", f"sleep {number}"], capture_output=True, text=True, check=False).stdout
        return [int(pid) for pid in found.split()]

    await _gone(left)
    assert child_processes() == []


async def test_a_killed_monitor_takes_nothing_along_that_stays(box: Any, covered: Any) -> None:
    covered("it has no monitor")
    process = await box.prepared("setsid env -i /bin/sleep 600")
    with subprocess.Popen(
        process.argv, env=process.env, cwd=process.cwd, pass_fds=process.confinement.fds, start_new_session=True
    ) as child:
        process.confinement.started()
        await trio.sleep(0.2)
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    process.confinement.close()

    def left() -> list[int]:
        found = subprocess.run(["pgrep", "-g", str(child.pid)], capture_output=True, text=True, check=False).stdout
        return [int(pid) for pid in found.split()]

    await _gone(left)
