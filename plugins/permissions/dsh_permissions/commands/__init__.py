"""Shell commands: what a line of bash would run, and what of it may run unasked."""
