"""What runs inside the environments: it may import what is installed there alone."""
