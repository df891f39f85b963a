"""Training and testing with the hosts' own runner, made safe to interrupt and clear to read."""
