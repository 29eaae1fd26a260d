"""The table ``[network]``: the harness has it checked, and every plugin that brings services over HTTP reads it."""

from __future__ import annotations

from attrs import frozen

__all__ = ["NetworkConfig"]


@frozen
class NetworkConfig:
    """How services are reached.

    Attributes:
        ca_bundle: a file of certificates, or a folder of them, that are trusted as well.
    """

    ca_bundle: str | None = None
