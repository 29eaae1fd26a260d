"""Children that are other programs: agents that speak the Agent Client Protocol over stdin and stdout."""
