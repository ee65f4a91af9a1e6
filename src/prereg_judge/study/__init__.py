"""Studies: outcomes of trials to named metrics, one module a kind of study."""
