"""django_jobs measured beside its peers and beside plain SQL, on one machine in one run."""
