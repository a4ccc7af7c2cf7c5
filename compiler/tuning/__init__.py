"""What measuring on a device has found, kept as records and given to compilations."""
