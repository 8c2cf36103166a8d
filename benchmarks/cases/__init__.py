"""What is measured: one module a case, the same steps for every system."""
