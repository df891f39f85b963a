"""Image transforms of the papers' recipes that the hosts lack."""
