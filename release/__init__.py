"""What is handed to package registries and to clients that install bundles."""
