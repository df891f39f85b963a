"""What the hosts' metrics do not say of a results file."""
