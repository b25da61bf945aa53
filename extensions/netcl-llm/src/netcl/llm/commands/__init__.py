"""The commands that netcl-llm adds to ``netcl``; each module has ``main(arguments)``, which returns the exit code."""
