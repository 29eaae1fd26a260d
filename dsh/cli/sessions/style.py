"""The looks of the exported page."""

from __future__ import annotations

__all__ = ["STYLE"]

STYLE = """
:root { color-scheme: light dark;
  --ground: #fbfaf8; --ink: #1d1f22; --dim: #63686f; --line: #dcdad5; --card: #ffffff; --code: #f3f1ec;
  --user: #e8effa; --mark: #2c5fb3; --bad: #b3261e; --bad-ground: #fbeae8; --warn: #8a5a00; }
@media (prefers-color-scheme: dark) { :root {
  --ground: #17181b; --ink: #e4e4e2; --dim: #9a9fa7; --line: #34373d; --card: #1f2125; --code: #26292e;
  --user: #22304a; --mark: #8db4f2; --bad: #f2a09a; --bad-ground: #3b2423; --warn: #e0b25a; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
main, header, footer { max-width: 52rem; margin: 0 auto; padding: 0 1rem; }
header { padding-top: 2rem; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: .85rem; font-weight: 600; color: var(--dim); margin: 0 0 .75rem; letter-spacing: .03em; }
h2 a { color: inherit; text-decoration: none; }
dl.facts { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; margin: 0; font-size: .9rem; }
dl.facts dt { color: var(--dim); }
dl.facts dd { margin: 0; overflow-wrap: anywhere; }
section { border-top: 1px solid var(--line); margin-top: 1.75rem; padding-top: 1.25rem; }
.said { margin: .75rem 0; }
.who { font-size: .8rem; color: var(--dim); margin-bottom: .15rem; }
.text { white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate; }
.user .text, .steering .text { background: var(--user); border-radius: .6rem; padding: .6rem .85rem; }
.context .text { color: var(--dim); font-size: .9rem; border-left: 3px solid var(--line); padding-left: .75rem; }
.blocked .text { background: var(--bad-ground); border-radius: .6rem; padding: .6rem .85rem; }
pre { margin: .3rem 0; padding: .6rem .75rem; background: var(--code); border-radius: .4rem; unicode-bidi: isolate;
  font: .82rem/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  white-space: pre-wrap; overflow-wrap: anywhere; max-height: 32rem; overflow: auto; tab-size: 4; }
details { margin: .4rem 0; border: 1px solid var(--line); border-radius: .5rem; background: var(--card); }
summary { cursor: pointer; padding: .35rem .7rem; font-size: .88rem; overflow-wrap: anywhere; }
details > .inside { padding: .1rem .7rem .6rem; }
details.quiet { border-color: transparent; background: none; color: var(--dim); }
details.quiet > summary { padding-left: 0; }
details.failed { border-color: var(--bad); }
.label { font-size: .78rem; color: var(--dim); margin: .5rem 0 0; }
.name { font-weight: 600; font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.badge { font-size: .75rem; color: var(--dim); margin-left: .4rem; white-space: nowrap; }
.bad { color: var(--bad); font-weight: 600; }
.warn { color: var(--warn); font-weight: 600; }
.note { font-size: .85rem; color: var(--dim); margin: .4rem 0; overflow-wrap: anywhere; }
.end { font-size: .9rem; margin: .75rem 0 0; overflow-wrap: anywhere; }
ul.decisions { margin: .2rem 0; padding-left: 1.1rem; font-size: .82rem; color: var(--dim); overflow-wrap: anywhere; }
footer { color: var(--dim); font-size: .8rem; padding-top: 2rem; padding-bottom: 2.5rem; }
@media (max-width: 34rem) { dl.facts { grid-template-columns: 1fr; gap: 0; } dl.facts dd { margin-bottom: .4rem; } }
@media print { details > .inside, details { break-inside: avoid; } pre { max-height: none; } }
"""
