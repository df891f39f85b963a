"""What :mod:`mmeffvit.checks.config.check` looks at: one file per kind of fault."""
