"""Whose certificates are trusted: those that come with httpx, or those that the environment or the settings name."""

from __future__ import annotations

import functools
import os
import ssl
from pathlib import Path

import httpx

from ...errors import LlmError

__all__ = ["trusting"]


def trusting(ca_bundle: str | None = None) -> ssl.SSLContext:
    """What is trusted, ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` included; one context for each bundle in a process.

    Args:
        ca_bundle: what is trusted besides, as in `dsh.llm.http.settings.NetworkConfig`.

    Raises:
        LlmError: what is named cannot be read, or holds no certificate (``CONFIG``).
    """
    return _context(ca_bundle, os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@functools.cache
def _context(ca_bundle: str | None, cert_file: str | None, cert_dir: str | None) -> ssl.SSLContext:
    try:
        context = httpx.create_ssl_context()
    except OSError as error:
        name, path = ("SSL_CERT_FILE", cert_file) if cert_file else ("SSL_CERT_DIR", cert_dir)
        raise _unreadable(name, path or "", error) from error
    if ca_bundle is not None:
        bundle = Path(ca_bundle).expanduser()
        try:
            if bundle.is_dir():
                context.load_verify_locations(capath=bundle)
            else:
                context.load_verify_locations(cafile=bundle)
        except OSError as error:
            raise _unreadable("ca_bundle in [network]", str(bundle), error) from error
    context.set_alpn_protocols(["http/1.1"])
    return context


def _unreadable(name: str, path: str, error: OSError) -> LlmError:
    why = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror or str(error)
    return LlmError(f"{name} names {path}, which cannot be used: {why}; name a file of certificates", code="CONFIG")
