"""What is known of programs: flags that make them do more, and arguments that are files."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import field, frozen

__all__ = ["CHOSEN_BY", "RUN_ANYTHING", "SPECS", "TELL_VERSIONS", "Spec"]


@frozen
class Spec:
    """What is known of a program.

    Attributes:
        short: letters of flags that make it do more.
        long: names of such flags.
        values: letters of flags with a value that is no file.
        skip: how many arguments come before the files.
        pattern: letters and names of flags that stand in for those arguments.
        files: arguments are files.
        most: how many arguments it may have; None for any number.
        dynamic: it may have arguments that only a run knows.
        inert: whether it may be run by itself, or is here for its flags and files alone.
        writes: its arguments are written.
    """

    short: str = ""
    long: tuple[str, ...] = ()
    values: str = ""
    skip: int = 0
    pattern: tuple[str, ...] = ()
    files: bool = True
    most: int | None = None
    dynamic: bool = False
    inert: bool = True
    writes: bool = False
    words: tuple[str, ...] = field(default=())


READS = Spec()
TALKS = Spec(files=False, dynamic=True)
PLAIN = Spec(files=False)
WRITES = Spec(inert=False, writes=True)

SPECS: Mapping[str, Spec] = {
    **dict.fromkeys(("cat", "nl", "tac", "rev", "fold", "fmt", "expand", "unexpand", "paste", "od"), READS),
    **dict.fromkeys(("md5sum", "sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum", "cksum"), READS),
    **dict.fromkeys(("sum", "cmp", "comm", "join", "column", "hexdump", "pr", "readlink", "realpath", "stat"), READS),
    **dict.fromkeys(("ls", "dir", "vdir", "exa", "eza", "du", "df", "zcat", "bzcat", "xzcat", "look"), READS),
    **dict.fromkeys(("echo", "true", "false", ":", "basename", "dirname", "seq", "sleep", "return", "break"), TALKS),
    **dict.fromkeys(("continue", "exit", "shift", "expr", "numfmt", "tr"), TALKS),
    **dict.fromkeys(("pwd", "whoami", "id", "groups", "uname", "nproc", "tty", "uptime", "which"), PLAIN),
    **dict.fromkeys(("type", "locale", "getconf", "cal", "free", "logname", "w"), PLAIN),
    **dict.fromkeys(("pgrep", "lscpu", "lsblk", "hostid"), PLAIN),
    **dict.fromkeys(("who", "users"), READS),
    "strings": Spec(words=("@",)),  # such a file has further arguments
    "arch": Spec(files=False, most=0),  # elsewhere it runs what it is given
    "jobs": Spec(short="x", files=False),
    "wait": Spec(short="p", files=False, dynamic=True),
    "cd": READS,
    "pushd": READS,
    "popd": PLAIN,
    "test": Spec(short="vR"),
    "[": Spec(short="vR"),
    "read": Spec(files=False, values="dnNptu"),
    "head": Spec(values="nc"),
    "tail": Spec(values="ncs"),
    "wc": Spec(long=("files0-from",)),
    "sort": Spec(short="oTS", long=("output", "compress-program", "files0-from", "temporary-directory"), values="kt"),
    "uniq": Spec(values="fsw", most=1),
    "cut": Spec(values="bcdf"),
    "hostname": Spec(files=False, most=0, short="bF", long=("boot", "file")),
    "diff": Spec(short="l", long=("paginate",), values="UCIWxL"),
    "file": Spec(short="Cmf", long=("compile", "magic-file", "files-from")),
    "tree": Spec(short="oR", long=("fromfile",), values="LPI"),
    "grep": Spec(values="ABCmDd", skip=1, pattern=("e", "f", "regexp", "file")),
    "rg": Spec(
        short="z",
        long=("pre", "pre-glob", "hostname-bin", "search-zip"),
        values="ABCMmgtTjdE",
        skip=1,
        pattern=("e", "f", "regexp", "file", "files"),
    ),
    "ag": Spec(long=("pager",), skip=1, values="Gm"),
    "fd": Spec(short="xX", long=("exec", "exec-batch"), skip=1, values="edtEcS"),
    "man": Spec(inert=False, short="PHC", long=("pager", "html", "config-file")),
    "less": Spec(
        inert=False,
        short="oOkKp",
        long=("log-file", "LOG-FILE", "lesskey-file", "lesskey-src", "lesskey-content"),
        words=("+",),
    ),
    "more": Spec(inert=False, short="p", words=("+",)),
    "tar": Spec(
        inert=False,
        short="IF",
        long=(
            "checkpoint-action",
            "use-compress-program",
            "to-command",
            "rsh-command",
            "rmt-command",
            "info-script",
            "new-volume-script",
        ),
    ),
    "zip": Spec(inert=False, short="T", long=("unzip-command",)),
    "rsync": Spec(inert=False, short="e", long=("rsh", "rsync-path", "daemon"), writes=True),
    "curl": Spec(inert=False, short="oOKTc", long=("output", "remote-name", "config", "upload-file", "cookie-jar")),
    "wget": Spec(inert=False, short="Oi", long=("output-document", "use-askpass", "input-file", "config", "execute")),
    "make": Spec(inert=False, short="fC", long=("eval", "file", "makefile", "directory")),
    "npm": Spec(inert=False, long=("script-shell", "prefix", "globalconfig", "userconfig"), files=False),
    "go": Spec(inert=False, long=("toolexec", "exec", "vettool"), words=("-toolexec", "-exec", "-vettool")),
    "cargo": Spec(inert=False, long=("config",)),
    "pytest": Spec(inert=False, short="pc", long=("rootdir", "override-ini", "confcutdir"), words=()),
    **dict.fromkeys(
        ("gcc", "g++", "cc", "c++", "clang", "clang++"),
        Spec(inert=False, words=("-wrapper", "-specs", "-fplugin", "-load"), long=("specs", "wrapper", "config")),
    ),
    **dict.fromkeys(("vi", "vim", "view", "nvim", "ex"), Spec(inert=False, short="cSsuw", long=("cmd",), words=("+",))),
    "emacs": Spec(inert=False, short="lfe", long=("eval", "execute", "load", "funcall", "script")),
    "ssh": Spec(inert=False, short="oFE"),
    "scp": Spec(inert=False, short="oFS", writes=True),
    **dict.fromkeys(("rm", "rmdir", "touch", "mkdir", "unlink", "shred", "tee", "truncate", "ln", "mv", "cp"), WRITES),
    **dict.fromkeys(("install", "chmod", "chown", "chgrp", "mkfifo", "mknod", "patch", "unzip", "gzip"), WRITES),
}

TELL_VERSIONS: Mapping[str, frozenset[str]] = {
    "--version": frozenset(
        [
            *("python", "python3", "pip", "pip3", "uv", "node", "npm", "npx", "deno", "bun", "ruby", "gem", "perl"),
            *("php", "java", "javac", "cargo", "rustc", "go", "gcc", "g++", "clang", "cmake", "make", "docker"),
            *("kubectl", "terraform", "git", "bash", "zsh", "gh", "ruff", "mypy", "dsh", "yarn", "pnpm"),
        ]
    ),
    "-V": frozenset(["python", "python3", "pip", "pip3", "uv", "deno", "cargo", "rustc", "ruff", "mypy"]),
    "version": frozenset(["cargo", "docker", "gh", "git", "go", "kubectl", "npm", "terraform"]),
}
"""Programs that tell their version, by how they are asked.  Others take ``version`` for a script to run."""

CHOSEN_BY: Mapping[str, tuple[str, ...]] = {
    "yarn": (".yarnrc", ".yarnrc.yml"),
    **dict.fromkeys(("cargo", "rustc"), ("rust-toolchain", "rust-toolchain.toml")),
}
"""Programs that run another one in their place, even to tell its version, where such a file lies, and the files."""

RUN_ANYTHING = frozenset(
    [
        *("make", "npm", "go", "cargo", "pytest", "vi", "vim", "view", "nvim", "ex", "emacs", "wc"),
        *("gcc", "g++", "cc", "c++", "clang", "clang++"),
    ]
)
"""Programs whose flags, where only a run knows them, hardly do more than the rest of the command may do anyway."""
