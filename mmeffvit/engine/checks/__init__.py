"""What :mod:`mmeffvit.engine.check_config` looks at: one file per kind of fault."""
