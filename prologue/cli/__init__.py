"""The command line: one handler per subcommand."""
