"""The hook engine: pluggy keeps the plugins, a relay calls them.

pluggy is the registry: it finds implementations, names them and keeps their order.  It awaits
nothing, so a `Relay` does the calling, by the kind of the hook.  The engine knows nothing of
agents, tools or sessions.
"""

from .collector import Collector, refuse_other
from .manager import LoadFailure, PluginInfo, PluginManager
from .markers import gate, hookimpl, hookspec
from .relay import Relay
from .spec import Spec
from .trace import Act, Settings, Trace

__all__ = [
    "Act",
    "Collector",
    "LoadFailure",
    "PluginInfo",
    "PluginManager",
    "Relay",
    "Settings",
    "Spec",
    "Trace",
    "gate",
    "hookimpl",
    "hookspec",
    "refuse_other",
]
