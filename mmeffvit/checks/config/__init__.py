"""Checks of a config, one file per type of fault: see :mod:`mmeffvit.checks.config.check`."""
